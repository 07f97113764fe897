"""Who plays episodes: a scripted policy, in one section of `environment`, one episode after another or several at once.

In: what the policy says, turn by turn. Out: what it read, was paid and how it ended, or how it failed. Episodes are
played by the agents' own `Environments`, in children of the section's interpreter.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agents.environments.runner import Environments
from agents.environments.seam import Beginning, EnvironmentFailed, EnvironmentStep, Finish
from agents.gateway.calls import PlayCalls
from agents.gateway.dialects.dialect import ApiRequest, Begun, PolicyAnswer, TokenUsage
from agents.gateway.server import Gateway
from broker.messages import End, Turn

T = TypeVar("T")
TASK = "game"
ASKED: Turn = {"role": "user", "content": "Play."}
EPISODE_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayEnd:
    """How one episode ended."""

    failure: EnvironmentFailed | None

    def failed(self, stage: str, words: str, *, is_policys: bool) -> bool:
        """Tell whether it failed there, with these words, and whose doing it was."""
        found = self.failure
        return found is not None and (found.stage, found.is_policys, words in str(found)) == (
            stage,
            is_policys,
            True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedEpisode(PlayEnd):
    """One episode, turn by turn."""

    beginning: Beginning | None
    steps: Sequence[EnvironmentStep]

    @property
    def said(self) -> list[str]:
        """What the policy read behind the beginning."""
        return [str(one["content"]) for step in self.steps for one in step.messages]

    @property
    def opening(self) -> str:
        """What it read last of the beginning."""
        return _last(self.beginning.messages) if self.beginning else ""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran(PlayEnd):
    """One episode of an agent that owns its loop."""

    asked: Sequence[ApiRequest]  # of the policy
    finish: Finish | None

    @property
    def reward(self) -> float | None:
        """What it was paid."""
        return self.finish.reward if self.finish else None

    @property
    def answer(self) -> str:
        """What the agent has made."""
        return (self.finish.answer if self.finish else None) or ""

    @property
    def heard(self) -> str:
        """What the policy was told last in each call, a line or more each."""
        return "\n".join(_last(one.messages) for one in self.asked)

    def read(self, call: int) -> list[str]:
        """Return what the policy was told in a call, message by message."""
        return [str(one["content"]) for one in self.asked[call].messages]


class Script(PlayCalls):
    """A policy that says these messages, one a call."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(model="policy", created=0)
        self._turns, self.asked = list(turns), []  # type: list[Turn], list[ApiRequest]

    def count(self, asked: ApiRequest) -> int:
        """Count messages: nobody looks."""
        return len(asked.messages)

    async def _answered(self, asked: ApiRequest, begun: Begun) -> PolicyAnswer:
        self.asked.append(asked)
        if not self._turns:
            return self._at_limit(End.TURNS, begun, given=1, is_beside=False)
        usage = TokenUsage(given=1, cached=0, sampled=1)
        return PolicyAnswer(
            id=begun.id,
            model=begun.model,
            created=begun.created,
            message=self._turns.pop(0),
            is_cut=False,
            stopped_at=None,
            usage=usage,
        )


class Player:
    """Plays episodes in one section, one after another or at the same time."""

    def __init__(self, environments: Environments, runner: asyncio.Runner, count: Callable[[], int]) -> None:
        """Play in these environments.

        Args:
            runner: of their loop.
            count: counts an episode, and returns its number.
        """
        self.environments, self._runner, self._count = environments, runner, count

    def play(
        self,
        *turns: str | Turn,
        row: Mapping[str, Any] | None = None,
        seed: int = 17,
        before_last: Callable[[], None] | None = None,
    ) -> PlayedEpisode:
        """Play an episode, to the end that the environment gives it or that of the turns."""

        def say(place: int, _: str) -> str | Turn:
            if before_last is not None and place == len(turns) - 1:
                before_last()
            return turns[place]

        return self._wait(self._play(say, len(turns), row or {}, seed))

    def play_by(self, answer: Callable[[str], str], *, most: int, seed: int = 17) -> PlayedEpisode:
        """Play an episode in which each turn depends on what was read last."""
        return self._wait(self._play(lambda _, read: answer(read), most, {}, seed))

    def play_together(self, number: int, *turns: str | Turn) -> list[PlayedEpisode]:
        """Play as many episodes at the same time."""

        async def all_of_them() -> list[PlayedEpisode]:
            plays = (self._play(lambda place, _: turns[place], len(turns), {}, 17) for _ in range(number))
            return list(await asyncio.gather(*plays))

        return self._wait(all_of_them())

    def run(
        self, *turns: str | Turn, row: Mapping[str, Any] | None = None, seed: int = 7, judged: bool = False
    ) -> Ran:
        """Let an agent run to its end, with a policy that says these.

        Args:
            judged: whether what it has made is judged behind it, and it may call by a socket.
        """
        return self._wait(self._run(turns, row or {}, seed, judged=judged))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the player's loop, in time."""
        return self._runner.run(asyncio.wait_for(work, EPISODE_S))

    async def _play(
        self, say: Callable[[int, str], str | Turn], most: int, row: Mapping[str, Any], seed: int
    ) -> PlayedEpisode:
        """Play at most so many turns.

        Args:
            say: makes a turn, by its place and what was read last.
        """
        steps: list[EnvironmentStep] = []
        beginning: Beginning | None = None
        token = f"proof-{self._count()}"
        try:
            episode, beginning = await self.environments.begin(
                TASK, row, [ASKED], seed=seed, own_seed=seed, token=token
            )
            try:
                read = _last(beginning.messages)
                for place in range(most):
                    steps.append(await episode.step(says(say(place, read))))
                    if steps[-1].terminated or steps[-1].truncated:
                        break
                    read = _last(steps[-1].messages)
            finally:
                await episode.close()
        except EnvironmentFailed as error:
            return PlayedEpisode(beginning=beginning, steps=steps, failure=error)
        return PlayedEpisode(beginning=beginning, steps=steps, failure=None)

    async def _run(
        self, turns: Sequence[str | Turn], row: Mapping[str, Any], seed: int, *, judged: bool
    ) -> Ran:
        token = f"proof-{self._count()}"
        script, gateway = Script([says(turn) for turn in turns]), Gateway("policy", has_socket=judged)
        await gateway.start()
        try:
            episode, _ = await self.environments.begin(TASK, row, [], seed=seed, own_seed=seed, token=token)
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


def _last(messages: Sequence[Turn]) -> str:
    return str(messages[-1]["content"]) if messages else ""
