"""Episodes of environments in real child processes, played from a test by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from agents.environments.runner import Environments, Episode
from agents.environments.seam import Beginning, EnvironmentStep
from broker.messages import Turn
from config.run import Run

T = TypeVar("T")
OWN = "tests.support.own_environments"
ASKED: Turn = {"role": "user", "content": "Play."}
# Of a run with agents that nobody plays in the test.
TASKS: dict[str, Any] = {
    "math": {"scorer": {"type": "math"}, "environment": {"type": "tools", "functions": ["math:gcd"]}}
}


def run_with(
    environments: Mapping[str, Any], *, scorers: Mapping[str, Any] | None = None, **agents: Any
) -> Run:
    """A run that has an environment for each task named."""
    tasks = {
        name: {"scorer": section.get("scorer", {"type": "math"}), "environment": without(section, "scorer")}
        for name, section in environments.items()
    }
    return Run.model_validate(
        {
            "name": "played",
            "model": {"path": "nobody/nothing"},
            "data": {"train": {"type": "dataset", "path": "rows.jsonl"}},
            "scorers": {**(scorers or {}), "tasks": tasks},
            "agents": agents,
        }
    )


def without(section: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key != name}


def custom(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "custom", "import_path": f"{OWN}:{name}", "memory_mb": 512, "step_deadline_s": 20, **more}


class Played:
    """A worker's environments, in a loop of their own."""

    def __init__(self, runner: asyncio.Runner, environments: Environments) -> None:
        self._runner, self.environments = runner, environments

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, in time."""
        return self._runner.run(asyncio.wait_for(work, 60))

    async def begin(
        self, task: str, row: Mapping[str, Any] | None = None, *, seed: int = 17, own_seed: int = 5
    ) -> tuple[Episode, Beginning]:
        return await self.environments.begin(
            task, row or {}, [ASKED], seed=seed, own_seed=own_seed, token="token"
        )

    async def say(self, task: str, *actions: str, **more: Any) -> list[EnvironmentStep]:
        """Play one episode to its end."""
        episode, _ = await self.begin(task, **more)
        try:
            return [await episode.step(said(action)) for action in actions]
        finally:
            await episode.close()


def said(text: str) -> Turn:
    return {"role": "assistant", "content": text}


@contextmanager
def played(environments: Mapping[str, Any], **agents: Any) -> Iterator[Played]:
    with asyncio.Runner() as runner:
        play = Played(runner, runner.run(_made(run_with(environments, **agents))))
        try:
            yield play
        finally:
            play.wait(play.environments.close())


async def _made(run: Run) -> Environments:
    return Environments(run)
