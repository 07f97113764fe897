"""What a generator may get wrong: each goes to the dead with the reason, and costs the other groups nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest

from broker import codec
from broker.connection import RedisLink
from broker.keys import PROMPTS, ROLLOUTS, Keys
from broker.messages import SampledGroup
from broker.protocol.streams import hand_over
from tests.support.groups import a_prompt, a_rollout
from tests.support.pool_workers import delivered, sweep_later
from tests.support.station import ScriptedScorer, Station, make_run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

Harm = Callable[[codec.Fields], codec.Fields]


@pytest.fixture
def station(link: RedisLink, keys: Keys) -> Station:
    return Station(link, keys, make_run())


def first_completion(**changes: Any) -> Harm:
    """Change the segment of the first completion, of three tokens; None takes the part away."""

    def harm(fields: codec.Fields) -> codec.Fields:
        tree = msgpack.unpackb(fields["payload"])
        segment = tree["completions"][0]["segments"][0] | changes
        tree["completions"][0]["segments"] = [
            {name: part for name, part in segment.items() if part is not None}
        ]
        return fields | {"payload": msgpack.packb(tree)}

    return harm


def logprobs(*values: float) -> bytes:
    return np.array(values, "<f4").tobytes()


def with_field(name: str, value: Any) -> Harm:
    return lambda fields: fields | {name: value}


ANOTHERS = codec.encode_rollout(a_rollout(a_prompt("18", floor=0)))["payload"]
INFINITE = "1 of 3 log-probabilities are not finite"
HARMS = {
    "a NaN": (first_completion(logprobs=logprobs(-0.5, float("nan"), -0.25)), INFINITE),
    "an infinity": (first_completion(logprobs=logprobs(-0.5, float("-inf"), -0.25)), INFINITE),
    "no log-probabilities": (first_completion(logprobs=b""), "3 tokens with 0 log-probabilities"),
    "none at all": (first_completion(logprobs=None), "KeyError: 'logprobs'"),
    "too few": (first_completion(logprobs=logprobs(-0.5)), "3 tokens with 1 log-probabilities"),
    "an empty completion": (
        first_completion(token_ids=b"", logprobs=b"", spans=[]),
        "0 tokens with 0 log-probabilities",
    ),
    "spans beyond the end": (first_completion(spans=[[3, 0, 4]]), "spans cover 4 of 3 tokens"),
    "an older schema": (with_field("v", "0"), "schema version 0, this program reads 1 and 2"),
    "another group's": (with_field("payload", ANOTHERS), "the header says group '0', the payload '18'"),
    "no msgpack": (with_field("payload", b"result"), "payload: "),
}


@pytest.mark.parametrize(("harm", "reason"), HARMS.values(), ids=HARMS)
def test_a_bad_rollout_goes_to_the_dead_under_its_own_id_and_the_next_is_scored(
    station: Station, harm: Harm, reason: str
) -> None:
    station.issue(0)
    entry = station.entry("0")
    good = codec.encode_rollout(a_rollout(codec.decode_prompt(entry.raw)))
    assert hand_over(station.link, station.keys, entry, ROLLOUTS, harm(good))
    delivered(station, 1)
    station.work(scorer := ScriptedScorer())
    assert (scorer.seen, station.ids("scored"), station.ids("dead")) == (["1"], ["1"], ["0"])
    letter = station.letter("0")
    assert reason in letter["reason"]
    assert letter["stage"] == ROLLOUTS
    station.audit()


FOREIGN: dict[str, dict[str, Any]] = {
    "an id of ours": codec.encode_rollout(a_rollout(a_prompt("0", floor=0))),
    "an id that we do not know": codec.encode_rollout(a_rollout(a_prompt("7", floor=0))),
    "no rollout": {"group": "é/17", "payload": b"\xff"},
}


@pytest.mark.parametrize("theirs", FOREIGN.values(), ids=FOREIGN)
def test_another_runs_entry_is_nobodys_and_touches_no_group_of_ours(
    station: Station, theirs: dict[str, Any]
) -> None:
    station.roll_out(0)
    station.client.xadd(station.keys(ROLLOUTS), theirs)
    station.deliver()
    station.work(ScriptedScorer())
    assert (station.ids("scored"), station.ids("dead"), station.ids(ROLLOUTS)) == (["0"], ["?"], [])
    ((_, fields),) = station.client.xrange(station.keys("dead"))
    assert fields[b"reason"].startswith(b"foreign entry: ")
    assert fields[b"payload"] == theirs["payload"], "whole, for who looks for it"
    assert station.ids(PROMPTS) == []
    station.audit()


@pytest.mark.parametrize(("hours", "again"), [(1, True), (-1, False)])
def test_a_clock_that_jumps_costs_a_second_delivery_at_most(
    station: Station, monkeypatch: pytest.MonkeyPatch, hours: int, again: bool
) -> None:
    """A job is believed for an hour: after a jump forwards the one at work seems older. Each is scored once."""
    first, second = delivered(station, 0, 1)
    right = time.time
    queued: list[list[str]] = []

    def jump(rollout: SampledGroup) -> None:
        if not queued:
            monkeypatch.setattr("scorers.pool.rq_queues.time.time", lambda: right() + 3600.0 * hours)
            wait_until(lambda: station.rq_queues.living_workers() == ["w"])
            sweep_later(station, first, second)
            queued.append(station.queued_entries())

    station.work(ScriptedScorer(jump))
    assert queued == [[first, second] if again else []]
    assert (station.ids("scored"), station.ids("dead")) == (["0", "1"], [])
    station.audit()


@pytest.mark.parametrize("hours", [1, -1])
def test_a_lost_job_is_replaced_whatever_the_clock_says(
    station: Station, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    (entry,) = delivered(station, 0)
    right = time.time
    monkeypatch.setattr("scorers.pool.rq_queues.time.time", lambda: right() + 3600.0 * hours)
    station.client.delete(station.rq_queues.queues["math"].key)
    sweep_later(station, entry)
    assert station.queued_entries() == [entry]
