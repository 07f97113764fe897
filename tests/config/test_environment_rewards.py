"""A task whose score is its environment's reward needs an environment that gives one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from config.scorers import TaskConfig

OWN = {"type": "environment"}
LAKE = {"type": "custom", "import_path": "lake:Lake"}
TOOLS = {"type": "tools", "functions": ["my_tools:search"]}
BESIDE = {"won": {"scorer": OWN, "weight": 0.5}}
PART = "`extra_scorers.won.scorer` is of type environment"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"scorer": OWN}, "`scorer` is of type environment and takes .* `environment`, which is unset"),
        (
            {"scorer": OWN, "environment": TOOLS},
            "`scorer` is of type environment, and `environment` is of type tools, which gives no reward",
        ),
        ({"extra_scorers": BESIDE}, f"{PART} and takes the reward of `environment`, which is unset"),
        ({"extra_scorers": BESIDE, "environment": TOOLS}, f"{PART}, and `environment` is of type tools"),
        (
            {"scorer": OWN, "environment": LAKE, "extra_scorers": {"m": {"scorer": {"type": "math"}}}},
            "beside it can stand environment, custom, format",
        ),
        (
            {"extra_scorers": {"environment_reward": {"scorer": {"type": "format"}}}},
            "environment_reward is taken",
        ),
    ],
)
def test_what_can_never_have_a_score_is_refused_by_its_keys(task: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TaskConfig.model_validate(task)


@pytest.mark.parametrize(
    ("task", "needs_episode"),
    [
        ({"scorer": OWN, "environment": LAKE}, True),
        ({"scorer": {"type": "math"}, "environment": TOOLS}, False),
        ({"extra_scorers": BESIDE, "environment": LAKE}, True),
        ({"extra_scorers": {"won": {"scorer": OWN, "gate": 0.5}}, "environment": LAKE}, True),
        ({"extra_scorers": {"won": {"scorer": OWN}}, "environment": LAKE}, False),
    ],
    ids=["own", "tools", "by weight", "as a gate", "only reported"],
)
def test_a_task_says_whether_a_text_alone_has_no_score(task: dict[str, Any], needs_episode: bool) -> None:
    assert TaskConfig.model_validate(task).needs_episode is needs_episode
