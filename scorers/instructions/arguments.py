"""What a row says about one of its instructions, read into the types that its check needs.

In: an instruction's `kwargs`. Out: numbers, texts and relations, or `BadMessage` naming the instruction and what it
lacks. Where an argument is missing, the scorers that these rows come from draw one at random; here such a row is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.errors import BadMessage
from scorers.text.invisible import seen
from tasks.values import listed, shown

Check = Callable[[str], str | None]  # of a response: what is wrong with it, for people; None where it holds
AT_LEAST: Final = "at least"
LESS_THAN: Final = "less than"


@dataclass(frozen=True, slots=True)
class Amount:
    """How many of something are wanted."""

    count: int
    relation: str  # AT_LEAST or LESS_THAN

    def fault(self, found: int, what: str) -> str | None:
        """Return None where `found` fits, else a fault that names both numbers."""
        fits = found >= self.count if self.relation == AT_LEAST else found < self.count
        return None if fits else f"{found} {what}, not {self.relation} {self.count}"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one instruction."""

    instruction: str
    values: Mapping[str, Any]  # without those that are null

    def count(self, name: str, *, least: int = 0) -> int:
        """Return a whole number; parquet makes floats of a column with gaps."""
        value = self._value(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or value % 1 != 0 or value < least:  # nan and infinity are no whole numbers
            raise self.wrong(name, f"a whole number of at least {least}")
        return int(value)

    def text(self, name: str) -> str:
        """Return a text that is not empty, as it is seen, stripped; a list of one stands for its text."""
        return seen(self.whole_text(name)).strip()

    def whole_text(self, name: str) -> str:
        """Return a text that is not empty, with the space around it."""
        value = self._value(name)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not isinstance(value, str) or not seen(value).strip():
            raise self.wrong(name, "a text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts that are not empty."""
        value = self._value(name)
        if (
            not isinstance(value, list)
            or not value
            or not all(isinstance(text, str) and seen(text).strip() for text in value)
        ):
            raise self.wrong(name, "a list of texts")
        return tuple(seen(text).strip() for text in value)

    def amount(self, count: str, relation: str) -> Amount:
        """Return a number with its relation."""
        value = self._value(relation)
        if value not in (AT_LEAST, LESS_THAN):
            raise self.wrong(relation, f"{AT_LEAST!r} or {LESS_THAN!r}")
        return Amount(self.count(count), value)

    def _value(self, name: str) -> Any:
        if name not in self.values:
            raise BadMessage(
                f"instruction {self.instruction} needs {name} in its kwargs, which have "
                f"{listed(self.values) or 'nothing'}"
            )
        return self.values[name]

    def wrong(self, name: str, wanted: str) -> BadMessage:
        """Return what to raise where the argument `name` is not what is `wanted`."""
        return BadMessage(
            f"instruction {self.instruction} needs {wanted} for {name}, got {shown(self.values[name])}"
        )
