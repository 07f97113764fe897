"""That every kind of answer has right ones, wrong ones and attacks enough to be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest

from tasks.kinds import LIVEBENCH_TASKS
from tests.scorers.choice import corpus
from tests.scorers.format import tables
from tests.scorers.grade import tables as grade_tables
from tests.scorers.gym import corpus as gym_corpus
from tests.scorers.instructions import corpus as instructions_corpus
from tests.scorers.judge import corpus as judge_corpus
from tests.scorers.judge import injections
from tests.scorers.livebench import corpus as livebench_corpus
from tests.scorers.logic import corpus as logic_corpus
from tests.scorers.math import corpus as math_corpus
from tests.scorers.rubric import corpus as rubric_corpus
from tests.scorers.search import corpus as search_corpus
from tests.scorers.simulation import corpus as simulation_corpus
from tests.scorers.table import corpus as table_corpus

pytestmark = pytest.mark.process

LEAST: Final = (20, 20, 10)  # right, wrong, attacks
CASES: Final = instructions_corpus.CASES
# By the category of LiveBench that has the task.
CATEGORY: Final = {
    **dict.fromkeys(
        ("web_of_lies_v2", "web_of_lies_v3", "house_traversal", "spatial", "zebra_puzzle"), "reasoning"
    ),
    **dict.fromkeys(("cta", "tablereformat", "tablejoin"), "data analysis"),
    **dict.fromkeys(("connections", "plot_unscrambling", "typos"), "language"),
}


def by_kind(*corpora: Iterable[str]) -> dict[str, tuple[int, int, int]]:
    """Of the kinds of all right, all wrong answers and all attacks, how many there are of each."""
    right, wrong, attacks = map(Counter, corpora)
    return {kind: (right[kind], wrong[kind], attacks[kind]) for kind in right}


COUNTS: Final[dict[str, tuple[int, int, int]]] = {
    "math": (len(math_corpus.HONEST), len(math_corpus.WRONG), len(math_corpus.ATTACKS)),
    "choice": (len(corpus.HONEST), len(corpus.WRONG), len(corpus.ATTACKS)),
    "search": (len(search_corpus.HONEST), len(search_corpus.WRONG), len(search_corpus.ATTACKS)),
    "format": (len(tables.RIGHT), len(tables.WRONG), len(tables.ATTACKS)),
    "grade": (len(grade_tables.HONEST), len(grade_tables.WRONG), len(grade_tables.ATTACKS)),
    "gym": (len(gym_corpus.HONEST), len(gym_corpus.WRONG), len(gym_corpus.ATTACKS)),
    "judge": (len(judge_corpus.HONEST), len(judge_corpus.WRONG), len(injections.INJECTIONS)),
    "rubric": (len(rubric_corpus.SOUND), len(rubric_corpus.WRONG), len(rubric_corpus.GRADINGS)),
    "instructions": (
        sum(len(case.right) for case in CASES.values()),
        sum(len(case.wrong) for case in CASES.values()),
        len(instructions_corpus.ATTACKS),
    ),
    **by_kind(
        *(
            [row[0] for row in rows]
            for rows in (table_corpus.HONEST, table_corpus.WRONG, table_corpus.ATTACKS)
        )
    ),
    **by_kind(
        *(
            [row[0] for row in rows]
            for rows in (logic_corpus.HONEST, logic_corpus.WRONG, logic_corpus.ATTACKS)
        )
    ),
    **by_kind(
        *(
            [simulation_corpus.ROWS[name]["type"] for name, _ in rows]
            for rows in (simulation_corpus.HONEST, simulation_corpus.WRONG, simulation_corpus.ATTACKS)
        )
    ),
    **by_kind(
        *(
            [f"livebench: {CATEGORY[row[0].task]}" for row in rows]
            for rows in (livebench_corpus.HONEST, livebench_corpus.WRONG, livebench_corpus.ATTACKS)
        )
    ),
}


@pytest.mark.parametrize("kind", COUNTS)
def test_there_are_answers_enough(kind: str) -> None:
    assert all(count >= least for count, least in zip(COUNTS[kind], LEAST, strict=True)), COUNTS[kind]


def test_no_task_of_livebench_is_left_out() -> None:
    for rows in (livebench_corpus.HONEST, livebench_corpus.WRONG):
        assert {row[0].task for row in rows} == set(LIVEBENCH_TASKS)


@pytest.mark.parametrize(
    ("kind", "corpora"),
    [
        ("choice", (corpus.HONEST, corpus.WRONG, corpus.ATTACKS)),
        ("table", (table_corpus.HONEST, table_corpus.WRONG, table_corpus.ATTACKS)),
        ("logic", (logic_corpus.HONEST, logic_corpus.WRONG, logic_corpus.ATTACKS)),
        ("simulation", (simulation_corpus.HONEST, simulation_corpus.WRONG, simulation_corpus.ATTACKS)),
        ("livebench", (livebench_corpus.HONEST, livebench_corpus.WRONG, livebench_corpus.ATTACKS)),
    ],
)
def test_no_case_is_counted_twice(kind: str, corpora: tuple[Iterable[object], ...]) -> None:
    for rows in corpora:
        counted = Counter(map(repr, rows))
        assert [row[:200] for row, count in counted.items() if count > 1] == [], kind
