r"""Whether two expressions of sympy's have one value, more strictly than math_verify and sympy would say.

In: expressions that `scorers.math.equality` has read. Out: whether they are equal as numbers, to the digit where both
are exact; at points, where both are real; as series, term by term. Runs in the scoring child, since sympy may hang.
"""

from __future__ import annotations

from typing import Any, Final

import sympy

_EXACT: Final = 1e-12  # relative difference of two values that are both exact, or of an integer and anything
_ROUNDED: Final = 1e-4  # of a decimal and what it rounds; math_verify has compared six places already
DIGITS: Final = 30  # of two values before they are compared
# Points at which two expressions are compared, small ones and large ones, of both signs.
_SIZES: Final = tuple(map(sympy.Rational, ("3/10", "7/10", "17/10", "31/10", "73/10", "23", "61", "140")))
_POINTS: Final = tuple(
    tuple(signs[index % 2] * _SIZES[(place + 3 * index) % len(_SIZES)] for index in range(8))
    for signs in ((1, 1), (-1, -1), (1, -1), (-1, 1))
    for place in range(len(_SIZES))
)
_FEWEST_POINTS: Final = 3


def over_reals(found: list[Any]) -> list[Any]:
    """Return expressions whose names are all of one kind: beside an `i` math_verify makes some of them complex.

    Which ones goes by the spaces: `e^{2i t}` and `e^{2 i t}` would differ.
    """
    return [_named_alike(one) if isinstance(one, sympy.Basic) else one for one in found]


def _named_alike(expression: Any) -> Any:
    names = {
        symbol: sympy.Symbol(symbol.name, real=True)
        for symbol in getattr(expression, "free_symbols", ())
        if symbol.is_real is False
    }
    return expression.xreplace(names) if names else expression


def same_series(gold: list[Any], target: list[Any]) -> bool | None:
    """Return whether two series of one index and range have the same terms; None of all else.

    sympy tries to sum both up before it says that they differ, for many seconds.
    """
    if not gold or not target:
        return None
    wanted, given = gold[0], target[0]
    if not isinstance(wanted, sympy.Sum) or not isinstance(given, sympy.Sum) or wanted.limits != given.limits:
        return None
    if not any(bound.has(sympy.oo) for limit in wanted.limits for bound in limit[1:]):
        return None
    return bool(sympy.simplify(wanted.function - given.function) == 0)


def stands(wanted: Any, given: Any, *, is_percentage: bool) -> bool:
    """Return whether math_verify's "equal" holds between two values: nothing lost by rounding, no mere text.

    A percentage, too, stands for a number of percents or for the share that it is, to the digit: 50 or 0.5 for 50%.
    """
    if isinstance(wanted, str) or isinstance(given, str):
        return False  # the same spelling has been seen before
    if wanted == given or not is_number(wanted) or not is_number(given):
        return True
    wanted, given = value_of(wanted), value_of(given)
    wanted, factors = (wanted * 100, (100, 1)) if is_percentage else (wanted, (1,))
    return any(_is_same_value(given * factor, wanted) for factor in factors)


def _is_same_value(given: Any, wanted: Any) -> bool:
    """Return whether two numbers are equal: exact ones are, an integer is to the digit, a decimal as far as it goes."""
    if _is_exact(wanted) and _is_exact(given):
        return near(given, wanted, _EXACT) and _is_zero(given - wanted)
    return near(given, wanted, _EXACT if _is_whole(wanted) else _ROUNDED)


def are_same_numbers(gold: list[Any], target: list[Any]) -> bool:
    """Compare two exact numbers that math_verify holds for unequal: `(1 + i)^2` is 2i, and the real root counts."""
    if not gold or not target or isinstance(gold[0], str) or isinstance(target[0], str):
        return False
    if getattr(gold[0], "is_Rational", False) and getattr(target[0], "is_Rational", False):
        return bool(gold[0] == target[0])
    if not (_may_be_number(gold[0]) and _may_be_number(target[0])):
        return False
    wanted, given = (_with_real_roots(value_of(_with_imaginary_unit(one[0]))) for one in (gold, target))
    if wanted == gold[0] and given == target[0]:
        return False  # math_verify has compared them as they are
    if not is_number(wanted) or not is_number(given):
        return False
    return (
        _is_exact(wanted)
        and _is_exact(given)
        and wanted.is_finite is not False
        and _is_same_value(given, wanted)
    )


def _may_be_number(expression: Any) -> bool:
    """Return whether an expression has no variable but `i`: most have, and need no closer look."""
    symbols: set[Any] = getattr(expression, "free_symbols", set())
    return all(str(symbol) == "i" for symbol in symbols)


def agree(wanted: Any, given: Any) -> bool:
    """Return whether two expressions of the same names agree at all points at which both have a real value."""
    symbols = sorted(wanted.free_symbols | given.free_symbols, key=str)
    if not symbols or len(symbols) > len(_POINTS[0]) or wanted.free_symbols != given.free_symbols:
        return False
    if wanted.has(sympy.Abs) != given.has(sympy.Abs) or wanted.has(sympy.Max) or given.has(sympy.Max):
        return False  # which says more than where both have a value
    compared = 0
    for point in _POINTS:
        values = dict(zip(symbols, point, strict=False))
        if not all(_is_defined(one, values) for one in (wanted, given)):
            continue
        ours, theirs = (_with_real_roots(one.subs(values)).evalf(DIGITS) for one in (wanted, given))
        if not (ours.is_real and theirs.is_real and ours.is_finite and theirs.is_finite):
            continue
        if not near(theirs, ours, _EXACT):
            return False
        compared += 1
    return compared >= _FEWEST_POINTS


def _is_defined(expression: Any, values: dict[Any, Any]) -> bool:
    """Return whether all even roots in an expression are of no negative number, and all logarithms of positive ones."""
    for part in sympy.preorder_traversal(expression):
        is_root = part.is_Pow and part.exp.is_Rational and part.exp.q % 2 == 0
        if is_root and part.base.subs(values).evalf(DIGITS).is_negative:
            return False
        if isinstance(part, sympy.log) and not part.args[0].subs(values).evalf(DIGITS).is_positive:
            return False
    return True


def _is_exact(number: Any) -> bool:
    return not number.has(sympy.Float)


def _with_imaginary_unit(expression: Any) -> Any:
    """Return an expression whose only symbol is `i` as a number: math_verify takes `i` for a variable."""
    symbols: set[Any] = getattr(expression, "free_symbols", set())
    return (
        expression.xreplace(dict.fromkeys(symbols, sympy.I))
        if {str(one) for one in symbols} == {"i"}
        else expression
    )


def _with_real_roots(number: Any) -> Any:
    """Return a number whose odd roots of negative numbers are the real ones."""

    def is_odd_root(part: Any) -> bool:
        return bool(
            part.is_Pow
            and part.exp.is_Rational
            and part.exp.q % 2
            and part.exp.q > 1
            and part.base.is_negative
        )

    return number.replace(is_odd_root, lambda part: (-1) ** part.exp.p * (-part.base) ** part.exp)


def _is_zero(difference: Any) -> bool:
    """Return whether an exact number, known to be small, is 0: `1 + 10^{-60}` is not 1. What can't be told is."""
    if difference.is_infinite or difference is sympy.nan:
        return True  # of two infinities, which `near` has compared
    if difference == 0:
        return True
    return sympy.sqrtdenest(difference.doit()).equals(0) is not False


def is_number(expression: Any) -> bool:
    """Return whether an expression is a number, a complex one too: it has no names."""
    return (
        isinstance(expression, sympy.Expr)
        and not isinstance(expression, sympy.MatrixExpr)
        and bool(expression.is_number)
    )


def value_of(number: Any) -> Any:
    """Return the number with its percentages (`50*(1/100)`) computed, which sympy leaves as they are."""
    return number.replace(sympy.UnevaluatedExpr, lambda value: value)


def _is_whole(number: Any) -> bool:
    return bool(number.is_Integer or (number.is_Float and (number - number.round()).is_zero))


def near(given: Any, wanted: Any, tolerance: float) -> bool:
    """Return whether two numbers, complex ones too, differ by at most a share of the second; infinities by nothing."""
    if given == wanted:
        return True
    return bool(
        not given.is_infinite
        and not wanted.is_infinite
        and abs((given - wanted).evalf(DIGITS)) <= tolerance * abs(wanted.evalf(DIGITS))
    )


def with_terms(expression: Any) -> Any:
    """Return an expression whose terms `a_k` depend on a sum's index: sympy takes them for constants."""
    if expression is None:
        return None

    def with_terms(part: Any) -> Any:
        terms = {}
        for symbol in part.function.free_symbols - set(part.variables):
            below = symbol.name.partition("_")[2]
            if named := [index for index in part.variables if index.name in below]:
                terms[symbol] = sympy.Function(symbol.name)(*named)
        return part.func(part.function.xreplace(terms), *part.limits)

    return expression.replace(lambda part: isinstance(part, sympy.Sum | sympy.Product), with_terms)
