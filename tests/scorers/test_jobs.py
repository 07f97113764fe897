"""The RQ job: one group's failure is no other's, and every attempt counts. Real Redis and RQ."""

from __future__ import annotations

import pytest

from broker.connection import Link
from broker.errors import UnknownTask
from broker.keys import ROLLOUTS, Keys
from broker.messages import Rollout
from scorers import jobs
from tests.scorers.station import ScriptedScorer, Station, make_run


@pytest.fixture
def station(link: Link, keys: Keys) -> Station:
    return Station(link, keys, make_run(broker={"max_attempts": 3}))


def fail_for(group_id: str, error: Exception) -> ScriptedScorer:
    """A scorer that raises `error` at one group."""
    def before(rollout: Rollout) -> None:
        if rollout.prompt.group_id == group_id:
            raise error
    return ScriptedScorer(before)


def test_each_group_of_a_job_is_handed_over_by_itself(station: Station) -> None:
    station.roll_out(0, 1, 2)
    station.deliver()
    assert len(station.queued()) == 1
    places: list[list[str]] = []
    station.work(ScriptedScorer(lambda _: places.append(station.ids("scored"))))
    assert places == [[], ["0"], ["0", "1"]]
    assert station.ids("scored") == ["0", "1", "2"]
    station.audit()


def test_a_job_that_comes_twice_scores_once(station: Station) -> None:
    entries = station.roll_out(0, 1)
    station.deliver()
    station.delivery.enqueue("math", entries, "0")
    station.work(scorer := ScriptedScorer())
    assert scorer.seen == ["0", "1"]
    assert station.ids("scored") == ["0", "1"]


def test_of_two_workers_at_one_group_only_the_first_result_counts(station: Station) -> None:
    station.roll_out(0)
    station.deliver()

    def another_is_faster(_: Rollout) -> None:
        station.move(station.entry("0"), "scored")

    station.work(ScriptedScorer(another_is_faster))
    assert station.ids("scored") == ["0"]
    assert station.entry("0").raw[b"payload"] == b"result", "the other one's"
    assert station.ids("dead") == []


def test_a_bug_at_one_group_leaves_it_for_another_try_and_the_others_go_on(
        station: Station, caplog: pytest.LogCaptureFixture) -> None:
    station.roll_out(0, 1)
    station.deliver()
    station.work(fail_for("0", ZeroDivisionError("a bug")))
    assert station.ids("scored") == ["1"]
    assert station.ids(ROLLOUTS) == ["0"]
    assert "score_failed group=0" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_group_that_nobody_finishes_goes_to_the_dead_after_the_last_attempt(station: Station) -> None:
    entry, = station.roll_out(0)
    station.deliver()
    scorer = fail_for("0", ZeroDivisionError("a bug"))
    for _ in range(4):
        station.work(scorer)
        station.age(entry)
        station.sweep()
    assert scorer.seen == ["0"] * 3, "max_attempts"
    letter = station.letter("0")
    assert letter["reason"] == "3 scorers began this group and none finished it (broker.max_attempts=3)"
    assert (letter["attempts"], letter["stage"]) == ("3", ROLLOUTS)
    assert station.delivery.carriers() == {}
    station.audit()


def test_deliveries_are_no_attempts(station: Station) -> None:
    entry, = station.roll_out(0)
    station.deliver()
    for _ in range(5):
        station.link.client.delete(station.delivery.queues["math"].key)
        station.age(entry)
        station.sweep()
    station.work(ScriptedScorer())
    assert station.ids("scored") == ["0"]


def test_what_can_never_be_scored_goes_to_the_dead_at_once_with_its_traceback(station: Station) -> None:
    station.roll_out(0, 1)
    station.deliver()
    station.work(fail_for("0", UnknownTask("no task 'maths'")))
    letter = station.letter("0")
    assert (letter["reason"], letter["attempts"]) == ("no task 'maths'", "1")
    assert "Traceback" in letter["traceback"]
    assert station.ids("scored") == ["1"]


def test_an_undecodable_group_goes_to_the_dead_under_its_own_id(station: Station) -> None:
    station.issue(0)
    station.move(station.entry("0"), ROLLOUTS)      # its payload is not msgpack
    station.roll_out(1)
    station.deliver()
    station.work(ScriptedScorer())
    assert station.letter("0")["reason"].startswith("payload: ")
    assert station.ids("scored") == ["1"]
    station.audit()


def test_a_job_in_a_process_that_is_no_scorer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_worker", None)
    with pytest.raises(RuntimeError, match="python -m scorers"):
        jobs.score_entries(["1-0"])
