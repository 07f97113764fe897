"""A policy that says what a test has it say, and plays of agents that ask it, over a real gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.environments.seam import Finish
from agents.gateway.calls import PlayCalls
from agents.gateway.dialects.dialect import ApiRequest, Begun, PolicyAnswer, TokenUsage
from agents.gateway.server import Gateway
from broker.messages import Turn
from tests.support.played import Played


class Scripted(PlayCalls):
    """The policy says one thing after the other, and hears what it is told."""

    def __init__(self, *said: str | Turn) -> None:
        super().__init__(model="m", created=0)
        self._said = list(said)
        self.heard: list[str] = []

    def count(self, asked: ApiRequest) -> int:
        return len(asked.messages)

    async def _answered(self, asked: ApiRequest, begun: Begun) -> PolicyAnswer:
        self.heard.append(str(asked.messages[-1]["content"]))
        said = self._said.pop(0)
        return PolicyAnswer(
            id=begun.id,
            model=begun.model,
            created=begun.created,
            message={"role": "assistant", "content": said} if isinstance(said, str) else said,
            is_cut=False,
            stopped_at=None,
            usage=TokenUsage(given=1, cached=0, sampled=1),
        )


async def judged(
    play: Played, task: str, row: Mapping[str, Any], *said: str | Turn, within_s: float = 30.0
) -> tuple[Finish, list[str]]:
    """Play an episode whose agent's work is judged: what it is worth, and what the policy heard."""
    gateway, calls = Gateway("m", has_socket=True), Scripted(*said)
    await gateway.start()
    episode, _ = await play.begin(task, row)
    try:
        with gateway.opened(calls) as access:
            await episode.run(access.base_url, access.key, within_s, socket=access.socket)
        return await episode.judge(60), calls.heard
    finally:
        await episode.close()
        await calls.close()
        await gateway.close()
