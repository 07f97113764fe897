r"""Lists, objects, text and numbers that a model wrote: JSON and Python's literals, read and never evaluated.

In: the text of an answer, or of a reference that its data set keeps as text. Out: values of JSON's types. Called in the
scorer's process by `scorers.logic.puzzles`, `scorers.logic.zebra` and `scorers.livebench.data`, so it is linear in the
length of the text and limited in depth. What can't be read raises `NotALiteral`, the reason of a zero or of a broken
row.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tasks.values import shown

MAX_DEPTH: Final = 8  # of lists and objects in each other; a puzzle's answer has three
_SHOWN_CHARS: Final = 20  # of what could not be read
_TOKEN: Final = re.compile(
    r"""
    (?P<mark>   [\[\](){},:] )
  | "(?P<double> (?:[^"\\]|\\.)* )"
  | '(?P<single> (?:[^'\\]|\\.)* )'
  | (?P<number> -?[0-9]{1,18}(?:\.[0-9]{1,18})? ) (?![^\s\[\](){},:])
  | (?P<words>  [^\s\[\](){},:"'][^\s\[\](){},:"]*(?:[ \t]+[^\s\[\](){},:"]+)* )
""",
    re.VERBOSE | re.DOTALL,
)
_SPACE: Final = re.compile(r"\s*")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CONSTANTS: Final = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_AROUND: Final = " *`."  # emphasis, and the end of a sentence
_CLOSING: Final = {"[": "]", "(": ")"}


class NotALiteral(ValueError):
    """The text is no list, object, text or number; the message says where it stops to be one."""


def read_literal(text: str, *, bare_words: bool = False) -> Any:
    """Return the one value that `text` is: dict, list (a tuple too), str, int, float, bool or None.

    Args:
        text: JSON, a Python literal, or any mixture: single quotes, `None` and trailing commas are all understood.
        bare_words: text needs no quotes: `[pigeon, hot air balloon]`. Constants are then words as well.
    Raises:
        NotALiteral: it is none, or more than one, is nested too deep, or names a key of an object twice.
    """
    reader = _Reader(text, bare_words=bare_words)
    value = reader.value(depth=0)
    reader.end()
    return value


def unfenced(answer: str) -> str:
    """Return an answer without the code fence, or the emphasis and full stop, around it, where there is one."""
    if not answer.startswith("```"):
        return answer.strip(_AROUND)
    if len(answer) < 6 or not answer.endswith("```"):
        return answer
    first, line_break, rest = answer[3:-3].partition("\n")
    return (rest if line_break else first).strip()


def cell_text(value: Any) -> str | None:
    """Text or a number as text, in one spelling of case and space; None for anything else."""
    if isinstance(value, float):
        value = repr(value).removesuffix(".0")
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return " ".join(str(value).split()).casefold()


class _Reader:
    """Reads a text from its start to its end, one token ahead."""

    def __init__(self, text: str, *, bare_words: bool) -> None:
        self._text = text
        self._bare_words = bare_words
        self._at = 0
        self._token = self._scan()

    def value(self, depth: int) -> Any:
        """Return the value that begins here. Raises NotALiteral."""
        if depth > MAX_DEPTH:
            raise NotALiteral(f"nested more than {MAX_DEPTH} deep")
        token = self._take()
        match token.lastgroup:
            case "number":
                return float(token["number"]) if "." in token["number"] else int(token["number"])
            case "words":
                return self._word(token["words"])
            case "double" | "single" as quotes:
                return _ESCAPE.sub(_unescaped, token[quotes])
            case _ if token["mark"] in _CLOSING:
                return self._items(_CLOSING[token["mark"]], depth)
            case _ if token["mark"] == "{":
                return self._object(depth)
            case _:
                raise NotALiteral(f"a value is missing before {token['mark']!r}")

    def end(self) -> None:
        """Raises NotALiteral where something is left."""
        if self._token is not None:
            raise NotALiteral(f"more than one value: {self._shown(self._token.start())} follows the first")

    def _items(self, closing: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self._passes(closing):
            items.append(self.value(depth + 1))
            if not self._passes(","):
                self._expect(closing)
                break
        return items

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._passes("}"):
            key = self.value(depth + 1)
            if not isinstance(key, str):
                raise NotALiteral(f"a key of an object must be text, got {shown(key)}")
            if key in found:
                raise NotALiteral(f"the key {shown(key)} stands twice in one object")
            self._expect(":")
            found[key] = self.value(depth + 1)
            if not self._passes(","):
                self._expect("}")
                break
        return found

    def _word(self, word: str) -> Any:
        if self._bare_words:
            return word
        if word not in _CONSTANTS:
            raise NotALiteral(f"text without quotes: {shown(word[:_SHOWN_CHARS])}")
        return _CONSTANTS[word]

    def _passes(self, mark: str) -> bool:
        """Take the mark if it is next."""
        if self._token is None or self._token["mark"] != mark:
            return False
        self._take()
        return True

    def _expect(self, mark: str) -> None:
        if not self._passes(mark):
            at = len(self._text) if self._token is None else self._token.start()
            raise NotALiteral(f"{mark!r} is missing before {self._shown(at)}")

    def _take(self) -> re.Match[str]:
        if self._token is None:
            raise NotALiteral("it ends too early")
        token, self._token = self._token, self._scan()
        return token

    def _scan(self) -> re.Match[str] | None:
        """Return the next token; None at the end."""
        space = _SPACE.match(self._text, self._at)
        start = self._at if space is None else space.end()
        if start == len(self._text):
            return None
        token = _TOKEN.match(self._text, start)
        if token is None:
            raise NotALiteral(f"unreadable from {self._shown(start)} on")
        self._at = token.end()
        return token

    def _shown(self, at: int) -> str:
        return shown(self._text[at : at + _SHOWN_CHARS]) if at < len(self._text) else "the end"


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _CONTROLS.get(escape[2], escape[2])
