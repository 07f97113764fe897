"""From scores to a reward: the one place where content and format meet.

In: the content's score, the format's where the task has one. Out: the score that travels, with its components, and the
reward that the advantage is computed from. The score keeps the content's value (was the answer right?); the reward is
what training pays for, and it alone may be negative.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from broker.messages import Score
from config.scorers import SweConfig, TaskConfig

NO_EDIT_REWARD: Final = -1.0        # where there is no edit to compare; SWE-RL, arXiv:2502.18449, eq. 1


def reward(score: Score, format_score: Score | None, task: TaskConfig) -> tuple[Score, float | None]:
    """The score with its components by name, and the reward; None where the content is unscorable.

    Args:
        score: of the content.
        format_score: of the shape; None exactly where `task.format` is None.
        task: `format.mode` says how the two meet: `gate`, a wrong shape makes the reward 0; `mix`, a weighted mean.
            `scorer.format_penalty` goes before both.
    """
    if (task.format is None) != (format_score is None):
        raise ValueError("a format score belongs to a task with a format, and to no other")
    if score.value is None:
        return score, None
    components: dict[str, float] = {**score.components, task.scorer.type: score.value}
    paid, reason = score.value, score.reason
    if task.format is not None and format_score is not None and format_score.value is not None:
        components["format"] = shape = format_score.value
        if task.format.mode == "gate":
            paid = score.value if shape == 1.0 else 0.0
        else:
            paid = (1 - task.format.weight) * score.value + task.format.weight * shape
        reason = score.reason if shape == 1.0 else f"{score.reason}; format: {format_score.reason}"
    if isinstance(task.scorer, SweConfig) and task.scorer.format_penalty and score.components.get("edit") == 0.0:
        paid = NO_EDIT_REWARD
    return replace(score, components=components, reason=reason), paid
