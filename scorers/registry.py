"""From config to scorers: a task's name to its section, a section to the class behind it.

Called by `scorers.group` in every scorer process. A scorer's libraries are imported here, when a task first needs them.
"""

from __future__ import annotations

import difflib
from typing import assert_never

from broker.errors import UnknownTask
from config.scorers import CodeConfig, CustomConfig, MathConfig, ScorerConfig, ScorersConfig, SweConfig, TaskConfig
from scorers.scorer import Scorer


def build_scorer(config: ScorerConfig, scorers: ScorersConfig) -> Scorer:
    """The scorer that the section describes, with what all of them share: sandbox and credit."""
    match config:
        case MathConfig():
            from scorers.math_answer import MathAnswer
            return MathAnswer(config)
        case CodeConfig():
            from scorers.code_tests import CodeTests
            return CodeTests(config, scorers)
        case SweConfig():
            from scorers.swe_patch import SwePatch
            return SwePatch(config, scorers)
        case CustomConfig():
            from scorers.custom import load_scorer
            return load_scorer(config)
        case _:
            assert_never(config)


def task_config(config: ScorersConfig, task: str) -> TaskConfig:
    """How a task's rows are scored. Raises UnknownTask with the nearest known names."""
    if task in config.tasks:
        return config.tasks[task]
    near = difflib.get_close_matches(task, config.tasks, n=3) or sorted(config.tasks)
    raise UnknownTask(f"no task {task!r} in scorers.tasks; did you mean {' or '.join(map(repr, near))}?")
