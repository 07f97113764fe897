"""Generate ordering puzzles: objects in a line, and hints about their places.

In: a random number generator. Out: a record with the names, the hints in words, and the one order that satisfies them.
Each puzzle is verified by trying every order of its names (at most 5,040): exactly one satisfies all hints, and without
any one of them several do. Used by `tools.prepare.domains.logic`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

LEAST: Final = 3  # objects
MOST: Final = 7
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "birds": ("owl", "crow", "wren", "heron", "finch", "robin", "stork", "gull", "eagle", "lark", "swift"),
    "mammals": (
        "otter",
        "badger",
        "lynx",
        "moose",
        "hare",
        "wolf",
        "bison",
        "camel",
        "seal",
        "tapir",
        "mole",
    ),
    "fruits": (
        "pear",
        "plum",
        "fig",
        "mango",
        "lemon",
        "cherry",
        "melon",
        "grape",
        "papaya",
        "lime",
        "guava",
    ),
    "vehicles": (
        "tram",
        "bus",
        "ferry",
        "truck",
        "scooter",
        "taxi",
        "sled",
        "canoe",
        "glider",
        "van",
        "jeep",
    ),
    "instruments": (
        "harp",
        "flute",
        "cello",
        "drum",
        "oboe",
        "lute",
        "piano",
        "horn",
        "banjo",
        "organ",
        "gong",
    ),
    "gemstones": (
        "ruby",
        "opal",
        "jade",
        "topaz",
        "onyx",
        "amber",
        "pearl",
        "garnet",
        "beryl",
        "zircon",
        "agate",
    ),
    "people": ("Ada", "Bo", "Chen", "Dina", "Emeka", "Farid", "Greta", "Hana", "Ivo", "Jun", "Kira", "Luca"),
}
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
_COUNTS: Final = ("no", "one", "two", "three", "four", "five")


@dataclass(frozen=True, slots=True)
class Hint:
    """One true sentence about the order."""

    kind: str  # a key of `_HOLDS`
    names: tuple[str, ...]
    number: int = 0  # a place from 0, or the number of objects between

    def holds(self, place: Mapping[str, int], count: int) -> bool:
        """Return whether it is true with each name at its place, from 0, among `count`."""
        places = [place[name] for name in self.names]
        match self.kind:
            case "left":
                return places[0] < places[1]
            case "next":
                return places[0] + 1 == places[1]
            case "between":
                return abs(places[0] - places[1]) - 1 == self.number
            case "from_left":
                return places[0] == self.number
            case _:
                return count - 1 - places[0] == self.number

    def text(self) -> str:
        """Put the hint in words."""
        first, *others = self.names
        match self.kind:
            case "left":
                return f"{first} is somewhere to the left of {others[0]}."
            case "next":
                return f"{others[0]} stands directly to the right of {first}."
            case "between":
                verb, noun = ("is", "object") if self.number == 1 else ("are", "objects")
                return f"There {verb} {_COUNTS[self.number]} {noun} between {first} and {others[0]}."
            case "from_left":
                return f"{first} is the {_ORDINALS[self.number]} from the left."
            case _:
                return f"{first} is the {_ORDINALS[self.number]} from the right."


def make(_: int, draw: random.Random) -> Mapping[str, Any]:
    """Return one puzzle: `kind`, `names` in alphabetical order, `hints`, and the `order`."""
    kind = draw.choice(sorted(KINDS))
    order = draw.sample(KINDS[kind], draw.randint(LEAST, MOST))
    hints = _minimal(_enough(_pool(order, draw), order), order, draw)
    draw.shuffle(hints)
    return {"kind": kind, "names": sorted(order), "hints": [hint.text() for hint in hints], "order": order}


def orders(names: Sequence[str], hints: Sequence[Hint]) -> list[tuple[str, ...]]:
    """Return every order of the names in which all hints hold."""
    found = []
    for order in itertools.permutations(sorted(names)):
        place = {name: number for number, name in enumerate(order)}
        if all(hint.holds(place, len(order)) for hint in hints):
            found.append(order)
    return found


def _pool(order: Sequence[str], draw: random.Random) -> list[Hint]:
    """Return true hints in random order, with those that name a place last."""
    relative = []
    for left, right in itertools.combinations(range(len(order)), 2):
        names = (order[left], order[right])
        relative.append(Hint("left", names))
        if right == left + 1:
            relative.append(Hint("next", names))
        else:
            relative.append(Hint("between", tuple(draw.sample(names, 2)), right - left - 1))
    draw.shuffle(relative)
    absolute = [Hint("from_left", (name,), place) for place, name in enumerate(order)]
    absolute += [Hint("from_right", (name,), len(order) - 1 - place) for place, name in enumerate(order)]
    draw.shuffle(absolute)
    return [absolute[0], *relative, *absolute[1:]] if draw.random() < 0.5 else [*relative, *absolute]


def _enough(pool: Sequence[Hint], order: Sequence[str]) -> list[Hint]:
    """Return those of the first hints leaving one order that excluded an order when they came."""
    left = orders(order, ())
    chosen = []
    for hint in pool:
        still = [
            one for one in left if hint.holds({name: number for number, name in enumerate(one)}, len(one))
        ]
        if len(still) < len(left):
            chosen.append(hint)
            left = still
        if len(left) == 1:
            break
    return chosen


def _minimal(hints: list[Hint], order: Sequence[str], draw: random.Random) -> list[Hint]:
    """Remove redundant hints, in random order."""
    kept = list(hints)
    for hint in draw.sample(hints, len(hints)):
        others = [one for one in kept if one != hint]
        if len(orders(order, others)) == 1:
            kept = others
    return kept
