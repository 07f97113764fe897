r"""Spellings of a program or a calculator are made LaTeX: `x**2+1`, `sqrt(2)/2`, `2pi`, `exp(-x)`, `(-oo, 3]`.

In: an answer or a reference. Out: the same in LaTeX; nothing is computed, and nothing is run. A text with words that
are neither names of mathematics nor units is prose, and comes back as it is; so does a tower of `**`, which programs
read from the right. Run by `scorers.math.notation.respelled`. Pure functions on texts of at most MAX_CHARS characters,
linear in their length.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from scorers.math.units import unit_of

_INFINITIES: Final = ("infinity", "Infinity", "INFINITY", "inf", "Inf", "infty", "oo")
_LETTERS: Final = (
    "theta", "alpha", "beta", "gamma", "delta", "epsilon", "lambda", "sigma", "omega", "phi", "psi", "rho", "tau",
    "Delta", "Sigma", "Omega", "Theta", "Gamma", "Lambda", "Phi", "Psi",
)  # fmt: skip
_SIGNS: Final = {
    **dict.fromkeys(("pi", "Pi"), "\\pi"),
    **dict.fromkeys(_INFINITIES, "\\infty"),
    **{letter: f"\\{letter}" for letter in _LETTERS},
}
_FUNCTIONS: Final = {
    **{
        name: f"\\{name}"
        for name in (
            "sin", "cos", "tan", "cot", "csc", "ln", "log", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan"
        )
    },
    "asin": "\\arcsin",
    "acos": "\\arccos",
    "atan": "\\arctan",
}  # fmt: skip
_CALLED: Final = {
    "sec": "\\sec",
    "gcd": "\\gcd",
    "max": "\\max",
    "min": "\\min",
    "det": "\\det",
}  # `5 sec` is a time
_AROUND: Final[dict[str, Callable[[list[str]], str | None]]] = {
    "sqrt": lambda parts: f"\\sqrt{{{parts[0]}}}" if len(parts) == 1 else None,
    "cbrt": lambda parts: f"\\sqrt[3]{{{parts[0]}}}" if len(parts) == 1 else None,
    "exp": lambda parts: f"e^{{{parts[0]}}}" if len(parts) == 1 else None,
    "abs": lambda parts: f"|{parts[0]}|" if len(parts) == 1 else None,
    "Abs": lambda parts: f"|{parts[0]}|" if len(parts) == 1 else None,
    "floor": lambda parts: f"\\lfloor {parts[0]}\\rfloor " if len(parts) == 1 else None,
    "ceil": lambda parts: f"\\lceil {parts[0]}\\rceil " if len(parts) == 1 else None,
    "ceiling": lambda parts: f"\\lceil {parts[0]}\\rceil " if len(parts) == 1 else None,
    "factorial": lambda parts: f"({parts[0]})!" if len(parts) == 1 else None,
    **dict.fromkeys(
        ("binomial", "binom", "comb", "nCr"),
        lambda parts: f"\\binom{{{parts[0]}}}{{{parts[1]}}}" if len(parts) == 2 else None,
    ),
    **dict.fromkeys(
        ("Rational", "Fraction"),
        lambda parts: f"\\frac{{{parts[0]}}}{{{parts[1]}}}" if len(parts) == 2 else None,
    ),
}
_NAMES: Final = frozenset({*_SIGNS, *_FUNCTIONS, *_CALLED, *_AROUND})
_JOINING: Final = frozenset({"and", "or", "unit", "units", "square", "per", "mod"})

_MEANT: Final = re.compile(  # something that only a program or a calculator writes
    r"\*\*|\^\s*[-(]|[<>=]=|\s!=|[0-9]\s*[xX]\s*10\s*\^|\)\s*[uU]\s*\(|[)\]]\s*[uU]\s*[(\[]"
    rf"|(?<![A-Za-z\\])(?:{'|'.join(sorted((*_NAMES, 'log'), key=len, reverse=True))})(?![A-Za-z])"
)
_WORD: Final = re.compile(
    r"\\(?:text\w*|math\w+|operatorname|mbox|begin|end)\*?\s*\{[^{}]*\}|\\[A-Za-z]+|(?P<word>[A-Za-z]+)"
)
_LIBRARY: Final = re.compile(r"(?<![A-Za-z\\.])(?:np|numpy|math|sympy|sp)\.(?=[A-Za-z])")
_CALL: Final = re.compile(r"\s*\(")
_LOG_OF_BASE: Final = re.compile(r"_?(2|10)\s*(?=\()")
_SHORT_ROOT: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|[A-Za-z](?![A-Za-z]))")
_COMPARED: Final = {"<=": "\\le ", ">=": "\\ge ", "==": "=", "!=": "\\ne "}
_COMPARISON: Final = re.compile(r"<=|>=|==|(?<=\s)!=")  # `n!=` is a factorial
_UNION: Final = re.compile(r"(?<=[)\]])\s*[uU]\s*(?=[(\[])")
_INTERVALS: Final = re.compile(r"(?:[(\[][^()\[\]]*,[^()\[\]]*[)\]]\s*[uU]?\s*){2,}")
_MOST_CHARS: Final = 300  # of a union of intervals, and of a call of several arguments
_TIMES_TEN: Final = re.compile(r"(?<=[0-9])\s*[xX]\s*(?=10\s*\^)")
_GAP: Final = 12  # characters behind a bracket in which what goes on from it begins
_POWER: Final = re.compile(r"\s*(?:\*\*|\^)\s*")
_EXPONENT: Final = re.compile(
    r"-?\s*(?:[0-9]+(?:\.[0-9]+)?|\\[A-Za-z]+(?:\{[^{}]*\})*|[A-Za-z](?:_\w|_\{\w+\})?(?![A-Za-z(]))"
)
_OPEN: Final = frozenset("([")
_CLOSE: Final = frozenset(")]")
_NAMED: Final = re.compile(
    r"\\(?:text|mathrm|mathit)\{\s*(?:(?:positive|plus)\s+|\+|(?P<minus>(?:negative|minus)\s+|-))?"
    r"(?i:infinity|inf|infty)\s*\.?\s*\}"
    r"|\A(?:(?:positive|plus)\s+|(?P<minus_bare>(?:negative|minus)\s+))(?i:infinity)\.?\Z"
    rf"|\\(?:text|mathrm)\{{\s*(?P<letter>pi|{'|'.join(_LETTERS)})\s*\}}"
)


def in_latex(text: str) -> str:
    """Return a text in LaTeX; see the module."""
    if "inf" in text or "Inf" in text or "\\text{" in text or "\\mathrm{" in text:
        text = _NAMED.sub(_named, text)
    if _MEANT.search(text) is None or _is_prose(bare := _LIBRARY.sub("", text)):
        return text
    text = bare
    if ("U" in text or "u" in text) and len(text) <= _MOST_CHARS and _INTERVALS.fullmatch(text) is not None:
        text = _UNION.sub(r" \\cup ", text)
    text = _with_commands(_TIMES_TEN.sub(r"\\times ", text))
    text = _COMPARISON.sub(lambda sign: _COMPARED[sign[0]], text)
    return _with_raised_exponents(text) if "**" in text or "^" in text else text


def _named(sign: re.Match[str]) -> str:
    r"""Return `\text{negative infinity}` as `-\infty`."""
    if sign["letter"]:
        return f"\\{sign['letter']} "
    return "-\\infty " if sign["minus"] or sign["minus_bare"] else "\\infty "


def _is_prose(text: str) -> bool:
    """Return whether a text has words, outside commands, that neither name mathematics nor a unit."""
    for found in _WORD.finditer(text):
        word = found["word"]
        if (
            word is not None
            and len(word) > 2
            and word not in _NAMES
            and word not in _JOINING
            and unit_of(word) is None
        ):
            return True
    return False


def _with_commands(text: str) -> str:
    """Return a text with the names of functions and signs as commands, calls with their arguments in braces."""
    closings = _closings(text)
    changes: list[tuple[int, int, str]] = []
    for found in _WORD.finditer(text):
        word, end = found["word"], found.end()
        if word not in _NAMES:
            continue
        call = _CALL.match(text, end)
        if word == "log" and (base := _LOG_OF_BASE.match(text, end)) is not None:
            changes.append((found.start(), base.end(), f"\\log_{{{base[1]}}}"))
        elif word in _FUNCTIONS or (word in _CALLED and text.startswith("(", end)):
            changes.append((found.start(), end, f"{(_FUNCTIONS.get(word) or _CALLED[word])} "))
        elif word in _SIGNS and (call is None or word not in _INFINITIES):  # `inf(A)` is an infimum
            changes.append((found.start(), end, f"{_SIGNS[word]} "))
        elif word in _AROUND and call is not None and (opening := call.end() - 1) in closings:
            changes += _around(text, word, (found.start(), opening, closings[opening]))
        elif word in ("sqrt", "cbrt") and (short := _SHORT_ROOT.match(text, end)) is not None:
            changes.append((found.start(), short.end(), _AROUND[word]([short[1]]) or ""))
    return _changed(text, changes)


def _around(text: str, name: str, places: tuple[int, int, int]) -> list[tuple[int, int, str]]:
    """Return what stands before, between and behind the arguments of a call."""
    start, opening, closing = places
    commas = _commas(text, opening, closing)
    spelled = _AROUND[name](["\0"] * (len(commas) + 1))
    if spelled is None:
        return []
    marks = spelled.split("\0")
    ends = [opening, *commas, closing]
    return [
        (start if number == 0 else place, place + 1, mark)
        for number, (place, mark) in enumerate(zip(ends, marks, strict=True))
    ]


def _commas(text: str, opening: int, closing: int) -> list[int]:
    """Return where the commas between the arguments of a call stand. Only of short calls: the others have one."""
    if closing - opening > _MOST_CHARS:
        return []
    found, depth = [], 0
    for place in range(opening + 1, closing):
        depth += (text[place] in _OPEN or text[place] == "{") - (text[place] in _CLOSE or text[place] == "}")
        if text[place] == "," and depth == 0:
            found.append(place)
    return found


def _closings(text: str) -> dict[int, int]:
    """Return where each bracket that is closed opens, and where it closes."""
    closings: dict[int, int] = {}
    opened: list[int] = []
    for place, character in enumerate(text):
        if character in _OPEN:
            opened.append(place)
        elif character in _CLOSE and opened:
            closings[opened.pop()] = place
    return closings


def _changed(text: str, changes: list[tuple[int, int, str]]) -> str:
    pieces, at = [], 0
    for start, end, written in sorted(changes):
        pieces += [text[at:start], written]
        at = end
    return "".join((*pieces, text[at:]))


def _with_raised_exponents(text: str) -> str:
    """Return a text with the exponents of `**`, and those in brackets or with a sign of `^`, in braces."""
    closings = _closings(text)
    changes: list[tuple[int, int, str]] = []
    for power in _POWER.finditer(text):
        end = power.end()
        is_program = "*" in power[0]
        if text[end : end + 1] == "(" and end in closings:
            behind = text[closings[end] + 1 : closings[end] + _GAP].lstrip()[:2]
            if behind[:1] in ("(", "^") or behind == "**":
                if is_program:
                    return text
                continue  # `f^(4)(x)` is a derivative
            changes += [(power.start(), end + 1, "^{"), (closings[end], closings[end] + 1, "}")]
        elif (exponent := _EXPONENT.match(text, end)) is not None and (
            is_program or exponent[0].startswith("-")
        ):
            if text.startswith("**", exponent.end()) or text.startswith("^", exponent.end()):
                return text
            changes.append((power.start(), exponent.end(), f"^{{{exponent[0]}}}"))
        elif is_program and text[end : end + 1] != "{":
            return text
        elif is_program:
            changes.append((power.start(), end, "^"))
    return _changed(text, changes)
