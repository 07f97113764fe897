"""Generate zebra puzzles: several kinds of values, and which has which position.

In: a random number generator, and the number of the puzzle, which selects one of 61 sizes and levels. Out: a record
with the values, the clues in words, and the solved table. Clues are added until narrowing alone (`clues.narrowed`)
determines every value, so a puzzle has one solution, which can be found without guessing. The search of
`clues.solutions` must find exactly that one. Used by `tools.prepare.domains.logic`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.prepare.puzzles.clues import KINDS, Clue, narrowed, solutions

VALUES: Final[Mapping[str, str]] = {  # fifteen of each
    "Animal": "ant bat cat dog eel fox goat hen ibis jay koala lion mouse newt owl",
    "Color": "amber beige coral denim ebony fawn gold hazel ivory jade khaki lilac mauve navy olive",
    "Drink": "ale broth cider cocoa coffee juice lassi latte mead milk punch soda tea water wine",
    "Food": "bread corn curry dal eggs fish gnocchi ham jam kebab lentils nuts pasta rice soup",
    "Hobby": "acting baking chess diving fencing golf hiking judo knitting origami poker reading sewing tennis yoga",
    "Instrument": "banjo cello drum flute gong guitar harp horn lute oboe organ piano trumpet tuba violin",
    "Job": "actor baker chef dentist editor farmer guard judge lawyer miner nurse pilot tailor vet writer",
    "Nationality": "Belgian Chilean Dane Finn Greek Indian Kenyan Malian Nepali Omani Pole Qatari Swede Thai Turk",
    "Plant": "aloe basil clover daisy fern iris ivy lily mint moss orchid rose sage thyme tulip",
    "Vehicle": "barge bike bus canoe coach ferry jeep kayak lorry moped sled taxi train tram van",
}
# Kinds, positions, level and whether redundant clues are removed: those of Reasoning360's 61 configurations.
_OF_KINDS: Final[Mapping[int, str]] = {
    2: "2/5- 4/12- 5/3 6/15- 8/7 10/18- 12/10 15/20-",
    3: "2/14 3/6- 5/19 7/11- 9/4 12/16- 15/9",
    4: "2/17- 4/1 6/13- 8/20 10/5- 13/15",
    5: "3/8- 5/18 7/3- 9/12 11/7- 14/19",
    6: "2/10 4/6- 6/16 8/2- 10/14 12/9- 15/4",
    7: "3/11- 5/5 7/17- 9/8 11/20- 13/3",
    8: "2/15- 4/7 6/19- 8/10 10/1- 12/13 14/6-",
    9: "3/18 5/4- 7/16 9/9- 11/2 13/14-",
    10: "2/8 4/20- 6/5 8/17- 10/10 12/3- 14/18 15/20-",
}
LEVELS: Final = 20
_ABOUT: Final[Mapping[str, int]] = {  # values of a clue
    **dict.fromkeys(KINDS, 2),
    **dict.fromkeys(("at", "parity", "at_one_of"), 1),
    **dict.fromkeys(("between", "with_one_of"), 3),
}
_TRIED: Final = 60  # clues whose removal from a puzzle is tried


@dataclass(frozen=True, slots=True)
class Size:
    """One configuration."""

    kinds: int
    positions: int
    level: int  # 1 to 20: the number of kinds of clues, and how rare the plain ones are
    minimal: bool  # whether redundant clues are removed


def _sizes() -> tuple[Size, ...]:
    found = []
    for kinds, text in _OF_KINDS.items():
        for one in text.split():
            positions, _, level = one.rstrip("-").partition("/")
            found.append(Size(kinds, int(positions), int(level), one.endswith("-")))
    return tuple(found)


SIZES: Final = _sizes()


def make(number: int, draw: random.Random) -> Mapping[str, Any]:
    """Return the puzzle of a number: `values` by kind, `clues`, `table`, `size`."""
    return puzzle(SIZES[number % len(SIZES)], draw)


def puzzle(size: Size, draw: random.Random) -> Mapping[str, Any]:
    """Return one puzzle of that size."""
    kinds = sorted(draw.sample(sorted(VALUES), size.kinds))
    values = {kind: sorted(draw.sample(VALUES[kind].split(), size.positions)) for kind in kinds}
    places = [place for _ in kinds for place in draw.sample(range(size.positions), size.positions)]
    clues = _enough(size, places, draw)
    if size.minimal:
        clues = _without_needless(size, clues, draw)
    found = solutions(size.kinds, size.positions, clues)
    assert found == [places], "clues that decide every value have one solution"  # noqa: S101
    names = [f"{kind} {value}" for kind, own in values.items() for value in own]
    draw.shuffle(clues)
    value_at = {  # by kind and position
        kind: dict(zip(places[start : start + size.positions], values[kind], strict=True))
        for kind, start in zip(kinds, range(0, len(places), size.positions), strict=True)
    }
    table = [[str(place + 1), *(value_at[kind][place] for kind in kinds)] for place in range(size.positions)]
    return {
        "values": values,
        "clues": [clue.text(names) for clue in clues],
        "table": {"header": ["Position", *kinds], "rows": table},
        "size": {"kinds": size.kinds, "positions": size.positions, "level": size.level},
    }


def _enough(size: Size, places: list[int], draw: random.Random) -> list[Clue]:
    """Return clues that determine every value, each of which added information when it came."""
    count = size.positions
    sets: list[int] = [(1 << count) - 1] * len(places)
    chosen: list[Clue] = []
    for _ in range(40 * len(places)):
        if all(positions.bit_count() == 1 for positions in sets):
            return chosen
        clue = _true_clue(_kind(size, draw), places, count, draw)
        if clue is None or clue in chosen:
            continue
        new = narrowed(sets, [*chosen, clue], count)
        assert new is not None, clue  # noqa: S101 - a true clue leaves the solution
        if new != sets:
            sets = new
            chosen.append(clue)
    for value, place in enumerate(places):  # values that chance did not determine
        if sets[value].bit_count() > 1:
            chosen.append(Clue("at", (value,), (place,)))
            sets = narrowed(sets, chosen, count) or sets
    return chosen


def _kind(size: Size, draw: random.Random) -> str:
    """Return a random kind of clue: a higher level has more of them, and fewer of the plain ones."""
    known = 2 + (len(KINDS) - 2) * (size.level - 1) // (LEVELS - 1)
    least = min(draw.randrange(known), draw.randrange(known))
    return KINDS[draw.randrange(known) if size.level > LEVELS // 2 else least]


def _true_clue(kind: str, places: list[int], count: int, draw: random.Random) -> Clue | None:
    """Return a true clue of that kind; None where the drawn values have none."""
    values = tuple(draw.sample(range(len(places)), _ABOUT[kind]))
    if kind == "same":  # rare among freely drawn values
        others = [value for value, place in enumerate(places) if place == places[values[0]]]
        values = (values[0], draw.choice([value for value in others if value != values[0]]))
    at = [places[value] for value in values]
    kinds = [value // count for value in values]
    match kind:
        case "at":
            return Clue(kind, values, (at[0],))
        case "parity":
            return Clue(kind, values, (at[0] % 2,)) if count > 2 else None
        case "at_one_of":
            other = draw.choice([place for place in range(count) if place != at[0]])
            return Clue(kind, values, tuple(sorted((at[0], other)))) if count > 2 else None
    return Clue(kind, values) if _is_true(kind, at, kinds) else None


def _is_true(kind: str, at: list[int], kinds: list[int]) -> bool:
    """Return whether a clue about values at these positions, of these kinds, is true and not trivial."""
    first, *others = at
    apart = abs(first - others[0])
    known = {
        "same": apart == 0,
        "next": first + 1 == others[0],
        "adjacent": apart == 1,
        "not_adjacent": apart > 1,
        "left": first < others[0],
        "not_same": apart > 0 and kinds[0] != kinds[1],
        "gap": apart == 2,
        "between": min(others) < first < max(others),
        "with_one_of": first in others and len(set(others)) > 1 and kinds[0] not in kinds[1:],
    }
    return known[kind]


def _without_needless(size: Size, clues: list[Clue], draw: random.Random) -> list[Clue]:
    """Remove some redundant clues."""
    kept = list(clues)
    start = [(1 << size.positions) - 1] * (size.kinds * size.positions)
    for clue in draw.sample(clues, min(len(clues), _TRIED)):
        others = [one for one in kept if one != clue]
        left = narrowed(start, others, size.positions)
        if left is not None and all(positions.bit_count() == 1 for positions in left):
            kept = others
    return kept
