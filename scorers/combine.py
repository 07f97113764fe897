"""From scores to a reward: the one place where content and format meet.

In: the content's score, the format's where the task has one. Out: the score that travels, with its components, and the
reward that the advantage is computed from. The score keeps the content's value (was the answer right?); the reward is
what training pays for.
"""

from __future__ import annotations

from dataclasses import replace

from broker.messages import Score
from config.scorers import TaskConfig


def reward(score: Score, format_score: Score | None, task: TaskConfig) -> tuple[Score, float | None]:
    """The score with its components by name, and the reward; None where the content is unscorable.

    Args:
        score: of the content.
        format_score: of the shape; None exactly where `task.format` is None.
        task: `format.mode` says how the two meet: `gate`, a wrong shape makes the reward 0; `mix`, a weighted mean.
    """
    if (task.format is None) != (format_score is None):
        raise ValueError("a format score belongs to a task with a format, and to no other")
    if score.value is None:
        return score, None
    components: dict[str, float] = {task.scorer.type: score.value}
    if task.format is None or format_score is None or format_score.value is None:
        return replace(score, components=components), score.value
    components["format"] = shape = format_score.value
    if task.format.mode == "gate":
        paid = score.value if shape == 1.0 else 0.0
    else:
        paid = (1 - task.format.weight) * score.value + task.format.weight * shape
    reason = score.reason if shape == 1.0 else f"{score.reason}; format: {format_score.reason}"
    return replace(score, components=components, reason=reason), paid
