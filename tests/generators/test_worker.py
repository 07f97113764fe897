"""The generator's loop: what it samples, when, and what becomes of what it can't. Real Redis, the fake engine."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker import codec
from broker.connection import RedisLink
from broker.errors import BadMessage, Permanent, Retryable
from broker.joining import RunState
from broker.keys import DEAD, GROUP, PROMPTS, ROLLOUTS, Keys
from broker.messages import SampledGroup
from broker.monitoring import heartbeat
from broker.protocol.leases import Renewer
from broker.protocol.run_owner import NewGroup
from generators import worker
from generators.engines.scripted import ScriptedEngine
from generators.weight_sync import follower
from generators.weight_sync.receiver import NotHere, Received
from tests.support.generator_floor import Act, Floor, FloorEngine, make_run
from tests.support.in_loop import in_loop
from tests.support.waiting import wait_in_loop

pytestmark = pytest.mark.process


class Stuck:
    """A `WeightReceiver` whose weights don't arrive."""

    is_slow = False

    def receive(self, *_: object, **__: object) -> Received:
        raise NotHere("stuck on its way")

    def loaded(self, received: Received) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def floor(link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Floor:
    """Return a run in which nobody waits long for anybody: not the loop, its follower, nor its heartbeat."""
    for module, *names in (
        (worker, "LOOK_EVERY_S", "BLOCK_S"),
        (follower, "BLOCK_S", "ASK_S"),
        (heartbeat, "LOOK_S"),
    ):
        for name in names:
            monkeypatch.setattr(module, str(name), 0.05)
    floor = Floor(link, keys, tmp_path)
    floor.publish(0)
    return floor


async def hang(_: str) -> None:
    await asyncio.Event().wait()


def waits_for(gate: asyncio.Event) -> Act:
    async def wait(_: str) -> None:
        await gate.wait()

    return wait


async def crash(_: str) -> None:
    raise RuntimeError("CUDA error")


async def handed_over(floor: Floor, task: asyncio.Task[Any], *group_ids: str) -> None:
    await wait_in_loop(lambda: sorted(floor.ids(ROLLOUTS)) == [*group_ids], task=task)


async def fails(task: asyncio.Task[Any], error: type[Exception] = RuntimeError, said: str = "CUDA") -> None:
    with pytest.raises(error, match=said):
        await asyncio.wait_for(task, 15)


@in_loop
async def test_groups_are_sampled_and_handed_over_once(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[threading.Thread] = set()
    encode: Callable[[SampledGroup], codec.Fields] = codec.encode_rollout

    def recorded(group: SampledGroup) -> codec.Fields:
        threads.add(threading.current_thread())
        return encode(group)

    monkeypatch.setattr(codec, "encode_rollout", recorded)
    floor.issue(*range(6))
    async with floor.generator(engine := FloorEngine()) as (_, task):
        await handed_over(floor, task, *"012345")
    assert threads
    assert threading.main_thread() not in threads, "groups are encoded beside the loop"
    assert sorted(engine.began) == [*"012345"]
    assert engine.is_closed
    assert floor.ids(PROMPTS) == floor.pending() == []
    rollout = floor.rollout("3")
    assert (rollout.generator, len(rollout.completions), rollout.min_version) == ("g", rollout.prompt.n, 0)
    floor.audit()


@in_loop
async def test_nothing_is_sampled_before_the_version_of_its_floor(floor: Floor) -> None:
    async with floor.generator(engine := FloorEngine()) as (_, task):
        await wait_in_loop(lambda: engine.version == 0, task=task)
        floor.publisher.write(1)
        floor.publisher.announce(1, checksum="not yet whole")  # the floor rises, the file is not there yet
        assert floor.issue(0).floor == 1
        begun = lambda: [item["times_delivered"] for item in floor.pending()] == [2]  # noqa: E731
        await wait_in_loop(begun, task=task)
        await asyncio.sleep(0.2)
        assert engine.began == []
        floor.publisher.announce(1)
        await handed_over(floor, task, "0")
    assert floor.rollout("0").min_version == 1


@in_loop
async def test_an_update_that_misses_its_deadline_costs_that_generators_turn_and_no_attempt(
    floor: Floor, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two generators one does not get version 1: the group that needs it goes to the other one."""
    settings = {"engine": {"type": "fake"}, "groups_in_flight": 4, "update_deadline_s": 0.3}
    floor.run_config = make_run(generators=settings)
    waits = "waiting for the newest weights: stuck on its way"
    async with floor.generator(late := FloorEngine(), "late") as (generator, task):
        await wait_in_loop(lambda: late.version == 0, task=task)
        receiver, generator.follower._receiver = generator.follower._receiver, Stuck()
        floor.publish(1)
        assert floor.issue(0).floor == 1
        await wait_in_loop(lambda: "update_late group=0 needs=1 held=0" in caplog.text, task=task)
        async with floor.generator(FloorEngine(), "other") as (_, other):
            await handed_over(floor, other, "0")
        assert (floor.rollout("0").generator, floor.rollout("0").attempts) == ("other", 1)
        floor.issue(1)
        await wait_in_loop(lambda: floor.hash("alive:generator:late").get("state") == waits, task=task)
        assert floor.pending() == [], "who lacks the weights takes nothing"
        generator.follower._receiver = receiver
        await handed_over(floor, task, "0", "1")
        assert floor.rollout("1").generator == "late"
    floor.audit()


@in_loop
async def test_nothing_is_leased_before_weights_and_the_heartbeat_has_the_room(floor: Floor) -> None:
    learner = {"groups_per_step": 2, "max_lag": 2}
    floor.run_config = make_run(generators={"engine": {"type": "fake"}}, learner=learner)
    floor.client.delete(floor.keys("weights"))
    floor.issue(0)
    async with floor.generator(FloorEngine()) as (_, task):
        said = "waiting for the first weights"
        await wait_in_loop(lambda: said in floor.hash("alive:generator:g").values(), task=task)
        assert floor.pending() == []
        floor.publish(0)
        await handed_over(floor, task, "0")
        await wait_in_loop(lambda: floor.hash("alive:generator:g").get("room") == "8", task=task)


@in_loop
async def test_several_groups_are_in_flight_and_no_more_than_asked_for(floor: Floor) -> None:
    gate = asyncio.Event()
    floor.issue(*range(6))
    async with floor.generator(engine := FloorEngine(waits_for(gate))) as (_, task):
        await wait_in_loop(lambda: len(engine.began) == 4, task=task)
        await asyncio.sleep(0.2)
        assert len(engine.began) == len(floor.pending()) == 4, "generators.groups_in_flight"
        await wait_in_loop(lambda: floor.sampling("g").keys() == {*"0123"}, task=task)
        assert all(0 <= time.time() - at < 15 for at in floor.sampling("g").values())
        gate.set()
        await handed_over(floor, task, *"012345")


@pytest.mark.parametrize(
    ("held", "count", "engine_room", "expected"),
    [
        (None, 1, 64, 64),  # a budget of 80 groups, all of them for one
        (None, 2, 64, 40),  # half of the 80: what waits in one engine is not for the other
        (None, 3, 64, 27),
        (None, 1, 7, 7),
        (None, 200, 64, 1),
        (100, 2, 64, 100),  # as asked for
    ],
)
def test_a_generator_holds_what_keeps_its_engine_busy_and_no_more_than_its_share(
    *, held: int | None, count: int, engine_room: int, expected: int
) -> None:
    generators = {"engine": {"type": "fake"}, "groups_in_flight": held, "count": count}
    run = make_run(generators=generators, learner={"groups_per_step": 16, "max_lag": 4})
    assert worker.groups_at_once(run, engine_room) == expected


@in_loop
async def test_what_can_never_be_sampled_goes_to_the_dead_and_the_others_go_on(floor: Floor) -> None:
    """It can't be read, it is nobody's, or the engine says so."""

    async def refuse(group_id: str) -> None:
        if group_id in errors:
            raise errors[group_id]

    errors = {"1": Permanent("900 tokens are too many"), "2": BadMessage("no such token")}
    group_id, fields, _ = floor.group("0")
    floor.learner.issue(0, 1, 100, 0, [NewGroup(group_id, fields | {"payload": b"\xc1"})])
    floor.client.xadd(floor.keys(PROMPTS), {"hello": "world"})
    floor.issue(1, 2, 3)
    async with floor.generator(FloorEngine(refuse)) as (_, task):
        await wait_in_loop(lambda: floor.ids(ROLLOUTS) == ["3"] and len(floor.ids(DEAD)) == 4, task=task)
    assert sorted(floor.ids(DEAD)) == ["0", "1", "2", "?"], "under its own id; a foreign one is nobody's"
    assert codec.decode_dead(floor.entry("0").raw).reason.startswith("payload: ")
    for group_id, error in errors.items():
        dead_letter = codec.decode_dead(floor.entry(group_id).raw)
        assert (dead_letter.reason, dead_letter.attempts, dead_letter.stage) == (str(error), 1, PROMPTS)
        assert "in refuse" in dead_letter.traceback
    assert floor.ids(PROMPTS) == []


@in_loop
async def test_what_may_succeed_later_is_tried_until_attempts_are_used_up(floor: Floor) -> None:
    async def fail(group_id: str) -> None:
        if group_id == "0" or engine.began.count("1") == 1:
            raise Retryable("the engine is busy")

    floor.run_config = make_run(broker={"max_attempts": 2})
    engine = FloorEngine(fail)
    floor.issue(0, 1)
    async with floor.generator(engine, "g1") as (first, task):
        await wait_in_loop(lambda: sorted(engine.began) == ["0", "1"] and not first._tasks, task=task)
        await asyncio.sleep(0.1)
        assert floor.ids(PROMPTS) == ["0", "1"], "not before its lease has run out"
    await ScriptedEngine.load_weights(engine, [Path("held")], 0)
    async with floor.generator(engine, "g2") as (_, task):
        floor.age()
        await wait_in_loop(lambda: floor.ids(ROLLOUTS) == ["1"] and engine.began.count("0") == 2, task=task)
        floor.age()
        await wait_in_loop(lambda: floor.ids(DEAD) == ["0"], task=task)
    assert sorted(engine.began) == ["0", "0", "1", "1"]
    dead_letter = codec.decode_dead(floor.entry("0").raw)
    assert dead_letter.reason == (
        "2 generators began this prompt and none finished it (broker.max_attempts=2): g1, g2; the "
        "last error: broker.errors.Retryable: the engine is busy"
    )
    assert (dead_letter.attempts, "in fail" in dead_letter.traceback, floor.hash("tries")) == (2, True, {})
    rollout = floor.rollout("1")
    assert (rollout.generator, rollout.attempts) == ("g2", 2)
    times = [
        0,
        rollout.prompt.issued_at,
        rollout.sampled_at - rollout.seconds,
        rollout.sampled_at,
        time.time(),
    ]
    assert times == sorted(times)
    assert rollout.seconds > 0


@in_loop
async def test_a_lease_is_renewed_while_sampling(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "Renewer", functools.partial(Renewer, period_s=0.05))
    # One group each: the slow one has no room to lease more, which would renew its own by the way.
    floor.run_config = make_run(generators={"engine": {"type": "fake"}, "groups_in_flight": 1})
    floor.issue(0)
    gate = asyncio.Event()
    slow, idle = FloorEngine(waits_for(gate)), FloorEngine()
    async with floor.generator(slow, "slow") as (_, task):
        await wait_in_loop(lambda: slow.began == ["0"], task=task)
        floor.age()
        lease_ms = floor.run_config.broker.lease_s * 1000
        await wait_in_loop(lambda: floor.pending()[0]["time_since_delivered"] < lease_ms, task=task)
        async with floor.generator(idle, "idle") as (_, other):
            waits = "waiting for prompts"
            await wait_in_loop(lambda: floor.hash("alive:generator:idle").get("state") == waits, task=other)
            gate.set()
            await handed_over(floor, task, "0")
            assert not other.done()
    assert (idle.began, floor.rollout("0").generator) == ([], "slow")


@in_loop
async def test_a_generator_that_is_gone_is_replaced_after_the_lease(floor: Floor) -> None:
    floor.issue(0)
    async with floor.generator(engine := FloorEngine(hang), "killed") as (_, task):
        await wait_in_loop(lambda: engine.began == ["0"], task=task)
        task.cancel()  # no hand-over, no release
        await asyncio.wait([task])
    async with floor.generator(FloorEngine(), "other") as (_, task):
        floor.age()
        await handed_over(floor, task, "0")
    assert floor.rollout("0").generator == "other"


@pytest.mark.parametrize("status", ["finished", "stopped", "failed"])
@in_loop
async def test_a_generator_ends_with_the_run_and_none_starts_after_it(floor: Floor, status: str) -> None:
    class Unstarted(FloorEngine):
        async def start(self) -> None:
            raise AssertionError("minutes of loading")

    async with floor.generator(engine := FloorEngine()) as (_, task):
        await wait_in_loop(lambda: engine.version == 0, task=task)
        floor.say(status, "because")
        assert await asyncio.wait_for(task, 15) == RunState(status, "because")
    async with floor.generator(Unstarted()) as (_, task):
        assert (await asyncio.wait_for(task, 15)).status == status


@in_loop
async def test_a_stop_finishes_what_is_in_flight_and_takes_nothing_new(floor: Floor) -> None:
    gate = asyncio.Event()
    floor.issue(0, 1)
    async with floor.generator(engine := FloorEngine(waits_for(gate))) as (generator, task):
        await wait_in_loop(lambda: len(engine.began) == 2, task=task)
        generator.stop.set()
        await asyncio.sleep(0.3)  # longer than the loop's longest wait
        floor.issue(2)
        gate.set()
        assert not (await asyncio.wait_for(task, 15)).has_ended
    assert (sorted(floor.ids(ROLLOUTS)), floor.ids(PROMPTS), floor.pending()) == (["0", "1"], ["2"], [])


@in_loop
async def test_what_is_not_finished_in_time_is_handed_back_and_said(
    floor: Floor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "GRACE_S", 0.1)
    floor.issue(0)
    async with floor.generator(engine := FloorEngine(hang)) as (generator, task):
        await wait_in_loop(lambda: engine.began == ["0"], task=task)
        generator.stop.set()
        await asyncio.wait_for(task, 15)
    assert engine.is_closed
    async with floor.generator(FloorEngine(), "other") as (_, task):
        await handed_over(floor, task, "0")  # no lease has run out meanwhile
    assert "unfinished groups=1" in caplog.text
    names = [item["name"] for item in floor.client.xinfo_consumers(floor.keys(PROMPTS), GROUP)]
    assert names == [b"nobody"], "who ends in good order leaves no name behind"


@in_loop
async def test_a_group_that_fails_while_the_generator_finishes_does_not_keep_the_others_leases(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def crash_at_0(group_id: str) -> None:
        await gate.wait()
        await (crash if group_id == "0" else hang)(group_id)

    monkeypatch.setattr(worker, "GRACE_S", 0.5)
    floor.issue(0, 1)
    async with floor.generator(engine := FloorEngine(crash_at_0)) as (generator, task):
        await wait_in_loop(lambda: len(engine.began) == 2, task=task)
        generator.stop.set()
        await asyncio.sleep(0.3)  # longer than the loop's longest wait
        gate.set()
        await fails(task)
    async with floor.generator(FloorEngine(), "other") as (_, task):
        await handed_over(floor, task, "0", "1")


@in_loop
async def test_a_result_that_comes_after_another_ones_does_not_count(floor: Floor) -> None:
    async def another_is_faster(group_id: str) -> None:
        assert floor.move(floor.entry(group_id), ROLLOUTS)

    floor.issue(0)
    async with floor.generator(FloorEngine(another_is_faster)) as (generator, task):
        await wait_in_loop(lambda: floor.ids(ROLLOUTS) == ["0"] and not generator._tasks, task=task)
    assert floor.entry("0").raw[b"payload"] == b"result", "the other one's"
    assert floor.ids(DEAD) == []


@in_loop
async def test_an_engine_that_breaks_or_cant_load_ends_the_generator(floor: Floor) -> None:
    class Refuses(FloorEngine):
        async def load_weights(self, files: Sequence[Path], version: int) -> None:
            if version == 1:
                raise ValueError("shape [4, 8], expected [8, 8]")
            await super().load_weights(files, version)

    floor.issue(0)
    async with floor.generator(engine := FloorEngine(crash)) as (_, task):
        await fails(task)
    assert engine.is_closed
    assert floor.ids(PROMPTS) == ["0"], "for another generator"
    known = floor.hash("tries")["error:0"]
    assert known.endswith("RuntimeError: CUDA error\n"), "should it be the last attempt"
    floor.age()
    async with floor.generator(engine := Refuses(hang)) as (_, task):
        await wait_in_loop(lambda: engine.began == ["0"], task=task)
        floor.publish(1)
        await fails(task, ValueError, "shape")


@in_loop
async def test_a_prompt_that_breaks_its_engine_takes_none_along(floor: Floor) -> None:
    """All of them are under way at each death but the last: then each is alone."""
    floor.run_config = make_run(broker={"max_attempts": 3})
    floor.issue(0, 1, 2)
    for life in range(4):
        all_began = asyncio.Event()

        async def crash_at_0(group_id: str, life: int = life, all_began: asyncio.Event = all_began) -> None:
            if len(engine.began) == 3:
                all_began.set()
            if life < 2:
                await all_began.wait()
            if group_id == "0":
                await crash(group_id)
            await asyncio.sleep(60 if life < 2 else 0.1)  # they are under way when it crashes

        async with floor.generator(engine := FloorEngine(crash_at_0), f"g{life}") as (_, task):
            if life < 3:
                await fails(task)
            else:
                await wait_in_loop(lambda: floor.ids(DEAD) == ["0"], task=task)
                await handed_over(floor, task, "1", "2")
        assert life >= 2 or sorted(engine.began) == ["0", "1", "2"]
        floor.age()
    assert codec.decode_dead(floor.entry("0").raw).attempts == 3
    floor.audit()
