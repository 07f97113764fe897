"""`scorers.export` in verl's hands: called as verl calls a reward function, from this file's path."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

import scorers.export
from scorers.export import NoScore, compute_score, compute_score_batch
from tests.support.endpoint_server import scripted_endpoint

pytestmark = [
    pytest.mark.process,
    pytest.mark.together("mathematics"),
    pytest.mark.usefixtures("scores_here"),
]

EXTRA = {"index": 0, "split": "train"}


def as_verl_loads_it() -> Any:
    spec = importlib.util.spec_from_file_location("custom_module", str(scorers.export.__file__))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_value_is_verls_number(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, Any, float]] = [
        ("openai/gsm8k", "so it is\n#### 72", "72", 1.0),
        ("openai/gsm8k", "so it is\n#### 71", "72", 0.0),
        ("lighteval/MATH", "\\boxed{\\frac12}", "\\frac{1}{2}", 1.0),
        ("searchR1_nq", "<answer>Paris</answer>", {"target": ["Paris"]}, 1.0),
    ]
    for source, text, truth, value in cases:
        with subtests.test(source=source, text=text, truth=truth):
            called = as_verl_loads_it().compute_score
            found = called(
                data_source=source,
                solution_str=text,
                ground_truth=truth,
                extra_info=EXTRA,
                sandbox_fusion_url=None,
            )
            assert (type(found), found) == (float, value)


def test_a_batch_is_scored_side_by_side_in_its_order() -> None:
    texts = [f"#### {number}" for number in (1, 2, 3, 4)]
    found = compute_score_batch(["openai/gsm8k"] * 4, texts, ["1", "0", "3", "0"], [EXTRA] * 4, workers=2)
    assert found == [1.0, 0.0, 1.0, 0.0]


def test_a_data_source_that_nobody_knows_is_no_zero() -> None:
    with pytest.raises(ValueError, match="did you mean openai/gsm8k"):
        compute_score("openai/gsm8", "#### 1", "1")


def test_a_judge_without_a_clear_verdict_is_no_zero() -> None:
    with scripted_endpoint("perhaps") as server, pytest.raises(NoScore):
        compute_score("stem_web", "\\boxed{water}", "H2O", {"question": "Which?"}, judge_url=server.url)
