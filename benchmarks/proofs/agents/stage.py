"""Where a kind of environment is played: an interpreter with its packages, and episodes of a scripted policy.

In: a section of `environment`, and what the policy says, turn by turn. Out: what it read, was paid and how it ended, or
how it failed. Episodes are played by the agents' own `Environments`, in children of the interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from agents.environments.environments import Environments
from agents.environments.seam import Beginning, EnvironmentFailed, Finish, Step
from agents.gateway.calls import Calls
from agents.gateway.dialects.dialect import Answer, Asked, Begun, Usage
from agents.gateway.server import Gateway
from benchmarks import results
from broker.messages import End, Turn
from broker.processes import spawn
from config.run import Run

T = TypeVar("T")
TASK = "game"
ASKED: Turn = {"role": "user", "content": "Play."}
START_S = 600.0  # of a child's imports, which are torch's for verl
LISTENS_S = 120.0  # until a server listens
EPISODE_S = 900.0


class Missing(Exception):
    """A package can't be installed here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One episode."""

    beginning: Beginning | None
    steps: Sequence[Step]
    failure: EnvironmentFailed | None

    @property
    def said(self) -> list[str]:
        """What the policy read behind the beginning."""
        return [str(one["content"]) for step in self.steps for one in step.messages]

    @property
    def opening(self) -> str:
        """What it read last of the beginning."""
        return str(self.beginning.messages[-1]["content"]) if self.beginning else ""

    @property
    def tools(self) -> list[str]:
        """The names of the tools that it was offered."""
        return [tool["function"]["name"] for tool in self.beginning.tools] if self.beginning else []

    @property
    def rewards(self) -> list[float | None]:
        """What each turn was paid."""
        return [step.reward for step in self.steps]

    @property
    def is_over(self) -> bool:
        """Whether the environment ended it with the last turn."""
        return bool(self.steps) and (self.steps[-1].terminated or self.steps[-1].truncated)

    def failed(self, stage: str, words: str, *, is_policys: bool) -> bool:
        """Tell whether it failed there, with these words, and whose doing it was."""
        found = self.failure
        return found is not None and (found.stage, found.is_policys, words in str(found)) == (
            stage,
            is_policys,
            True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One episode of an agent that owns its loop."""

    asked: Sequence[Asked]  # of the policy
    finish: Finish | None
    failure: EnvironmentFailed | None

    @property
    def reward(self) -> float | None:
        """What it was paid."""
        return self.finish.reward if self.finish else None

    def read(self, call: int) -> list[str]:
        """Return what the policy was told in a call, message by message."""
        return [str(one["content"]) for one in self.asked[call].messages]

    @property
    def heard(self) -> str:
        """What it was told last in each call, a line or more each."""
        return "\n".join(self.read(call)[-1] for call in range(len(self.asked)))

    @property
    def answer(self) -> str:
        """What the agent has made."""
        return (self.finish.answer if self.finish else None) or ""

    def failed(self, stage: str, words: str, *, is_policys: bool) -> bool:
        """Tell whether it failed there, with these words, and whose doing it was."""
        return Played(beginning=None, steps=(), failure=self.failure).failed(
            stage, words, is_policys=is_policys
        )


class Script(Calls):
    """A policy that says these messages, one a call."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(model="policy", created=0)
        self._turns, self.asked = list(turns), []  # type: list[Turn], list[Asked]

    def count(self, asked: Asked) -> int:
        """Count messages: nobody looks."""
        return len(asked.messages)

    async def _answered(self, asked: Asked, begun: Begun) -> Answer:
        self.asked.append(asked)
        if not self._turns:
            return self._at_limit(End.TURNS, begun, given=1, is_beside=False)
        usage = Usage(given=1, cached=0, sampled=1)
        return Answer(
            id=begun.id,
            model=begun.model,
            created=begun.created,
            message=self._turns.pop(0),
            is_cut=False,
            stopped_at=None,
            usage=usage,
        )


@dataclass(slots=True)
class Stage:
    """The place of one kind."""

    folder: Path
    python: Path | None = None  # of its children; None: Millrace's own
    others: Mapping[str, Path] = field(default_factory=dict)  # further interpreters, by their name
    episodes: int = 0
    conversations: int = 0  # of these, by the agents' own count; 0: there is none
    sequences: int = 0  # that they became
    held: dict[str, bool] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # each with its reason

    def file(self, name: str, text: str) -> Path:
        """Write a file that the children find as a module."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def prints(self, name: str, text: str, *words: str, python: Path) -> str:
        """Return what a program prints."""
        command: list[str | Path] = [python, self.file(name, text), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LISTENS_S, check=True)
        return str(done.stdout)

    def holds(self, what: str, *parts: bool) -> None:
        """Note whether something holds."""
        self.held[what] = all(parts)

    def leaves_out(self, what: str) -> None:
        """Note what can't be played here, and why; it counts for nothing."""
        self.left_out.append(what)

    @contextlib.contextmanager
    def plays(
        self, section: Mapping[str, Any], *, scorer: str | Mapping[str, Any] = "math"
    ) -> Iterator[Player]:
        """Begin to play in a section, whose task has a scorer of that type, or with that section."""
        here = {"start_deadline_s": START_S, **({"python": str(self.python)} if self.python else {})}
        judge = {"type": scorer} if isinstance(scorer, str) else dict(scorer)
        task = {"scorer": judge, "environment": {**here, **section}}
        run = Run.model_validate(
            {
                "name": "prove-agents",
                "model": {"path": "nobody/nothing"},
                "data": {"train": {"type": "dataset", "path": "rows.jsonl"}},
                "scorers": {"tasks": {TASK: task}},
            }
        )
        before = os.environ.get("PYTHONPATH")
        places = (
            [self.folder] if self.python else [self.folder, results.ROOT]
        )  # another Python finds none of ours
        os.environ["PYTHONPATH"] = os.pathsep.join(map(str, places))
        try:
            with asyncio.Runner() as runner:
                player = Player(self, runner, runner.run(_made(run)))
                try:
                    yield player
                finally:
                    runner.run(player.environments.close())
        finally:
            os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)

    @contextlib.contextmanager
    def serves(
        self, *words: str | Path, python: Path | None = None
    ) -> Iterator[tuple[int, Callable[[], None]]]:
        """Run a server with `{port}` among its words. Yields the port, and what kills it."""
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        log = self.folder / f"server-{port}.log"
        with log.open("wb") as output:
            command = [python or self.python or "python3", *(str(word).format(port=port) for word in words)]
            process = spawn(command, cwd=self.folder, stdout=output, stderr=output)
        try:
            _wait_for_port(process, port, log)
            yield port, lambda: _kill(process)
        finally:
            _kill(process)


class Player:
    """Plays episodes in one section, one after another or at the same time."""

    def __init__(self, stage: Stage, runner: asyncio.Runner, environments: Environments) -> None:
        self.stage, self._runner, self.environments = stage, runner, environments

    def play(
        self,
        *turns: str | Turn,
        row: Mapping[str, Any] | None = None,
        seed: int = 17,
        before_last: Callable[[], None] | None = None,
    ) -> Played:
        """Play an episode, to the end that the environment gives it or that of the turns."""
        return self.wait(self._play(turns, row or {}, seed, before_last))

    def run(
        self, *turns: str | Turn, row: Mapping[str, Any] | None = None, seed: int = 7, judged: bool = False
    ) -> Ran:
        """Let an agent run to its end, with a policy that says these.

        Args:
            judged: whether what it has made is judged behind it, and it may call by a socket.
        """
        return self.wait(self._run(turns, row or {}, seed, judged=judged))

    def play_together(self, number: int, *turns: str | Turn) -> list[Played]:
        """Play as many episodes at the same time."""

        async def all_of_them() -> list[Played]:
            return list(await asyncio.gather(*(self._play(turns, {}, 17, None) for _ in range(number))))

        return self.wait(all_of_them())

    def play_by(self, answer: Callable[[str], str], *, most: int, seed: int = 17) -> Played:
        """Play an episode in which each turn depends on what was read last."""
        return self.wait(self._play_by(answer, most, seed))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the player's loop, in time."""
        return self._runner.run(asyncio.wait_for(work, EPISODE_S))

    async def _run(
        self, turns: Sequence[str | Turn], row: Mapping[str, Any], seed: int, *, judged: bool
    ) -> Ran:
        number = self.stage.episodes = self.stage.episodes + 1
        script, gateway = Script([says(turn) for turn in turns]), Gateway("policy", has_socket=judged)
        await gateway.start()
        try:
            episode, _ = await self.environments.begin(
                TASK, row, [], seed=seed, own_seed=seed, token=f"proof-{number}"
            )
            try:
                with gateway.opened(script) as access:
                    finish = await episode.run(access.base_url, access.key, EPISODE_S, socket=access.socket)
                if judged:
                    finish = await episode.judge(EPISODE_S)
            finally:
                await episode.close()
        except EnvironmentFailed as error:
            return Ran(asked=script.asked, finish=None, failure=error)
        finally:
            await script.close()
            await gateway.close()
        return Ran(asked=script.asked, finish=finish, failure=None)

    async def _play(
        self,
        turns: Sequence[str | Turn],
        row: Mapping[str, Any],
        seed: int,
        before_last: Callable[[], None] | None,
    ) -> Played:
        steps: list[Step] = []
        beginning: Beginning | None = None
        number = self.stage.episodes = self.stage.episodes + 1
        try:
            episode, beginning = await self.environments.begin(
                TASK, row, [ASKED], seed=seed, own_seed=seed, token=f"proof-{number}"
            )
            try:
                for place, turn in enumerate(turns, 1):
                    if before_last is not None and place == len(turns):
                        before_last()
                    steps.append(await episode.step(says(turn)))
                    if steps[-1].terminated or steps[-1].truncated:
                        break
            finally:
                await episode.close()
        except EnvironmentFailed as error:
            return Played(beginning=beginning, steps=steps, failure=error)
        return Played(beginning=beginning, steps=steps, failure=None)

    async def _play_by(self, answer: Callable[[str], str], most: int, seed: int) -> Played:
        number = self.stage.episodes = self.stage.episodes + 1
        episode, beginning = await self.environments.begin(
            TASK, {}, [ASKED], seed=seed, own_seed=seed, token=f"proof-{number}"
        )
        read, steps = str(beginning.messages[-1]["content"]), []
        for _ in range(most):
            steps.append(await episode.step(says(answer(read))))
            if steps[-1].terminated or steps[-1].truncated:
                break
            read = str(steps[-1].messages[-1]["content"])
        await episode.close()
        return Played(beginning=beginning, steps=steps, failure=None)


def says(turn: str | Turn) -> Turn:
    """Return a message of the policy."""
    return {"role": "assistant", "content": turn} if isinstance(turn, str) else turn


def calls(*asked: tuple[str, Mapping[str, Any]]) -> Turn:
    """Return a message of the policy that calls tools."""
    made = [
        {
            "id": f"call-{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for place, (name, arguments) in enumerate(asked)
    ]
    return {"role": "assistant", "content": "", "tool_calls": made}


async def _made(run: Run) -> Environments:
    return Environments(run)


def _wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + LISTENS_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as link:
            if link.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise RuntimeError(f"the server did not listen within {LISTENS_S:g} s: {tail}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
