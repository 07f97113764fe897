r"""Whether two mathematical texts are equal: the only home of math_verify, and what the scoring child runs.

In: a request of `scorers.math.scorer`, JSON, with texts that may hang or crash sympy. Out: a reply, JSON. math_verify's
own timeouts are off: they use SIGALRM, which belongs to RQ, and turn a hang into a plain "not equal". Nothing here
evaluates a text: math_verify reads LaTeX by a grammar, and its plain-expression reader is given digits and operators.

math_verify decides, and its "equal" is then looked at again, since it compares decimals after rounding to six places:
10^{-20} would equal 10^{-21}, and 0.0000001 would equal 0.0000002. Decimals stand for a value that they round to
(0.333333 for 1/3, but not 0.33), an integer equals nothing but itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final, TypeVar

import sympy
import sympy.core.random
from math_verify import LatexExtractionConfig, parse, verify

from scorers.child.process import Reply, Request
from scorers.math.forms import FormComparer, core
from scorers.math.notation import plain
from scorers.math.real_sets import RealSets
from scorers.math.statements import is_value
from scorers.math.symbols import differentiates_other, with_distinct_names
from scorers.math.text import (
    difference,
    elements,
    has_percent,
    last_expression,
    last_number,
    normalised,
    plain_number,
    without_base,
)
from scorers.math.units import counted_things, with_last_letters
from scorers.math.values import (
    DIGITS,
    agree,
    are_same_numbers,
    is_number,
    near,
    over_reals,
    same_series,
    stands,
    value_of,
    with_terms,
)
from scorers.math.words import same_words

# Inside a box: the content as LaTeX, whole or not at all, so that no number is scraped out of prose.
_BOXED: Final = (LatexExtractionConfig(boxed_match_priority=0, try_extract_without_anchor=False),)
# In a text without a box: LaTeX, or else the last number. math_verify's own way to a bare number ends in parse_expr.
_FREE: Final = (LatexExtractionConfig(boxed_match_priority=0),)
_PRIME: Final = 1e-4  # the relative tolerance of prime's graders, in the compatible mode
_BOUND_CHARS: Final = 200  # of a bound of an interval

_T = TypeVar("_T")
_INFINITE: Final = re.compile(r"\s*[-+]?\s*\\infty\s*")
_INDEXED_TERM: Final = re.compile(
    r"\\(?:sum|prod|lim)(?![A-Za-z])\s*_\s*\{\s*([a-z])(?![A-Za-z]).*[A-Za-z]\s*_\s*\{?\s*\1(?![A-Za-z])",
    re.DOTALL,
)
_INDEXED_E: Final = re.compile(r"(?<![A-Za-z\\])E(?=\s*_)")  # whose index math_verify does not read
_ROOTED: Final = re.compile(r"\\(?:sqrt|ln|log|exp)(?![A-Za-z])|\^\{?\\frac|\^\{[^{}]*/")

logging.getLogger("math_verify").setLevel(
    logging.ERROR
)  # it warns that its timeouts are off; they are, on purpose

# One of each construction that answers are made of. The parser decides by tables that it fills as it reads; a child
# inherits those of its parent, and would else spend milliseconds on every first fraction and every first root.
_WARMING: Final = (
    "\\frac{-1}{2} + 3x^{2} - \\sqrt{5}y",
    "\\left( 3, \\frac{\\pi}{2} \\right)",
    "(-\\infty, 2] \\cup [3, 4)",
    "\\{1, 2\\}",
    "x \\le 3",
    "x = \\frac{1 \\pm \\sqrt{5}}{2}",
    "2\\sin^2 x \\cos{y} \\cdot \\log_2 8 e^{-x}",
    "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}",
    "\\text{Evelyn}",
    "3.5 \\times 10^{-2}",
    "6 - 5i",
    "90^\\circ",
    "\\binom{5}{2} + 4!",
    "1,234",
    "x^3 + (3x - 7)(y + 1)",
    "f(x) = |x|",
    "50\\%",
    "\\sqrt[3]{x}",
    "\\$5.50",
    "2516_8",
)


@cache
def warm_up() -> None:
    """Parse and compare texts of ours, so that the children of this process start with a warm parser.

    It takes a second or two, once; a process that compares nothing does not spend them.
    """
    for text in _WARMING:
        judge({"reference": text, "answer": None})


def judge(request: Request) -> Reply:
    """Compare an answer with a reference. Runs in the child, since it may hang or die.

    Args:
        request: `reference`, text; `answer`, text, or None to examine the reference alone; `boxed`, whether the answer
            is the content of a box or a text to find something in; `rule`, "math" (the default) or "prime";
            `compatible`, whether the mistakes of the systems that the rule comes from are wanted.
    Returns: `equal`, whether the answer, or the reference itself, equals the reference; of a reference alone also
        `parsed`, whether it is mathematics.
    """
    sympy.core.random.seed(0)  # sympy tries random points: the same text must get the same verdict everywhere
    reference, answer, is_compatible = (
        request["reference"],
        request["answer"],
        request.get("compatible", False),
    )
    if answer is None:
        return _examination(reference, is_compatible=is_compatible)
    if request.get("rule") == "prime":
        return {"equal": _prime(reference, answer, _prime_part_compatibly if is_compatible else _prime_part)}
    if is_compatible:  # II-Thought's verifier hands them over in the wrong order
        target = _expressions(answer, is_boxed=request["boxed"])
        return {"equal": bool(verify(gold=target, target=_gold(reference), timeout_seconds=None))}
    return {"equal": _FORMS.same(reference, answer if request["boxed"] else plain(last_expression(answer)))}


def _examination(reference: str, *, is_compatible: bool) -> Reply:
    if not is_compatible and _FORMS.reads(reference):
        return {"equal": True, "parsed": True}
    text = reference if is_compatible else with_last_letters(core(reference), "")[0]
    is_parsed = _parses(text)
    gold = _gold(text)
    return {"equal": bool(verify(gold=gold, target=gold, timeout_seconds=None)), "parsed": is_parsed}


def _expressions(text: str, *, is_boxed: bool) -> list[Any]:
    """Return what math_verify makes of it: a sympy expression where it is mathematics, and the normalised text."""
    text = _INDEXED_E.sub(r"\\grave{e}", text)
    if is_boxed:
        return over_reals(parse(f"\\boxed{{{text}}}", extraction_config=_BOXED, parsing_timeout=None))
    found = over_reals(parse(text, extraction_config=_FREE, parsing_timeout=None))
    return found or _expressions(last_number(text), is_boxed=True)


@lru_cache(maxsize=8)
def _gold(reference: str) -> list[Any]:
    """Return a reference's expressions, parsed once for all answers of its group. Nobody changes them."""
    return _expressions(reference, is_boxed=True)


@lru_cache(maxsize=64)
def _real_number(text: str) -> Any:
    """Return a real number or an infinity in sympy's exact form; None of any other text."""
    if not text or len(text) > _BOUND_CHARS or not is_value(text) or counted_things(text):
        return None
    found = _expressions(with_last_letters(text, text)[0], is_boxed=True)
    if not found or isinstance(found[0], str) or not is_number(found[0]) or not found[0].is_extended_real:
        return None
    value = value_of(found[0]).replace(lambda part: part.is_Float, lambda part: sympy.Rational(str(part)))
    return value if value.is_infinite else sympy.expand(sympy.radsimp(value.doit()))


def _equal(reference: str, target: list[Any]) -> bool:
    gold = _gold(reference)
    if (is_same := _held(lambda: same_series(gold, target), None)) is not None:
        return is_same
    if verify(gold=gold, target=target, timeout_seconds=None):
        return _holds(lambda: stands(gold[0], target[0], is_percentage=has_percent(reference)))
    return _holds(lambda: are_same_numbers(gold, target))


def _holds(check: Callable[[], bool]) -> bool:
    """Return what a look at an expression of a model's says. One that sympy can't look at is nobody's answer."""
    return _held(check, False)


def _held(check: Callable[[], _T], otherwise: _T) -> _T:
    try:
        return check()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - sympy raises what it likes at odd expressions, a RecursionError at deep ones
        return otherwise


def _same_where_real(reference: str, answer: str) -> bool:
    r"""Compare two expressions with roots or logarithms where both are real: `\ln xy` is `\ln x + \ln y` there.

    They agree to so many digits at all points at which both have a value, of both signs, so that `\sqrt{x^2}` is no x.
    """
    if not _ROOTED.search(reference + answer):
        return False
    wanted, given = _single(reference), _single(answer)
    return wanted is not None and given is not None and _holds(lambda: agree(wanted, given))


@lru_cache(maxsize=256)
def _equal_boxes(reference: str, answer: str) -> bool:
    """Compare two single values, once: several forms ask about the same pair."""
    if _INFINITE.fullmatch(reference) and not _INFINITE.fullmatch(answer):
        return False  # sympy adds anything to it
    if _INDEXED_TERM.search(reference) or _INDEXED_TERM.search(answer):
        return False  # sympy takes a term `a_k` for a constant
    if differentiates_other(reference) or differentiates_other(answer):
        return False
    reference, answer = with_distinct_names(*with_last_letters(reference, answer))
    return _equal(reference, _expressions(answer, is_boxed=True)) or _same_where_real(reference, answer)


def _parses(text: str) -> bool:
    """Return whether a text is mathematics, once it has been evaluated: one that hangs then is found out here.

    An honest answer would be blamed for it else. Equal to itself is seen by the text, so it is compared with a number.
    """
    gold = _gold(with_last_letters(text, "")[0])
    verify(gold=gold, target=_gold("1"), timeout_seconds=None)
    return any(not isinstance(expression, str) for expression in gold)


def _single(text: str) -> Any:
    """Return the expression that a text is; None where it can't be read."""
    found = _expressions(with_last_letters(text, text)[0], is_boxed=True)
    return found[0] if found and isinstance(found[0], sympy.Expr) else None


def _proportional(wanted: tuple[str, ...], given: tuple[str, ...]) -> int:
    """Return the sign of the factor between the differences of two pairs of sides; 0 where there is none."""
    texts = with_distinct_names(" ; ".join(wanted), " ; ".join(given))
    sides = [with_terms(_single(side)) for text in texts for side in text.split(" ; ")]
    if len(sides) != 4 or None in sides or any(map(differentiates_other, texts)):
        return 0

    def sign() -> int:
        ours, theirs = sides[0] - sides[1], sides[2] - sides[3]
        if not ours.free_symbols or sympy.simplify(ours) == 0:
            return 0  # what always holds, or never
        ratio = sympy.simplify(theirs / ours)
        if not is_number(ratio) or not ratio.is_real or ratio.is_zero is not False:
            return 0
        return 1 if ratio.is_positive else -1

    return _held(sign, 0)


_HALF: Final = sympy.Rational(1, 2)
_DECIMAL: Final = re.compile(r"-?[0-9]+(?:\.([0-9]+))?")


def _is_rounded(value: str, decimal: str) -> bool:
    """Return whether a decimal is what a value rounds to, or is cut to, in its last place."""
    found = _DECIMAL.fullmatch(decimal.replace(" ", ""))
    exact = _single(with_distinct_names(value, "")[0])
    if found is None or exact is None:
        return False

    def is_near() -> bool:
        number = value_of(exact)
        if not is_number(number) or not number.is_finite:
            return False
        step = sympy.Rational(1, 10 ** len(found[1])) if found[1] else _HALF
        return bool(abs((number - sympy.Rational(found[0])).evalf(DIGITS)) <= step)

    return _holds(is_near)


_SETS: Final = RealSets(_real_number)
_FORMS: Final = FormComparer(
    equal=_equal_boxes,
    parses=_parses,
    same_sets=_SETS.same,
    is_set=_SETS.is_set,
    proportional=_proportional,
    about=_is_rounded,
)


def _prime(reference: str, answer: str, is_same: Callable[[str, str], bool]) -> bool:
    """Compare as prime's grader does: of tuples the brackets, the number of parts and each part, in order."""
    wanted, given = elements(reference), elements(answer)
    return (wanted.opening, wanted.closing, len(wanted.parts)) == (
        given.opening,
        given.closing,
        len(given.parts),
    ) and all(map(is_same, wanted.parts, given.parts))


def _prime_part(reference: str, answer: str) -> bool:
    if not answer or difference(answer, reference, is_whole=False) is not None:
        return False
    wanted, given = plain_number(reference), plain_number(answer)
    if wanted is not None and given is not None and wanted == given:
        return True
    if (is_same := same_words(plain(answer), plain(reference))) is not None:
        return is_same
    return _FORMS.same(plain(reference), plain(answer))


def _prime_part_compatibly(reference: str, answer: str) -> bool:
    """Compare as prime's graders do: they let pass a hundredth, a hundredfold, 1e-4, a base, and 3.14 for pi."""
    reference, answer = without_base(normalised(reference)), without_base(normalised(answer))
    if not reference or not answer:
        return False
    gold, target = _gold(reference), _expressions(answer, is_boxed=True)
    if reference == answer or verify(gold=gold, target=target, timeout_seconds=None):
        return True
    return _holds(lambda: _is_about(target[0], gold[0]))


def _is_about(given: Any, wanted: Any) -> bool:
    if not is_number(wanted) or not is_number(given):
        return False
    return any(
        near(given.subs(sympy.pi, pi), wanted.subs(sympy.pi, pi) * factor, _PRIME)
        for pi in (sympy.pi, sympy.Float("3.14"))
        for factor in (1, sympy.Rational(1, 100), 100)
    )
