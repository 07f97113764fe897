"""Request turns of the policy for one play of an episode, and keep the records of the answers.

In: the ids of a prompt. Out: the turn that a generator sampled. Several calls may be in progress. The key of a record
is what was asked and how often this play asked exactly that, so a play that asks the same gets the same. Used by the
driver of an episode: an environment (`agents.episode`) or an agent (`agents.agent_play`).
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.sequences import PolicyTurn
from agents.turns import TurnDesk
from broker.codec import pack, unpack
from broker.messages import Ids, Prompt, TurnPrompt, TurnRecord
from broker.protocol.episodes import Attempt, PolicyCall, content_of, key_of

SEED_BYTES = 4
MOST_FAILURES = 1000  # kinds of failures that are counted apart: a model may write what names them
OTHER_FAILURES = ("others",)
PLACE = re.compile(r"[^()]+:\d+ in [^()]+\)")  # at the end of a line, as `my_agent.py:12 in price)`
ENVIRONMENTS = (
    ": the environment failed in "  # `task NAME` is before it, a stage and an exception's type behind it
)


@dataclass(slots=True)
class EpisodeCounts:
    """Counts of a worker's episodes so far."""

    turns: int = 0
    sampled: int = 0  # tokens
    observed: int = 0  # tokens
    calls: int = 0  # of tools
    tool_errors: int = 0
    breaks: int = 0  # sequences that began again, since the rest of a prompt was unavailable
    environment_s: float = 0.0
    queue_s: float = 0.0  # that turns waited, from the request until they were there, without their sampling
    sampling_s: float = 0.0
    overridden: int = 0  # calls of agents with sampling parameters of their own
    auxiliary: int = 0  # calls of agents outside their task, which do not train
    replayed: int = 0  # turns with a record, because an earlier play had requested them
    replayed_s: float = 0.0  # of sampling saved by that
    ends: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, ...]] = field(default_factory=Counter)  # of plays, by reason

    def add_failure(self, line: str) -> int:
        """Count a play's failure, and return how many were like it: alike but for an exception's message.

        Args:
            line: the first one of the failure's text.
        """
        place = line.rpartition(" (")[2]
        parts = line.split(":")[: 3 if ENVIRONMENTS in line else 1]
        kind = (*parts, place if PLACE.fullmatch(place) else "")
        if kind not in self.failures and len(self.failures) >= MOST_FAILURES:
            kind = OTHER_FAILURES
        self.failures[kind] += 1
        return self.failures[kind]


class Asker:
    """Request the turns of one play of one episode.

    Args:
        prompt: of the group.
        k: the number of the episode, below prompt.n.
        is_late: returns whether the group's deadline is near.
    Attributes:
        used: the key of each record so far -> the stored record.
        seconds: of sampling so far.
    """

    def __init__(
        self,
        prompt: Prompt,
        k: int,
        attempt: Attempt,
        *,
        desk: TurnDesk,
        counts: EpisodeCounts,
        is_late: Callable[[], bool],
    ) -> None:
        self._prompt, self._k, self._attempt = prompt, k, attempt
        self._desk, self._counts, self._is_late = desk, counts, is_late
        self._asked: Counter[bytes] = Counter()  # digest of a question -> number of times asked
        self._turns: list[PolicyTurn | None] = []  # in the order of asking; None: not answered yet
        self.used: dict[str, bytes] = {}
        self.seconds = 0.0

    @property
    def turns(self) -> list[PolicyTurn]:
        """Return the answered turns that train, in the order of asking."""
        return [turn for turn in self._turns if turn is not None]

    @property
    def asked(self) -> int:
        """Count the requested turns that train, answered or not."""
        return len(self._turns)

    async def sample(
        self,
        ids: Ids,
        most: int,
        *,
        after: PolicyTurn | None = None,
        stop: tuple[str, ...] = (),
        trains: bool = True,
    ) -> PolicyTurn | None:
        """Return the next turn; None where it is too late to request a new one.

        Args:
            ids: [P], the prompt.
            most: largest number of tokens to sample, at least 1.
            after: the preceding turn; its generator has the conversation in its cache.
            stop: texts that end the turn.
            trains: whether the turn belongs to the task.
        Raises:
            Superseded, HasEnded, TurnFailed: as `TurnDesk.turn`.
        """
        prompt = self._prompt
        shape = f"{most} {prompt.temperature} {prompt.top_p}{json.dumps(stop) if stop else ''}".encode()
        digest = hashlib.blake2b(ids.tobytes() + shape, digest_size=16).digest()
        repeat = self._asked[digest]
        self._asked[digest] += 1
        packed = pack(
            TurnPrompt(
                token_ids=ids,
                max_tokens=most,
                temperature=prompt.temperature,
                seed=seed_by(prompt.seed, self._k, digest, repeat),
                top_p=prompt.top_p,
                stop=stop,
            )
        )
        key = key_of(packed, repeat)
        call = PolicyCall(self._k, key)
        place = len(self._turns)
        if trains:
            self._turns.append(None)
        if place and self._is_late() and not await self._desk.is_asked(self._attempt, call):
            return None
        near = self._desk.queues.near(after.record.generator) if after is not None else ""
        started = time.monotonic()
        stored, was_there = await self._desk.turn(self._attempt, call, packed, near=near)
        self.used[key] = stored
        turn = PolicyTurn(ids, unpack(content_of(stored), TurnRecord))
        if trains:
            self._turns[place] = turn
        self._note(turn, took_s=time.monotonic() - started, was_there=was_there)
        return turn

    def _note(self, turn: PolicyTurn, *, took_s: float, was_there: bool) -> None:
        record = turn.record
        self.seconds += record.seconds
        if was_there:
            self._counts.replayed += 1
            self._counts.replayed_s += record.seconds
            return
        self._desk.queues.note(record.generator, took_s=took_s, sampled_s=record.seconds)
        self._counts.turns += 1
        self._counts.sampled += len(record.token_ids)
        self._counts.queue_s += max(0.0, took_s - record.seconds)
        self._counts.sampling_s += record.seconds


def seed_by(*parts: int | bytes) -> int:
    """Return a seed of 4 bytes determined by these numbers and bytes."""
    text = b" ".join(part if isinstance(part, bytes) else str(part).encode() for part in parts)
    return int.from_bytes(hashlib.blake2b(text, digest_size=SEED_BYTES).digest(), "little")
