"""Define the clues of zebra puzzles, and solve sets of clues.

In: clues about values, each of which has one position. Out: for each value its remaining positions, as bits, or that
there are none. Each kind of clue narrows these sets, and is decided where they are single positions. So the search,
which tries the positions of the value with the fewest, finds exactly the solutions. Used by
`tools.prepare.puzzles.zebra`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_ORDINALS: Final = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth"),
)
# Ordered by how much they depend on other clues: a level has the first n.
_TEXTS: Final[Mapping[str, str]] = {
    "at": "{a} is in the {p} position.",
    "same": "{a} and {b} share a position.",
    "next": "{a} is directly to the left of {b}.",
    "adjacent": "{a} and {b} are in neighbouring positions.",
    "left": "{a} is somewhere to the left of {b}.",
    "not_same": "{a} and {b} do not share a position.",
    "gap": "Exactly one position lies between {a} and {b}.",
    "at_one_of": "{a} is in the {p} or in the {q} position.",
    "parity": "{a} is in an {parity} position.",
    "not_adjacent": "{a} and {b} are not in neighbouring positions.",
    "between": "{a} is somewhere between {b} and {c}.",
    "with_one_of": "{a} shares a position with {b} or with {c}.",
}
KINDS: Final = tuple(_TEXTS)


@dataclass(frozen=True, slots=True)
class Clue:
    """A statement about up to three values."""

    kind: str
    values: tuple[int, ...]
    positions: tuple[int, ...] = ()  # from 0; for `parity` one with the same parity as the value's

    def text(self, names: Sequence[str]) -> str:
        """Put the clue in words; `names` has each value with its kind, such as "Job chef"."""
        a, b, c = (*(names[value] for value in self.values), "", "")[:3]
        p, q = (*(_ORDINALS[position] for position in self.positions), "", "")[:2]
        parity = "even" if p and self.positions[0] % 2 else "odd"
        return _TEXTS[self.kind].format(a=a, b=b, c=c, p=p, q=q, parity=parity)

    def narrow(self, sets: list[int]) -> None:
        """Remove excluded positions from the sets of its values."""
        _NARROW[self.kind](sets, self)


Narrow = Callable[[list[int], Clue], None]


def _at(sets: list[int], clue: Clue) -> None:
    sets[clue.values[0]] &= sum(1 << position for position in clue.positions)


def _parity(sets: list[int], clue: Clue) -> None:
    sets[clue.values[0]] &= _EVEN << clue.positions[0] % 2


def _same(sets: list[int], clue: Clue) -> None:
    a, b = clue.values
    sets[a] = sets[b] = sets[a] & sets[b]


def _next(sets: list[int], clue: Clue) -> None:
    a, b = clue.values
    sets[b] &= sets[a] << 1
    sets[a] &= sets[b] >> 1


def _left(sets: list[int], clue: Clue) -> None:
    a, b = clue.values
    sets[b] &= ~_up_to_lowest(sets[a])
    sets[a] &= _below_highest(sets[b])


def _between(sets: list[int], clue: Clue) -> None:
    a, b, c = clue.values
    both = sets[b] | sets[c]
    sets[a] &= ~_up_to_lowest(both) & _below_highest(both)


def _with_one_of(sets: list[int], clue: Clue) -> None:
    a, b, c = clue.values
    sets[a] &= sets[b] | sets[c]
    if not sets[a] & sets[b]:
        sets[a] = sets[c] = sets[a] & sets[c]
    elif not sets[a] & sets[c]:
        sets[a] = sets[b] = sets[a] & sets[b]


def _apart(distance: int) -> Narrow:
    """Return the rule that two values are that far apart."""

    def narrow(sets: list[int], clue: Clue) -> None:
        a, b = clue.values
        sets[a] &= sets[b] << distance | sets[b] >> distance
        sets[b] &= sets[a] << distance | sets[a] >> distance

    return narrow


def _not_apart(distance: int) -> Narrow:
    """Return the rule that they are not; it is useful where the position of one is known."""

    def narrow(sets: list[int], clue: Clue) -> None:
        for one, other in (clue.values, clue.values[::-1]):
            if sets[one].bit_count() == 1:
                sets[other] &= ~(sets[one] << distance | sets[one] >> distance)

    return narrow


_EVEN: Final = 0b101010101010101  # positions 0, 2, ... 14
_NARROW: Final[Mapping[str, Narrow]] = {
    "at": _at,
    "same": _same,
    "next": _next,
    "adjacent": _apart(1),
    "left": _left,
    "not_same": _not_apart(0),
    "gap": _apart(2),
    "at_one_of": _at,
    "parity": _parity,
    "not_adjacent": _not_apart(1),
    "between": _between,
    "with_one_of": _with_one_of,
}


def _up_to_lowest(positions: int) -> int:
    """Return the lowest position of a set and all below it; none for an empty set."""
    return ((positions & -positions) << 1) - 1 if positions else 0


def _below_highest(positions: int) -> int:
    return (1 << (positions.bit_length() - 1)) - 1 if positions else 0


def narrowed(sets: Sequence[int], clues: Sequence[Clue], count: int) -> list[int] | None:
    """Return the sets narrowed by clues, with values of one kind apart; None where a value has no position.

    Args:
        sets: positions of each value, as bits; `count` values of each kind are consecutive.
        clues: all of them.
        count: number of positions, and of values of each kind.
    """
    found: list[int]
    before: list[int] | None
    found, before = list(sets), None
    while found != before:
        before = list(found)
        for clue in clues:
            clue.narrow(found)
        for start in range(0, len(found), count):
            _stand_apart(found, start, count)
        if not all(found):
            return None
    return found


def _stand_apart(sets: list[int], start: int, count: int) -> None:
    """Apply that the values of a kind have different positions, in both directions."""
    group = range(start, start + count)
    once = several = known = 0
    for value in group:
        if sets[value].bit_count() == 1:
            if known & sets[value]:
                sets[value] = 0
                return
            known |= sets[value]
    for value in group:
        if sets[value].bit_count() != 1:
            sets[value] &= ~known
        several |= once & sets[value]
        once |= sets[value]
    once &= ~several
    for value in group:
        if own := sets[value] & once:
            sets[value] = own if own.bit_count() == 1 else 0


def solutions(kinds: int, count: int, clues: Sequence[Clue], *, most: int = 2) -> list[list[int]]:
    """Return up to `most` solutions: the position of each value, from 0."""
    found: list[list[int]] = []
    waiting = [[(1 << count) - 1] * (kinds * count)]
    while waiting and len(found) < most:
        sets = narrowed(waiting.pop(), clues, count)
        if sets is None:
            continue
        open_values = [value for value, positions in enumerate(sets) if positions.bit_count() > 1]
        if not open_values:
            found.append([positions.bit_length() - 1 for positions in sets])
            continue
        value = min(open_values, key=lambda one: sets[one].bit_count())
        waiting.extend(
            [*sets[:value], 1 << position, *sets[value + 1 :]]
            for position in range(count)
            if sets[value] >> position & 1
        )
    return found
