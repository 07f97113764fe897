"""The RQ job: one group's failure or a generator's mistake is no other's, and every attempt counts. Real Redis and RQ."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
from msgspec.structs import replace

from broker import codec
from broker.connection import RedisLink
from broker.errors import BrokerUnavailable, UnknownTask
from broker.keys import PROMPTS, ROLLOUTS, Keys
from broker.messages import SampledGroup, ScoredGroup, ScoreStatus, Split
from broker.protocol.streams import Entry, hand_over
from scorers.group import GroupScorer
from scorers.pool import job, rq_queues
from scorers.pool.rq_queues import ScoringWorker
from scorers.served_model.concurrency_limits import Shared
from tests.support.endpoint_server import Saying, scripted_endpoint
from tests.support.groups import a_prompt, a_rollout
from tests.support.pool_workers import delivered, sweep_later
from tests.support.station import SLEEPER, ScriptedScorer, Station, make_run, scored
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def station(link: RedisLink, keys: Keys) -> Station:
    return Station(link, keys, make_run(broker={"max_attempts": 3}))


@pytest.fixture
def pair(station: Station) -> Station:
    delivered(station, 0, 1)
    return station


def fail_for(group_id: str, error: Exception) -> ScriptedScorer:
    def before(rollout: SampledGroup) -> None:
        if rollout.prompt.group_id == group_id:
            raise error

    return ScriptedScorer(before)


def test_each_group_of_a_job_is_handed_over_by_itself(station: Station) -> None:
    delivered(station, 0, 1, 2)
    assert len(station.queued()) == 1
    places: list[list[str]] = []
    station.work(ScriptedScorer(lambda _: places.append(station.ids("scored"))))
    assert places == [[], ["0"], ["0", "1"]]
    assert station.ids("scored") == ["0", "1", "2"]
    station.audit()


def test_a_job_that_comes_twice_scores_once(station: Station) -> None:
    entries = delivered(station, 0, 1)
    station.rq_queues.enqueue("math", entries, "0")
    station.work(scorer := ScriptedScorer())
    assert scorer.seen == ["0", "1"]
    assert station.ids("scored") == ["0", "1"]


def test_a_result_says_when_it_was_there_and_at_which_attempt(station: Station) -> None:
    before = time.time()
    (entry,) = delivered(station, 0)
    station.work(fail_for("0", ZeroDivisionError("a bug")))
    sweep_later(station, entry)
    station.work(ScriptedScorer())
    group = codec.decode_scored(station.entry("0").raw)
    assert (group.attempts, before < group.scored_at < time.time()) == (2, True)


def test_of_two_workers_at_one_group_only_the_first_result_counts(station: Station) -> None:
    delivered(station, 0)

    def another_is_faster(_: SampledGroup) -> None:
        station.move(station.entry("0"), "scored")

    station.work(ScriptedScorer(another_is_faster))
    assert station.ids("scored") == ["0"]
    assert station.entry("0").raw[b"payload"] == b"result", "the other one's"
    assert station.ids("dead") == []


def test_a_bug_costs_a_group_a_try_and_others_none(pair: Station, caplog: pytest.LogCaptureFixture) -> None:
    pair.work(fail_for("0", ZeroDivisionError("a bug")))
    assert (pair.ids("scored"), pair.ids(ROLLOUTS)) == (["1"], ["0"])
    assert re.search(
        r"score_failed group=0 entry=\S+ error=ZeroDivisionError: a bug at test_job\.py:\d+; it is tried again at once",
        caplog.text,
    )
    pair.sweep()
    pair.work(ScriptedScorer())
    assert pair.ids("scored") == ["1", "0"], "no lease had to run out"


def test_what_a_machine_lacks_waits_for_the_lease(station: Station, caplog: pytest.LogCaptureFixture) -> None:
    (entry,) = delivered(station, 0)
    station.work(fail_for("0", OSError("no space left on device")))
    assert "no space left on device" in caplog.text
    assert "when its lease runs out" in caplog.text
    station.sweep()
    assert station.queued() == []
    sweep_later(station, entry)
    station.work(ScriptedScorer())
    assert station.ids("scored") == ["0"]


def test_an_entry_that_can_not_be_read_costs_the_others_of_its_job_nothing(
    station: Station, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = delivered(station, 0, 1)
    find = job.Worker.find

    def redis_is_away(worker: job.Worker, entry_id: str) -> Entry | None:
        if entry_id == first:
            raise BrokerUnavailable("no answer from redis")
        return find(worker, entry_id)

    monkeypatch.setattr(job.Worker, "find", redis_is_away)
    station.work(ScriptedScorer())
    assert station.ids("scored") == ["1"]
    assert f"score_failed group=? entry={first}" in caplog.text


def test_a_group_that_nobody_finishes_goes_to_the_dead_after_the_last_attempt(station: Station) -> None:
    (entry,) = delivered(station, 0)
    scorer = fail_for("0", ZeroDivisionError("a bug"))
    for _ in range(4):
        station.work(scorer)
        sweep_later(station, entry)
    assert scorer.seen == ["0"] * 3, "max_attempts"
    dead_letter = station.dead_letter("0")
    assert dead_letter["reason"] == (
        "3 scorers began this group and none finished it (broker.max_attempts=3): w 3 times; "
        "the last error: ZeroDivisionError: a bug"
    )
    assert (dead_letter["attempts"], dead_letter["stage"]) == ("3", ROLLOUTS)
    assert "in before" in dead_letter["traceback"]
    assert station.hash("tries") == {}
    assert station.rq_queues.carriers() == {}
    station.audit()


def test_deliveries_are_no_attempts(station: Station) -> None:
    (entry,) = delivered(station, 0)
    for _ in range(5):
        station.link.client.delete(station.rq_queues.queues["math"].key)
        sweep_later(station, entry)
    station.work(ScriptedScorer())
    assert station.ids("scored") == ["0"]


def test_what_can_never_be_scored_goes_to_the_dead_at_once_with_its_traceback(pair: Station) -> None:
    pair.work(fail_for("0", UnknownTask("no task 'maths'")))
    dead_letter = pair.dead_letter("0")
    assert (dead_letter["reason"], dead_letter["attempts"]) == ("no task 'maths'", "1")
    assert "Traceback" in dead_letter["traceback"]
    assert pair.ids("scored") == ["1"]


def partly_scored(rollout: SampledGroup, broken: int) -> ScoredGroup:
    """Return the group with no score for its first `broken` completions, each for a reason of its own."""
    group = scored(rollout, "w")
    unscored = tuple(
        replace(score, status=ScoreStatus.UNSCORABLE, value=None, reason=f"reason {number}")
        for number, score in enumerate(group.scores[:broken])
    )
    scores = (*unscored, *group.scores[broken:])
    return replace(group, scores=scores, rewards=tuple(score.value for score in scores))


def test_too_few_scores_are_fewer_than_the_share_that_is_wanted(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, int, int, int | None]] = [
        (0.5, 1, 2, None), (0.5, 2, 3, 2), (0.75, 1, 2, 2), (1.0, 0, 2, None), (0.0, 1, 2, None),
        (0.0, 2, 2, 1),  # a group without any score is of no use to anybody
    ]  # fmt: skip
    for min_scored, broken, completions, wanted in cases:
        with subtests.test(min_scored=min_scored, broken=broken, completions=completions):
            sampled = a_rollout().completions[:1] * completions
            rollout = replace(a_rollout(), prompt=a_prompt(n=completions), completions=sampled)
            assert job.too_few_scored(partly_scored(rollout, broken), min_scored) == (
                None
                if wanted is None
                else f"too few scored: {completions - broken} of {completions}, and scorers.min_scored={min_scored:g} wants "
                f"{wanted}; the first one without a score: reason 0"
            )


@pytest.mark.parametrize("split", list(Split))
def test_a_group_of_which_too_few_have_a_score_goes_to_the_dead_at_once(
    station: Station, monkeypatch: pytest.MonkeyPatch, split: Split
) -> None:
    def score(rollout: SampledGroup, *_: object, **__: object) -> ScoredGroup:
        return partly_scored(rollout, broken=2 if rollout.prompt.group_id == "0" else 1)

    delivered(station, 0, 1, split=split)
    scorer = ScriptedScorer()
    monkeypatch.setattr(scorer, "score", score)
    station.work(scorer)
    assert station.ids("scored") == ["1"]
    dead_letter = station.dead_letter("0")
    assert dead_letter["reason"].startswith("too few scored: 0 of 2, ")
    assert (dead_letter["attempts"], dead_letter["stage"]) == ("1", ROLLOUTS)
    station.audit()


def test_a_job_in_a_process_that_is_no_scorer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_worker", None)
    with pytest.raises(RuntimeError, match="python -m scorers"):
        job.score_entries(["1-0"])


class Prefetching(ScriptedScorer):
    """Notes what is begun and what is scored, in order; `fails_at` begin of one group raises `error`."""

    def __init__(self, fails_at: str = "", error: Exception | None = None) -> None:
        super().__init__(lambda rollout: self.did.append(f"score {rollout.prompt.group_id}"))
        self.did: list[str] = []
        self.fails_at = fails_at
        self.error = error

    def prefetch(self, rollout: SampledGroup) -> None:
        self.did.append(f"begin {rollout.prompt.group_id}")
        if self.error is not None and rollout.prompt.group_id == self.fails_at:
            raise self.error


def queued_as(link: RedisLink, keys: Keys, queue: str) -> Station:
    station = Station(
        link, keys, make_run(scorers={"tasks": {"math": {"scorer": SLEEPER | {"queue": queue}}}})
    )
    delivered(station, 0, 1, 2)
    return station


@pytest.mark.parametrize(
    ("fails_at", "error", "did"),
    [
        ("", None, ["begin 0", "begin 1", "begin 2"]),
        ("1", ZeroDivisionError("a bug"), ["begin 0", "begin 1", "begin 2"]),
        ("1", BrokerUnavailable("no answer from redis"), ["begin 0", "begin 1"]),
    ],
)
def test_what_the_groups_of_a_judges_job_wait_for_begins_before_the_first_is_scored(
    link: RedisLink, keys: Keys, fails_at: str, error: Exception | None, did: list[str]
) -> None:
    station = queued_as(link, keys, "judge")
    station.work(scorer := Prefetching(fails_at, error))
    assert scorer.did == [*did, "score 0", "score 1", "score 2"], "what can't be begun is scored in its turn"
    assert station.ids("scored") == ["0", "1", "2"]
    station.audit()


def test_a_group_that_is_gone_begins_nothing(link: RedisLink, keys: Keys) -> None:
    station = queued_as(link, keys, "judge")
    station.learner.retire(["1"])
    station.work(scorer := Prefetching())
    assert scorer.did == ["begin 0", "begin 2", "score 0", "score 2"]


def test_of_other_queues_nothing_is_begun_nor_read_twice(
    link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    find = job.Worker.find

    def note(worker: job.Worker, entry_id: str) -> Entry | None:
        found.append(entry_id)
        return find(worker, entry_id)

    monkeypatch.setattr(job.Worker, "find", note)
    station = queued_as(link, keys, "math")
    station.work(scorer := Prefetching())
    assert scorer.did == ["score 0", "score 1", "score 2"]
    assert len(found) == 3


def test_one_worker_keeps_64_calls_to_a_judge_under_way(link: RedisLink, keys: Keys) -> None:
    with scripted_endpoint(Saying("Final Decision: Yes", delay_s=0.05, meets=64)) as server:
        judge = {"type": "judge", "variant": "stem", "endpoint": {"urls": [server.url], "model": "judge"}}
        station = Station(link, keys, make_run(scorers={"tasks": {"judge": {"scorer": judge}}}))
        row = {"type": "llm_judge", "answer": {"value": "a long reference", "question": "What is it?"}}
        for number in range(10):
            texts = [f"\\boxed{{answer {number} {dead_letter} }}" for dead_letter in "abcdefgh"]
            station.roll_out(number, texts=texts, task="judge", verification_info=row)
        station.deliver()
        assert [len(entries) for entries in station.queued()] == [10]
        scorer = GroupScorer(station.joined.run.scorers, shared=Shared(link, keys))
        station.work(scorer)
        scorer.close()
        assert station.ids("scored") == [str(number) for number in range(10)]
        assert server.most_at_once == 64
        assert len(server.calls) == 80


Harm = Callable[[codec.Fields], codec.Fields]


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
    "none at all": (first_completion(logprobs=None), "missing required field `logprobs`"),
    "too few": (first_completion(logprobs=logprobs(-0.5)), "3 tokens with 1 log-probabilities"),
    "an empty completion": (
        first_completion(token_ids=b"", logprobs=b"", spans=[]),
        "0 tokens with 0 log-probabilities",
    ),
    "spans beyond the end": (first_completion(spans=[[3, 0, 4]]), "spans up to token 4 of 3"),
    "an older schema": (with_field("v", "0"), "schema version 0, this program reads 1, 2, 3"),
    "another group's": (with_field("payload", ANOTHERS), "the header says group '0', the payload '18'"),
    "no msgpack": (with_field("payload", b"result"), "payload: "),
}


def test_a_bad_rollout_goes_to_the_dead_under_its_own_id_and_the_next_is_scored(station: Station) -> None:
    bad, next_one = [str(number) for number in range(len(HARMS))], str(len(HARMS))
    station.issue(*map(int, bad))
    for group_id, (harm, _) in zip(bad, HARMS.values(), strict=True):
        entry = station.entry(group_id)
        good = codec.encode_rollout(a_rollout(codec.decode_prompt(entry.raw)))
        assert hand_over(station.link, station.keys, entry, ROLLOUTS, harm(good))
    delivered(station, int(next_one))
    station.work(scorer := ScriptedScorer())
    assert (scorer.seen, station.ids("scored"), station.ids("dead")) == ([next_one], [next_one], bad)
    for what, group_id in zip(HARMS, bad, strict=True):
        dead_letter = station.dead_letter(group_id)
        assert HARMS[what][1].replace("'0'", f"'{group_id}'") in dead_letter["reason"], what
        assert dead_letter["stage"] == ROLLOUTS
    station.audit()


FOREIGN: dict[str, dict[str, Any]] = {
    "an id of ours": codec.encode_rollout(a_rollout(a_prompt("0", floor=0))),
    "an id that we do not know": codec.encode_rollout(a_rollout(a_prompt("7", floor=0))),
    "no rollout": {"group": "é/17", "payload": b"\xff"},
}


@pytest.mark.parametrize("theirs", FOREIGN.values(), ids=FOREIGN)
def test_another_runs_entry_touches_no_group_of_ours(station: Station, theirs: dict[str, Any]) -> None:
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


def test_rqs_record_of_a_worker_is_extended_between_jobs_now_and_then(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = station.link.client
    worker = ScoringWorker(
        [station.rq_queues.queues["math"]], name="w", connection=client, stop=threading.Event()
    )

    def left_s(*timeout: int) -> float:
        client.expire(worker.key, 5)
        worker.heartbeat(*timeout)
        return float(client.ttl(worker.key))

    worker.heartbeat()
    assert client.ttl(worker.key) > 60
    assert left_s() <= 5  # it has just been
    assert left_s(300) > 200  # a job asks for its own time
    monkeypatch.setattr(rq_queues, "BEAT_EVERY_S", 0.0)
    assert left_s() > 60
