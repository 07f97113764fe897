"""This module puts requests into the reserved run `api` in Redis, and reads their results.

In: the text of a response and its row. Out: a group of one completion on `rollouts`, which any pool of scorers takes,
and later the result, from `scored` or `dead`. No learner owns the run. Each server removes the results that it has
read, and whatever is older than LONGEST_S, also of other servers. Each call is one try: its caller decides how long
Redis may be away.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from redis.exceptions import RedisError

from broker import codec
from broker.connection import RedisLink, Wait
from broker.errors import BadMessage
from broker.keys import DEAD, SCORED, Keys
from broker.messages import (
    Completion,
    DeadLetter,
    FinishReason,
    JsonObject,
    Prompt,
    SampledGroup,
    ScoredGroup,
    Span,
    Split,
)
from broker.protocol.streams import entries_by_stream, entries_of

LONGEST_S: Final = 600.0  # that a request stays in Redis, answered or not

Result = ScoredGroup | DeadLetter


@dataclass(frozen=True, slots=True)
class Arrival:
    """An arrival is the result of one request, as it came out of Redis."""

    request_id: str
    result: Result


def rollout_of(request_id: str, task: str, text: str, verification_info: Mapping[str, Any]) -> SampledGroup:
    """Make a group of a request: one completion of one made-up token, which no generator sampled."""
    prompt = Prompt(
        group_id=request_id,
        split=Split.EVAL,
        task=task,
        n=1,
        floor=0,
        issued_at=time.time(),
        epoch=0,
        row=0,
        fingerprint="api",
        seed=0,
        temperature=1.0,
        max_tokens=1,
        messages=(),
        token_ids=np.zeros(1, np.int32),
        verification_info=JsonObject(verification_info),
    )
    completion = Completion.of_one_segment(
        token_ids=np.zeros(1, np.int32),
        logprobs=np.zeros(1, np.float32),
        text=text,
        policy_spans=(Span(version=0, first=0, count=1),),
        finish_reason=FinishReason.STOP,
    )
    return SampledGroup(prompt=prompt, completions=(completion,), generator="api", seconds=0.0)


def admit(link: RedisLink, keys: Keys, rollout: SampledGroup) -> None:
    """Put a request where scorers find it. The same id again does no harm. Raises RedisError, PipelineError."""
    flat = [part for pair in codec.encode_rollout(rollout).items() for part in pair]
    link.script("admit", keys.scripts(), rollout.prompt.group_id, *flat, wait=Wait.FOR_NOTHING)


def discard(link: RedisLink, keys: Keys, request_ids: Sequence[str]) -> None:
    """Discard requests, in whatever stream they are. Raises RedisError, PipelineError."""
    if request_ids:
        link.script("discard", keys.scripts(), *request_ids, wait=Wait.FOR_NOTHING)


def missing(link: RedisLink, keys: Keys, request_ids: Sequence[str]) -> list[str]:
    """Find which of these admitted requests Redis knows nothing of any more. Raises RedisError."""
    client: Any = link.client
    places = client.hmget(keys.where, request_ids) if request_ids else []
    return [request_id for request_id, place in zip(request_ids, places, strict=True) if place is None]


def discard_old(link: RedisLink, keys: Keys) -> int:
    """Discard requests that have not moved for LONGEST_S, and dead letters as old. Returns how many requests."""
    client: Any = link.client
    seconds, _ = client.time()
    oldest_ms = int((seconds - LONGEST_S) * 1000)
    # The slots are read first: a request that comes between the two reads is then not taken for lost.
    slots = {name.decode() for name in client.zrange(keys.slots, 0, -1)}
    places = {name.decode(): place.decode() for name, place in client.hgetall(keys.where).items()}
    lost = slots - places.keys()
    old = [
        name for name, place in places.items() if int(place.rpartition(" ")[2].partition("-")[0]) < oldest_ms
    ]
    discard(link, keys, [*old, *lost])
    # Dead letters of entries that were no request have no place, and go by their age alone.
    client.xtrim(keys.stream(DEAD), minid=oldest_ms, approximate=False)
    return len(old) + len(lost)


class Arrivals:
    """This reader gives one server the results of its own requests, and of no others.

    Args:
        prefix: the beginning of the ids of this server's requests.
    """

    def __init__(self, link: RedisLink, keys: Keys, prefix: str) -> None:
        self._client: Any = link.client
        self._prefix = prefix
        self._positions = {keys.stream(stream).encode(): b"0-0" for stream in (SCORED, DEAD)}
        self._names = {keys.stream(stream).encode(): stream for stream in (SCORED, DEAD)}

    def read(self, *, block_s: float) -> list[Arrival]:
        """Read what has come since the last call, within `block_s` seconds. Raises RedisError.

        After an error the next call reads from the start, where there is little: the next Redis may have an earlier
        clock.
        """
        try:
            reply = self._client.xread(self._positions, count=64, block=max(1, int(block_s * 1000)))
        except RedisError:
            self._positions = dict.fromkeys(self._positions, b"0-0")
            raise
        return list(self._mine(reply))

    def _mine(self, reply: Any) -> Iterable[Arrival]:
        for key, items in entries_by_stream(reply):
            for entry in entries_of(self._names[key], items):
                if entry.group_id.startswith(self._prefix):
                    yield Arrival(entry.group_id, _result(entry.stream, entry.raw))
            self._positions[key] = items[-1][0]


def _result(stream: str, raw: codec.Raw) -> Result:
    if stream == DEAD:
        return codec.decode_dead(raw)
    try:
        return codec.decode_scored(raw)
    except BadMessage as error:
        return DeadLetter(
            group_id=codec.text(raw, "group", "?"),
            stage=SCORED,
            attempts=0,
            traceback="",
            original=b"",
            reason=f"its scores can't be read: {error}",
        )
