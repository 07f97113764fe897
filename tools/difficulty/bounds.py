"""Parse bounds on pass rates, such as `strong>0,weak<0.9`.

In: the arguments of `--keep`, and the names of the models. Out: which rows are kept. Nothing is evaluated: a bound is a
name, a comparison and a number. Pure; used by `millrace difficulty`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tools.arguments import UsageError

COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_BOUND = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(>=|<=|>|<)\s*([0-9.eE+-]+)\s*")


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound on one model's rate."""

    model: str
    comparison: str  # key of COMPARISONS
    limit: float  # in [0, 1]

    def allows(self, rate: float | None) -> bool:
        """Return whether a row with this rate is within the bound; False without a rate."""
        return rate is not None and COMPARISONS[self.comparison](rate, self.limit)

    def __str__(self) -> str:
        return f"{self.model}{self.comparison}{self.limit:g}"


def parse_bounds(words: Iterable[str], models: Sequence[str]) -> list[Bound]:
    """Parse bounds, several per argument separated by commas.

    Raises:
        UsageError: an argument is no bound, or names a model that is not measured.
    """
    bounds = []
    for text in (part for word in words for part in word.split(",")):
        found = _BOUND.fullmatch(text)
        limit = _number(found[3]) if found else None
        if found is None or limit is None:
            raise UsageError(
                f"--keep {text!r} is no bound: write NAME>0 or NAME<=0.9, with a rate from 0 to 1"
            )
        if found[1] not in models:
            raise UsageError(
                f"--keep {text!r}: no model {found[1]!r} is measured; there {'is' if len(models) == 1 else 'are'} "
                f"{', '.join(models)}"
            )
        bounds.append(Bound(found[1], found[2], limit))
    return bounds


def are_kept(rates: Mapping[str, float | None], bounds: Sequence[Bound]) -> bool:
    """Return whether a row's rates, by model, are within every bound."""
    return all(bound.allows(rates[bound.model]) for bound in bounds)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None
