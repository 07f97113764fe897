"""The feeder's thread on a real Redis."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.codec import decode_prompt
from broker.errors import Fenced, RunFailed, WentBack
from broker.keys import PROMPTS, SCORED
from broker.protocol.run_owner import RunOwner
from learner.groups.feeder import MEMORY_EVERY_S, Feeder
from learner.groups.kept_share import RECENT, KeptShare
from learner.policy_version import PolicyVersion
from tests.learner.conftest import MakeChain
from tests.support.chain import Chain, make_source
from tests.support.waiting import WITHIN_S, wait_until

pytestmark = pytest.mark.process

Start = Callable[..., Feeder]


@pytest.fixture
def start() -> Iterator[Start]:
    """Yield a feeder of ten rows, started at version 0 unless told otherwise."""
    made: list[Feeder] = []

    def start(chain: Chain, *, version: int = 0, **options: Any) -> Feeder:
        usual: dict[str, Any] = {"known": lambda _: False, "first_row": 0, "mean_bytes": lambda: 0.0}
        usual["clock"] = chain.clock
        source, now = make_source(chain.run), PolicyVersion(version)
        made.append(Feeder(chain.run, chain.run_owner, source, chain.evaluation, now, **usual | options))
        made[-1].rebase(0)
        made[-1].start()
        return made[-1]

    yield start
    for feeder in made:
        feeder.stop()


def looks(feeder: Feeder, count: int = 3) -> None:
    """Let the feeder look so many times more whether there is something to do."""
    looked, turn = threading.Semaphore(0), feeder.turn

    def counted() -> bool:
        try:
            return turn()
        finally:
            looked.release()

    feeder.turn = counted  # type: ignore[method-assign]
    for _ in range(count):
        assert looked.acquire(timeout=WITHIN_S)
    feeder.turn = turn  # type: ignore[method-assign]


def ids_in_prompts(chain: Chain) -> list[str]:
    return [fields[b"group"].decode() for _, fields in chain.client.xrange(chain.keys(PROMPTS))]


def is_in_flight(chain: Chain, group_id: str) -> bool:
    return bool(chain.client.hexists(chain.keys("where"), group_id))


@pytest.mark.parametrize("in_flight", [4, 3])
def test_the_budget_is_filled_and_never_exceeded(make_chain: MakeChain, start: Start, in_flight: int) -> None:
    chain = make_chain(learner={"groups_in_flight": in_flight})  # of at most (1 + 1) x 2 groups
    feeder = start(chain)
    wait_until(lambda: len(chain.slots) == in_flight)
    looks(feeder)
    assert ids_in_prompts(chain) == [*"0123"[:in_flight]]
    chain.run_owner.retire(["1"])
    wait_until(lambda: chain.slots == {*"01234"[: in_flight + 1]} - {"1"})


def test_no_more_is_issued_than_can_be_trained(make_chain: MakeChain, start: Start) -> None:
    chain = make_chain(learner={"steps": 6})
    feeder = start(chain)
    for version in range(6):
        in_flight = min(4, 2 * (6 - version))
        wait_until(lambda in_flight=in_flight: len(chain.slots) == in_flight)  # type: ignore[misc]
        oldest = sorted(chain.slots, key=int)[:2]
        chain.announce(version + 1)
        feeder.version.announced = version + 1
        chain.run_owner.retire(oldest)
        feeder.wake()
    looks(feeder)
    assert (feeder.position, chain.slots, chain.depth(PROMPTS)) == (12, set(), 0)


def test_a_dropped_group_is_replaced_in_the_last_step(make_chain: MakeChain, start: Start) -> None:
    chain = make_chain(learner={"steps": 1})
    start(chain)
    wait_until(lambda: chain.slots == {"0", "1"})
    chain.score("0", [1.0, 1.0])
    chain.read()
    wait_until(lambda: chain.slots == {"1", "2"})


@pytest.mark.parametrize(
    ("kept", "in_flight"), [(1.0, 2), (0.6, 4), (0.1, 8)]
)  # 0.1: twenty, but eight is the most
def test_the_last_step_gets_as_many_as_it_will_need_at_the_share_that_trained_lately(
    make_chain: MakeChain, start: Start, kept: float, in_flight: int
) -> None:
    chain = make_chain(learner={"steps": 1, "max_lag": 2})
    feeder = start(chain, kept_share=lambda: kept)
    wait_until(lambda: len(chain.slots) == in_flight)
    looks(feeder)
    assert len(chain.slots) == in_flight


@pytest.mark.parametrize(
    ("learner", "held", "in_flight"),
    [
        ({}, 0, 8),  # of two groups a step, one in four trains
        ({}, 1, 5),  # one is held, and four are likely to have the other
        ({}, 2, 2),
        ({"max_lag": 4}, 0, 10),  # the budget has room enough
        ({"groups_in_flight": 2}, 0, 2),
        ({"epochs": 1}, 0, 2),
        ({"late_groups": "train"}, 0, 2),
        ({"filters": {"zero_variance": "keep"}}, 0, 2),
    ],
)
def test_a_step_that_lacks_groups_gets_as_many_as_it_is_likely_to_need_within_a_bound(
    make_chain: MakeChain, start: Start, learner: dict[str, Any], held: int, in_flight: int
) -> None:
    chain = make_chain(learner={"max_lag": 0} | learner)
    feeder = start(chain, kept_share=lambda: 0.25, held=lambda: held)
    wait_until(lambda: len(chain.slots) == in_flight)
    looks(feeder)
    assert len(chain.slots) == in_flight


def test_nothing_is_issued_for_the_next_step_before_its_version_is_announced(
    make_chain: MakeChain, start: Start
) -> None:
    chain = make_chain(learner={"max_lag": 0})
    feeder = start(chain, kept_share=lambda: 0.25)
    wait_until(lambda: len(chain.slots) == 8)
    feeder.version.taken = 1  # by 0 and 1, which keep their slots
    chain.run_owner.retire([*"234567"])
    looks(feeder)
    assert chain.slots == {"0", "1"}
    chain.announce(1)
    feeder.version.announced = 1
    chain.run_owner.retire(["0", "1"])
    wait_until(lambda: len(chain.slots) == 8)
    assert set(chain.run_owner.slots().values()) == {1}


def test_the_share_that_trains_is_that_of_the_newest_groups_and_never_0() -> None:
    share = KeptShare()
    assert share() == 1.0
    for _ in range(RECENT):
        share.note(kept=False)
    assert share() == 1 / RECENT
    for kept in [True, False, False, False] * (RECENT // 4):
        share.note(kept=kept)
    assert share() == 0.25


def test_each_row_is_issued_once_an_epoch(make_chain: MakeChain, start: Start) -> None:
    chain = make_chain(learner={"epochs": 2, "steps": 100})
    feeder = start(chain, known={"18", "19"}.__contains__)
    issued: set[str] = set()

    def has_all() -> bool:
        new = chain.slots - issued
        issued.update(new)
        assert feeder.has_issued_all in {False, len(issued) == 18}
        chain.run_owner.retire(new)
        feeder.wake()
        return feeder.has_issued_all

    wait_until(has_all)
    assert issued == {str(number) for number in range(18)}  # two times ten rows; the ledger knew two of them
    feeder.insert(["3-r1"])
    assert not feeder.has_issued_all
    wait_until(lambda: chain.slots == {"3-r1"})
    wait_until(lambda: feeder.has_issued_all)


def test_new_groups_start_from_the_newest_version(chain: Chain, start: Start) -> None:
    feeder = start(chain)
    wait_until(lambda: len(chain.slots) == 4)
    chain.announce(1)
    feeder.version.announced = 1
    chain.run_owner.retire(["0", "1"])
    wait_until(lambda: len(chain.slots) == 4)
    floors = chain.client.zrange(chain.keys("slots"), 0, -1, withscores=True)
    assert {name.decode(): floor for name, floor in floors} == {"2": 0, "3": 0, "4": 1, "5": 1}
    assert chain.entry("5").floor == 1


def test_a_lost_reply_makes_no_double(chain: Chain, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link repeats a script whose reply was lost: the first run has had its effect."""
    script = chain.link.script

    def run_twice(name: str, keys: list[str], *args: Any, **options: Any) -> Any:
        if name == "issue":
            script(name, keys, *args, **options)
        return script(name, keys, *args, **options)

    monkeypatch.setattr(chain.link, "script", run_twice)
    feeder = start(chain)
    wait_until(lambda: len(chain.slots) == 4)
    chain.run_owner.retire(["0"])
    wait_until(lambda: chain.slots == {"1", "2", "3", "4"})
    looks(feeder)
    assert ids_in_prompts(chain) == ["1", "2", "3", "4"]
    assert (feeder.position, int(chain.client.hget(chain.keys("cursor"), "issued"))) == (5, 5)


def test_ordinals_go_on_where_redis_stands_and_known_ones_are_passed(chain: Chain, start: Start) -> None:
    chain.run_owner.retire(chain.issue(7))
    start(chain, first_row=20, known={"8", "10", "11"}.__contains__)
    wait_until(lambda: chain.slots == {"7", "9", "12", "13"})
    prompt = decode_prompt(chain.entry("7").raw)
    assert (prompt.epoch, prompt.row) == (2, 7)  # draw 27 of ten rows
    assert int(chain.client.hget(chain.keys("cursor"), "issued")) == 14  # counted, and not sent


def test_nothing_new_comes_in_while_redis_is_nearly_full(
    make_chain: MakeChain, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    chain = make_chain(evaluation={"groups_in_flight": 10})
    used = chain.client.info("memory")["used_memory"]
    chain.client.config_set("maxmemory", int(used * 1.15))
    try:
        with caplog.at_level(logging.WARNING, "learner.groups.feeder"):
            feeder = start(chain)
            chain.evaluation.request(0)
            wait_until(lambda: bool(caplog.messages))
            looks(feeder)
            chain.elapsed += MEMORY_EVERY_S
            looks(feeder)
        assert len(caplog.messages) == 1  # said once, not at every look
        assert "nothing new is issued beyond 80%" in caplog.messages[0]
        assert chain.depth(PROMPTS) == 0
    finally:
        chain.client.config_set("maxmemory", 0)
    chain.elapsed += MEMORY_EVERY_S
    wait_until(lambda: chain.depth(PROMPTS) == 4 + 10)


def test_a_feeder_without_room_seldom_asks_for_the_memory(chain: Chain, start: Start) -> None:
    now = [100.0]
    feeder = start(chain, clock=lambda: now[0])
    wait_until(lambda: len(chain.slots) == 4)
    looks(feeder, 2)  # the first is behind an issue, which changed the memory

    def asked_for() -> int:
        return int(chain.client.info("commandstats")["cmdstat_info"]["calls"])

    before = asked_for()
    looks(feeder)
    assert asked_for() == before + 1, "the budget is full, so memory changes nothing"  # the one is ours
    now[0] += MEMORY_EVERY_S
    looks(feeder)
    assert asked_for() == before + 3


def test_what_is_to_be_sampled_yet_counts_as_used_memory(
    chain: Chain, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    used = chain.client.info("memory")["used_memory"]
    sizes = [float(used)]  # of a group
    chain.client.config_set("maxmemory", 2 * used)  # half of it is used, so one more group is too much
    try:
        with caplog.at_level(logging.WARNING, "learner.groups.feeder"):
            feeder = start(chain, mean_bytes=lambda: sizes[0])
            wait_until(lambda: bool(caplog.messages))  # the four of the budget are in flight
        chain.run_owner.retire(["0"])
        looks(feeder)
        assert chain.slots == {"1", "2", "3"}
        said = re.search(r"a full budget of 4 groups needs (\d+) MiB more", caplog.messages[0])
        assert said is not None
        more = (used + 4 * used) / 0.8 - 2 * used
        assert int(said[1]) == pytest.approx(more / 2**20, abs=1.5)
        sizes[0] = 0.0
        chain.elapsed += MEMORY_EVERY_S
        wait_until(lambda: chain.slots == {"1", "2", "3", "4"})
    finally:
        chain.client.config_set("maxmemory", 0)


def test_a_round_is_issued_once_and_then_what_is_missing(make_chain: MakeChain, start: Start) -> None:
    evaluation = {"prompts": 3, "groups_in_flight": 3}
    chain = make_chain(learner={"steps": 1, "groups_per_step": 1}, evaluation=evaluation)
    feeder = start(chain, version=1)  # nothing is left to train
    assert chain.evaluation.ids(1) == ["eval-1-0", "eval-1-1", "eval-1-2"]
    chain.evaluation.request(1)
    wait_until(lambda: chain.depth(PROMPTS) == 3)
    chain.score("eval-1-0")
    lost = chain.entry("eval-1-1")
    chain.client.xdel(chain.keys(PROMPTS), lost.entry_id)
    for _ in range(2):
        chain.evaluation.request(1)
        wait_until(lambda: chain.depth(PROMPTS) == 2)
        looks(feeder)
        assert ids_in_prompts(chain) == ["eval-1-2", "eval-1-1"]
    assert (chain.depth(SCORED), chain.slots) == (1, set())


def test_a_round_is_issued_piece_by_piece_with_prompts_between(make_chain: MakeChain, start: Start) -> None:
    chain = make_chain(evaluation={"prompts": 10, "samples": 2, "groups_in_flight": 2})
    feeder = start(chain)
    chain.evaluation.request(0)
    wait_until(lambda: chain.depth(PROMPTS) == 4 + 2)
    chain.run_owner.retire(["0"])
    feeder.wake()
    wait_until(lambda: "4" in chain.slots)
    assert sum(group.startswith("eval-") for group in ids_in_prompts(chain)) == 2  # ahead of it, of ten
    for number in range(10):  # whatever comes back first makes room for the next
        wait_until(lambda number=number: is_in_flight(chain, f"eval-0-{number}"))  # type: ignore[misc]
        looks(feeder, 1)
        assert not is_in_flight(chain, f"eval-0-{number + 2}")
        chain.score(f"eval-0-{number}")
        chain.read()
    assert chain.evaluation.requests == ()
    (done,) = chain.evaluation.rounds.ended()
    assert len(done.groups) == 10


def test_a_rounds_deadline_begins_when_all_is_issued(make_chain: MakeChain, start: Start) -> None:
    chain = make_chain(evaluation={"prompts": 2, "samples": 2, "groups_in_flight": 1, "deadline_s": 1000.0})
    start(chain)
    chain.evaluation.request(0)
    wait_until(lambda: is_in_flight(chain, "eval-0-0"))
    chain.evaluation.rounds.open[0].since -= 999.9
    chain.score("eval-0-0")
    chain.read()
    wait_until(lambda: is_in_flight(chain, "eval-0-1"))
    wait_until(lambda: time.monotonic() - chain.evaluation.rounds.open[0].since < 100)
    chain.evaluation.enforce_deadlines()
    assert not chain.evaluation.rounds.open[0].asked_again


@pytest.mark.parametrize("harm", ["a newer learner", "a slot made by hand"])
def test_what_ends_the_feeder_is_its_failure(chain: Chain, start: Start, harm: str) -> None:
    if harm == "a newer learner":
        RunOwner(chain.link, chain.keys).claim(0)
    else:
        chain.client.zadd(chain.keys("slots"), {"1": 0})
    feeder = start(chain)
    error, said = (Fenced, "") if harm == "a newer learner" else (RunFailed, "group 1 is in Redis already")
    wait_until(lambda: isinstance(feeder.failure, error))
    assert said in str(feeder.failure)
    assert error is RunFailed or chain.depth(PROMPTS) == 0


def test_a_failure_outlives_a_recovery_but_not_one_over_a_forgetful_redis(chain: Chain, start: Start) -> None:
    chain.run_owner.seq += 1  # Redis knows of one less
    feeder = start(chain)
    wait_until(lambda: isinstance(feeder.failure, WentBack))
    chain.run_owner.rejoin()
    feeder.rebase(0)
    assert feeder.failure is None
    wait_until(lambda: len(chain.slots) == 4)
    chain.run_owner.retire(["0"])
    RunOwner(chain.link, chain.keys).claim(0)
    feeder.wake()
    wait_until(lambda: isinstance(feeder.failure, Fenced))
    feeder.rebase(4)
    assert isinstance(feeder.failure, Fenced)
    wait_until(lambda: feeder.has_died)


def test_a_retry_near_the_end_waits_like_any_other(make_chain: MakeChain, start: Start) -> None:
    chain = make_chain(learner={"steps": 1})  # one step of two groups is left
    feeder = start(chain)
    wait_until(lambda: len(chain.slots) == 2)
    feeder.insert(["0-r1"])
    looks(feeder)
    assert chain.slots == {"0", "1"}
    chain.run_owner.retire(["1"])
    wait_until(lambda: chain.slots == {"0", "0-r1"})


def test_a_round_that_ended_is_not_asked_for_again(chain: Chain, start: Start) -> None:
    feeder = start(chain)
    with feeder.held():
        chain.evaluation.request(2)
        chain.evaluation.request(4)
        chain.evaluation.rounds.open[2].is_given_up = True
    wait_until(lambda: any(group.startswith("eval-4-") for group in ids_in_prompts(chain)))
    assert not any(group.startswith("eval-2-") for group in ids_in_prompts(chain))
