"""Build a task's scorer: from the task's name to its section and queue, from the section to its class.

In: the run's section `scorers`. Out: scorers and queues. Called by `scorers.group` in every scorer process, by
`scorers.child.row_worker`, and by the dispatcher, which builds no scorer. A scorer's libraries are imported here, when
a task first needs them. To add a scorer: see `tasks.kinds`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, assert_never

from broker.errors import Permanent, UnknownTask
from config.scorer_kinds import QUEUES, JudgeConfig, QueueName, RubricConfig, ScorerConfig, TinyvConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers.scorer import Scorer
from tasks.kinds import BY_NAME

if (
    TYPE_CHECKING
):  # the module brings the client of Redis, which a process that scores single rows does without
    from scorers.served_model.concurrency_limits import Shared


class NothingToServe(Permanent):
    """This is raised where none of the run's tasks is scored in the queues that were asked for."""


def build_scorer(config: ScorerConfig, scorers: ScorersConfig, shared: Shared | None = None) -> Scorer:
    """Build the scorer that a section describes.

    Args:
        config: the section.
        scorers: all scorers share its sandbox and its credit.
        shared: the run whose workers share an endpoint; None: there is no run.
    """
    kind = BY_NAME[config.type]
    module, _, name = kind.scorer.partition(":")
    build = getattr(import_module(module), name)
    match kind.given:
        case "section":
            scorer: Scorer = build(config)
        case "scorers":
            scorer = build(config, scorers)
        case "endpoint":
            scorer = build(_at_served_judge(config), shared)
        case _:
            assert_never(kind.given)
    return scorer


def _at_served_judge(config: ScorerConfig) -> ScorerConfig:
    """Return a section that asks the run's own judge where its endpoint names no server. Raises ConfigError."""
    if not isinstance(config, JudgeConfig | RubricConfig | TinyvConfig):
        return config
    from config.loading import (
        at_served_judge,
    )  # brings every section of a run, which other scorers do without

    return config.model_copy(update={"endpoint": at_served_judge(config.endpoint)})


class Scorers:
    """This keeps the scorers of one process: each is built when it is first asked for, one for equal sections."""

    def __init__(self, config: ScorersConfig, shared: Shared | None = None) -> None:
        """Build nothing yet; `shared` is the run whose workers share an endpoint, None where there is no run."""
        self._config = config
        self._shared = shared
        self._built: dict[str, Scorer] = {}  # by their section's JSON

    def of(self, task: TaskConfig) -> Scorer:
        """Give a task's own scorer."""
        return self._get(task.scorer)

    def extra_scorers(self, task: TaskConfig) -> dict[str, Scorer]:
        """Give the task's further scorers, by their names in `extra_scorers`."""
        return {name: self._get(part.scorer) for name, part in task.extra_scorers.items()}

    def close(self) -> None:
        """End every child process."""
        for scorer in self._built.values():
            scorer.close()

    def _get(self, section: ScorerConfig) -> Scorer:
        key = section.model_dump_json()
        if key not in self._built:
            self._built[key] = build_scorer(section, self._config, self._shared)
        return self._built[key]


def task_config(config: ScorersConfig, task: str) -> TaskConfig:
    """Look up how a task's rows are scored. Raises UnknownTask with the nearest known names."""
    if task in config.tasks:
        return config.tasks[task]
    near = difflib.get_close_matches(task, config.tasks, n=3) or sorted(config.tasks)
    raise UnknownTask(f"no task {task!r} in scorers.tasks; did you mean {' or '.join(map(repr, near))}?")


def queues_of(config: ScorersConfig) -> tuple[QueueName, ...]:
    """List the queues that the run's tasks use, the cheapest first."""
    used = {task.scorer.queue for task in config.tasks.values()}
    return tuple(queue for queue in QUEUES if queue in used)


def queue_of(config: ScorersConfig, task: str) -> QueueName:
    """Say in which queue a task's groups wait. An unknown task has the cheapest: any worker can refuse its groups."""
    return config.tasks[task].scorer.queue if task in config.tasks else queues_of(config)[0]


def served(config: ScorersConfig, wanted: Sequence[QueueName] | None) -> tuple[QueueName, ...]:
    """List the queues that a worker serves.

    Args:
        config: the run's section.
        wanted: the queues that the worker is asked to serve, in this order; None: all that the run uses.
    Raises:
        NothingToServe: the run uses none of `wanted`.
    """
    used = queues_of(config)
    if wanted is None:
        return used
    if serves := tuple(queue for queue in wanted if queue in used):
        return serves
    raise NothingToServe(
        f"no task of this run is scored in {' or '.join(wanted)}; its queues are {', '.join(used)}"
    )
