"""`python -m agents.references`: play the references of rows, as the policy would play them.

In: on standard input one line with the sections `scorers` and `agents`, then a line of JSON for each row, of a task
with an environment. Out: on standard output a line of JSON for each row, in order: `episode`, the result of the actions
that the environment's `reference` returned for the row; or `wrong` or `untested` with the reason. Started by
`learner.data.reference_episodes`, since roles don't import each other; it ends with its input. An environment that
hangs or ends costs its row, by the deadlines of its section.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import to_builtins

from agents.asking import seed_by
from agents.environments.runner import Environments, Episode
from agents.environments.seam import Beginning, Disturbed, EnvironmentFailed
from agents.episode import reward_of, section_of
from broker.messages import End, Turn
from config.run import Run
from tasks.seeds import seed_of
from tasks.turns import POLICY, text_of

EPISODE, WRONG, UNTESTED = "episode", "wrong", "untested"  # the key of a row's line
AT_ONCE: Final = 2  # rows per CPU

Found = dict[str, Any]


class References:
    """Play the references of a run's rows."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._environments = Environments(run)
        self._without: set[str] = set()  # tasks whose environment has no `reference`

    async def found(self, row: Mapping[str, Any]) -> Found:
        """Return the result of one row."""
        while True:
            try:
                return await self._played(row)
            except Disturbed:
                continue
            except EnvironmentFailed as error:
                return {WRONG if error.is_policys else UNTESTED: str(error)}

    async def close(self) -> None:
        """End all environments."""
        await self._environments.close()

    async def _played(self, row: Mapping[str, Any]) -> Found:
        task, info = row["task"], row["verification_info"]
        if task in self._without:
            return self._none(task)
        own = seed_of(info)
        seed = 0 if own is None else own
        playing, beginning = await self._environments.begin(
            task,
            {**info, **row["columns"]},
            row["messages"],
            seed=seed,
            own_seed=seed_by(seed, 0),
            token=f"reference-{seed}",
            wants_reference=True,
        )
        try:
            if beginning.reference is None:
                self._without.add(task)
                return self._none(task)
            if not beginning.reference:
                return {UNTESTED: f"the environment of task {task!r} has no reference for this row"}
            return {EPISODE: await self._episode(playing, beginning, beginning.reference, task)}
        finally:
            await playing.close()

    async def _episode(
        self, playing: Episode, beginning: Beginning, reference: Sequence[Turn], task: str
    ) -> Found:
        """Return the episode, in the form for a scorer."""
        section = section_of(self._run, task)
        said: list[Turn] = []
        rewards: list[float | None] = []
        ended_by, remark = End.TURNS, ""
        actions = reference[: section.max_turns]
        for action in actions:
            step = await playing.step(action)
            said += [action, *step.messages]
            rewards.append(step.reward)
            if step.terminated or step.truncated:
                ended_by, remark = End.ENVIRONMENT, step.remark
                break
        else:
            remark = f"the reference's {len(actions)} actions do not end the episode"
        return {
            "text": next(text_of(turn) for turn in reversed(said) if turn["role"] == POLICY),
            "messages": said,
            "ended_by": str(ended_by),
            "remark": remark,
            "reward": to_builtins(reward_of(section, rewards, beginning.reward_range)),
        }

    def _none(self, task: str) -> Found:
        return {
            UNTESTED: f"the environment of task {task!r} has no method `reference`, which would play its rows"
        }


async def answer_all(run: Run) -> None:
    """Play the row of each line of standard input."""
    references = References(run)
    under_way: deque[asyncio.Task[Found]] = deque()
    most = AT_ONCE * len(os.sched_getaffinity(0))
    try:
        for line in sys.stdin.buffer:
            under_way.append(asyncio.create_task(references.found(json.loads(line))))
            if len(under_way) >= most:
                _write(await under_way.popleft())
        while under_way:
            _write(await under_way.popleft())
    finally:
        await references.close()


def _write(found: Found) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Read the sections, and play."""
    given = json.loads(sys.stdin.buffer.readline())
    run = Run.model_validate(
        {
            "name": "references",
            "model": {"path": "none"},
            "data": {"train": {"type": "dataset", "path": "none"}},
            **given,
        }
    )
    asyncio.run(answer_all(run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
