"""`millrace trace`: one group's story in every place where it can be. Real Redis, real journals."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from msgspec.structs import replace

from broker import codec
from broker.connection import RedisLink
from broker.keys import DEAD, EPISODES, PROMPTS, ROLLOUTS, SCORED, Keys
from broker.messages import JsonObject, Prompt, SampledGroup, ScoredGroup, Span
from broker.monitoring import group_view
from broker.monitoring.crash_reports import record_death
from broker.private_redis import server as embedded
from broker.protocol.leases import Consumer
from broker.protocol.run_owner import NewGroup
from broker.protocol.streams import Entry, dead_letter_entry, hand_over, read_entry
from learner.groups.discarded import dropped
from learner.journal.ledger import DROPPED, GroupOutcome
from scorers.pool.job import CONSUMER
from scorers.pool.rq_queues import RqQueues
from tests.support.chain import Chain, make_prompt, make_scored
from tests.support.episodes import MESSAGES, episodes
from tests.support.journals import flip
from tests.support.told import Millrace, Patch, Told

pytestmark = pytest.mark.process

ISSUED = 1_700_000_000.0
GENERATOR, WORKER = "far-11-ab12", "far-22-cd34"
SAMPLED, JUDGED = "sampling", "scoring"  # the stages between the streams
VERSIONS = [{"version": 0, "first": 0, "count": 1}, {"version": 1, "first": 1, "count": 1}]


class Story:
    """What the command said of a group."""

    def __init__(self, told: Told) -> None:
        self.code, self.out, self.err = told

    def __getitem__(self, key: str) -> Any:
        return json.loads(self.out)[key]

    def of(self, *keys: str) -> tuple[Any, ...]:
        """Return the exit code and these parts of the story."""
        return (self.code, *(self[key] for key in keys))

    @property
    def stages(self) -> list[tuple[str, float | None, float | None, str]]:
        """Name, beginning and duration of each stage, and who."""

        def rounded(number: float | None, since: float = 0.0) -> float | None:
            return number and round(number - since, 3)

        return [
            (stage["stage"], rounded(stage["began"], ISSUED), rounded(stage["seconds"]), stage["who"])
            for stage in self["stages"]
        ]

    @property
    def names(self) -> list[str]:
        return [stage["stage"] for stage in self["stages"]]

    @property
    def now(self) -> dict[str, Any]:
        return dict(self["stages"][-1])


Trace = Callable[..., Story]


@pytest.fixture
def trace(chain: Chain, at_redis: str, monkeypatch: Patch, millrace: Millrace) -> Trace:
    """`millrace trace test GROUP --json`, or as text."""
    monkeypatch.setattr("tools.trace.command.OUTAGE_S", 0.2)

    def run(group_id: str, *, as_json: bool = True, runs_dir: Path = chain.run.runs_dir) -> Story:
        words = ["--runs-dir", runs_dir, *(["--json"] if as_json else [])]
        return Story(millrace("trace", "test", group_id, *words))

    return run


def sampled(prompt: Prompt) -> SampledGroup:
    """Begun 2 s after its issue and done 5 s after it, at the second attempt, by versions 0 and 1."""
    rollout = make_scored(prompt, [0.0] * prompt.n).rollout
    spans = (Span(version=0, first=0, count=1), Span(version=1, first=1, count=1))
    first, *others = rollout.completions
    first = replace(first, segments=(replace(first.segments[0], policy_spans=spans),))
    done: dict[str, Any] = {"generator": GENERATOR, "seconds": 3.0, "sampled_at": ISSUED + 5, "attempts": 2}
    return replace(rollout, completions=(first, *others), **done)


def scored(prompt: Prompt) -> ScoredGroup:
    """Begun 6 s after its issue and done 6.5 s after it; one answer right but for its shape, one unscorable."""
    group = make_scored(prompt, [0.5, None])
    right = replace(
        group.scores[0], reason="5 is \x1b[2J5\nindeed", version="3", components={"math": 1.0, "format": 0.0}
    )
    done: dict[str, Any] = {"worker": WORKER, "seconds": 0.5, "scored_at": ISSUED + 6.5, "attempts": 1}
    return replace(group, rollout=sampled(prompt), scores=(right, group.scores[1]), **done)


def a_scored(group_id: str = "0") -> ScoredGroup:
    return scored(make_prompt(group_id, issued_at=ISSUED))


def come_to(chain: Chain, stage: str) -> Entry:
    """Issue group 0 and do the work up to `stage` on it."""
    assert chain.issue(issued_at=ISSUED) == ["0"]
    if stage != PROMPTS:
        result = codec.encode_rollout(sampled(codec.decode_prompt(chain.entry("0").raw)))
        assert hand_over(chain.link, chain.keys, chain.entry("0"), ROLLOUTS, result)
    if stage == SCORED:
        result = codec.encode_scored(scored(codec.decode_rollout(chain.entry("0").raw).prompt))
        assert hand_over(chain.link, chain.keys, chain.entry("0"), SCORED, result)
    return chain.entry("0")


def die(chain: Chain, stage: str, reason: str, attempts: int = 1) -> None:
    """Let group 0 die in a stream; the learner has not read it."""
    come_to(chain, stage)
    dead_letter_entry(chain.link, chain.keys, chain.entry("0"), reason=reason, attempts=attempts)


def beat(chain: Chain, role: str, name: str, **fields: str) -> None:
    chain.client.hset(chain.keys.alive(role, name), mapping={"since": str(time.time()), **fields})


def lease(chain: Chain, stream: str, name: str, *, worker: str = "") -> tuple[Consumer, Entry]:
    """Take the only entry of a stream."""
    consumer = Consumer(chain.link, chain.keys, stream, name, lease_s=60.0, worker=worker)
    (entry,) = consumer.lease(8, block_s=0)
    return consumer, entry


def enqueue(chain: Chain, entry: Entry) -> str:
    """Have a job made for an entry, as a dispatcher does."""
    return RqQueues(chain.client, chain.keys).enqueue("math", [entry.entry_id], entry.group_id)


def take_job(chain: Chain, job: str, worker: str) -> None:
    """RQ's own part, when a worker takes a job."""
    chain.client.lrem("rq:queue:test.math", 0, job)
    taken = {"started_at": "2026-11-21T10:00:00.000000Z", "worker_name": worker, "status": "started"}
    chain.client.hset(f"rq:job:{job}", mapping=taken)


def train(chain: Chain, *group_ids: str, step: int = 0) -> None:
    """Let the learner take groups that were scored, as far as their record."""
    chain.journal.append(step, list(map(a_scored, group_ids)), [[0.25, None]] * len(group_ids))


def test_a_prompt_that_nobody_has_taken_waits_for_a_generator(chain: Chain, trace: Trace) -> None:
    come_to(chain, PROMPTS)
    told = trace("0")
    assert told.of("state", "says", "completions") == (0, PROMPTS, "waits in prompts to be sampled", [])
    assert told.now["says"] == "issued with floor 0; waits for a generator; no generator is alive"
    assert (told.now["began"], told.now["ended"]) == (ISSUED, None)
    beat(chain, "generator", "g1", state="starting the engine")
    assert trace("0").now["says"].endswith("; 1 generator: starting the engine")


def test_a_group_that_is_sampled_is_in_somebodys_hands_since_a_time(chain: Chain, trace: Trace) -> None:
    come_to(chain, PROMPTS)
    consumer, entry = lease(chain, PROMPTS, GENERATOR)
    consumer.begin(entry)
    beat(chain, "generator", GENERATOR, state="sampling", began=f"10@1.000 0@{ISSUED + 2:.3f} 1@3.000")
    told = trace("0")
    assert told["says"] == f"is being sampled by {GENERATOR}"
    assert told.stages[0] == (PROMPTS, 0.0, 2.0, "")
    assert (told.now["stage"], told.now["began"], told.now["who"]) == (SAMPLED, ISSUED + 2, GENERATOR)
    assert re.fullmatch(r"attempt 1; its lease is \d\.\d s old", told.now["says"])
    consumer.hold(entry)
    consumer.hand_back()
    handed_back = "issued with floor 0; handed back by a generator that ended; waits for a generator; "
    assert trace("0").now["says"] == handed_back + "1 generator: sampling"


def test_a_generator_that_died_with_a_group_is_named_with_the_next_one(chain: Chain, trace: Trace) -> None:
    come_to(chain, PROMPTS)
    consumer, entry = lease(chain, PROMPTS, GENERATOR)
    consumer.begin(entry)
    how = "was killed by SIGKILL"
    record_death(chain.client, chain.keys, host="far", pid=11, how=how, last_lines=["bye"])
    chain.client.xclaim(chain.keys(PROMPTS), "workers", "near-1-ff", 0, [entry.entry_id], justid=True)
    Consumer(chain.link, chain.keys, PROMPTS, "near-1-ff", lease_s=60.0).begin(entry)
    now = trace("0").now
    assert now["who"] == "near-1-ff"
    assert now["says"].startswith(f"attempt 2 after {GENERATOR} ({how}); its lease is ")
    silent = " s old; it has no heartbeat: another takes over when the lease runs out"
    assert now["says"].endswith(silent)


def test_a_rollout_is_followed_from_the_dispatcher_to_its_worker(chain: Chain, trace: Trace) -> None:
    entry = come_to(chain, ROLLOUTS)
    told = trace("0")
    assert told.stages[:2] == [(PROMPTS, 0.0, 2.0, ""), (SAMPLED, 2.0, 3.0, GENERATOR)]
    assert told["stages"][1]["says"] == "version 0: 3 tokens, version 1: 1 tokens; attempt 2"
    assert (told["tokens"], told.now["says"]) == (4, "waits for a dispatcher; no scorer is alive")
    assert told["completions"][0]["versions"] == VERSIONS
    consumer, _ = lease(chain, ROLLOUTS, CONSUMER, worker=WORKER)
    beat(chain, "scorer", WORKER, state="waiting for rollouts")
    held = "the dispatcher holds it until its queue has room; 1 scorer: waiting for rollouts"
    assert trace("0").now["says"] == held
    before, job = enqueue(chain, Entry(ROLLOUTS, "1-1", {})), enqueue(chain, entry)
    assert before != job
    assert trace("0").now["says"].startswith(f"job {job} of queue test.math, 1 before it; ")
    take_job(chain, job, WORKER)
    beat(chain, "scorer", WORKER, state="scoring group 7")
    told = trace("0")
    assert told["says"] == "is sampled, and waits in rollouts to be scored"
    assert (told.now["stage"], told.now["who"]) == (ROLLOUTS, WORKER)
    assert told.now["says"] == f"its job {job} was taken by a worker that says: scoring group 7"
    consumer.begin(entry)
    beat(chain, "scorer", WORKER, state="scoring group 0", since=f"{ISSUED + 6:.3f}")
    told = trace("0")
    assert (told["says"], told["facts"]["task"]) == (f"is being scored by {WORKER}", "math")
    assert told.stages[2] == (ROLLOUTS, 5.0, 1.0, "")
    assert (told.now["stage"], told.now["began"], told.now["says"]) == (JUDGED, ISSUED + 6, "attempt 1")


def test_a_job_that_nobody_has_and_one_whose_worker_is_silent_are_said_so(chain: Chain, trace: Trace) -> None:
    entry = come_to(chain, ROLLOUTS)
    consumer, _ = lease(chain, ROLLOUTS, CONSUMER, worker=WORKER)
    job = enqueue(chain, entry)
    take_job(chain, job, "")
    nowhere = f"its job {job} is in no queue's list: it is delivered again when "
    assert trace("0").now["says"].startswith(nowhere)
    take_job(chain, job, WORKER)
    consumer.begin(entry)
    consumer.note_failure(entry, "Traceback\nZeroDivisionError: a bug")
    now = trace("0").now
    assert (now["stage"], now["who"]) == (JUDGED, WORKER)
    assert now["says"] == (
        "attempt 1; the last error: ZeroDivisionError: a bug; it has no heartbeat: a "
        "dispatcher delivers the group again when the lease runs out"
    )


def test_a_scored_group_waits_for_its_step(chain: Chain, trace: Trace) -> None:
    come_to(chain, SCORED)
    assert trace("0").now["says"] == "no learner is alive"
    beat(chain, "learner", "l", state="training step 1")
    told = trace("0")
    assert told["says"] == "is scored, and waits for a step to train on it"
    done = [(PROMPTS, 0.0, 2.0, ""), (SAMPLED, 2.0, 3.0, GENERATOR)]
    assert told.stages[:4] == [*done, (ROLLOUTS, 5.0, 1.0, ""), (JUDGED, 6.0, 0.5, WORKER)]
    assert told["stages"][3]["says"] == "mean reward 0.500, 1 of 2 unscorable"
    waits = "the learner has it until a step takes it: training step 1"
    assert (told.now["began"], told.now["says"]) == (ISSUED + 6.5, waits)
    assert told["completions"][0] == {
        "completion": 0,
        "tokens": 2,
        "finish_reason": "stop",
        "versions": VERSIONS,
        "reward": 0.5,
        "advantage": None,
        "status": "scored",
        "score": 0.5,
        "seconds": 0.0,
        "components": {"math": 1.0, "format": 0.0},
        "scorer": "math",
        "scorer_version": "3",
        "reason": "5 is \x1b[2J5\nindeed",
    }


def test_where_the_worker_did_not_say_when_the_entry_does(chain: Chain, trace: Trace) -> None:
    """As an older version of this program wrote it."""
    chain.issue(issued_at=ISSUED)
    chain.score("0")
    at = int(chain.entry("0").entry_id.partition("-")[0]) / 1000
    stages = trace("0")["stages"]
    ends = {PROMPTS: None, SAMPLED: None, ROLLOUTS: at - 0.1, JUDGED: at, SCORED: None}
    assert {stage["stage"]: stage["ended"] for stage in stages} == ends
    assert stages[1]["seconds"] == 0.1


def test_a_trained_group_names_its_step_its_lag_and_its_advantages(chain: Chain, trace: Trace) -> None:
    come_to(chain, SCORED)
    before = time.time()
    train(chain, "8", "9")
    train(chain, "0", step=1)
    assert trace("0")["says"] == "trained at step 2, which is making version 2"
    chain.announce(2)
    chain.run_owner.retire(["0"])
    lines = [{"step": step, "reward_mean": 0.5, "at": time.time() + step} for step in (1, 2)]
    (chain.run.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = trace("0")
    assert told.of("state", "step", "lag") == (0, "trained", 2, [0, 1])
    assert told["says"] == "trained at step 2, which made version 2"
    assert [row["advantage"] for row in told["completions"]] == [0.25, None]
    assert told.names == [PROMPTS, SAMPLED, ROLLOUTS, JUDGED, SCORED, "training"]
    assert before < told.now["began"] < time.time()
    assert 1 < told.now["seconds"] < 3
    assert told.now["says"] == "step 2, by incarnation 1 of the learner"
    assert told.of("notes", "redis", "is_whole") == (0, [], "", True)


def test_of_a_payload_that_is_gone_the_ledger_tells_the_step(chain: Chain, trace: Trace) -> None:
    train(chain, "0")
    payload = chain.journal.folder / "payload-000001-000.bin"
    flip(payload, 8)
    told = trace("0")
    assert told.of("is_whole", "state") == (1, False, "trained")
    assert "the payload of step 1 is damaged" in told["notes"][0]
    payload.unlink()
    told = trace("0")
    assert (*told.of("step", "completions"), told.names[0]) == (0, 1, [], "training")
    gone = "what it looked like went with payload-000001-000.bin: learner.journal says how long payloads stay"
    assert told["notes"] == [gone]


def test_a_dropped_group_names_the_reason_and_who_worked_for_nothing(chain: Chain, trace: Trace) -> None:
    why = "zero_variance: every reward is 0.5"
    chain.journal.end({"0": dropped(a_scored(), why), "1": GroupOutcome(DROPPED, "config: no room", 4)})
    told = trace("0")
    assert told.of("state", "says", "tokens") == (0, "dropped", f"dropped: {why}", 4)
    who = {PROMPTS: "", SAMPLED: GENERATOR, ROLLOUTS: "", JUDGED: WORKER, "dropped": ""}
    assert {stage[0]: stage[3] for stage in told.stages} == who
    assert told["facts"]["rewards"] == [0.5, None]
    assert trace("1").names == ["dropped"]  # of this one nothing more was known


@pytest.mark.parametrize(
    ("stage", "stages"), [(PROMPTS, [PROMPTS, DEAD]), (SCORED, [PROMPTS, SAMPLED, ROLLOUTS, JUDGED, DEAD])]
)
def test_a_dead_group_names_its_dead_letter(
    chain: Chain, trace: Trace, stage: str, stages: list[str]
) -> None:
    die(chain, stage, "it was poison", attempts=3)
    told = trace("0")
    dead_letter = "`millrace dead show test --group 0` has its letter"
    says = f"dead, and the learner has not recorded it yet: it was poison. {dead_letter}"
    assert told.of("state", "says") == (0, "letter", says)
    assert told.names[-len(stages[1:]) :] == stages[1:]
    chain.read()
    told = trace("0")
    assert (*told.of("state", "says"), told.names) == (0, "dead", "dead: it was poison", stages)
    assert told.now["says"] == f"in {stage}, after 3 attempts: it was poison"


def test_a_dead_group_that_was_begun_anew_and_the_new_one_name_each_other(chain: Chain, trace: Trace) -> None:
    die(chain, PROMPTS, "deadline")
    chain.read()
    dead_letter = chain.client.xrange(chain.keys(DEAD))[0][0].decode()
    chain.client.hset(chain.keys("retries"), "0", dead_letter)
    assert trace("0")["notes"] == [
        "an operator wants it again, and no learner has issued that yet",
        "its letter: millrace dead show test --group 0",
    ]
    assert "0 was begun anew 0 times" in trace("0-r1").err
    chain.journal.retry("0", 1)
    chain.run_owner.issue(1, 1, 1000, 0, [NewGroup("0-r1", codec.encode_prompt(make_prompt("0-r1")))])
    assert trace("0")["notes"] == ["begun anew as 0-r1, on an operator's word"]
    notes = ["begun anew on an operator's word after 0 died"]
    assert trace("0-r1").of("state", "notes") == (0, PROMPTS, notes)


def test_a_group_that_was_over_and_the_new_one_name_each_other(chain: Chain, trace: Trace) -> None:
    chain.issue(1)
    chain.outcomes.drop_the_rest()
    chain.outcomes.retry_the_rest()
    chain.run_owner.issue(1, 1, 1000, 0, [NewGroup("0-r1", codec.encode_prompt(make_prompt("0-r1")))])
    assert trace("0")["notes"] == ["begun anew as 0-r1, as the run was given more steps"]
    assert trace("0-r1")["notes"] == ["begun anew after 0 was over: the run was given more steps"]


def test_a_purged_dead_letter_is_told_of_by_its_note(chain: Chain, trace: Trace, millrace: Millrace) -> None:
    die(chain, PROMPTS, "deadline")
    chain.read()
    words = ("--all", "--yes", "--runs-dir", chain.run.runs_dir)
    assert millrace("dead", "purge", "test", *words).code == 0
    (note,) = trace("0")["notes"]
    assert note.startswith("its letter was purged by ")


def test_a_held_out_group_is_told_by_its_round(chain: Chain, trace: Trace) -> None:
    (held_out,) = chain.issue_eval(4, 1)
    assert trace(held_out)["state"] == PROMPTS
    chain.journal.evaluation(4, {"ids": [held_out], "pass_rate": 0.25})
    chain.run_owner.retire([held_out])
    told = trace(held_out)
    assert told.of("state") == (0, "recorded")
    assert told["says"].startswith("held out: recorded with the evaluation of version 4 (pass rate 0.250)")
    assert "is in no stream and in no evaluation that run test has recorded" in trace("eval-4-1").err


def test_a_group_that_was_never_issued_or_is_none_is_said_to_be_so(chain: Chain, trace: Trace) -> None:
    chain.issue(3)
    for group_id, says in (
        ("3", "run test (no status) has issued the groups below 3"),
        ("0-r1", "0 was begun anew 0 times"),
    ):
        told = trace(group_id)
        assert (told.code, told.out) == (1, "")
        assert told.err == f"millrace trace: group {group_id} has never been issued: {says}\n"
    assert trace("seventeen").code == 2


@pytest.mark.parametrize(
    ("is_all_gone", "says"),
    [
        (False, "it has a slot, and no entry in any stream (where: prompts "),
        (True, "it was issued, and has no slot, no entry and no outcome: it is lost. `millrace audit test`"),
    ],
)
def test_a_group_nowhere_is_an_alarm(chain: Chain, trace: Trace, *, is_all_gone: bool, says: str) -> None:
    chain.issue()
    chain.client.xdel(chain.keys(PROMPTS), chain.entry("0").entry_id)
    if is_all_gone:
        chain.client.hdel(chain.keys("where"), "0")
        chain.client.zrem(chain.keys("slots"), "0")
    told = trace("0")
    assert told.of("state") == (1, "nowhere")
    assert told["says"].startswith(says)


def test_an_entry_whose_payload_is_torn_is_told_by_its_header(chain: Chain, trace: Trace) -> None:
    chain.issue(issued_at=ISSUED)
    chain.score("0", payload=b"\xc1")
    told = trace("0")
    assert (*told.of("state"), told.now["began"]) == (0, SCORED, ISSUED)
    assert told["notes"][0].startswith("its payload can't be read: payload: ")


def test_without_redis_the_journal_says_what_it_has(chain: Chain, trace: Trace, monkeypatch: Patch) -> None:
    train(chain, "0")
    monkeypatch.setenv("REDIS_URL", "redis://:secret@127.0.0.1:1/0")
    told = trace("0")
    assert told.of("state", "step") == (0, "trained", 1)
    assert "no answer from redis at 127.0.0.1:1" in told["redis"]
    assert "from the journal alone: no answer" in trace("0", as_json=False).out
    told = trace("1")
    unknown = "group 1 has no outcome in the journal of run test: it was never issued, or is on its way. That"
    assert (told.code, unknown in told.err, "secret" in told.err) == (1, True, False)


def test_a_redis_that_does_not_know_the_run_is_left(chain: Chain, trace: Trace, tmp_path: Path) -> None:
    train(chain, "0")
    chain.client.flushall()
    assert trace("0")["state"] == "trained"
    assert "this Redis knows nothing of run test" in trace("1").err
    assert "this Redis knows nothing of run test" in trace("0", runs_dir=tmp_path / "elsewhere").err


def test_without_the_journal_redis_says_what_is_in_flight(chain: Chain, trace: Trace, tmp_path: Path) -> None:
    chain.issue(2)
    elsewhere = tmp_path / "elsewhere"
    (note,) = trace("0", runs_dir=elsewhere)["notes"]
    assert note.startswith("the journal is not on this machine")
    chain.journal.end({"1": GroupOutcome(DROPPED, "config")})
    chain.run_owner.retire(["1"])
    told = trace("1", runs_dir=elsewhere)
    gone = "was issued and is in flight no more, and the journal of run test is not here: give --runs-dir"
    assert (told.code, gone in told.err) == (1, True)


def test_a_group_that_changes_hands_between_two_reads_is_looked_for_again(
    chain: Chain, keys: Keys, monkeypatch: Patch
) -> None:
    chain.issue()
    looks = []

    def move_first(link: RedisLink, keys: Keys, stream: str, entry_id: str) -> Entry | None:
        looks.append(stream)
        if len(looks) == 1:
            chain.sample("0")
        return read_entry(link, keys, stream, entry_id)

    monkeypatch.setattr(group_view, "read_entry", move_first)
    assert group_view.look(chain.link, keys, "0").stream == ROLLOUTS
    assert looks == [PROMPTS, ROLLOUTS]


def test_the_text_fits_100_columns_and_obeys_nobody(chain: Chain, trace: Trace, monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    long = "a-machine-with-a-name-that-nobody-wants-to-type-7f9c8d5b6-x2x4z-4711-ab12"
    group = a_scored()
    scores = (group.scores[0], replace(group.scores[1], reason="answer " + "9" * 500))
    rollout = replace(group.rollout, generator=long)
    chain.journal.append(0, [replace(group, worker=long, rollout=rollout, scores=scores)], [[0.25, None]])
    out = trace("0", as_json=False).out
    lines = out.splitlines()
    assert lines[:2] == [
        "group 0 of run test: trained at step 1, which is making version 1",
        "  task math, row 0 of epoch 0, 2 completions, 4 tokens, lag -1 to 0, issued on 2023-11-14",
    ]
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in out
    shown = "math 0.5 (math 1, format 0): 5 is \\x1b[2J5 indeed"
    for part in (long, "0: 1, 1: 1", shown, "answer " + "9" * 293):
        assert part.replace(" ", "") in "".join(out.split()), part


def test_a_stopped_redis_is_started_for_the_question(
    chain: Chain, millrace: Millrace, tmp_path: Path
) -> None:
    run = chain.run.model_copy(update={"name": "private", "runs_dir": tmp_path / "runs"})
    server = embedded.start(run)
    redis.Redis.from_url(server.url).hset(Keys("private")("cursor"), "position", 5)
    server.stop()
    told = millrace("trace", "private", "5", "--runs-dir", run.runs_dir)
    never = "group 5 has never been issued: run private (no status) has issued the groups below 5"
    assert (told.code, never in told.err) == (1, True)


def test_source_and_columns_of_the_row_are_told(chain: Chain, trace: Trace) -> None:
    columns = {"ability": "sums", "extra_info.level": 3}
    prompt = replace(
        make_prompt("0", issued_at=ISSUED), data_source="math__made", columns=JsonObject(columns)
    )
    chain.journal.append(0, [scored(prompt)], [[0.25, None]])
    facts = trace("0")["facts"]
    assert (facts["source"], facts["columns"]) == ("math__made", columns)
    told = " ".join(trace("0", as_json=False).out.split())  # lines end where the terminal does
    assert "source math__made, ability sums, extra_info.level 3, 2 completions" in told


def test_an_episode_is_told_turn_by_turn(chain: Chain, trace: Trace) -> None:
    chain.journal.append(0, [episodes("0")], [[0.5, -0.5]])
    episode, answer = trace("0")["completions"]
    assert (episode["turns"], episode["ended_by"], episode["messages"]) == (3, "environment", list(MESSAGES))
    assert "messages" not in answer
    out = trace("0", as_json=False).out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "0 8 environment 3: 1, 4: 5, 5: 2 1 0.5 math 1: 5" in lines
    assert "1 2 stop 0: 2 0 -0.5 math 0: 5" in lines
    assert "tool search, an error: \\x1b[2Jno such query" in lines
    assert "assistant (version 5: 2 tokens, reward 8): <b>5</b>" in lines
    assert "\x1b" not in out


def test_a_group_of_episodes_waits_for_an_agent_and_is_in_its_hands(chain: Chain, trace: Trace) -> None:
    prompt = codec.encode_prompt(make_prompt("0", issued_at=ISSUED))
    chain.run_owner.issue(0, 0, 1000, 0, [NewGroup("0", prompt, stream=EPISODES)])
    told = trace("0")
    assert told.of("state", "says") == (0, "episodes", "waits in episodes to be played")
    none = "0 of 2 episodes have ended, 0 turns are recorded, 0 wait for a generator or are being sampled"
    assert told.now["says"] == f"issued with floor 0; {none}; waits for an agent; no agent is alive"
    beat(chain, "agent", GENERATOR, state="plays 8 episodes")
    lease(chain, EPISODES, GENERATOR)
    told = trace("0")
    assert told["says"] == f"is being played by {GENERATOR}"
    assert told.names == [EPISODES, "playing"]
    assert "its lease is 0." in told.now["says"]


def test_the_way_of_episodes_that_were_played_names_their_own_stages(chain: Chain, trace: Trace) -> None:
    group = episodes("0")
    rollout = replace(group.rollout, sampled_at=ISSUED + 5)
    chain.journal.append(0, [replace(group, rollout=rollout, scored_at=ISSUED + 6)], [[0.5, -0.5]])
    assert trace("0").names[:4] == [EPISODES, "playing", ROLLOUTS, JUDGED]
