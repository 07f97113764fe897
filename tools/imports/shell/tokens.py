"""This module cuts a shell script into words and operators, each with its line.

In: the script's text. Out: `Token`s. A word keeps its quotes and expansions as they are written; `expansion` reads
them. Comments, here-documents and redirections go. Pure; raises Unreadable for a quote that never ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

OPERATORS: Final = ("&&", "||", ";;", "|&", ";", "&", "|", "(", ")")
_REDIRECTION: Final = re.compile(r"(?:\d*|&)(?:>>|>&|<&|<<<|<>|>\||>|<)")
_HEREDOC: Final = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_ENDS_WORD: Final = frozenset(" \t\n;&|()<>")


class Unreadable(Exception):
    """The script can't be read; the message says what is open, and since which line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word as it is written, an operator, or the end of a line."""

    text: str
    line: int
    is_word: bool
    array: tuple[str, ...] | None = None  # of `NAME=( ... )`: its words


def tokens_of(script: str) -> list[Token]:
    """Cut a script into tokens."""
    return list(_Tokenizer(script).tokens())


def end_of_group(text: str, start: int) -> int:
    """Return where the group that opens at `start`, with `(` or `{`, has ended. Quotes inside it are respected."""
    opening = text[start]
    closing = {"(": ")", "{": "}"}[opening]
    depth, at = 0, start
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 2
            continue
        if char in "'\"`":
            at = end_of_quote(text, at)
            continue
        depth += (char == opening) - (char == closing)
        at += 1
        if not depth:
            return at
    raise Unreadable(f"{opening} is never closed: {text[start : start + 40]!r}")


def end_of_quote(text: str, start: int) -> int:
    """Return where the quote that opens at `start` has ended."""
    quote, at = text[start], start + 1
    while at < len(text):
        char = text[at]
        if char == quote:
            return at + 1
        if char == "\\" and quote != "'":
            at += 2
        elif char == "$" and quote == '"' and text[at + 1 : at + 2] in ("(", "{"):
            at = end_of_group(text, at + 1)
        else:
            at += 1
    raise Unreadable(f"{quote} is never closed: {text[start : start + 40]!r}")


class _Tokenizer:
    def __init__(self, script: str) -> None:
        self._text = script
        self._at = 0

    def tokens(self) -> Iterator[Token]:
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r":
                self._at += 1
            elif self._text.startswith("\\\n", self._at):
                self._at += 2
            elif char == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif char == "\n":
                yield self._token("\n", is_word=False)
                self._at += 1
            elif heredoc := _HEREDOC.match(self._text, self._at):
                self._skip_heredoc(heredoc)
            elif redirection := _REDIRECTION.match(self._text, self._at):
                self._at = redirection.end()
                self._skip_blanks()
                self._at = self._end_of_word()
            elif operator := next((one for one in OPERATORS if self._text.startswith(one, self._at)), None):
                yield self._token(operator, is_word=False)
                self._at += len(operator)
            else:
                yield self._word()

    def _token(
        self, text: str, *, is_word: bool, array: tuple[str, ...] | None = None, at: int | None = None
    ) -> Token:
        line = self._text.count("\n", 0, self._at if at is None else at) + 1
        return Token(text=text, line=line, is_word=is_word, array=array)

    def _word(self) -> Token:
        start = self._at
        end = self._end_of_word()
        text = self._text[start:end]
        if text.endswith("=") and self._text[end : end + 1] == "(":
            close = end_of_group(self._text, end)
            inside = tokens_of(self._text[end + 1 : close - 1])
            self._at = close
            return self._token(
                text, is_word=True, array=tuple(one.text for one in inside if one.is_word), at=start
            )
        self._at = end
        return self._token(text, is_word=True, at=start)

    def _end_of_word(self) -> int:
        text, at = self._text, self._at
        while at < len(text) and text[at] not in _ENDS_WORD:
            if text[at] == "\\":
                at += 2
            elif text[at] in "'\"`":
                at = end_of_quote(text, at)
            elif text[at] == "$" and text[at + 1 : at + 2] in ("(", "{"):
                at = end_of_group(text, at + 1)
            else:
                at += 1
        return min(at, len(text))

    def _skip_blanks(self) -> None:
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1

    def _skip_heredoc(self, opening: re.Match[str]) -> None:
        """Leave out the lines up to the word that ends them; what follows on the opening line stays."""
        line_end = self._text.find("\n", opening.end())
        ending = re.compile(rf"^\t*{re.escape(opening[2])}$", re.MULTILINE).search(
            self._text, max(line_end, 0)
        )
        if line_end < 0 or ending is None:
            raise Unreadable(f"<<{opening[2]} is never closed")
        blank = "\n" * self._text.count("\n", line_end, ending.end())
        self._text = f"{self._text[:line_end]}{blank}{self._text[ending.end() :]}"
        self._at = opening.end()
