"""An objective says by itself whether it needs each token's log-probability at the start of the step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from pydantic import TypeAdapter

from config.learner.objective import CustomObjectiveConfig, ObjectiveConfig
from learner.objective.build import build_objective
from learner.objective.objective import needs_start_logprobs
from tests.support.made_up_tokens import CONSTANT_LENGTH, made_up, packed

pytestmark = pytest.mark.model

OBJECTIVE: TypeAdapter[ObjectiveConfig] = TypeAdapter(ObjectiveConfig)
OWN = [kind for kind in get_args(get_args(ObjectiveConfig)[0]) if kind is not CustomObjectiveConfig]
BESIDE = [{}, {"kl": {"coef": 0.1}, "entropy_coef": 0.1}]


@pytest.mark.parametrize("beside", BESIDE, ids=["alone", "with a divergence and entropy"])
@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
def test_what_an_objective_says_is_what_its_loss_asks(kind: type[Any], beside: dict[str, Any]) -> None:
    section = {"type": get_args(kind.model_fields["type"].annotation)[0]}
    section |= {"constant_length": CONSTANT_LENGTH} if section["type"] == "dr_grpo" else {}
    objective = build_objective(OBJECTIVE.validate_python(section | beside))
    answers = made_up(0)
    tokens = replace(packed(answers, answers, "token"), kl_coef=0.1)
    assert tokens.start_logprobs_T is not None
    others = replace(tokens, start_logprobs_T=tokens.start_logprobs_T - 0.3)
    losses = [objective.loss(each).value for each in (tokens, others)]
    asks = not torch.equal(*losses)
    assert asks == (kind.__name__ == "DecoupledPpoConfig")
    assert needs_start_logprobs(objective) == asks


def test_one_that_does_not_say_gets_them() -> None:
    toy = OBJECTIVE.validate_python({"type": "custom", "import_path": "tests.support.toy_seams:ToyObjective"})
    assert needs_start_logprobs(build_objective(toy))
