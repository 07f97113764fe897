"""This module expands words of a shell script as bash does: variables, defaults, suffixes, arithmetic, a few commands.

In: a word as it is written, and the variables. Out: the words that it becomes. No command is run: `basename`,
`dirname`, `echo`, `pwd` and `date` are computed here, and what every other one would say is marked as unknown
(`theirs.UNKNOWN`). A script whose variables grow without end (`X=$X$X`) is Unreadable once its `Variables` have been
written out as often as they may.
"""

from __future__ import annotations

import ast
import operator
import re
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

from tools.imports.shell.tokens import Unreadable, end_of_group, end_of_quote, tokens_of
from tools.imports.theirs import UNKNOWN

MOST_CHARS: Final = (
    8_000_000  # of all that a script's words are expanded to; a script of verl's has some thousands
)
MOST_DEPTH: Final = 40  # of expansions, or of `if`, in one another
_CUTS: Final = (
    100  # characters of a value that cost as much as one that is written, where each of its ends is tried
)


class Variables(dict[str, str | list[str]]):
    """A script's variables, and how many characters of them may still be written out."""

    left = MOST_CHARS
    depth = 0  # of expansions in one another

    def spend(self, number: int) -> None:
        """Count characters that are written out. Raises Unreadable where they are too many."""
        self.left -= number
        if self.left < 0:
            raise Unreadable(f"its variables grow to more than {MOST_CHARS} characters")


_NAME: Final = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!]")
_BRACED: Final = re.compile(r"(#?)([A-Za-z_]\w*|[0-9@*#?])(\[[^\]]*\])?(.*)", re.DOTALL)
_BINARY: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_SPLIT: Final = "\x01"  # where an expansion without quotes is split
_MOST_DIGITS: Final = 18


def unknown(why: str) -> str:
    """Mark a text that only the running script could know."""
    return f"{UNKNOWN}{why.replace(UNKNOWN, '')}"


def expand(word: str, variables: Variables) -> list[str]:
    """Return the words that a word becomes: one, unless an expansion without quotes has several, or is empty.

    A word that begins with `key=` stays one: bash would split its value, and verl would take the rest for a mistake.
    """
    if re.match(r"[+~]*[A-Za-z_][\w.]*=", word):
        return [expand_one(word, variables)]
    parts = re.sub(rf"{_SPLIT}+", _SPLIT, _text(word, variables, is_quoted=False)).split(_SPLIT)
    if len(parts) == 1 and not parts[0] and not re.search(r"['\"]", word):
        return []
    return [part for index, part in enumerate(parts) if part or (len(parts) == 1 and index == 0)]


def expand_one(word: str, variables: Variables) -> str:
    """Return a word of an assignment or a test, which is never split."""
    return _text(word, variables, is_quoted=False).replace(_SPLIT, " ").strip(" ") if word else ""


def arithmetic(written: str, variables: Variables) -> str:
    """Compute `$(( ... ))`, whole numbers as bash has them; what can't be computed is unknown."""
    text = _text(written, variables, is_quoted=True)
    if UNKNOWN in text:
        return unknown(f"$(({written.strip()}))")
    named = re.sub(r"[A-Za-z_]\w*", lambda found: str(variables.get(found[0], "0") or "0"), text)
    named = re.sub(r"\$\(\((.*?)\)\)", r"(\1)", named).replace("/", "//")
    try:
        return str(_computed(ast.parse(named.strip() or "0", mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return unknown(f"$(({written.strip()}))")


def _computed(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int() as value) if len(str(value)) <= _MOST_DIGITS:
            return int(value)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_computed(inner)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_computed(left), _computed(right))
    raise ValueError(node)


def _text(word: str, variables: Variables, *, is_quoted: bool) -> str:
    variables.depth += 1
    if variables.depth > MOST_DEPTH:
        raise Unreadable(f"expansions in one another, deeper than {MOST_DEPTH}")
    text = _expanded(word, variables, is_quoted=is_quoted)
    variables.depth -= 1
    variables.spend(len(text))
    return text


def _expanded(word: str, variables: Variables, *, is_quoted: bool) -> str:
    out: list[str] = []
    at = 0
    while at < len(word):
        char = word[at]
        if char == "\\" and at + 1 < len(word):
            out.append("" if word[at + 1] == "\n" else word[at + 1])
            at += 2
        elif char == "'" and not is_quoted:
            end = end_of_quote(word, at)
            out.append(word[at + 1 : end - 1])
            at = end
        elif char == '"' and not is_quoted:
            end = end_of_quote(word, at)
            out.append(_text(word[at + 1 : end - 1], variables, is_quoted=True))
            at = end
        elif char == "`":
            end = end_of_quote(word, at)
            out.append(_split(_substituted(word[at + 1 : end - 1], variables), is_quoted=is_quoted))
            at = end
        elif char == "$":
            value, at = _expansion(word, at, variables, is_quoted=is_quoted)
            out.append(value)
        else:
            out.append(char)
            at += 1
    return "".join(out)


def _split(value: str, *, is_quoted: bool) -> str:
    """Split an expansion without quotes at its blanks, where it holds options or keys; a name with blanks stays one."""
    pieces = value.split()
    holds_words = any("=" in piece or piece.startswith("-") for piece in pieces)
    return value if is_quoted or UNKNOWN in value or not holds_words else _SPLIT.join(pieces)


def _expansion(word: str, at: int, variables: Variables, *, is_quoted: bool) -> tuple[str, int]:
    """Return what stands for the `$...` at a place, and where it ends."""
    rest = word[at + 1 :]
    if rest.startswith("(("):
        end = end_of_group(word, at + 1)
        inside = word[at + 2 : end - 1]
        return arithmetic(inside.strip()[1:-1], variables), end
    if rest.startswith("("):
        end = end_of_group(word, at + 1)
        return _split(_substituted(word[at + 2 : end - 1], variables), is_quoted=is_quoted), end
    if rest.startswith("{"):
        end = end_of_group(word, at + 1)
        return _braced(word[at + 2 : end - 1], variables, is_quoted=is_quoted), end
    if name := _NAME.match(rest):
        return _value(name[0], variables, is_quoted=is_quoted), at + 1 + name.end()
    return "$", at + 1


def _value(name: str, variables: Variables, *, is_quoted: bool) -> str:
    value = variables.get(name, "")
    if isinstance(value, list):  # `$@`, or all of an array
        return _SPLIT.join(value) if name == "@" else (value[0] if value else "")
    return _split(value, is_quoted=is_quoted)


def _braced(inside: str, variables: Variables, *, is_quoted: bool) -> str:
    """Expand `${...}`: a plain name, an array's elements, a default, a prefix or suffix taken off, a replacement."""
    found = _BRACED.fullmatch(inside)
    if found is None:
        return unknown(f"${{{inside}}}")
    length, name, index, operation = found.groups()
    value = variables.get(name, "")
    if index is not None and isinstance(value, list):
        if index not in ("[@]", "[*]"):
            place = arithmetic(index[1:-1], variables)
            number = int(place) if place.lstrip("-").isdecimal() else len(value)
            return value[number] if -len(value) <= number < len(value) else ""
        return str(len(value)) if length else _SPLIT.join(value)
    if isinstance(value, list) and (tail := re.fullmatch(r":(\d+)", operation)):  # `${@:2}`
        value, operation = _SPLIT.join(value[max(0, int(tail[1]) - 1) :]), ""
    plain = value if isinstance(value, str) else " ".join(value)
    if UNKNOWN in plain:
        return plain
    if length:
        return str(len(plain))
    return _split(_operated(plain, operation, variables, name), is_quoted=is_quoted)


def _operated(value: str, operation: str, variables: Variables, name: str) -> str:
    """Do what stands behind a name in braces: a default, another word, a cut, a replacement, upper or lower case."""
    result = unknown(f"${{{name}{operation}}}")
    if not operation:
        result = value
    elif found := re.match(r":?[-=]", operation):
        is_there = bool(value) if found[0].startswith(":") else name in variables
        result = value if is_there else expand_one(operation[found.end() :], variables)
    elif found := re.match(r":?\+", operation):
        result = expand_one(operation[found.end() :], variables) if value else ""
    elif found := re.match(r"##?|%%?", operation):
        variables.spend(len(value) ** 2 // _CUTS)
        result = _trimmed(value, found[0], expand_one(operation[found.end() :], variables))
    elif operation.startswith("/"):
        old, _, new = operation.lstrip("/").partition("/")
        most = -1 if operation.startswith("//") else 1
        before, after = expand_one(old, variables), expand_one(new, variables)
        variables.spend((value.count(before) if most < 0 else 1) * len(after))
        result = value.replace(before, after, most)
    elif operation in (",,", "^^"):
        result = value.lower() if operation == ",," else value.upper()
    return result


def _trimmed(value: str, sign: str, pattern: str) -> str:
    """Take off the shortest or the longest beginning or end that fits."""
    cuts = range(len(value) + 1)
    if sign.startswith("#"):
        order = reversed(cuts) if sign == "##" else cuts
        return next((value[cut:] for cut in order if fnmatchcase(value[:cut], pattern)), value)
    order = cuts if sign == "%%" else reversed(cuts)
    return next((value[:cut] for cut in order if fnmatchcase(value[cut:], pattern)), value)


def _substituted(command: str, variables: Variables) -> str:
    """Say what a command would say, for the few whose answer is known."""
    nobody_knows = unknown(f"what `{' '.join(command.split())}` says")
    try:
        tokens = tokens_of(command.strip())
    except Unreadable:
        return nobody_knows
    if any(not token.is_word for token in tokens):
        return nobody_knows
    words = [one for token in tokens for one in expand(token.text, variables)]
    said = None if any(UNKNOWN in word for word in words) else _said(words)
    return nobody_knows if said is None else said


def _said(words: list[str]) -> str | None:
    """Return what a command says; None for a command that is not known here."""
    match words:
        case ["basename", path, *suffix]:
            name = PurePosixPath(path).name
            return name.removesuffix(suffix[0]) if suffix and name != suffix[0] else name
        case ["dirname", path]:
            return str(PurePosixPath(path).parent)
        case ["echo", *said]:
            return " ".join(word for word in said if word not in ("-n", "-e"))
        case ["pwd"]:
            return str(Path.cwd())
        case ["date", layout] if layout.startswith("+"):
            return time.strftime(layout[1:])
    return None
