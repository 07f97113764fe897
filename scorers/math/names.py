r"""What a value is called: `x`, `f(2)`, `\angle ABC`, `\text{Area}`; and whether two names are one.

In: a side of an equation, in plain LaTeX (`scorers.math.notation.plain`). Out: whether it only names what stands on the
other side. An expression is no name: `x + 1 = 7` is an equation to be solved. Pure functions on text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from scorers.math.doubts import doubts
from scorers.math.notation import layout_key
from scorers.math.statements import sides_of_equation
from scorers.math.symbols import states_operation
from scorers.math.text import names_number

SYMBOL: Final = (
    r"(?:[A-Za-z]|\\(?!frac|sqrt|text|infty|(?:pi|le|ge|ne|in|to|approx|equiv|sim|pm|mp|cdot|times|div|cup|cap|ldots|circ)"
    r"(?![A-Za-z]))[A-Za-z]+)(?:'|_\w|_\{\w+\})*"
)
LONE_SYMBOL: Final = re.compile(SYMBOL)
_MOST_CHARS: Final = 80
_INNER: Final = re.compile(r"_\w|_\{[^{}]*\}|\\\|[^|]*\\\||\([^()]*\)|\[[^\[\]]*\]|\|[^|]*\||\{[^{}]*\}")
_BARE_NAME: Final = re.compile(
    r"(?:(?:[A-Za-z]+|:|\\(?:det|deg|dim|angle|triangle|overline|vec|hat|bar|mathbf|mathrm|mathbb|operatorname|max|min|gcd"
    r"|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|log|ln|Pr|ker|measuredangle|widehat|nabla|ell|varepsilon|eta|zeta|nu"
    r"|alpha|beta|gamma|Gamma|delta|Delta|epsilon|theta|Theta|lambda|Lambda|mu|sigma|Sigma|phi|Phi|varphi|psi|Psi|omega|Omega"
    r"|rho|tau|kappa|chi|xi))'*\s*)*"
)
_PRODUCT: Final = re.compile(  # of a variable or a bracket with a bracket: no call
    r"(?:\A|(?<=[\s)\d]))(?:[a-eikmnq-zA-DKMNQX-Z]?\s*)\((?=[^()]*[A-Za-z0-9]\s*[-+^][^()]*\))[^()]*\)"
)
_VARIABLES: Final = re.compile(r"(?:[a-z]\s*){2,3}")  # a product, as `xy`; `AB` is a length
_BARS: Final = re.compile(r"\|([^|]*)\|")
_INDEX: Final = re.compile(r"_(?:\w|\{[^{}]*\})")
_WORDS: Final = re.compile(r"\\text\{\s*[A-Za-z]{3,}(?: [A-Za-z]{2,}){0,4}\s*\}")
_POINT: Final = re.compile(r"([A-Z](?:'|_\w|_\{\w+\})*)\s*(\((?:[^()]|\([^()]*\))+\))\Z")
_ONLY_SETS: Final = re.compile(  # what stands in a name for the eye alone
    r"\\(?:operatorname|text|mathrm|mathbf|mathbb|overline|vec|bar|hat|widehat|angle|measuredangle|triangle)(?![A-Za-z])|[(){}\s]"
)
_QUANTITY: Final = r"\|?([A-Z](?:[A-Z]{1,3}|_\w|_\{\w+\})?)\|?"
_QUOTIENT: Final = re.compile(rf"\\frac\{{{_QUANTITY}\}}\{{{_QUANTITY}\}}")
_DERIVATIVE_AT: Final = re.compile(r"\A([A-Za-z]'+)\(?[a-z]\)?\Z")  # `f'(x)`, which is `f'` for short
_CALL: Final = re.compile(r"([^()]+)\(([^()]+)\)")
_ANGLE: Final = re.compile(r"\\(?:measured)?angle\s*([A-Z])(?:([A-Z])([A-Z]))?")
_PLAIN_VALUE: Final = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\\frac\{[0-9]+\}\{[0-9]+\})")
_LETTERS: Final = re.compile(
    r"(?:\\frac\{[0-9]+\}\{[0-9]+\}\s*)?(?:[A-Za-z](?:_\w|_\{\w+\})?|\\(?:cdot|frac)(?![A-Za-z])|[-+/{}()\s])+"
)


@lru_cache(maxsize=64)
def stated(text: str) -> tuple[str, str]:
    """Return the name and the value that a text states; "" and the text where it states none."""
    if (point := _POINT.match(text)) is not None and "," in point[2] and "=" not in point[2]:
        return point[1], point[2]
    sides = sides_of_equation(text)
    if sides is None:
        return "", text
    name, value = sides
    if _PLAIN_VALUE.fullmatch(name) is not None and not LONE_SYMBOL.fullmatch(value):
        name, value = value, name  # `9 = f(2)`
    return (name, value) if is_name(name) and not is_within(name, value) else ("", text)


def are_points(parts: Sequence[str]) -> bool:
    """Return whether parts of a list are named points: `A(1, 2)`."""
    return bool(parts) and all("=" not in part and stated(part)[0] for part in parts)


def is_within(name: str, value: str) -> bool:
    """Return whether a symbol is a part of what it would name: `x = x^2 + 4` is an equation."""
    if LONE_SYMBOL.fullmatch(name) is None:
        return False
    return re.search(rf"(?<![A-Za-z\\]){re.escape(name)}(?![A-Za-z'_])", value) is not None


def is_name(text: str) -> bool:
    """Return whether a side of an equation only names what stands on the other one."""
    if (quotient := _QUOTIENT.fullmatch(text)) is not None:
        return _is_called(quotient[1]) and _is_called(quotient[2])
    return _is_called(text) or in_words(text) or states_operation(text)


def _is_called(text: str) -> bool:
    if (
        "\\begin" in text
        or _VARIABLES.fullmatch(_INDEX.sub("", text))
        or _PRODUCT.search(text)
        or any(any(map(str.isdigit, _INDEX.sub("", bars))) for bars in _BARS.findall(text))
    ):
        return False
    bare = text
    while (outer := _INNER.sub("", bare)) != bare:
        bare = outer
    return (
        0 < len(text) <= _MOST_CHARS
        and _BARE_NAME.fullmatch(bare) is not None
        and any(map(str.isalpha, text))
    )


def in_words(name: str) -> bool:
    r"""Return whether a name is words alone, as in `\text{Area} = 24`."""
    return _WORDS.fullmatch(name) is not None and not doubts(name) and not names_number(name)


def is_quantity(name: str) -> bool:
    """Return whether a name has an argument or a command: more than a symbol, or letters that may be a product."""
    is_tuple = name.startswith("(")
    return (
        bool(name)
        and not is_tuple
        and not LONE_SYMBOL.fullmatch(name)
        and not name.replace(" ", "").isalpha()
    )


def is_letters_alone(text: str) -> bool:
    """Return whether an answer's left side joins letters by signs, as `m + n = 7` does where the sum is asked for."""
    return _LETTERS.fullmatch(text) is not None and len({one for one in text if one.isalpha()}) > 1


def name_key(name: str) -> str:
    """Return what is the same for two names that differ in layout alone."""
    return _ONLY_SETS.sub("", layout_key(name).replace("\\mid", "|").replace("\\vert", "|"))


def are_one_name(one: str, other: str, *, equal: Callable[[str, str], bool] | None = None) -> bool:
    r"""Return whether two names are the same but for layout: `\det A` and `\det(A)`, `\angle ABC` and `\angle CBA`.

    Args:
        one, other: names.
        equal: compares what a function is called with, `f(2x)` and `f(2 \cdot x)`; None: by its layout.
    """
    if name_key(one) == name_key(other):
        return True
    if _DERIVATIVE_AT.sub(r"\1", name_key(one)) == _DERIVATIVE_AT.sub(r"\1", name_key(other)):
        return _DERIVATIVE_AT.search(one) is None or _DERIVATIVE_AT.search(other) is None
    calls = [_CALL.fullmatch(name) for name in (one, other)]
    if equal is not None and calls[0] is not None and calls[1] is not None:
        called = [call[2] for call in calls if call is not None]
        is_pair = ["," in one for one in called]  # `P(1,234)` is of two numbers, and not of 1234
        return (
            layout_key(calls[0][1]) == layout_key(calls[1][1]) and is_pair[0] == is_pair[1] and equal(*called)
        )
    if in_words(one) != in_words(other) and any(map(LONE_SYMBOL.fullmatch, (one, other))):
        return True  # `\text{Area}` for `S`
    angles = [_ANGLE.fullmatch(name) for name in (one, other)]
    corners = [angle[2] or angle[1] for angle in angles if angle is not None]
    arms = [{angle[1], angle[3]} for angle in angles if angle is not None and angle[2]]
    return len(corners) == 2 and corners[0] == corners[1] and (len(arms) < 2 or arms[0] == arms[1])
