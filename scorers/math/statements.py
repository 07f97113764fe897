r"""A text is taken apart into statements, and a statement into its sides: `x = 1, y < 2` are two of two sides each.

In: a text in plain LaTeX (`scorers.math.notation.plain`). Out: its statements, the parts of a ratio, and whether it is
one value, which is all that math_verify is ever asked about. Pure functions on text, linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from scorers.math.text import names_number

SYMMETRIC: Final = frozenset(
    {"=", "\\ne", "\\approx", "\\sim", "\\simeq", "\\cong", "\\equiv", "\\parallel", "\\perp"}
)
TURNED: Final = {
    "<": ">",
    "\\le": "\\ge",
    "\\subset": "\\supset",
    "\\subseteq": "\\supseteq",
    "\\in": "\\ni",
    "\\ll": "\\gg",
}
TURNED.update({turned: sign for sign, turned in TURNED.items()})

_WORDS: Final = r"\\(?:text(?:bf|it|rm|sf|tt|up|normal)?|mathrm|mathbf|mathit|mbox|operatorname|rm)"
_TOKEN: Final = re.compile(
    rf"(?P<words>{_WORDS}\s*\{{(?P<said>[^{{}}]*)\}})"
    r"|(?P<opening>\\begin\{[A-Za-z]+\*?\}|\\\{|[(\[{])"
    r"|(?P<closing>\\end\{[A-Za-z]+\*?\}|\\\}|[)\]}])"
    r"|(?P<sign>\\(?:le|ge|ne|approx|simeq|sim|cong|equiv|notin|in|ni|subseteq|subset|supseteq|supset|n?parallel|perp"
    r"|to|mapsto|propto|n?mid|ll|gg|prec|succ|doteq)(?![A-Za-z])|[=<>])"
    r"|(?P<joint>[,;]|\\\\|\\(?:land|lor|implies|iff|quad|(?:Long)?[lL]?eft[rR]ightarrow|(?:Long)?[Rr]ightarrow)(?![A-Za-z])"
    r"|(?<=[\s\d)}$])(?:and|or|when|where|if|for|with)(?=[\s\\$]))"
    r"|(?P<dots>\\ldots(?![A-Za-z])|\.{3})|(?P<ratio>:)|(?P<group>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9]))|(?P<number>[0-9]+)"
    r"|(?P<command>\\[A-Za-z]+|\\.)|(?P<space>\s+)|(?P<other>.)",
    re.DOTALL,
)
_JOINING: Final = re.compile(
    r"(.*?)[\s,;:.(]*\b(?:and|or|when|where|whenever|if|for|with|while|then|so|but|at|on|as|by|to|in|is|gives|has"
    r"|such that|provided(?: that)?|respectively)\b[\s,;:.]*",
    re.IGNORECASE | re.DOTALL,
)
_SET_WORDS: Final = re.compile(rf"{_WORDS}\s*\{{[^{{}}]*\}}")
_PROSE: Final = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{3,}\s+[A-Za-z]{3,}(?![A-Za-z])")
_BARE_WORD: Final = re.compile(r"(?<![A-Za-z\\{])[A-Za-z]{2,}(?![A-Za-z}])")
_FEWEST_WORDS: Final = 4
_ENUMERATED: Final = re.compile(r"\((?:i|a|1)\)\s+\S.*\s\((?:ii|b|2)\)\s", re.DOTALL)
_VALUE: Final = re.compile(r"[0-9(\[]")
_CALLED: Final = re.compile(r"(?:[A-Za-z]'*|\}|\\[A-Za-z]+)\Z")
_TO: Final = re.compile(r"\\text\{\s*(?:to|is to)\s*\}|(?<=[0-9a-z})])\s+to\s+(?=[0-9a-z\\({])")
_AROUND_COLON: Final = re.compile(r"\{:\}|\\mathbin\{:\}|\\mathrel\{:\}")
_MOST_PARTS: Final = 12  # of a ratio


class Statement(NamedTuple):
    """What is said of `sides`: between each and the next stands a sign; a bare value has one side and no sign."""

    sides: tuple[str, ...]
    signs: tuple[str, ...]

    @property
    def text(self) -> str:
        """The statement in one spelling."""
        return self.sides[0] + "".join(
            f" {sign} {side}" for sign, side in zip(self.signs, self.sides[1:], strict=True)
        )

    @property
    def is_equation(self) -> bool:
        """Whether it has signs, and all of them say that its sides are equal."""
        return bool(self.signs) and set(self.signs) == {"="}


class _Token(NamedTuple):
    kind: str
    text: str
    depth: int  # of brackets around it
    found: re.Match[str]


@lru_cache(maxsize=256)
def _tokens(text: str) -> tuple[_Token, ...]:
    """Return the tokens of a text; none where a bracket closes that never opened, or never closes."""
    tokens, depth = [], 0
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        kind = "words" if found["words"] else kind
        depth -= kind == "closing"
        if depth < 0:
            return ()
        tokens.append(_Token(kind, found[0], depth, found))
        depth += kind == "opening"
    return tuple(tokens) if depth == 0 else ()


class Level(IntEnum):
    """How closely a joint joins what stands beside it: the closest are taken apart last."""

    NONE = 0
    WORD = 1  # `y = 3 \text{ when } x = 2`
    AND = 2  # and a comma
    OR = 3  # and a semicolon


class Statements(NamedTuple):
    """The statements of a text, from left to right, and what joins them; one that has joints within is a bare text."""

    parts: tuple[Statement, ...]
    level: Level


@lru_cache(maxsize=256)
def read_statements(text: str, *, is_flat: bool = False) -> Statements:
    r"""Return the statements of a text; brackets around a set of statements say nothing.

    A text that can't be taken apart is one bare value.

    Args:
        text: as it stands in a box.
        is_flat: whether all its joints count alike, however closely they join.
    """
    inner = text[2:-2] if text.startswith("\\{") and text.endswith("\\}") else text
    joints = list(_joints(inner))
    level = max((joint.level for joint in joints), default=Level.NONE)
    found, tokens, start = [], _tokens(inner), 0
    for joint in joints:
        if is_flat or joint.level == level:
            found.append(_statement([*tokens[start : joint.place], *joint.kept]))
            start = joint.place + 1
    found.append(_statement(list(tokens[start:])))
    if inner is not text and not any(statement.signs for statement in found):
        found = []  # a set of values
    parts = tuple(statement for statement in found if any(statement.sides))
    return Statements(parts, level) if parts else Statements((Statement((text,), ()),), Level.NONE)


class _Joint(NamedTuple):
    place: int  # of its token
    level: Level
    kept: tuple[_Token, ...]  # what of the token belongs to the statement before it


def _joints(text: str) -> Iterator[_Joint]:
    """Yield what stands between two statements of a text."""
    tokens, start = _tokens(text), 0
    for place, token in enumerate(tokens):
        if token.depth or token.kind not in ("joint", "words"):
            continue
        if token.kind == "joint":
            yield _Joint(place, _level(token.text), ())
        elif (kept := _before_next(token, list(tokens[start:place]), tokens[place + 1 :])) is not None:
            yield _Joint(place, _level(token.found["said"]), tuple(kept))
        else:
            continue
        start = place + 1


def _level(joint: str) -> Level:
    word = joint.strip(" ,.:()").lower().rpartition(" ")[2]
    if word in ("or", ";", "\\lor"):
        return Level.OR
    return Level.AND if word in ("", "and", "\\\\", "\\land", "\\quad") else Level.WORD


def _before_next(token: _Token, before: list[_Token], after: tuple[_Token, ...]) -> list[_Token] | None:
    """Return what of some words ends a statement, where another begins behind them; None where none does.

    Words end one that join by their meaning, and those behind a relation with more than a unit's power behind them.
    """
    if not any(one.kind != "space" for one in before):
        return None
    follows = next((one for one in after if one.kind != "space"), None)
    if follows is None or follows.kind in ("sign", "closing", "joint", "words"):
        return None
    joining = _JOINING.fullmatch(token.found["said"])
    if joining is None and (follows.text in "^/_('.-+*" or not any(one.kind == "sign" for one in before)):
        return None
    said = token.found["said"] if joining is None else joining[1]
    return [token._replace(text=f"\\text{{{said}}}")] if said.strip() else []


def _statement(piece: list[_Token]) -> Statement:
    """Return a statement; a bare text of what has joints within."""
    text = "".join(token.text for token in piece)
    if any(_joints(text)):
        return Statement((text.strip(" $"),), ())
    sides, signs, side = [], [], ""
    for token in piece:
        if token.kind == "sign" and token.depth == 0:
            sides.append(side)
            signs.append(token.text)
            side = ""
        else:
            side += token.text
    return Statement(tuple(one.strip(" $") for one in (*sides, side)), tuple(signs))


def sides_of_equation(text: str) -> tuple[str, str] | None:
    """Return what stands before and behind the only sign of a text, an equals sign: a list may stand behind it."""
    tokens = _tokens(text)
    places = [place for place, token in enumerate(tokens) if token.kind == "sign" and not token.depth]
    if len(places) != 1 or tokens[places[0]].text != "=":
        return None
    before, behind = tokens[: places[0]], tokens[places[0] + 1 :]
    if any(token.kind == "joint" and not token.depth for token in before):
        return None
    sides = ["".join(token.text for token in side).strip() for side in (before, behind)]
    return (sides[0], sides[1]) if all(sides) else None


@lru_cache(maxsize=256)
def is_value(text: str) -> bool:
    r"""Return whether a text is one value: no relation, no list, no ratio, nothing left out, no words inside.

    An index may have relations and commas, `\sum_{k=1}^{n}`, and so may what a function is called with, commas alone.
    """
    tokens = _tokens(text)
    brackets: list[str] = []  # "index", "call", "matrix", "set" or ""
    is_worded = False
    for place, token in enumerate(tokens):
        if token.kind == "opening":
            before = "".join(one.text for one in tokens[max(place - 2, 0) : place]).rstrip()
            brackets.append(_kind_of_bracket(token.text, before))
        elif token.kind == "closing":
            brackets.pop()
        elif not _may_stand(tokens, place, brackets, is_worded=is_worded):
            return False
        if token.kind == "words":
            follows = next((one.text for one in tokens[place + 1 :] if one.kind != "space"), "")
            is_worded |= place > 0 and not follows.startswith(("(", "^", "_"))
    return bool(tokens) and not _is_told(text)


def _may_stand(tokens: tuple[_Token, ...], place: int, brackets: list[str], *, is_worded: bool) -> bool:
    """Return whether a token may stand in one value, behind words or not."""
    token = tokens[place]
    if token.kind in ("sign", "joint"):
        return _may_hold(token, brackets)
    if "set" in brackets or _is_open(tokens, place, is_inside=bool(brackets)):
        return False
    if token.kind == "words":
        return "\\ldots" not in token.text and (len(tokens) == 1 or not names_number(token.text))
    return brackets != [] or not is_worded or not _goes_on(token) or _is_raised(tokens, place)


def _is_open(tokens: tuple[_Token, ...], place: int, *, is_inside: bool) -> bool:
    """Return whether something is left out at a token, or more than one value said."""
    kind = tokens[place].kind
    return kind == "dots" or (kind == "ratio" and not is_inside) or _is_loose(tokens, place)


def _is_loose(tokens: tuple[_Token, ...], place: int) -> bool:
    """Return whether a number stands beside another one, or a derivative's mark behind what has none: `5 6`, `3'`."""
    before = [one for one in tokens[max(place - 3, 0) : place] if one.kind != "space"]
    if not before or (
        before[-1].kind in ("number", "group") and before[-2:-1] and before[-2].text in ("_", "^")
    ):
        return False  # `\log_2 8`
    if tokens[place].text == "'":
        return before[-1].kind in ("number", "group", "closing")
    return tokens[place].kind in ("number", "group") and before[-1].kind in ("number", "group")


def is_sentence(text: str) -> bool:
    """Return whether a text is told in words that no command sets, four of them at least."""
    bare = _SET_WORDS.sub("", text)
    return len(_BARE_WORD.findall(bare)) >= _FEWEST_WORDS and _PROSE.search(bare) is not None


def _is_told(text: str) -> bool:
    """Return whether words that no command sets are followed by a number or a bracket: `the root of 2 is (1, 2)`."""
    bare = _SET_WORDS.sub("", text)
    if _ENUMERATED.match(bare):
        return True
    prose = _PROSE.search(bare)
    return prose is not None and _VALUE.search(bare, prose.end()) is not None


def _kind_of_bracket(opening: str, before: str) -> str:
    if opening.startswith("\\begin"):
        return "matrix"
    if opening == "\\{":
        return "set"
    if opening == "{" and before.endswith(("_", "^")):
        return "index"
    return "call" if opening in "([" and _CALLED.search(before) is not None else ""


def _may_hold(token: _Token, brackets: list[str]) -> bool:
    if "index" in brackets:
        return True
    inner = brackets[-1] if brackets else ""
    return (inner == "call" and token.text in (",", ";")) or (inner == "matrix" and token.text == "\\\\")


def _goes_on(token: _Token) -> bool:
    """Return whether a value goes on behind words: with a number, or with a sum."""
    return token.kind in ("number", "group") or token.text in ("+", "-")


def _is_raised(tokens: tuple[_Token, ...], place: int) -> bool:
    r"""Return whether a number is the power of a unit: `\text{ cm}^2`."""
    before = [one.text for one in tokens[max(place - 2, 0) : place] if one.kind != "space"]
    return bool(before) and before[-1] in ("^", "-", "_")


def read_ratio(text: str) -> tuple[str, ...] | None:
    r"""Return the parts of `3:4:5` or `3 \text{ to } 4`; None of any other text."""
    if ":" not in text and "to" not in text:
        return None
    text = _TO.sub(":", _AROUND_COLON.sub(":", text.strip()))
    text = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    parts, side = [], ""
    for token in _tokens(text):
        if token.depth or token.kind != "ratio":
            if token.depth == 0 and token.kind in ("sign", "joint", "dots"):
                return None
            side += token.text
        else:
            parts.append(side.strip())
            side = ""
    parts.append(side.strip())
    return tuple(parts) if 2 <= len(parts) <= _MOST_PARTS and all(parts) else None
