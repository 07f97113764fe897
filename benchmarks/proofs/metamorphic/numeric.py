r"""The value of a LaTeX expression at a few points, in floating point: how a rewrite is known to be wrong.

In: the text of one expression, no relation and no list. Out: a complex number for each point, or None for a text that
this small grammar does not read. It shares nothing with the scorer, so that what the proof expects is not the scorer's
own opinion. Names, units and unknown functions are numbers drawn from their spelling.
"""

from __future__ import annotations

import cmath
import math
import random
import re
from collections.abc import Callable
from typing import Final

POINTS: Final = 3
_TOKEN: Final = re.compile(r"\\[A-Za-z]+|\\[^A-Za-z]|[0-9]*\.[0-9]+|[0-9]+\.?|[A-Za-z]|[^\s]")
_LAYOUT: Final = re.compile(
    r"\\(?:left|right|big|Big|bigg|Bigg|displaystyle|limits|quad|qquad)(?![A-Za-z])|\\[,;:! ]|~"
)
_GROUPED: Final = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:(?:\{,\}|\\,|\\!|,\\!|,)\s*[0-9]{3})+(?![0-9])")
_WORDS: Final = re.compile(
    r"\\(?:text(?:rm|bf|it|normal)?|mathrm|mbox|operatorname|mathbf|mathit)\s*\{([^{}]*)\}"
)
_SAME: Final = {
    "\\dfrac": "\\frac",
    "\\tfrac": "\\frac",
    "\\dbinom": "\\binom",
    "\\cdot": "*",
    "\\times": "*",
    "\\div": "/",
}
_FUNCTIONS: Final[dict[str, Callable[[complex], complex]]] = {
    "sin": cmath.sin, "cos": cmath.cos, "tan": cmath.tan, "ln": cmath.log, "log": lambda z: cmath.log(z, 10),
    "exp": cmath.exp, "arcsin": cmath.asin, "arccos": cmath.acos, "arctan": cmath.atan, "sinh": cmath.sinh,
    "cosh": cmath.cosh, "tanh": cmath.tanh, "cot": lambda z: 1 / cmath.tan(z), "sec": lambda z: 1 / cmath.cos(z),
    "csc": lambda z: 1 / cmath.sin(z),
}  # fmt: skip
_CONSTANTS: Final[dict[str, complex]] = {"i": 1j, "e": math.e, "\\pi": math.pi}
_GREEK: Final = re.compile(
    r"\\(?:alpha|beta|gamma|delta|(?:var)?epsilon|zeta|eta|(?:var)?theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau"
    r"|phi|varphi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Sigma|Phi|Psi|Omega|ell|hbar|infty|prime|circ|[A-Za-z]+WORD)"
)
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}
_DEGREE: Final = math.pi / 180


class Unread(Exception):
    """The text is no expression of this grammar."""


def values(text: str) -> tuple[complex, ...] | None:
    """Return the expression's value at each point; None where it can't be read or has none."""
    try:
        tokens = _tokens(text)
        return tuple(_Reader(tokens, point).whole() for point in range(POINTS))
    except (Unread, ArithmeticError, ValueError, RecursionError):
        return None


def differ(one: str, other: str, *, at_least: float = 2e-3) -> bool | None:
    """Return whether two expressions differ at some point by a share that no rounding explains; None if unknown."""
    left, right = values(one), values(other)
    if left is None or right is None:
        return None
    return any(abs(a - b) > at_least * max(abs(a), abs(b)) for a, b in zip(left, right, strict=True))


def proportional(one: str, other: str) -> bool | None:
    """Return whether one expression is the other times a constant; None if unknown."""
    left, right = values(one), values(other)
    if left is None or right is None:
        return None
    if any(abs(b) < 1e-12 for b in right) or any(abs(a) < 1e-12 for a in left):
        return True  # both may be 0 everywhere: nothing is known to differ
    ratios = [a / b for a, b in zip(left, right, strict=True)]
    return all(abs(ratio - ratios[0]) <= 1e-9 * abs(ratios[0]) for ratio in ratios)


def _tokens(text: str) -> list[str]:
    if re.search(r"[0-9]e-?[0-9]", text):
        raise Unread  # a program's way to write a power of ten
    text = _LAYOUT.sub(" ", _GROUPED.sub(lambda found: re.sub(r"[^0-9]", "", found[0]), text))
    text = text.replace("$", " ").replace("\\lvert", "|").replace("\\rvert", "|").replace("\\mid", "|")
    text = _WORDS.sub(lambda found: _word(found[1]), text)
    return [_SAME.get(one, one) for one in _TOKEN.findall(text)]


def _word(word: str) -> str:
    """Return a unit or a word as one part: a command that is no command of LaTeX."""
    word = "".join(word.split())
    if word in ("e", "i", "d"):
        return f" {word} "
    if not word.isalpha():
        raise Unread
    return f" \\{word}WORD "


def _drawn(name: str, point: int) -> float:
    return random.Random(f"{name} {point}").uniform(1.1, 2.9)  # noqa: S311 - no secret


class _Reader:
    """Recursive descent over the tokens, at one point."""

    def __init__(self, tokens: list[str], point: int) -> None:
        self.tokens, self.point, self.place = tokens, point, 0

    def whole(self) -> complex:
        value = self.sum()
        if self.place != len(self.tokens):
            raise Unread
        if not cmath.isfinite(value):
            raise Unread
        return value

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        part = self.peek()
        if not part or (wanted and part != wanted):
            raise Unread
        self.place += 1
        return part

    def sum(self) -> complex:
        total = self.product()
        while self.peek() in ("+", "-", "\\pm", "\\mp"):
            sign = self.sign(self.take())
            total += sign * self.product()
        return total

    def sign(self, part: str) -> complex:
        return {"+": 1, "-": -1}.get(part) or _drawn(part, self.point)

    def product(self) -> complex:
        sign: complex = 1
        while self.peek() in ("+", "-", "\\pm", "\\mp"):
            sign *= self.sign(self.take())
        value = sign * self.power()
        while True:
            part = self.peek()
            if part in ("*", "/"):
                self.take()
                negative = 1
                while self.peek() == "-":
                    self.take()
                    negative = -negative
                factor = negative * self.power()
                value = value * factor if part == "*" else value / factor
            elif part and (part not in "+-)]}|,;=<>&!:'\"" and part not in ("\\pm", "\\mp", "\\}")):
                value *= self.power()
            else:
                return value

    def power(self) -> complex:
        value = self.base()
        while (part := self.peek()) in ("^", "!", "'", "\\%"):
            self.take()
            if part == "^":
                value = self.raised(value)
            elif part == "!":
                value = math.gamma(value.real + 1)
            else:
                value *= _drawn(part, self.point)
        return value

    def raised(self, value: complex) -> complex:
        if self.peek() == "\\circ" or self.tokens[self.place : self.place + 3] == ["{", "\\circ", "}"]:
            self.place += 1 if self.peek() == "\\circ" else 3
            return value * _DEGREE
        exponent = self.argument()
        if abs(exponent) > 400:
            raise Unread
        return value**exponent

    def argument(self) -> complex:
        """Return what a command is given: a group, or one part's value; of `12` the 1."""
        if self.peek() == "{":
            return self.group()
        part = self.peek()
        if part.isdigit() and len(part) > 1:
            self.tokens[self.place : self.place + 1] = [*part]
        if self.peek() == "-":
            self.take()
            return -self.base()
        return self.base()

    def group(self) -> complex:
        closer = _CLOSERS[self.take()]
        value = self.sum()
        self.take(closer)
        return value

    def base(self) -> complex:
        if self.peek() in _CLOSERS:
            return self.group()
        part = self.take()
        if part[0].isdigit() or part[0] == ".":
            return float(part)
        if part == "|":
            value = abs(self.sum())
            self.take("|")
            return value
        return self.built(part) if part in ("\\frac", "\\sqrt", "\\binom") else self.named(part)

    def built(self, command: str) -> complex:
        if command == "\\sqrt":
            degree = self.group() if self.peek() == "[" else 2
            return self.argument() ** (1 / degree)
        above, below = self.argument(), self.argument()
        if command == "\\frac":
            return above / below
        top, bottom = above.real, below.real
        return math.gamma(top + 1) / math.gamma(bottom + 1) / math.gamma(top - bottom + 1)

    def named(self, part: str) -> complex:
        name = part.lstrip("\\")
        if part.startswith("\\") and name in _FUNCTIONS:
            return self.function(name)
        if not part.isalpha() and not _GREEK.fullmatch(part):
            raise Unread
        if self.peek() == "_":
            self.take()
            name += f"_{self.subscript()}"
        if part in _CONSTANTS:
            return _CONSTANTS[part]
        drawn = _drawn(name, self.point)
        is_called = part in "fghFGP" and self.peek() == "("
        return cmath.sin(drawn + 3 * self.group()) if is_called else drawn

    def subscript(self) -> str:
        if self.peek() != "{":
            return self.take()
        start, depth = self.place, 0
        while True:
            depth += {"{": 1, "}": -1}.get(self.take(), 0)
            if depth == 0:
                return " ".join(self.tokens[start : self.place])

    def function(self, name: str) -> complex:
        base, power = None, None
        while self.peek() in ("_", "^"):
            if self.take() == "_":
                base = self.argument()
            else:
                power = self.argument()
        # A function without brackets takes the product that follows, up to the next function.
        if self.peek() in _CLOSERS:
            argument = self.group()
        else:
            argument = self.power()
            while (part := self.peek()) and (part[0].isalnum() or part in ("\\pi", "\\frac", "\\sqrt")
                                              or _GREEK.fullmatch(part)):  # fmt: skip
                argument *= self.power()
        if power == -1:
            name, power = f"arc{name}", None
            if name not in _FUNCTIONS:
                raise Unread
        value = _FUNCTIONS[name](argument) if base is None else cmath.log(argument) / cmath.log(base)
        return value if power is None else value**power
