r"""What joins several values is made one: a comma stands between statements, values, rows of cases and lines.

In: an answer or a reference. Out: the same in LaTeX; intervals with brackets turned away have round ones. Run by
`scorers.math.notation`. Pure functions on texts of at most MAX_CHARS characters, linear in their length.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

_CONDITION: Final = re.compile(
    r"\s*,?\s*&\s*(?!\s*(?:[-+=<>]|\\(?:le|ge|ne)(?![A-Za-z])))(?:\\text\{\s*(?:if|for|when|where)\s*\}|(?:if|for|when)\s)?\s*"
)
_GLUED: Final = re.compile(r"(?<=[0-9)\]}])(or|and)(?=[(\[]|[A-Za-z](?:\([a-z]\))?\s*[=<>])")
_IN_BRACKET: Final = re.compile(r"[(\[][^()\[\],;]*(?:;[^()\[\],;]*)+[)\]]|\\\{[^{},;]*(?:;[^{},;]*)+\\\}")
_LAST_JOINT: Final = re.compile(
    r"\s*,?\s*(?:\\text\{\s*,?\s*(?:and|or)\s*\}|(?<=[\s$,)])(?:and|or)(?=[\s\\$(]))\s*"
)
_OF_LETTERS: Final = re.compile(
    r"(?:[A-J]|[\s,()$]|\\text\{\s*(?:and|or)\s*\}|and|or)+"
)  # a choice of several
_LINES: Final = re.compile(r"\$[^$]+\$(?:\s*\n\s*\$[^$]+\$)+")  # `$x = 1$` above `$y = 2$`
_DOLLARS: Final = re.compile(r"\$([^$]+)\$\s*([A-Za-z][A-Za-z .]*[A-Za-z])")
_VALUE: Final = re.compile(r"-?\s*(?:[0-9]|\\(?:frac|dfrac|tfrac|sqrt)(?![A-Za-z]))")
_WIDE_JOINT: Final = re.compile(  # `\quad\text{or}\quad`
    r"(?:\\q?quad(?![A-Za-z])|\\[,;: ]|[\s~])*\\(?:text|mathrm|mbox)\{\s*(and|or)\s*\}"
    r"(?:\\q?quad(?![A-Za-z])|\\[,;: ]|[\s~])*"
)
_COMMA_AND: Final = re.compile(
    r"[,;]\s*(?:\\text\{\s*and\s*\}|and(?=[\s\\$(]))\s*|\\text\{\s*,\s*(?:and\s*)?\}\s*"
)
_COMMA_OR: Final = re.compile(r",\s*(?:\\text\{\s*or\s*\}|or(?=[\s\\$(]))\s*|\\text\{\s*,\s*or\s*\}\s*")
_WIDE: Final = re.compile(r"(?<![,;\s])\s*(?:\\q?quad(?![A-Za-z])|\n)\s*(?![,;\s])")
_EQUATION: Final = re.compile(r"[=<>]|\\(?:leq?|geq?|neq?|approx|equiv|in)(?![A-Za-z])")
_CASES: Final = re.compile(r"\\begin\{cases\}(.*?)\\end\{cases\}", re.DOTALL)
_HALF_OPEN: Final = re.compile(r"([\[\]])([^\[\](),]+,[^\[\](),]+)([\[\]])")
_TOKEN: Final = re.compile(r"\\text\{(?P<inside>[^{}]*)\}|\\[A-Za-z]+|(?P<said>[^\W_])")
_SAID: Final = re.compile(r"(?:\\[A-Za-z]+|[\W_])*+(?P<said>[^\W_])")


def _conditions(cases: re.Match[str]) -> str:
    """Return the rows of cases as a list, each value with its condition."""
    rows = cases[1].strip().removesuffix("\\\\").replace("\\\\", ",")
    return _CONDITION.sub(r" \\text{ if } ", rows).replace("&", " ")


def _as_listed(text: str) -> str:
    r"""Return a list with commas alone between its values: `1, 2, \text{ and } 3`, `(1;2)`, `(1,2)or(3,4)`."""
    if ";" in text and "," not in text and "=" not in text and _COMMA_AND.search(text):
        text = text.replace(";", ",")
    text = _COMMA_OR.sub(r" \\text{ or } ", _COMMA_AND.sub(", ", _GLUED.sub(r" \1 ", text)))
    if ";" in text:
        text = _IN_BRACKET.sub(lambda found: found[0].replace(";", ","), text)
        if "," not in text and "=" not in text:
            text = text.replace(";", ",")
    is_list = "," in text and not _EQUATION.search(text) and not _OF_LETTERS.fullmatch(text)
    if is_list and _LAST_JOINT.search(text):
        text = _LAST_JOINT.sub(", ", text)
    return text


def without_delimiters(text: str) -> str:
    r"""Return a text without the marks that set mathematics apart, `$x = 1$`; lines of them are a list."""
    if _LINES.fullmatch(text):
        return ", ".join(line.strip().strip("$").strip() for line in text.splitlines() if line.strip())
    if text.count("$") == 2 and "\\$" not in text:
        if text.startswith("$") and text.endswith("$"):
            return text[1:-1]
        if (counted := _DOLLARS.fullmatch(text)) is not None:
            return f"{counted[1]}\\text{{ {counted[2]}}}"
    is_set_apart = text.startswith(("\\(", "\\[")) and text.endswith(("\\)", "\\]"))
    return text[2:-2] if is_set_apart else text


def _between_statements(text: str) -> str:
    r"""Return a text with a comma for the wide space between two relations: `x = 1 \quad y = 2`."""
    if "\\begin" in text:
        return text
    says = _says(text)
    equations = list(_EQUATION.finditer(text))

    def joined(space: re.Match[str]) -> str:
        start, end = space.span()
        if not says(start) or text[:start].rstrip()[-1:] in ("=", "(", ":"):
            return " "  # nothing is said before it
        is_quad = "quad" in space[0] and _VALUE.match(text, end) is not None
        is_between = bool(equations) and equations[0].end() <= start and equations[-1].start() >= end
        return ", " if is_quad or is_between else space[0]

    return _WIDE.sub(joined, text)


def _says(text: str) -> Callable[[int], bool]:
    r"""Return what tells whether a letter or a digit stands before a place, in no command and no closed `\text`."""
    first = len(text)
    begins, ends = [-1], [-1]  # of what is said in each `\text`, which is open at a place within it
    for token in _TOKEN.finditer(text):
        if token["said"]:
            first = token.start()
            break
        if token["inside"] and (said := _SAID.match(token["inside"])) is not None:
            begins.append(token.start("inside") + said.start("said"))
            ends.append(token.end())

    def says(place: int) -> bool:
        return place > first or place < ends[bisect_left(begins, place) - 1]

    return says


def _bracketed(interval: re.Match[str]) -> str:
    """Return `]1, 3[` as `(1, 3)`: a bracket that is turned away from its bound leaves it out."""
    if interval[1] == "[" and interval[3] == "]":
        return interval[0]
    return f"{'(' if interval[1] == ']' else '['}{interval[2]}{')' if interval[3] == '[' else ']'}"


def with_joints(text: str) -> str:
    r"""Return a text with a comma for the wide space between two statements, and one space around a word that joins."""
    text = _WIDE_JOINT.sub(r" \\text{ \1 } ", text) if "\\text" in text else text
    return _between_statements(text) if "quad" in text or "\n" in text else text


def with_rows(text: str) -> str:
    """Return a text with the rows of cases as a list, and with brackets of intervals that face their bounds."""
    text = _CASES.sub(_conditions, text) if "cases" in text else text
    return _HALF_OPEN.sub(_bracketed, text) if "[" in text else text


def as_list(text: str) -> str:
    """Return a list with commas alone between its values."""
    return _as_listed(text) if ";" in text or "or" in text or "and" in text else text
