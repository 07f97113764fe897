r"""Names that math_verify takes for one are told apart before it reads them, and work left to do is found.

math_verify 0.9.0 reads `A` as `a`, `I` as the imaginary unit, `y'` as `y`, `A^T` as `a` and `\frac{dy}{dx}` as a
derivative that computes to 0. In: two texts in plain LaTeX (`scorers.math.notation.plain`). Out: the same with one
symbol for each name, or the operations that a text leaves to be done. Pure functions on text, linear in its length.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

_OPERATOR: Final = r"(?:\\mathrm\{d\}|\\mathrm\s+d|\\partial\s*|d\s*)"
_ORDER: Final = r"(?:\^\s*(?:([2-9])|\{([2-9])\}))?"
_NAME: Final = r"([A-Za-z]|\\(?!partial)[a-z]+(?![A-Za-z])\s*)(?:\s*\(\s*\w\s*\))?"
_DERIVATIVE: Final = re.compile(
    rf"\\frac\s*\{{\s*{_OPERATOR}{_ORDER}\s*{_NAME}\s*\}}\s*\{{\s*{_OPERATOR}\s*([A-Za-z]|\\[a-z]+)\s*(?:\^\s*\{{?([2-9])\}}?)?\s*\}}"
    rf"|(?<![\w/\\])d\s*([A-Za-z])\s*/\s*d\s*([A-Za-z])(?![A-Za-z])"
)
_APPLIED: Final = re.compile(  # to a name alone: `\frac{d}{dx} y`, `\frac{d}{dx} f(x)`
    rf"\\frac\s*\{{\s*({_OPERATOR}{_ORDER})\s*\}}\s*(\{{\s*{_OPERATOR}\s*([A-Za-z])\s*(?:\^\s*\{{?[2-9]\}}?)?\s*\}})\s*"
    r"((?!e(?![A-Za-z]))[A-Za-z])(\s*\(\s*[a-z]\s*\))?\s*(?=[-+=,)\]}]|\Z)"
)
_OPERATION: Final = re.compile(
    rf"\\frac\s*\{{\s*{_OPERATOR}{_ORDER}\s*\}}\s*\{{\s*{_OPERATOR}\s*([A-Za-z]|\\[a-z]+)[^{{}}]*(?:\{{[^{{}}]*\}}\s*)?\}}"
)
_LETTER: Final = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
_MOST_OPERATIONS: Final = 20  # that are looked at
_DOTTED: Final = re.compile(r"\\(d?)dot\s*(?:\{\s*([A-Za-z])\s*\}|([A-Za-z]))")
_DIFFERENTIATED: Final = re.compile(
    rf"\\frac\s*\{{\s*{_OPERATOR}{_ORDER}\s*\}}\s*\{{\s*{_OPERATOR}\s*[A-Za-z]"
)
_TO_DO: Final = re.compile(
    r"\\(int|iint|iiint|oint|sum|prod|lim|limsup|liminf|gcd|lcm|max|min|sup|inf|det|bmod|pmod|mod|lfloor|lceil)(?![A-Za-z])"
    r"|\\operatorname\s*\{\s*(gcd|lcm|hcf|max|min|det|mod|lim|floor|ceil|round|sgn|tr)\s*\}"
    r"|\\(?:text|mathrm)\s*\{\s*(gcd|lcm|hcf|det|floor|ceil)\s*\}"
)
_DROPPED: Final = re.compile(
    r"!\s*!|\\nabla\s*\\(?:times|cdot)(?![A-Za-z])|\\(?:nabla|oplus|otimes|star|ast|dagger|wedge|bigtriangleup)(?![A-Za-z])|\^\s*\{?\s*\*"
)
_KIND: Final = re.compile(r"\\(mathcal|mathbb|mathfrak|mathscr)(?![A-Za-z])")
_IN_BRACKETS: Final = re.compile(r"(\[|\\\{)(?=[^\[\]]*(?<![A-Za-z\\])[A-Za-z])[^\[\],;]*(?:\]|\\\})")
_FIGURES: Final = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\\frac\{-?[0-9]+\}\{[0-9]+\})")
_ARITHMETIC: Final = re.compile(r"(?:[0-9.\s+*/(){}-]|\\(?:cdot|times|div|frac)(?![A-Za-z]))+")
_STEP: Final = re.compile(r"(?<=[0-9)}])\s*(?:[-+*/]|\\(?:cdot|times|div)(?![A-Za-z]))\s*(?=[-0-9({\\.])")
_POWER_OF_TEN: Final = re.compile(r"\\(?:cdot|times)\s*10\b")

_CAPITAL: Final = re.compile(
    r"\\(?:text|mathrm|mathbf|mathit|mathbb|mathcal|operatorname|begin|end)\s*\{[^{}]*\}|\\[A-Za-z]+|([A-Za-z])"
)
_GAMMA: Final = re.compile(r"\\gamma(?![A-Za-z])")
_RAISED_GAMMA: Final = re.compile(rf"{_GAMMA.pattern}\s*[\^_]")  # of `\gamma^2 + 1` math_verify makes 1
_GREEK: Final = re.compile(r"\\(Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega)(?![A-Za-z])")
_PRIMED: Final = re.compile(
    r"([A-Za-z])(_\w|_\{\w+\})?\s*(?:('+)|\^\s*(?:\\prime(?![A-Za-z])|\{\s*((?:\\prime\s*)+)\}))"
)
_ACCENTS: Final = ("acute", "ddot", "breve", "hat")  # for one mark, two, three and more
_TRANSPOSED: Final = re.compile(
    r"\^\s*(?:T(?![A-Za-z])|\{\s*(?:T|\\top|\\mathrm\{T\}|\\text\{T\})\s*\}|\\top(?![A-Za-z]))"
)
_INVERSE: Final = re.compile(r"(?<![A-Za-z\\])([fgh])\s*\^\s*\{\s*-1\s*\}(?=\s*\()")
_ORDINAL_POWER: Final = re.compile(r"(?<=[A-Za-z])\^\s*\{\s*\(([0-9n])\)\s*\}")


def with_primes(one: str, other: str) -> tuple[str, str]:
    r"""Return two texts with one name for each derivative: `\frac{dy}{dx}` is `y'`, a higher one has as many marks.

    The variable is named where there are several in both, or it is a partial derivative.
    """
    found = [*_DERIVATIVE.finditer(one), *_DERIVATIVE.finditer(other)]
    variables = {_variable(derivative) for derivative in found}
    is_named = len(variables) > 1
    return _with_primes(one, is_named=is_named), _with_primes(other, is_named=is_named)


def _with_primes(text: str, *, is_named: bool) -> str:
    if "\\frac" in text or "/" in text:
        text = _APPLIED.sub(_as_fraction, text) if "\\frac" in text else text
        text = _DERIVATIVE.sub(lambda found: _primed(found, is_named=is_named), text)
    if "dot" not in text:
        return text
    return _DOTTED.sub(lambda dot: f"{dot[2] or dot[3]}''" if dot[1] else f"{dot[2] or dot[3]}'", text)


def _as_fraction(found: re.Match[str]) -> str:
    r"""Return `\frac{d}{dx} y` as `\frac{dy}{dx}`, and `\frac{d}{dx} f(x)` as `f'(x)`."""
    if found[5] == found[6]:
        return found[0]
    if found[7] and "\\partial" not in found[1]:
        return f"{found[6]}{chr(39) * int(found[2] or found[3] or 1)}{found[7].strip()}"
    return f"\\frac{{{found[1]} {found[6]}}}{found[4]}"


def differentiates_other(text: str) -> bool:
    r"""Return whether `\frac{d}{dx}` stands before what has no x in it, `y^2`: math_verify computes 0 for it."""
    if not _DIFFERENTIATED.search(text):
        return False
    return any(
        found[3].strip() not in _LETTER.findall(_operand(text[found.end() :]))
        for found in islice(_OPERATION.finditer(text), _MOST_OPERATIONS)
    )


def _operand(text: str) -> str:
    """Return what an operator at the start of a text stands before: up to the next sum or relation."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign in "({[") - (sign in ")}]")
        if depth < 0 or (depth == 0 and text[:place].strip() and sign in "+-=<>,"):
            return text[:place]
    return text


def _variable(found: re.Match[str]) -> str:
    return (found[4] or found[7]).strip()


def _primed(found: re.Match[str], *, is_named: bool) -> str:
    order, below = int(found[1] or found[2] or 1), int(found[5] or 1)
    is_named = is_named or "\\partial" in found[0] or order != below
    index = f"_{{{_variable(found)}{'' if order == below else below}}}" if is_named else ""
    return f"{(found[3] or found[6]).strip()}{chr(39) * order}{index}"


def left_to_do(text: str, reference: str) -> str:
    r"""Return an operation that an answer leaves to be done and the reference has not: `\int`, `\gcd`; "" without one.

    A sum of numbers is done in passing, and two steps and more of arithmetic are the question said again, where the
    reference is a number in figures: `55 \cdot 12 - 15 \cdot 12` for 480.
    """
    asked = _operations(text) - _operations(reference)
    if asked:
        return min(asked)
    if _FIGURES.fullmatch(reference.strip()) and _ARITHMETIC.fullmatch(text):
        steps = _STEP.findall(_POWER_OF_TEN.sub("", text))
        if len(steps) >= 2:
            return "arithmetic"
    return ""


def has_other_signs(one: str, other: str) -> bool:
    r"""Return whether a sign that math_verify drops stands in one text alone: `\nabla \times F`, `n!!`, `[x]`.

    The kind of a letter counts where both have one: `\mathcal{A}` is no `\mathbb{A}`, and may be an `A`.
    """
    if set(_DROPPED.findall(one)) != set(_DROPPED.findall(other)) or _bracketed(one) != _bracketed(other):
        return True
    kinds = [set(_KIND.findall(text)) for text in (one, other)]
    return bool(kinds[0]) and bool(kinds[1]) and kinds[0] != kinds[1]


def _bracketed(text: str) -> str:
    """Return the brackets around a whole text with a name in it, which may be its whole part or a set of it."""
    found = _IN_BRACKETS.fullmatch(text.strip())
    return "" if found is None else found[1]


def states_operation(text: str) -> bool:
    r"""Return whether a side of an equation is an operation, whose outcome the other is: `\lim_{x \to 0} f(x)`."""
    return bool(_operations(text))


def _operations(text: str) -> set[str]:
    found = {"".join(names) for names in _TO_DO.findall(text)}
    return found | ({"d/dx"} if _DIFFERENTIATED.search(text) else set())


def with_distinct_names(one: str, other: str) -> tuple[str, str]:
    """Return both texts with a symbol of its own for each name that math_verify would take for another one's.

    Capitals are told from small letters where the texts have both. A constant of integration alone is `C` or `c`.
    """
    found = [_letters(text) for text in (one, other)]
    both = found[0] | found[1]
    capitals = {letter for letter in both if letter.isupper() and letter.lower() in both} | (both & {"I"})
    if not any({"C", "c"} <= letters for letters in found):
        capitals.discard("C")
    if _RAISED_GAMMA.search(one) or _RAISED_GAMMA.search(other):
        one, other = (_GAMMA.sub(r"\\acute{\\gamma}", text) for text in (one, other))
    return _distinct(one, capitals), _distinct(other, capitals)


def _letters(text: str) -> set[str]:
    return {letter for letter in _CAPITAL.findall(text) if letter}


def _distinct(text: str, capitals: set[str]) -> str:
    if "'" in text or "\\prime" in text:
        text = _PRIMED.sub(_marked, text)
    if "^" in text:
        text = _INVERSE.sub(r"\\breve{\1}", text)
        text = _TRANSPOSED.sub(r"^{\\acute{t}}", text)
        text = _ORDINAL_POWER.sub(r"^{\\acute{n}\1}", text)
    if "\\" in text:
        text = _GREEK.sub(lambda name: f"\\grave{{\\{name[1].lower()}}}", text)
    if not capitals:
        return text
    return _CAPITAL.sub(
        lambda letter: f"\\grave{{{letter[1].lower()}}}" if letter[1] in capitals else letter[0], text
    )


def _marked(name: re.Match[str]) -> str:
    marks = len(name[3] or "") or max((name[4] or "").count("\\prime"), 1)
    accent = _ACCENTS[min(marks, len(_ACCENTS)) - 1]
    return f"\\{accent}{{{name[1].lower()}}}{name[2] or ''}"
