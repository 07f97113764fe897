"""Episodes whose every sampled token is known: engines that keep a book, and the batch that is trained held to it.

In: groups of walks (`tests.support.arena_environments`), played by agents of which one is killed now and then, while new
weights come. Out: what the learner's journal gives back of them, as a batch, token by token.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.rendering.scripted import ScriptedRendering
from broker import codec
from broker.connection import RedisLink
from broker.keys import EPISODES, ROLLOUTS, SCORED, Keys
from broker.messages import NO_IDS, FinishReason, Ids, ScoredGroup, Span, Turn
from broker.protocol.run_owner import NewGroup
from broker.protocol.streams import hand_over
from config.generators import ScriptedEngineConfig
from config.run import Run
from generators.engine import Sample, SamplingParams
from generators.engines.scripted import STOP_ID, ScriptedEngine
from learner.journal.ledger import read_ledger
from learner.journal.payloads import read_step
from learner.journal.writer import Journal
from learner.training.batch import Batch, pack
from tests.support.arena import TASK, Arena, Playing
from tests.support.generator_floor import make_run
from tests.support.groups import a_prompt, a_score
from tests.support.waiting import wait_in_loop

WALK = {"type": "custom", "import_path": "tests.support.arena_environments:Walk", "turn_tokens": 24}
FORGET, SHORTEN = "Forget", "Shorten"  # words that rewrite the history
SIZES = (3, 1, 4, 2)  # of the groups, in turn
LET_IN = 8  # groups at once
STEP = 8  # groups of a step
LOGPROB_UNIT = 2.0**-24


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """One turn as its engine sampled it."""

    generator: str
    seed: int
    given: Ids
    ids: Ids
    logprobs: NDArray[np.float32]  # no other token of the book has any of these
    versions: NDArray[np.int32]  # of each token


@dataclass(slots=True)
class Book:
    """What all engines have sampled. At each turn of so many new weights are published, and come while it is sampled."""

    publish: Callable[[int], None]
    every: int
    turns: list[Sampled] = field(default_factory=list)
    tokens: int = 0
    begun: int = 0
    version: int = 0

    async def begin(self, engine: ScriptedEngine) -> None:
        """Begin a turn of an engine."""
        self.begun += 1
        if self.begun % self.every == 0:
            self.version = version = self.version + 1
            self.publish(version)
            await wait_in_loop(lambda: engine.version >= version)


class BookEngine(ScriptedEngine):
    """The fake engine, which answers with bytes by the seed, unlike in length, and writes down what it samples."""

    def __init__(self, book: Book, name: str, *, seconds: float) -> None:
        super().__init__(make_run(), ScriptedEngineConfig())
        self._book, self._name, self._seconds = book, name, seconds

    async def generate(self, token_ids: Ids, params: SamplingParams, n: int) -> tuple[Sample, ...]:
        assert n == 1, "an episode asks one turn at a time"
        chance = np.random.default_rng(params.seed)
        before = self.version
        await self._book.begin(self)
        await asyncio.sleep(self._seconds * chance.random())
        length = chance.integers(1, params.max_tokens + 1)
        script = np.append(chance.integers(1, 256, length), STOP_ID)
        ids = script[: params.max_tokens].astype(np.int32)
        changed = chance.integers(0, len(ids) + 1)  # from here on by the weights that came meanwhile
        versions = np.where(np.arange(len(ids)) < changed, before, self.version).astype(np.int32)
        first = self._book.tokens = self._book.tokens + len(ids)
        logprobs = (-LOGPROB_UNIT * (first - np.arange(len(ids)))).astype(np.float32)
        self._book.turns.append(Sampled(self._name, params.seed, token_ids, ids, logprobs, versions))
        spans = tuple(
            Span(version=int(version), first=int(np.argmax(versions == version)), count=int(count))
            for version, count in zip(*np.unique(versions, return_counts=True), strict=True)
        )
        finish = FinishReason.STOP if len(ids) == len(script) else FinishReason.LENGTH
        return (Sample(token_ids=ids, logprobs=logprobs, spans=spans, finish_reason=finish),)


class Rewriting(ScriptedRendering):
    """A rendering that begins anew at two words: with the first question, or without what the policy said."""

    def first(self, messages: Sequence[Turn], tools: Sequence[Turn]) -> Ids:
        said = [turn["role"] == "assistant" for turn in messages]
        if any(said) and FORGET in messages[-1]["content"]:
            messages = messages[: said.index(True)]
        return super().first([turn for turn in messages if turn["role"] != "assistant"], tools)

    def following(  # type: ignore[override]
        self, given: Ids, sampled: Ids, finish: FinishReason, **more: Any
    ) -> Ids | None:
        text = more["said"][-1]["content"]
        if FORGET in text or SHORTEN in text:
            return None
        return super().following(given, sampled, finish, **more)


class Walks(Arena):
    """An arena of walks of every kind: groups of several sizes, begun alike or not, told otherwise when played again.

    Args:
        groups: to play.
        every: turns, with which new weights come.
    """

    def __init__(
        self, link: RedisLink, keys: Keys, folder: Path, run: Run, *, groups: int, every: int
    ) -> None:
        super().__init__(link, keys, folder, run)
        self.book = Book(self.publish, every)
        self.groups, self._issued = groups, 0

    def group(self, group_id: str) -> NewGroup:
        number = int(group_id)
        fickle = {"fickle": 1 + number % 2}
        once = {"breaks": 2, "once": str(self.folder / f"once-{number}")}
        kinds: list[dict[str, Any]] = [
            {"fickle": 1, **once},
            {"apart": True, **fickle},
            {"turns_back": 1, "word": FORGET},
            {"turns_back": 2, "word": SHORTEN, **once},
            fickle,
        ]
        prompt = a_prompt(
            group_id,
            n=SIZES[number % len(SIZES)],
            seed=number,
            task=TASK,
            token_ids=NO_IDS,
            issued_at=time.time(),
            max_tokens=self.run_config.sampling.max_tokens,
            columns=kinds[number % len(kinds)],
        )
        return NewGroup(group_id, codec.encode_prompt(prompt), EPISODES)

    async def play(self, *, kills: int, turns_between: int, seconds: float) -> None:
        """Play the groups to their hand-over, with two generators and two agents, one of which is killed now and then.

        Args:
            turns_between: turns from one kill to the next.
            seconds: of the longest turn.
        """
        async with AsyncExitStack() as stack:
            for name in ("g", "h"):
                engine = BookEngine(self.book, name, seconds=seconds)
                await stack.enter_async_context(self.generator(engine, name))
            _, steady = await stack.enter_async_context(self.agent("steady"))
            for number in range(kills):
                async with self.agent(f"mortal-{number}") as mortal:
                    await wait_in_loop(
                        partial(self._is_due, len(self.book.turns) + turns_between, mortal), task=mortal[1]
                    )
                    kill(mortal)
                self.age_episodes()  # those of the steady one too: two workers play a group
            await wait_in_loop(self._is_over, task=steady, within_s=900)

    def scored(self) -> list[ScoredGroup]:
        """Do a scorer's part, and return the groups as the learner reads them."""
        found = []
        for entry in [self.entry(group_id) for group_id in self.ids(ROLLOUTS)]:
            rollout = codec.decode_rollout(entry.raw)
            group = ScoredGroup(
                rollout=rollout,
                scores=(a_score(1.0, "as every walk"),) * rollout.prompt.n,
                rewards=(1.0,) * rollout.prompt.n,
                worker="s",
                seconds=0.0,
            )
            assert hand_over(self.link, self.keys, entry, SCORED, codec.encode_scored(group))
            found.append(codec.decode_scored(self.entry(entry.group_id).raw))
        return found

    def _is_due(self, turns: int, mortal: Playing) -> bool:
        worker, _ = mortal
        return self._is_over() or (len(self.book.turns) >= turns and bool(worker._tasks))

    def _is_over(self) -> bool:
        """Let groups in while there is room, and return whether all is played."""
        there = int(self.client.xlen(self.keys(EPISODES)))
        if there < LET_IN and self._issued < self.groups:
            ids = range(self._issued, min(self._issued + LET_IN, self.groups))
            assert self.issue(*ids, budget=self.groups).floor == self.book.version
            self._issued = ids.stop
            return False
        return there == 0


def kill(playing: Playing) -> None:
    """End a worker as a signal 9 does: it hands nothing back."""
    worker, task = playing
    worker.hand_back = worker.consumer.hand_back = lambda *_: 0  # type: ignore[method-assign]
    task.cancel()


def batches(scored: Sequence[ScoredGroup], folder: Path, *, version: int) -> Iterator[Batch]:
    """Yield what a learner at a version trains on, from its journal. No two completions of a step are worth the same."""
    journal = Journal(folder, 1, run="test")
    for step, first in enumerate(range(0, len(scored), STEP)):
        groups = scored[first : first + STEP]
        worth = iter(range(1, 1000))
        journal.append(step, groups, [[float(next(worth)) for _ in group.rewards] for group in groups])
    journal.close()
    for record in read_ledger(folder).steps:
        groups, advantages = read_step(folder, record)
        yield pack(
            groups,
            advantages,
            tokens_per_micro_batch=512,
            truncated=None,
            policy_version=version,
            by_length=record["step"] % 2 == 1,
        )


class Comparison:
    """Holds batches to a book. `trained` counts how often each token of the book was trained."""

    def __init__(self, book: Book) -> None:
        self.turns = book.turns
        self.trained = [np.zeros(len(turn.ids), np.int64) for turn in book.turns]
        self._places = {
            logprob.tobytes(): (number, place)
            for number, turn in enumerate(book.turns)
            for place, logprob in enumerate(turn.logprobs)
        }
        assert len(self._places) == book.tokens, "a log-probability names its token"

    def read(self, batch: Batch) -> None:
        """Hold one batch to the book."""
        starts = np.flatnonzero(batch.position_ids == 0)
        for part in np.split(np.arange(len(batch.token_ids)), starts[1:]):
            worth = batch.advantages[part][batch.loss_mask[part]]
            assert len(np.unique(worth)) == 1
            assert len(np.unique(batch.sequence_ids[part])) == 1
            self._read_sequence(batch, part)

    def _read_sequence(self, batch: Batch, part: NDArray[np.int64]) -> None:
        ids, is_trained = batch.token_ids[part], batch.loss_mask[part]
        for nothing in (batch.sampled_logprobs, batch.advantages, batch.lags):
            assert not nothing[part][~is_trained].any(), "nobody sampled these"
        for position in np.flatnonzero(is_trained):
            number, place = self._places[batch.sampled_logprobs[part][position].tobytes()]
            turn = self.turns[number]
            self.trained[number][place] += 1
            assert ids[position] == turn.ids[place]
            assert batch.policy_version - batch.lags[part][position] == turn.versions[place]
            if place == 0:
                end = position + len(turn.ids)
                assert np.array_equal(ids[:position], turn.given), "it was sampled behind something else"
                assert np.array_equal(ids[position:end], turn.ids)
                assert is_trained[position:end].all()

    def forsaken(self) -> list[Sampled]:
        """Return the turns that no batch has. Every other is there whole, and once."""
        whole = [bool(counts.all()) for counts in self.trained]
        assert all(counts.max() == whole[number] for number, counts in enumerate(self.trained))
        return [turn for turn, is_whole in zip(self.turns, whole, strict=True) if not is_whole]
