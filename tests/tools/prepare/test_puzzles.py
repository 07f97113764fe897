"""Made puzzles have one solution, by a second solver that reads their words and tries every possibility."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from tools.prepare.puzzles import graph, ordering, zebra
from tools.prepare.puzzles.clues import KINDS, Clue, solutions

pytestmark = pytest.mark.process

ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth", "thirteenth"),
)
Place = Callable[[str], int]  # of a name, from 1


def a_draw(*words: object) -> random.Random:
    return random.Random(str(words))


# What a sentence of a zebra puzzle means, read from its words alone.
ZEBRA: list[tuple[str, Callable[..., bool]]] = [
    (r"(\w+ \w+) is in the (\w+) position", lambda at, a, n: at(a) == ORDINALS.index(n) + 1),
    (r"(\w+ \w+) is in the (\w+) or in the (\w+) position", lambda at, a, n, m: ORDINALS[at(a) - 1] in (n,
        m)),
    (r"(\w+ \w+) and (\w+ \w+) share a position", lambda at, a, b: at(a) == at(b)),
    (r"(\w+ \w+) and (\w+ \w+) do not share a position", lambda at, a, b: at(a) != at(b)),
    (r"(\w+ \w+) is directly to the left of (\w+ \w+)", lambda at, a, b: at(b) - at(a) == 1),
    (r"(\w+ \w+) is somewhere to the left of (\w+ \w+)", lambda at, a, b: at(a) < at(b)),
    (r"(\w+ \w+) and (\w+ \w+) are in neighbouring positions", lambda at, a, b: abs(at(a) - at(b)) == 1),
    (r"(\w+ \w+) and (\w+ \w+) are not in neighbouring positions", lambda at, a, b: abs(at(a) - at(b)) != 1),
    (r"Exactly one position lies between (\w+ \w+) and (\w+ \w+)", lambda at, a, b: abs(at(a) - at(b)) == 2),
    (r"(\w+ \w+) is in an (odd|even) position", lambda at, a, odd: (at(a) % 2 == 1) == (odd == "odd")),
    (r"(\w+ \w+) is somewhere between (\w+ \w+) and (\w+ \w+)", lambda at, a, b, c: min(at(b),
        at(c)) < at(a) < max(at(b), at(c))),
    (r"(\w+ \w+) shares a position with (\w+ \w+) or with (\w+ \w+)", lambda at, a, b, c: at(a) in (at(b),
        at(c))),
]  # fmt: skip
ORDERS: list[tuple[str, Callable[..., bool]]] = [
    (r"(\w+) is somewhere to the left of (\w+)", lambda at, a, b: at(a) < at(b)),
    (r"(\w+) stands directly to the right of (\w+)", lambda at, a, b: at(a) - at(b) == 1),
    (
        r"There (?:is|are) (\w+) objects? between (\w+) and (\w+)",
        lambda at, n, a, b: abs(at(a) - at(b)) - 1 == ["no", "one", "two", "three", "four", "five"].index(n),
    ),
    (r"(\w+) is the (\w+) from the left", lambda at, a, n: at(a) == ORDINALS.index(n) + 1),
    (r"(\w+) is the (\w+) from the right", lambda at, a, n: at("") - at(a) == ORDINALS.index(n)),
]


@cache
def meaning_of(sentence: str) -> tuple[Callable[..., bool], tuple[str, ...]]:
    """The one meaning that a sentence has, and the words that it is about."""
    found = [(re.fullmatch(pattern + r"\.", sentence), meaning) for pattern, meaning in (*ZEBRA, *ORDERS)]
    (said,) = [(meaning, match.groups()) for match, meaning in found if match]
    return said


def hold(sentences: Sequence[str], at: Place) -> bool:
    return all(meaning(at, *words) for meaning, words in map(meaning_of, sentences))


def tables(values: Mapping[str, Sequence[str]]) -> Iterator[dict[str, int]]:
    """Every way to give each value a position."""
    kinds = [[f"{kind} {value}" for value in own] for kind, own in values.items()]
    for orders in itertools.product(*(itertools.permutations(own) for own in kinds)):
        yield {name: place for order in orders for place, name in enumerate(order, start=1)}


SMALL = [
    zebra.Size(kinds, positions, level, minimal)
    for kinds, positions in ((2, 2), (2, 4), (3, 3), (3, 4), (4, 3))
    for level, minimal in ((1, True), (10, True), (20, True), (20, False))
]


@pytest.mark.parametrize("size", SMALL, ids=str)
def test_the_words_of_a_zebra_puzzle_fit_its_table_and_no_other(size: zebra.Size) -> None:
    for number in range(2):
        found = zebra.puzzle(size, a_draw(size, number))
        fitting = [at for at in tables(found["values"]) if hold(found["clues"], at.__getitem__)]
        _, *kinds = found["table"]["header"]
        table = {
            f"{kind} {value}": int(place)
            for place, *values in found["table"]["rows"]
            for kind, value in zip(kinds, values, strict=True)
        }
        assert fitting == [table], found["clues"]


@pytest.mark.prove
def test_there_are_reasoning360s_61_sizes_and_a_puzzle_of_each() -> None:
    assert len(zebra.SIZES) == 61
    assert {size.kinds for size in zebra.SIZES} == {*range(2, 11)}
    assert {size.positions for size in zebra.SIZES} <= {*range(2, 16)}
    for number, size in enumerate(zebra.SIZES):
        found = zebra.make(number, a_draw(number))
        assert len(found["table"]["rows"]) == size.positions
        assert found["table"]["header"] == ["Position", *sorted(found["values"])]


@pytest.mark.parametrize("seed", range(20))
def test_the_solver_finds_as_many_solutions_as_there_are(seed: int) -> None:
    """Two kinds of four values, and clues of chance, true or not: against every table."""
    draw = a_draw("clues", seed)
    names = [f"{kind} {value}" for kind in "AB" for value in "wxyz"]
    clues = []
    for _ in range(draw.randint(1, 6)):
        kind = draw.choice(KINDS)
        about = {"at": 1, "parity": 1, "at_one_of": 1, "between": 3, "with_one_of": 3}.get(kind, 2)
        positions = {"at": 1, "parity": 1, "at_one_of": 2}.get(kind, 0)
        values = tuple(draw.sample(range(8), about))
        clues.append(Clue(kind, values, tuple(draw.sample(range(2 if kind == "parity" else 4), positions))))
    words = [clue.text(names) for clue in clues]
    every = tables({"A": "wxyz", "B": "wxyz"})
    fitting = [[at[name] - 1 for name in names] for at in every if hold(words, at.__getitem__)]
    assert sorted(solutions(2, 4, clues, most=1000)) == sorted(fitting), words


def orders_of(names: Sequence[str], hints: Sequence[str]) -> list[tuple[str, ...]]:
    found = []
    for order in itertools.permutations(names):
        at = {name: place for place, name in enumerate(order, start=1)} | {"": len(order)}
        if hold(hints, at.__getitem__):
            found.append(order)
    return found


@pytest.mark.parametrize("number", range(25))
def test_the_words_of_an_order_fit_it_alone_and_none_of_them_is_needless(number: int) -> None:
    found = ordering.make(number, a_draw("order", number))
    assert 3 <= len(found["names"]) <= 7
    assert orders_of(found["names"], found["hints"]) == [tuple(found["order"])]
    for hint in found["hints"]:
        others = [one for one in found["hints"] if one != hint]
        assert len(orders_of(found["names"], others)) > 1, hint


@pytest.mark.parametrize("number", range(0, len(graph.LOOK_AHEAD), 4))
def test_one_first_step_of_a_graph_leads_to_the_goal_in_as_many_steps_as_it_says(number: int) -> None:
    found = graph.make(number, a_draw("graph", number))
    links: dict[str, set[str]] = {}
    for before, after in found["implications"]:
        links.setdefault(before, set()).add(after)
    assert len(links[found["start"]]) == 9

    def reached(words: set[str]) -> int | None:
        """Steps from these words to the goal, by whole waves."""
        seen: set[str] = {found["start"]}
        steps = 0
        while words:
            if found["goal"] in words:
                return steps
            seen |= words
            words = {after for word in words for after in links.get(word, ())} - seen
            steps += 1
        return None

    leading = {step: reached({step}) for step in links[found["start"]]}
    answers = {step: steps for step, steps in leading.items() if steps is not None}
    assert answers == {found["answer"]: found["look_ahead"] - 1}
    assert found["answer"].isalpha()


def test_look_ahead_has_the_23_values_of_reasoning360() -> None:
    assert (len(graph.LOOK_AHEAD), graph.LOOK_AHEAD[0], graph.LOOK_AHEAD[-1]) == (23, 1, 543)


MADE: Mapping[str, Mapping[str, Any]] = {
    "zebra": zebra.make(0, a_draw(1)),
    "ordering": ordering.make(0, a_draw(1)),
    "graph": graph.make(0, a_draw(1)),
}


@pytest.mark.parametrize("kind", MADE)
def test_another_draw_makes_another_puzzle(kind: str) -> None:
    make = {"zebra": zebra.make, "ordering": ordering.make, "graph": graph.make}[kind]
    assert make(0, a_draw(1)) == MADE[kind]
    assert make(0, a_draw(2)) != MADE[kind]
