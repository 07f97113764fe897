"""From config to scorers: a task's name to its section, a section to the class behind it.

Called by `scorers.group` in every scorer process. A scorer's libraries are imported here, when a task first needs them.
"""

from __future__ import annotations

import difflib
from typing import assert_never

from broker.errors import UnknownTask
from config.scorers import MathConfig, ScorersConfig, TaskConfig
from scorers.scorer import Scorer


def build_scorer(config: MathConfig) -> Scorer:
    """The scorer that the section describes."""
    match config:
        case MathConfig():
            from scorers.math_answer import MathAnswer
            return MathAnswer(config)
        case _:
            assert_never(config)


def task_config(config: ScorersConfig, task: str) -> TaskConfig:
    """How a task's rows are scored. Raises UnknownTask with the nearest known names."""
    if task in config.tasks:
        return config.tasks[task]
    near = difflib.get_close_matches(task, config.tasks, n=3) or sorted(config.tasks)
    raise UnknownTask(f"no task {task!r} in scorers.tasks; did you mean {' or '.join(map(repr, near))}?")
