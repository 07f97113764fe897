"""`millrace trace`: one group's story in every place where it can be. Real Redis, real journals."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis

from broker import codec
from broker.connection import RedisLink
from broker.keys import DEAD, PROMPTS, ROLLOUTS, SCORED, Keys
from broker.messages import Prompt, SampledGroup, Score, ScoredGroup, ScoreStatus, Span
from broker.monitoring import group_view
from broker.monitoring.crash_reports import record_death
from broker.protocol.consumer import Consumer
from broker.protocol.streams import Entry, bury, hand_over, read_entry
from learner.groups.discarded import dropped
from learner.journal.ledger import DROPPED, Outcome
from scorers.pool.job import CONSUMER
from scorers.pool.rq_queues import RqQueues
from tests.support.chain import Chain, make_prompt, make_scored
from tests.support.journals import flip
from tools.main import main

pytestmark = pytest.mark.process

ISSUED = 1_700_000_000.0
GENERATOR, WORKER = "far-11-ab12", "far-22-cd34"
OUTAGE_S = 0.2


class Told(NamedTuple):
    """What the command said."""

    code: int
    out: str
    err: str

    @property
    def story(self) -> dict[str, Any]:
        return dict(json.loads(self.out))

    @property
    def stages(self) -> list[tuple[str, float | None, float | None, str]]:
        """Name, beginning and duration of each stage, and who."""
        return [
            (
                stage["stage"],
                stage["began"] and round(stage["began"] - ISSUED, 3),
                stage["seconds"] and round(stage["seconds"], 3),
                stage["who"],
            )
            for stage in self.story["stages"]
        ]

    @property
    def now(self) -> Mapping[str, Any]:
        """The last stage."""
        return dict(self.story["stages"][-1])


Trace = Callable[..., Told]


@pytest.fixture
def trace(
    chain: Chain, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Trace:
    """`millrace trace test GROUP --json`, or with other words."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setattr("tools.trace.command.OUTAGE_S", OUTAGE_S)

    def run(group_id: str, *words: str, as_json: bool = True, runs_dir: Path = chain.run.runs_dir) -> Told:
        code = main(
            ["trace", "test", group_id, "--runs-dir", str(runs_dir), *(["--json"] if as_json else []), *words]
        )
        said = capsys.readouterr()
        return Told(code, said.out, said.err)

    return run


def sampled(prompt: Prompt) -> SampledGroup:
    """Begun 2 s after its issue and done 5 s after it, at the second attempt, by versions 0 and 1."""
    rollout = make_scored(prompt, [0.0] * prompt.n).rollout
    spans = (Span(version=0, first=0, count=1), Span(version=1, first=1, count=1))
    first = rollout.completions[0]
    segment = replace(first.only_segment, policy_spans=spans)
    return replace(
        rollout,
        completions=(replace(first, segments=(segment,)), *rollout.completions[1:]),
        generator=GENERATOR,
        seconds=3.0,
        sampled_at=ISSUED + 5,
        attempts=2,
    )


def scored(prompt: Prompt) -> ScoredGroup:
    """Begun 6 s after its issue and done 6.5 s after it; one answer right but for its shape, one unscorable."""
    group = make_scored(prompt, [0.5, None])
    right = Score(
        status=ScoreStatus.SCORED,
        value=0.5,
        reason="5 is \x1b[2J5\nindeed",
        scorer="math",
        version="3",
        components={"math": 1.0, "format": 0.0},
    )
    return replace(
        group,
        rollout=sampled(prompt),
        scores=(right, group.scores[1]),
        worker=WORKER,
        seconds=0.5,
        scored_at=ISSUED + 6.5,
        attempts=1,
    )


def come_to(chain: Chain, stage: str, group_id: str = "0") -> Entry:
    """Issue the next group and do the work up to `stage` on it."""
    assert chain.issue(issued_at=ISSUED) == [group_id]
    if stage != PROMPTS:
        result = codec.encode_rollout(sampled(codec.decode_prompt(chain.entry(group_id).raw)))
        assert hand_over(chain.link, chain.keys, chain.entry(group_id), ROLLOUTS, result)
    if stage == SCORED:
        result = codec.encode_scored(scored(codec.decode_rollout(chain.entry(group_id).raw).prompt))
        assert hand_over(chain.link, chain.keys, chain.entry(group_id), SCORED, result)
    return chain.entry(group_id)


def beat(chain: Chain, role: str, name: str, **fields: str) -> None:
    """A process's heartbeat."""
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
    chain.client.hset(
        f"rq:job:{job}",
        mapping={"started_at": "2026-11-21T10:00:00.000000Z", "worker_name": worker, "status": "started"},
    )


def train(chain: Chain, *group_ids: str, step: int = 0) -> None:
    """Let the learner take groups that were scored, as far as their record."""
    groups = [scored(make_prompt(group_id, issued_at=ISSUED)) for group_id in group_ids]
    chain.journal.append(step, groups, [[0.25, None]] * len(groups))


def test_a_prompt_that_nobody_has_taken_waits_for_a_generator(chain: Chain, trace: Trace) -> None:
    come_to(chain, PROMPTS)
    told = trace("0")
    assert (told.code, told.story["state"], told.story["says"]) == (
        0,
        PROMPTS,
        "waits in prompts to be sampled",
    )
    assert told.now["says"] == "issued with floor 0; waits for a generator; no generator is alive"
    assert (told.now["began"], told.now["ended"], told.story["completions"]) == (ISSUED, None, [])
    beat(chain, "generator", "g1", state="starting the engine")
    assert trace("0").now["says"].endswith("; 1 generator: starting the engine")


def test_a_group_that_is_sampled_is_in_somebodys_hands_since_a_time_that_he_says(
    chain: Chain, trace: Trace
) -> None:
    come_to(chain, PROMPTS)
    consumer, entry = lease(chain, PROMPTS, GENERATOR)
    consumer.begin(entry)
    beat(chain, "generator", GENERATOR, state="sampling", began=f"10@1.000 0@{ISSUED + 2:.3f} 1@3.000")
    told = trace("0")
    assert told.story["says"] == f"is being sampled by {GENERATOR}"
    assert told.stages[0] == (PROMPTS, 0.0, 2.0, "")
    assert (told.now["stage"], told.now["began"], told.now["who"]) == ("sampling", ISSUED + 2, GENERATOR)
    assert re.fullmatch(r"attempt 1; its lease is \d\.\d s old", told.now["says"])
    consumer.hold(entry)
    consumer.hand_back()
    assert trace("0").now["says"] == (
        "issued with floor 0; handed back by a generator that ended; waits for a "
        "generator; 1 generator: sampling"
    )


def test_a_generator_that_died_with_a_group_is_named_with_the_one_before_it(
    chain: Chain, trace: Trace
) -> None:
    come_to(chain, PROMPTS)
    consumer, entry = lease(chain, PROMPTS, GENERATOR)
    consumer.begin(entry)
    record_death(
        chain.client, chain.keys, host="far", pid=11, how="was killed by SIGKILL", last_lines=["bye"]
    )
    chain.client.xclaim(chain.keys(PROMPTS), "workers", "near-1-ff", 0, [entry.entry_id], justid=True)
    Consumer(chain.link, chain.keys, PROMPTS, "near-1-ff", lease_s=60.0).begin(entry)
    told = trace("0")
    assert told.now["who"] == "near-1-ff"
    assert told.now["says"].startswith(f"attempt 2 after {GENERATOR} (was killed by SIGKILL); its lease is ")
    assert told.now["says"].endswith(
        " s old; it has no heartbeat: another takes over when the lease runs out"
    )


def test_a_rollout_is_followed_from_the_dispatcher_to_its_worker(chain: Chain, trace: Trace) -> None:
    entry = come_to(chain, ROLLOUTS)
    told = trace("0")
    assert told.stages[:2] == [(PROMPTS, 0.0, 2.0, ""), ("sampling", 2.0, 3.0, GENERATOR)]
    assert told.story["stages"][1]["says"] == "version 0: 3 tokens, version 1: 1 tokens; attempt 2"
    assert (told.story["tokens"], told.now["says"]) == (4, "waits for a dispatcher; no scorer is alive")
    assert told.story["completions"][0]["versions"] == [
        {"version": 0, "first": 0, "count": 1},
        {"version": 1, "first": 1, "count": 1},
    ]
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
    assert (told.story["says"], told.now["stage"], told.now["who"]) == (
        "is sampled, and waits in rollouts to be scored",
        ROLLOUTS,
        WORKER,
    )
    assert told.now["says"] == f"its job {job} was taken by a worker that says: scoring group 7"
    consumer.begin(entry)
    beat(chain, "scorer", WORKER, state="scoring group 0", since=f"{ISSUED + 6:.3f}")
    told = trace("0")
    assert told.story["says"] == f"is being scored by {WORKER}"
    assert told.stages[2] == (ROLLOUTS, 5.0, 1.0, "")
    assert (told.now["stage"], told.now["began"], told.now["says"]) == ("scoring", ISSUED + 6, "attempt 1")
    assert told.story["facts"]["task"] == "math"


def test_a_job_that_nobody_has_and_one_whose_worker_is_silent_are_said_to_be_so(
    chain: Chain, trace: Trace
) -> None:
    entry = come_to(chain, ROLLOUTS)
    consumer, _ = lease(chain, ROLLOUTS, CONSUMER, worker=WORKER)
    job = enqueue(chain, entry)
    take_job(chain, job, "")
    assert (
        trace("0").now["says"].startswith(f"its job {job} is in no queue's list: it is delivered again when ")
    )
    take_job(chain, job, WORKER)
    consumer.begin(entry)
    consumer.note_failure(entry, "Traceback\nZeroDivisionError: a bug")
    told = trace("0")
    assert (told.now["stage"], told.now["who"]) == ("scoring", WORKER)
    assert told.now["says"] == (
        "attempt 1; the last error: ZeroDivisionError: a bug; it has no heartbeat: a "
        "dispatcher delivers the group again when the lease runs out"
    )


def test_a_scored_group_waits_for_its_step(chain: Chain, trace: Trace) -> None:
    come_to(chain, SCORED)
    assert trace("0").now["says"] == "no learner is alive"
    beat(chain, "learner", "l", state="training step 1")
    told = trace("0")
    assert told.story["says"] == "is scored, and waits for a step to train on it"
    assert told.stages[:4] == [
        (PROMPTS, 0.0, 2.0, ""),
        ("sampling", 2.0, 3.0, GENERATOR),
        (ROLLOUTS, 5.0, 1.0, ""),
        ("scoring", 6.0, 0.5, WORKER),
    ]
    assert told.story["stages"][3]["says"] == "mean reward 0.500, 1 of 2 unscorable"
    assert (told.now["began"], told.now["says"]) == (
        ISSUED + 6.5,
        "the learner has it until a step takes it: training step 1",
    )
    assert told.story["completions"][0] == {
        "completion": 0,
        "tokens": 2,
        "finish_reason": "stop",
        "reward": 0.5,
        "advantage": None,
        "status": "scored",
        "versions": [{"version": 0, "first": 0, "count": 1}, {"version": 1, "first": 1, "count": 1}],
        "score": 0.5,
        "components": {"math": 1.0, "format": 0.0},
        "scorer": "math",
        "scorer_version": "3",
        "seconds": 0.0,
        "reason": "5 is \x1b[2J5\nindeed",
    }


def test_where_the_worker_did_not_say_when_the_entry_does(chain: Chain, trace: Trace) -> None:
    """As an older version of this program wrote it."""
    chain.issue(issued_at=ISSUED)
    chain.score("0")
    at = int(chain.entry("0").entry_id.partition("-")[0]) / 1000
    told = trace("0")
    assert [(stage["stage"], stage["ended"]) for stage in told.story["stages"]] == [
        (PROMPTS, None),
        ("sampling", None),
        (ROLLOUTS, at - 0.1),
        ("scoring", at),
        (SCORED, None),
    ]
    assert told.story["stages"][1]["seconds"] == 0.1


def test_a_trained_group_names_its_step_its_lag_and_its_advantages(chain: Chain, trace: Trace) -> None:
    come_to(chain, SCORED)
    before = time.time()
    train(chain, "8", "9")
    train(chain, "0", step=1)
    assert trace("0").story["says"] == "trained at step 2, which is making version 2"
    chain.announce(2)
    chain.run_owner.retire(["0"])
    (chain.run.folder / "metrics.jsonl").write_text(
        "".join(
            json.dumps({"step": step, "reward_mean": 0.5, "at": time.time() + step}) + "\n" for step in (1, 2)
        )
    )
    told = trace("0")
    assert (told.code, told.story["state"], told.story["step"], told.story["lag"]) == (
        0,
        "trained",
        2,
        [0, 1],
    )
    assert told.story["says"] == "trained at step 2, which made version 2"
    assert [row["advantage"] for row in told.story["completions"]] == [0.25, None]
    assert [stage[0] for stage in told.stages] == [
        PROMPTS,
        "sampling",
        ROLLOUTS,
        "scoring",
        SCORED,
        "training",
    ]
    assert before < told.now["began"] < time.time()
    assert 1 < told.now["seconds"] < 3
    assert told.now["says"] == "step 2, by incarnation 1 of the learner"
    assert (told.story["notes"], told.story["redis"], told.story["is_whole"]) == ([], "", True)


def test_of_a_payload_that_is_gone_the_ledger_tells_the_step(chain: Chain, trace: Trace) -> None:
    train(chain, "0")
    payload = chain.journal.folder / "payload-000001-000.bin"
    flip(payload, 8)
    told = trace("0")
    assert (told.code, told.story["is_whole"], told.story["state"]) == (1, False, "trained")
    assert "the payload of step 1 is damaged" in told.story["notes"][0]
    payload.unlink()
    told = trace("0")
    assert (told.code, told.story["step"], told.stages[0][0], told.story["completions"]) == (
        0,
        1,
        "training",
        [],
    )
    assert told.story["notes"] == [
        "what it looked like went with payload-000001-000.bin: learner.journal says how long payloads stay"
    ]


def test_a_dropped_group_names_the_reason_and_who_worked_for_nothing(chain: Chain, trace: Trace) -> None:
    chain.journal.end(
        {
            "0": dropped(scored(make_prompt("0", issued_at=ISSUED)), "zero_variance: every reward is 0.5"),
            "1": Outcome(DROPPED, "config: no room", 4),
        }
    )
    told = trace("0")
    assert (told.code, told.story["state"], told.story["says"]) == (
        0,
        "dropped",
        "dropped: zero_variance: every reward is 0.5",
    )
    assert [(stage[0], stage[3]) for stage in told.stages] == [
        (PROMPTS, ""),
        ("sampling", GENERATOR),
        (ROLLOUTS, ""),
        ("scoring", WORKER),
        ("dropped", ""),
    ]
    assert (told.story["tokens"], told.story["facts"]["rewards"]) == (4, [0.5, None])
    assert [stage[0] for stage in trace("1").stages] == ["dropped"]  # of this one nothing more was known


@pytest.mark.parametrize(
    ("stage", "stages"),
    [(PROMPTS, [PROMPTS, DEAD]), (SCORED, [PROMPTS, "sampling", ROLLOUTS, "scoring", DEAD])],
)
def test_a_dead_group_names_where_it_died_and_its_letter(
    chain: Chain, trace: Trace, stage: str, stages: list[str]
) -> None:
    come_to(chain, stage)
    bury(chain.link, chain.keys, chain.entry("0"), reason="it was poison", attempts=3)
    told = trace("0")
    assert (told.code, told.story["state"]) == (0, "letter")
    assert told.story["says"] == (
        "dead, and the learner has not recorded it yet: it was poison. `millrace dead show "
        "test --group 0` has its letter"
    )
    assert [part[0] for part in told.stages][-len(stages[1:]) :] == stages[1:]
    chain.read()
    told = trace("0")
    assert (told.code, told.story["state"], told.story["says"]) == (0, "dead", "dead: it was poison")
    assert [part[0] for part in told.stages] == stages
    assert told.now["says"] == f"in {stage}, after 3 attempts: it was poison"


def test_a_dead_group_that_was_begun_anew_and_the_new_one_name_each_other(
    chain: Chain, trace: Trace, redis_url: str
) -> None:
    come_to(chain, PROMPTS)
    bury(chain.link, chain.keys, chain.entry("0"), reason="deadline", attempts=1)
    chain.read()
    letter = chain.client.xrange(chain.keys(DEAD))[0][0].decode()
    chain.client.hset(chain.keys("retries"), "0", letter)
    assert trace("0").story["notes"] == [
        "an operator wants it again, and no learner has issued that yet",
        "its letter: millrace dead show test --group 0",
    ]
    assert "0 was begun anew 0 times" in trace("0-r1").err
    chain.journal.retry("0", 1)
    chain.run_owner.issue(1, 1, 1000, 0, [("0-r1", codec.encode_prompt(make_prompt("0-r1")))])
    assert trace("0").story["notes"] == ["begun anew as 0-r1, on an operator's word"]
    told = trace("0-r1")
    assert (told.story["state"], told.story["notes"]) == (
        PROMPTS,
        ["begun anew on an operator's word after 0 died"],
    )


def test_a_purged_letter_is_told_of_by_its_note(
    chain: Chain, trace: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    come_to(chain, PROMPTS)
    bury(chain.link, chain.keys, chain.entry("0"), reason="deadline", attempts=1)
    chain.read()
    assert main(["dead", "purge", "test", "--all", "--yes", "--runs-dir", str(chain.run.runs_dir)]) == 0
    capsys.readouterr()
    (note,) = trace("0").story["notes"]
    assert note.startswith("its letter was purged by ")


def test_a_held_out_group_is_told_by_its_round(chain: Chain, trace: Trace) -> None:
    (held_out,) = chain.issue_eval(4, 1)
    assert trace(held_out).story["state"] == PROMPTS
    chain.journal.evaluation(4, {"ids": [held_out], "pass_rate": 0.25})
    chain.run_owner.retire([held_out])
    told = trace(held_out)
    assert (told.code, told.story["state"]) == (0, "recorded")
    assert told.story["says"].startswith(
        "held out: recorded with the evaluation of version 4 (pass rate 0.250)"
    )
    assert "is in no stream and in no evaluation that run test has recorded" in trace("eval-4-1").err


@pytest.mark.parametrize(
    ("group_id", "says"),
    [
        ("3", "group 3 has never been issued: run test (no status) has issued the groups below 3"),
        ("0-r1", "group 0-r1 has never been issued: 0 was begun anew 0 times"),
    ],
)
def test_a_group_that_was_never_issued_is_said_to_be_so(
    chain: Chain, trace: Trace, group_id: str, says: str
) -> None:
    chain.issue(3)
    assert trace(group_id) == Told(1, "", f"millrace trace: {says}\n")


def test_a_word_that_is_no_group_is_refused_before_redis_is_asked(trace: Trace) -> None:
    with pytest.raises(SystemExit) as ended:
        trace("seventeen")
    assert ended.value.code == 2


def spoil_slot(chain: Chain) -> None:
    chain.client.xdel(chain.keys(PROMPTS), chain.entry("0").entry_id)


def spoil_all(chain: Chain) -> None:
    spoil_slot(chain)
    chain.client.hdel(chain.keys("where"), "0")
    chain.client.zrem(chain.keys("slots"), "0")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_slot, "it has a slot, and no entry in any stream (where: prompts "),
        (
            spoil_all,
            "it was issued, and has no slot, no entry and no outcome: it is lost. `millrace audit test`",
        ),
    ],
)
def test_a_group_that_is_nowhere_is_an_alarm(
    chain: Chain, trace: Trace, spoil: Callable[[Chain], None], says: str
) -> None:
    chain.issue()
    spoil(chain)
    told = trace("0")
    assert (told.code, told.story["state"]) == (1, "nowhere")
    assert told.story["says"].startswith(says)


def test_an_entry_whose_payload_is_torn_is_told_by_its_header(chain: Chain, trace: Trace) -> None:
    chain.issue(issued_at=ISSUED)
    chain.score("0", payload=b"\xc1")
    told = trace("0")
    assert (told.code, told.story["state"], told.now["began"]) == (0, SCORED, ISSUED)
    assert told.story["notes"][0].startswith("its payload can't be read: payload: ")


def test_without_redis_the_journal_tells_what_it_knows_and_that_it_is_alone(
    chain: Chain, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(chain, "0")
    monkeypatch.setenv("REDIS_URL", "redis://:secret@127.0.0.1:1/0")
    told = trace("0")
    assert (told.code, told.story["state"], told.story["step"]) == (0, "trained", 1)
    assert "no answer from redis at 127.0.0.1:1" in told.story["redis"]
    assert "from the journal alone: no answer" in trace("0", as_json=False).out
    told = trace("1")
    assert told.code == 1
    assert (
        "group 1 has no outcome in the journal of run test: it was never issued, or is on its way. That"
        in told.err
    )
    assert "secret" not in told.err


def test_a_redis_that_knows_nothing_of_the_run_is_not_asked_for_more(
    chain: Chain, trace: Trace, tmp_path: Path
) -> None:
    train(chain, "0")
    chain.client.flushall()
    assert trace("0").story["state"] == "trained"
    assert "this Redis knows nothing of run test" in trace("1").err
    assert "this Redis knows nothing of run test" in trace("0", runs_dir=tmp_path / "elsewhere").err


def test_where_the_journal_is_elsewhere_redis_tells_what_is_in_flight(
    chain: Chain, trace: Trace, tmp_path: Path
) -> None:
    chain.issue(2)
    (note,) = trace("0", runs_dir=tmp_path / "elsewhere").story["notes"]
    assert note.startswith("the journal is not on this machine")
    chain.journal.end({"1": Outcome(DROPPED, "config")})
    chain.run_owner.retire(["1"])
    told = trace("1", runs_dir=tmp_path / "elsewhere")
    assert told.code == 1
    assert (
        "was issued and is in flight no more, and the journal of run test is not here: give --runs-dir"
        in told.err
    )


def test_a_group_that_changes_hands_between_two_reads_is_looked_for_again(
    chain: Chain, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain.issue()
    find, looks = read_entry, []

    def move_first(link: RedisLink, keys: Keys, stream: str, entry_id: str) -> Entry | None:
        looks.append(stream)
        if len(looks) == 1:
            chain.sample("0")
        return find(link, keys, stream, entry_id)

    monkeypatch.setattr(group_view, "read_entry", move_first)
    assert group_view.look(chain.link, keys, "0").stream == ROLLOUTS
    assert looks == [PROMPTS, ROLLOUTS]


def test_the_text_fits_100_columns_and_obeys_nobody(
    chain: Chain, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    long = "a-machine-with-a-name-that-nobody-wants-to-type-7f9c8d5b6-x2x4z-4711-ab12"
    group = scored(make_prompt("0", issued_at=ISSUED))
    reason = "answer " + "9" * 500
    chain.journal.append(
        0,
        [
            replace(
                group,
                worker=long,
                rollout=replace(group.rollout, generator=long),
                scores=(group.scores[0], replace(group.scores[1], reason=reason)),
            )
        ],
        [[0.25, None]],
    )
    told = trace("0", as_json=False)
    lines = told.out.splitlines()
    assert lines[:2] == [
        "group 0 of run test: trained at step 1, which is making version 1",
        "  task math, row 0 of epoch 0, 2 completions, 4 tokens, lag -1 to 0, issued on 2023-11-14",
    ]
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in told.out
    for part in (
        long,
        "0: 1, 1: 1",
        "math 0.5 (math 1, format 0): 5 is \\x1b[2J5 indeed",
        "answer " + "9" * 293,
    ):
        assert part.replace(" ", "") in "".join(told.out.split()), part


def test_a_stopped_private_redis_is_started_for_the_question(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from broker.private_redis import server as embedded

    monkeypatch.delenv("REDIS_URL", raising=False)
    run = chain.run.model_copy(update={"name": "private", "runs_dir": tmp_path / "runs"})
    server = embedded.start(run)
    redis.Redis.from_url(server.url).hset(Keys("private")("cursor"), "position", 5)
    server.stop()
    assert main(["trace", "private", "5", "--runs-dir", str(run.runs_dir)]) == 1
    assert (
        "group 5 has never been issued: run private (no status) has issued the groups below 5"
        in capsys.readouterr().err
    )


def test_source_and_columns_of_the_row_are_told(chain: Chain, trace: Trace) -> None:
    prompt = replace(
        make_prompt("0", issued_at=ISSUED),
        data_source="math__made",
        columns={"ability": "sums", "extra_info.level": 3},
    )
    chain.journal.append(0, [scored(prompt)], [[0.25, None]])
    facts = trace("0").story["facts"]
    assert (facts["source"], facts["columns"]) == ("math__made", {"ability": "sums", "extra_info.level": 3})
    told = " ".join(trace("0", as_json=False).out.split())  # lines end where the terminal does
    assert "source math__made, ability sums, extra_info.level 3, 2 completions" in told
