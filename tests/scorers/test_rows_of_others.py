"""Rows that a scorer of another type reads, so that a rule and a judge can score the same answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from broker.messages import SampledGroup
from config.scorer_kinds import ScorerConfig, reads
from config.scorers import ScorersConfig, TaskConfig
from scorers.build import build_scorer
from scorers.child.row_worker import RowScorer
from scorers.group import GroupScorer
from tasks.kinds import TASK_OF_TYPE
from tasks.route import route
from tests.support.endpoint_server import ScriptedEndpoint

pytestmark = pytest.mark.together("mathematics")

KINDS = sorted(
    kind
    for section in get_args(get_args(ScorerConfig)[0])
    if not section.takes_rows_as_they_are and (kind := section.model_fields["type"].default)
)
MATH = {"value": "4"}
ASKED = {"value": "4", "question": "2 + 2?"}
ZEBRA = {"header": ["Position", "Pet"], "rows": [["1", "cat"], ["2", "dog"]]}
ANSWERS: dict[str, dict[str, Any]] = {  # one of each type that rows have
    "math": MATH,
    "math_verifiable": MATH,
    "gsm8k": MATH,
    "hendrycks_math": MATH,
    "prime_math": MATH,
    "code": {"inputs": ["1"], "outputs": ["2"]},
    "code_verifiable": {"test_cases": [{"input": "1", "output": "2"}]},
    "swe": {"input": "a = 1\n", "ground_truth": "a = 2\n"},
    "swe_verifiable": {"input": "a", "ground_truth": "b"},
    "zebra": {"value": ZEBRA},
    "ordering": {"value": ["Ann", "Bo"]},
    "graph": {"value": "abc"},
    "arc": {"value": [[1, 2]]},
    "hitab": MATH,
    "multihier": MATH,
    "finqa": MATH,
    "choice": {"value": "C"},
    "qa_em": {"value": ["Paris"]},
    "ifeval": {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    "ifbench": {"value": "[{'instruction_id': ['punctuation:no_comma'], 'kwargs': [None]}]"},
    "livebench": {"value": "4", "task": "spatial"},
    "codeio": {"predict": "output", "value": 4},
    "cruxeval": {"functional": "def f(): pass", "input": ""},
    "reasoning_gym": {"entry": {}},
    "grade": {"value": 0.5},
    "judge": ASKED,
    "llm_judge": MATH,
    "stem_llm_judge": ASKED,
    "math_llm_judge": ASKED,
    "tinyv": ASKED,
    "rubric": {"question": "2 + 2?", "criteria": "States 4 (10 points)"},
}


def row(row_type: str) -> dict[str, Any]:
    if row_type == "format":
        return {"type": "format", "of": row("math")}
    return {"type": row_type, "answer": ANSWERS[row_type]}


def tasks(section: dict[str, Any]) -> ScorersConfig:
    return ScorersConfig.model_validate({"retries": 0, "tasks": {"math": section}})


def at(server: ScriptedEndpoint, kind: str, **options: Any) -> dict[str, Any]:
    return {"type": kind, "endpoint": {"urls": [server.url], "timeout_s": 5.0, "cache": False}, **options}


def test_there_is_a_row_here_of_every_type() -> None:
    assert {*ANSWERS, "format"} == set(TASK_OF_TYPE)


def test_a_part_that_the_config_accepts_can_read_every_row_of_its_task() -> None:
    for own in KINDS:
        for part in (kind for kind in KINDS if kind != own):
            section = {"scorer": {"type": own}, "extra_scorers": {"part": {"scorer": {"type": part}}}}
            if not reads(part, own):
                with pytest.raises(
                    ValidationError,
                    match=rf"`extra_scorers\.part` is of type {part} and can't read the rows of .* "
                    rf"type {own}: beside it can stand {own}, .*custom",
                ):
                    tasks(section)
                continue
            task = tasks(section)
            scorer = build_scorer(task.tasks["math"].extra_scorers["part"].scorer, task)
            for row_type in (row_type for row_type, kind in TASK_OF_TYPE.items() if reads(own, kind)):
                _, info = route({"task": "math", "verification_info": row(row_type)}, task.tasks)
                scorer.check_row(info)
            scorer.close()


def test_beside_a_scorer_of_ones_own_stand_such_that_read_all_rows() -> None:
    own = {"type": "custom", "import_path": "my:Own"}
    for part in ({"type": "format"}, {"type": "custom", "import_path": "my:Other"}):
        TaskConfig.model_validate({"scorer": own, "extra_scorers": {"part": {"scorer": part}}})
        TaskConfig.model_validate({"extra_scorers": {"part": {"scorer": part}}})
    with pytest.raises(
        ValidationError, match="beside it can stand custom, format, reward_api, verl_function"
    ):
        TaskConfig.model_validate({"scorer": own, "extra_scorers": {"part": {"scorer": {"type": "math"}}}})


def test_the_message_names_what_can_stand_there() -> None:
    with pytest.raises(ValidationError, match="beside it can stand math, judge, tinyv, custom, format, "):
        TaskConfig.model_validate({"extra_scorers": {"part": {"scorer": {"type": "code"}}}})


def test_a_rule_and_a_judge_score_the_same_answers_and_the_judge_is_told_the_question(
    server: ScriptedEndpoint, group: Callable[..., SampledGroup]
) -> None:
    config = tasks(
        {
            "scorer": {"type": "math"},
            "extra_scorers": {
                "free": {"scorer": at(server, "judge", variant="tinyv"), "weight": 0.25},
                "shape": {"scorer": {"type": "format"}},
            },
        }
    )
    chat = [{"role": "user", "content": "What is two and three?"}]
    _, info = route({"verification_info": {"type": "gsm8k", "answer": "5"}, "messages": chat}, config.tasks)
    scorer = GroupScorer(config)
    try:
        found = scorer.score(
            group("#### 5", "#### 6 or \\boxed{five}", "<think>5", verification_info=info), worker="w"
        )
        assert [score.reason for score in found.scores if score.value is None] == []
        assert found.rewards == (0.75, 0.25, 0.0)
        assert found.scores[1].components == {"math": 0.0, "free": 1.0, "shape": 1.0}
        assert "What is two and three?" in server.calls[0].prompt
        assert len(server.calls) == 1  # without a box there is nothing for TinyV's judge
    finally:
        scorer.close()


def test_tinyv_judges_again_what_its_rule_calls_wrong_in_mathematics(server: ScriptedEndpoint) -> None:
    scorer = RowScorer(tasks({"scorer": at(server, "tinyv")}))
    try:
        line = (
            b'{"llm_output": "\\\\boxed{%s}", "verification_info": {"type": "math", "answer": "12"}, '
            b'"prompt": "3 x 4?"}'
        )
        asked = [(scorer.result(line % answer), len(server.calls)) for answer in (b"12", b"a dozen")]
        assert [(result["value"], result["components"], calls) for result, calls in asked] == [
            (1.0, {"tinyv": 1.0, "rule": 1.0}, 0),
            (1.0, {"tinyv": 1.0, "rule": 0.0, "verifier": 1.0}, 1),
        ]
        assert "3 x 4?" in server.calls[0].prompt
    finally:
        scorer.close()
