"""What every scorer should be tested for. Run it here: python -m pytest test_my_scorer.py"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from my_scorer import Letter

from broker.errors import BadMessage
from config.scorer_kinds import CustomConfig
from scorers.custom import load_scorer

INFO = {"type": "letter", "answer": {"value": "B", "choices": "ABCD"}}
ROWS = Path(__file__).with_name("rows.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", ROWS, ids=range(len(ROWS)))
def test_the_rows_of_the_file_score_what_is_expected_of_them(line: str) -> None:
    row = json.loads(line)
    Letter().check_row(row["verification_info"])
    assert Letter().score(row["llm_output"], row["verification_info"]).value == row["expected"]


@pytest.mark.parametrize(
    "nothing",
    [
        "",
        "\n",
        "I don't know",
        "</think>",
        "<think>it is B",
        "<answer>",
        "B",
        "<answer></answer>",
        "<answer>ABCD</answer>",
        "<think><answer>B</answer>",
    ],
)
def test_what_is_no_answer_scores_0(nothing: str) -> None:
    assert Letter().score(nothing, INFO).value == 0.0


def test_the_last_answer_counts_and_those_in_the_thinking_do_not() -> None:
    text = "<think><answer>A</answer></think><answer>C</answer> no, <answer>B</answer>"
    assert Letter().score(text, INFO).value == 1.0


@pytest.mark.parametrize(
    "answer", [None, {}, {"value": ""}, {"value": "AB"}, {"value": "E", "choices": "ABCD"}]
)
def test_a_row_that_nobody_could_answer_is_refused(answer: Any) -> None:
    with pytest.raises(BadMessage, match="one letter"):
        Letter().check_row({"type": "letter", "answer": answer})


def test_the_same_text_gets_the_same_score_each_time() -> None:
    scorer = Letter()
    first = scorer.score("<answer>B</answer>", INFO)
    scorer.score("<answer>A</answer>", INFO)  # no answer leaves anything behind for the next one
    assert scorer.score("<answer>B</answer>", INFO) == first


def test_it_loads_as_a_run_loads_it() -> None:
    scorer = load_scorer(CustomConfig(import_path="my_scorer:Letter", options={"ignore_case": True}))
    scorer.self_test()
    assert scorer.score("<answer>b</answer>", INFO).value == 1.0
    scorer.close()
