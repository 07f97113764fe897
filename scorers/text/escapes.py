r"""What a text says once its escapes are undone: every way that a reader may take it, so that nothing hides in a code.

In: what a policy wrote. Out: the text in several views: as it stands, with the escapes of JSON, Python, HTML and
addresses undone, once and until none is left, and each of these without markup. Letters that look like others are those
others in all of them. Used where a served model may have quoted an answer (`scorers.judge.reply`,
`scorers.rubric.reply`): what its reader undoes in a reply has to be undone in the answer too, and a model that quotes
may undo more. A view is for looking words up, and never read as an answer. Linear in the length of the text.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Final

from scorers.text.extract import visible

_MOST_ROUNDS: Final = 4  # of undoing: a chain of one kind (`&amp;amp;#99;`, `\\\\u0063`) takes one
_CODE: Final = re.compile(
    r"(?<!\\)\\+(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2}))|%([0-9A-Fa-f]{2})"
)
_OCTAL: Final = re.compile(r"(?<!\\)\\+([0-3][0-7]{2})")
_CHAINS: Final = ((re.compile(r"&(?:amp;)+", re.IGNORECASE), "&"), (re.compile(r"%(?:25)+"), "%"))
_CONTROL: Final = re.compile(r"(?<!\\)\\+[abfnrtv0]")  # which a reader sees as a space or not at all
_LITERAL: Final = re.compile(r"(?<!\\)\\+([\"'/`])")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LARGEST: Final = 0x10FFFF
# Typography that may stand within a word or a number and leaves it what it is.
_MARKUP: Final = re.compile(
    r"</?[A-Za-z][^<>\n]{0,80}>|\\[A-Za-z]+\*?|\\[^A-Za-z\s]|[*_`~$\[\]{}()\"'\u2018-\u201f\\]"
)
# Small letters of other scripts, and those that they look like.
_ALIKE: Final = str.maketrans(
    "\u0430\u0501\u0435\u0456\u0458\u043a\u043c\u043e\u0440\u0455\u0442\u0443\u0441\u0445\u0491\u0433\u0432\u043d\u0475"
    "\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c2\u03c4\u03c5\u03c7\u03b3\u03b7"
    "\u0131\u0261\u0280\u1d00\u1d04\u1d05\u1d07\u1d0a\u1d0b\u1d0d\u1d0f\u1d18\u1d1b\u1d1c\u1d20\u1d21\u1d22\ua731\u026a\u0274"
    "\u0585\u057d\u0578\u04bb\u029f\ua730\u0262\u029c\u04cf\u028f",
    "adeijkmopstycxrrbhvaeiknopctyxynigracdejkmoptuvwzsinounhlfghly",
)


def views(text: str) -> tuple[str, ...]:
    """Return the text in every way that a reader may take it, each once, letters small and without accents."""
    undone = [visible(text)]
    for _ in range(_MOST_ROUNDS):
        further = visible(_undone(undone[-1]))
        if further == undone[-1]:
            break
        undone.append(further)
    plain = [_folded(view) for view in undone]
    return tuple(dict.fromkeys([*plain, *(_MARKUP.sub("", view) for view in plain)]))


def _undone(text: str) -> str:
    """Undo one layer of escapes."""
    for chain, one in _CHAINS:
        text = chain.sub(one, text)
    text = _OCTAL.sub(lambda code: chr(int(code[1], 8)), _CODE.sub(_character, text))
    text = _LITERAL.sub(r"\1", _CONTROL.sub(" ", html.unescape(text)))
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)


def _character(code: re.Match[str]) -> str:
    number = int(next(digits for digits in code.groups() if digits is not None), 16)
    return chr(number) if number <= _LARGEST else code[0]


def _folded(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text).casefold()
    return "".join(char for char in letters if unicodedata.category(char) != "Mn").translate(_ALIKE)
