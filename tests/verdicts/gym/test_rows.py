"""Rows of reasoning-gym: which data sets there are, and what an entry lacks."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import BadMessage
from tests.verdicts.gym.asking import needs_library
from tests.verdicts.gym.corpus import gym
from verdicts.gym.rows import DataSet, data_sets, row_of


@needs_library
def test_every_data_set_is_known_without_importing_the_library() -> None:
    assert len(data_sets()) == 105
    assert data_sets()["countdown"] == DataSet(
        name="countdown", module="reasoning_gym.games.countdown", packages=("mpmath", "numpy", "sympy")
    )


@needs_library
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"dataset": "basic_arithmetics", "entry": {"answer": "5"}}, "did you mean basic_arithmetic?"),
        ({"entry": {"answer": "5"}}, "no data set None"),
        ({"dataset": "gcd"}, "entry of a reasoning_gym row must be an object, got NoneType"),
        ({"dataset": "gcd", "entry": "{"}, "not JSON"),
        ({"dataset": "gcd", "entry": {"answer": None}}, "needs its 'answer', a text; got NoneType"),
        ({"dataset": "boxnet", "entry": {"answer": None}}, "needs metadata with initial_state"),
        ({"dataset": "composite", "entry": {"answer": "5"}}, "no data set None"),
    ],
    ids=range(7),
)
def test_a_row_that_lacks_something_is_refused_by_name(answer: dict[str, Any], said: str) -> None:
    with pytest.raises(BadMessage, match=said.replace("?", r"\?")):
        row_of({"type": "reasoning_gym", "answer": answer})


@needs_library
def test_an_entry_of_a_mixture_is_one_of_its_own_data_set() -> None:
    row = gym("gcd", "5")
    row["answer"]["dataset"] = "composite"
    assert row_of(row).dataset.name == "gcd"


@needs_library
def test_an_example_stands_for_an_own_answer_that_is_an_empty_text() -> None:
    row = gym("graph_color", "", puzzle={"vertices": [0]}, possible_answer={"0": 1})
    assert row_of(row).example == '{"0": 1}'
