"""A gateway whose policy says what a test has written down: the session, the server and the clients are the real ones."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import numpy as np

from agents.asking import Asker, EpisodeCounts
from agents.gateway.server import Access, Gateway
from agents.gateway.session import EpisodeLimits, PlaySession
from agents.openings import Openings
from agents.rendering.scripted import ScriptedRendering
from agents.sequences import PolicyTurn, segments_of
from broker.messages import NO_IDS, FinishReason, Ids, Span, TurnRecord
from config.episodes.own_loop import AuxiliaryCall

MODEL = "org/policy"


class ScriptedAsker(Asker):
    """Asks nobody: each turn is the next of the texts, in bytes; the last one again and again.

    Attributes:
        prompts: the texts that the policy was given.
        most: the tokens that each turn might have.
        after: the turn that each went on from.
        stops: the texts that end each.
        gate: what turns wait for.
        error: what the next turn raises.
    """

    def __init__(self, *texts: str) -> None:
        self.texts = deque(texts)
        self._turns = []
        self.used, self.seconds = {}, 0.0
        self.prompts: list[str] = []
        self.most: list[int] = []
        self.after: list[PolicyTurn | None] = []
        self.stops: list[tuple[str, ...]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def sample(
        self,
        ids: Ids,
        most: int,
        *,
        after: PolicyTurn | None = None,
        stop: tuple[str, ...] = (),
        trains: bool = True,
    ) -> PolicyTurn | None:
        text = self.texts.popleft() if len(self.texts) > 1 else self.texts[0]
        self.prompts.append(bytes(ids.tolist()).decode())
        self.most.append(most)
        self.after.append(after)
        self.stops.append(stop)
        place = len(self._turns)
        if trains:
            self._turns.append(None)
        await self.gate.wait()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        sampled = np.frombuffer(f"{text}\0".encode(), np.uint8).astype(np.int32)[:most]
        record = TurnRecord(
            token_ids=sampled,
            logprobs=np.zeros(len(sampled), np.float32),
            policy_spans=(Span(version=1, first=0, count=len(sampled)),),
            finish_reason=FinishReason.STOP if sampled[-1] == 0 else FinishReason.LENGTH,
            generator="g",
            seconds=0.0,
        )
        turn = PolicyTurn(ids, record)
        if trains:
            self._turns[place] = turn
        return turn


@dataclass
class Served:
    """One episode at a gateway."""

    access: Access
    session: PlaySession
    asker: ScriptedAsker
    gateway: Gateway
    counts: EpisodeCounts
    closing: AsyncExitStack  # of the clients

    @property
    def sequences(self) -> int:
        """Count what the turns so far would train as."""
        return len(segments_of(self.asker.turns, NO_IDS))


@asynccontextmanager
async def served(
    *texts: str,
    turns: int = 100,
    tokens: int = 1 << 20,
    turn_tokens: int | None = None,
    beside: Sequence[AuxiliaryCall] = (),
) -> AsyncIterator[Served]:
    """Serve an episode whose policy says these texts, one a turn."""
    asker, counts = ScriptedAsker(*texts), EpisodeCounts()
    limits = EpisodeLimits(turns=turns, turn_tokens=turn_tokens, first_tokens=16 << 20, tokens=tokens)
    session = PlaySession(
        asker,
        ScriptedRendering(),
        limits,
        counts,
        Openings(),
        model=MODEL,
        created=1_790_000_000,
        beside=beside,
    )
    gateway = Gateway(MODEL)
    await gateway.start()
    try:
        async with AsyncExitStack() as closing:
            with gateway.opened(session) as access:
                yield Served(access, session, asker, gateway, counts, closing)
        asker.gate.set()
        await session.close()
    finally:
        await gateway.close()
