"""Shape and content of an answer, and the reward that they make."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.errors import UnknownTask
from broker.messages import Completion, Score
from config.rewards import FormatConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers.build import task_config
from scorers.format.completion_shape import CompletionShape
from scorers.reward.combine import combine_scores, reward
from tests.support.scores import a_score

MATH_ROW = {"type": "math", "answer": {"value": "15"}}
REQUIRED = FormatConfig(think="required")
THOUGHT = FormatConfig(think="required", box=False)
OPTIONAL = FormatConfig(think="optional")
FREE = FormatConfig(think="optional", box=False)


def test_the_format_is_right_or_wrong_and_says_what_is_missing(
    complete: Callable[[str], Completion], subtests: pytest.Subtests
) -> None:
    cases: list[tuple[FormatConfig, str, float, str]] = [
        (REQUIRED, "<think>x</think> \\boxed{15}", 1.0, "well formed"),
        (REQUIRED, "x</think> \\boxed{15}", 1.0, "well formed"),  # opened in the prompt
        (REQUIRED, "\\boxed{15}", 0.0, "no closed thinking span"),
        (REQUIRED, "<think>x \\boxed{15}", 0.0, "never closed"),
        (REQUIRED, "<think>\\boxed{15}</think> done", 0.0, "no closed and filled"),
        (THOUGHT, "<think>x</think> done", 1.0, "well formed"),
        (OPTIONAL, "\\boxed{15}", 1.0, "well formed"),
        (OPTIONAL, "<think>x", 0.0, "never closed"),
        (OPTIONAL, "15", 0.0, "no closed and filled"),
        (OPTIONAL, "\\boxed{ }", 0.0, "no closed and filled"),
        (OPTIONAL, "\\boxed{15", 0.0, "no closed and filled"),
        (FREE, "15", 1.0, "well formed"),
    ]
    for config, text, value, reason in cases:
        with subtests.test(text=text, config=config):
            score = CompletionShape(config).score(complete(text).text, MATH_ROW)
            assert score.value == value
            assert reason in score.reason


GATE = TaskConfig(format=FormatConfig(mode="gate"))
MIX = TaskConfig(format=FormatConfig(mode="mix", weight=0.25))


def test_the_reward_follows_the_mode_and_the_score_stays_the_contents(subtests: pytest.Subtests) -> None:
    cases: list[tuple[TaskConfig, float, float | None, float]] = [
        (TaskConfig(), 1.0, None, 1.0), (TaskConfig(), 0.0, None, 0.0), (GATE, 1.0, 1.0, 1.0),
        (GATE, 1.0, 0.0, 0.0), (GATE, 0.0, 1.0, 0.0), (MIX, 1.0, 1.0, 1.0), (MIX, 1.0, 0.0, 0.75),
        (MIX, 0.0, 1.0, 0.25),
        (MIX, 0.0, 0.0, 0.0),
    ]  # fmt: skip
    for task, content, shape, paid in cases:
        with subtests.test(format=task.format, content=content, shape=shape):
            score, got = reward(
                task,
                combine_scores(task, a_score(content), {}),
                None if shape is None else a_score(shape, "no box"),
                [],
            )
            assert got == paid
            assert score.value == content
            assert score.components == {"math": content} | ({} if shape is None else {"format": shape})
            assert ("format: no box" in score.reason) == (shape == 0.0)


def test_an_unscorable_content_has_no_reward_whatever_its_shape(subtests: pytest.Subtests) -> None:
    for task in (TaskConfig(), GATE, MIX):
        with subtests.test(format=task.format):
            broken = a_score(None, "broken")
            assert combine_scores(task, broken, {}) == broken
            assert reward(task, broken, None if task.format is None else a_score(0.0), []) == (broken, None)


@pytest.mark.parametrize(("task", "shape"), [(TaskConfig(), a_score(1.0)), (GATE, None)])
def test_a_format_score_without_a_format_is_a_bug(task: TaskConfig, shape: Score | None) -> None:
    with pytest.raises(ValueError, match="format score"):
        reward(task, a_score(1.0), shape, [])


@pytest.mark.parametrize(
    ("task", "hint"), [("maths", "did you mean 'math'"), ("zzz", "'geometry' or 'math'")]
)
def test_an_unknown_task_names_the_nearest_known_ones(task: str, hint: str) -> None:
    config = ScorersConfig(tasks={"math": TaskConfig(), "geometry": GATE})
    assert task_config(config, "geometry") is GATE
    with pytest.raises(UnknownTask, match=hint):
        task_config(config, task)
