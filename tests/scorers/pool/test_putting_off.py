"""A group with an answer that takes long is put off: the others go first, and nothing is lost on the way."""

from __future__ import annotations

import re
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker import codec
from broker.connection import RedisLink
from broker.fork_server.client import ForkServer
from broker.keys import Keys
from broker.messages import SampledGroup
from broker.processes import stop
from config.scorer_kinds import SLOW, CodeConfig
from config.scorers import ScorersConfig
from scorers.code.scorer import CodeTests
from scorers.pool import supervisor
from scorers.pool.patience import LEAST, WINDOW, Patience
from scorers.scorer import TakesLong
from tests.support.pool_workers import delivered, sweep_later
from tests.support.station import ScriptedScorer, Station, make_run

pytestmark = pytest.mark.process

CODE = {"tasks": {"math": {"scorer": {"type": "code"}}}}  # the station's groups are of the task `math`


class HangsAt(ScriptedScorer):
    """Finds everything right, but one group only where it has all the time of its limits."""

    def __init__(self, *group_ids: str) -> None:
        super().__init__()
        self.slow = group_ids

    def score(self, rollout: SampledGroup, worker: str, **how: Any) -> Any:
        scored = super().score(rollout, worker, **how)
        if rollout.prompt.group_id in self.slow and how["patience_s"] is not None:
            raise TakesLong("a case takes long")
        return scored


def station_of(link: RedisLink, keys: Keys, **section: Any) -> Station:
    return Station(link, keys, make_run(broker={"max_attempts": 3}, scorers=CODE | section))


@pytest.fixture
def station(link: RedisLink, keys: Keys) -> Station:
    return station_of(link, keys)


def test_a_group_that_takes_long_waits_until_the_others_are_scored(station: Station) -> None:
    delivered(station, 0, 1, 2)
    station.work(scorer := HangsAt("0"))
    assert scorer.seen == ["0", "1", "2", "0"]
    assert [how["patience_s"] for how in scorer.how] == [0.5, 0.5, 0.5, None]
    assert [how["queue"] for how in scorer.how] == [None, None, None, SLOW]
    assert station.ids("scored") == ["1", "2", "0"]
    assert codec.decode_scored(station.entry("0").raw).attempts == 1, "to be put off is none"
    assert station.hash("tries") == {}
    station.audit()


def test_a_job_in_the_slow_queue_is_believed_and_replaced_where_it_is_lost(station: Station) -> None:
    (entry,) = delivered(station, 0)
    station.work(HangsAt("0"), but=SLOW)
    assert (station.begun(), station.hash("tries")) == ({"0": 0}, {}), "what was begun does not count"
    slow = station.rq_queues.queues[SLOW]
    for is_lost in (False, True):
        if is_lost:
            station.link.client.delete(slow.key)
        sweep_later(station, entry)
        assert len(station.queued()) == 1
        assert len(slow) == (0 if is_lost else 1), "a new job begins where every group does"
    station.work(scorer := HangsAt("0"))
    assert scorer.seen == ["0", "0"]
    assert station.ids("scored") == ["0"]
    station.audit()


def test_the_result_of_another_worker_counts_while_a_group_is_put_off(station: Station) -> None:
    delivered(station, 0)
    station.work(HangsAt("0"), but=SLOW)
    station.move(station.entry("0"), "scored")
    station.work(scorer := HangsAt("0"))
    assert scorer.seen == [], "its entry is gone"
    assert station.rq_queues.carriers() == {}


@pytest.mark.parametrize(
    ("section", "patience_s"),
    [
        ({}, 0.5), ({"patience_s": 3.0}, 3.0), ({"patience_s": None}, None),
        ({"tasks": {"math": {"scorer": {"type": "math"}}}}, None),
        ({"tasks": {"math": {"scorer": {"type": "code", "queue": "math"}}}}, None),
    ],
)  # fmt: skip
def test_only_groups_of_programs_may_be_put_off(
    link: RedisLink, keys: Keys, section: dict[str, Any], patience_s: float | None
) -> None:
    station = station_of(link, keys, **section)
    delivered(station, 0)
    station.work(scorer := ScriptedScorer())
    assert [how["patience_s"] for how in scorer.how] == [patience_s]


def test_patience_doubles_where_more_than_a_tenth_of_the_answers_are_put_off() -> None:
    patience = Patience(0.5)
    grew = [patience.put_off() for _ in range(LEAST)]
    assert grew == [False] * (LEAST - 1) + [True]
    assert patience.seconds == 1.0
    for _ in range(10 * WINDOW):
        patience.scored(49)
        assert not patience.put_off(), "two of a hundred"
    assert patience.seconds == 1.0
    for _ in range(WINDOW):
        patience.scored(8)
        patience.put_off()
    assert patience.seconds > 1.0, "one of nine"
    without = Patience(None)
    assert not any(without.put_off() for _ in range(2 * LEAST))
    assert without.seconds is None


def test_what_was_put_off_comes_first_once_it_has_waited(station: Station) -> None:
    delivered(station, 0, 1, 2)
    station.work(HangsAt("0"), but=SLOW)
    delivered(station, 3)
    rq = station.rq_queues
    code, slow = rq.queues["code"], rq.queues[SLOW]
    assert rq.in_order([code, slow], slow_wait_s=60.0) == [code, slow]
    assert rq.in_order([code, slow], slow_wait_s=0.0) == [slow, code]
    assert rq.in_order([code], slow_wait_s=0.0) == [code], "a worker that leaves it"
    station.work(scorer := ScriptedScorer(), in_order=lambda queues: rq.in_order(queues, 0.0))
    assert scorer.seen == ["0", "3"]
    assert rq.in_order([code, slow], slow_wait_s=0.0) == [code, slow], "nothing waits"


LOOPS = "def f(x):\n    while True: pass"
LATE = "import time\ndef f(x):\n    time.sleep({seconds})\n    return x"
SHAPES = {
    "asserts": {"tests": ["assert f(1) == 1", "assert f(2) == 2"]},
    "pytest": {"pytest": "from solution import f\n\ndef test_f():\n    assert f(1) == 1\n"},
    "calls": {"fn_name": "f", "inputs": [[1]], "outputs": [1]},
    "stdio": {"test_cases": [{"input": "1\n", "output": "1\n"}]},
}


def seconds_of(answer: str, info: dict[str, Any]) -> float:
    """Return what a right answer takes here, once what it needs is prepared."""
    with closing(CodeTests(CodeConfig(), ScorersConfig())) as scorer:
        assert scorer.score(answer, info).value == 1.0
        started = time.monotonic()
        assert scorer.score(answer, info).value == 1.0
        return time.monotonic() - started


@pytest.mark.prove
@pytest.mark.parametrize("shape", SHAPES)
def test_a_patient_scorer_breaks_off_and_says_nothing_of_the_answer(shape: str) -> None:
    info = {"type": "code", "answer": SHAPES[shape]}
    call = "\nif __name__ == '__main__':\n    print(f(int(input())))"
    right, wrong, loops = (
        f"```python\n{program}{call}\n```" for program in ("def f(x): return x", "def f(x): return 0", LOOPS)
    )
    patience_s = max(0.2, 2 * seconds_of(right, info))  # pytest alone takes more than 0.2 s on a slow machine
    late = f"```python\n{LATE.format(seconds=2 * patience_s)}{call}\n```"
    config = CodeConfig(case_timeout_s=4 * patience_s, deadline_s=40 * patience_s)
    with closing(CodeTests(config, ScorersConfig())) as scorer:
        scorer.patience_s = patience_s
        with pytest.raises(TakesLong, match=re.escape(f"{patience_s:g} s")):
            scorer.score(loops, info)
        with pytest.raises(TakesLong):
            scorer.score(late, info)
        assert (scorer.score(right, info).value, scorer.score(wrong, info).value) == (1.0, 0.0)
        scorer.patience_s = None
        assert scorer.score(late, info).value == 1.0, "within its limit"
        scorer.patience_s = 4 * patience_s
        score = scorer.score(loops, info)
        assert (score.value, "again alone" in score.reason) == (0.0, True), "patience as long as the limit"


def test_some_workers_leave_what_is_slow_to_others(
    link: RedisLink, keys: Keys, subtests: pytest.Subtests
) -> None:
    for workers, quick in [(1, 0), (2, 1), (4, 1), (5, 2), (8, 2)]:
        with subtests.test(workers=workers):
            pool = supervisor.PoolSupervisor(
                station_of(link, keys, workers=workers).joined, [], fork_server=ForkServer([])
            )
            parts = [part for part in pool.pool.parts if part.name == "worker"]
            assert sum("--leave-slow" in part.command for part in parts) == quick
            assert len(parts) == workers


@pytest.mark.prove
def test_a_real_pool_scores_what_it_puts_off(link: RedisLink, keys: Keys, tmp_path: Path) -> None:
    task = {"math": {"scorer": {"type": "code", "case_timeout_s": 0.5}}}
    station = station_of(link, keys, tasks=task, patience_s=0.3, workers=2)
    info = {"type": "code", "answer": SHAPES["calls"]}
    station.roll_out(0, text=f"```python\n{LOOPS}\n```", verification_info=info)
    station.roll_out(1, text="```python\ndef f(x): return x\n```", verification_info=info)
    scorers = station.start(tmp_path)
    try:
        scorers.until(lambda: len(station.ids("scored")) == 2)
    finally:
        stop(scorers.process, 20.0)
    assert station.ids("scored") == ["1", "0"]
    rewards = [codec.decode_scored(station.entry(group).raw).rewards for group in ("0", "1")]
    assert rewards == [(0.0, 0.0), (1.0, 1.0)]
    assert "put_off group=0" in scorers.log.read_text()
    station.audit()
