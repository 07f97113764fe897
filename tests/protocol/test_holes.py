"""The holes that random runs do not find, each made on purpose, and the other cases that the protocol names.

A learner is stopped before a chosen line, something is done to Redis, and everybody goes on. The invariants are looked
at after every command; at the end all that was issued must have come to an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from learner.journal.ledger import DEAD, DROPPED, TRAINED
from tests.protocol.invariants import Bounds
from tests.protocol.lives import Life, drive
from tests.protocol.strands import Strand
from tests.protocol.workers import Crew
from tests.protocol.world import World

pytestmark = [
    pytest.mark.process,
    pytest.mark.prove(after=1),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # killed: nothing closed
]

BOUNDS = Bounds(2, 1)
Begin = Callable[..., Crew]


@pytest.fixture
def begin(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Makes a world with a learner that has trained a few steps and waits, with a full budget in `prompts`."""
    worlds: list[World] = []
    clock, disk = drive(monkeypatch)

    def make(bounds: Bounds = BOUNDS, *, is_clock_back: bool = False, rounds_every: int = 0) -> Crew:
        given: Any = {"bounds": bounds, "is_clock_back": is_clock_back, "rounds_every": rounds_every}
        worlds.append(World(redis_url, tmp_path, clock, disk, **given))
        crew = Crew(worlds[-1])
        worlds[-1].begin()
        for _ in range(3):  # of a few steps
            crew.round()
        for _ in range(10):  # the learner alone: it waits, with a full budget in flight
            worlds[-1].newest().until_it_waits()
        return crew

    yield make
    for world in worlds:
        world.close()


def until(strand: Strand, place: str, at_most: int = 500) -> None:
    """Let it go on until it is about to do `place`."""
    for _ in range(at_most):
        if strand.advance() == place:
            return
    raise AssertionError(f"{strand.name} never came to {place}: {strand.place}")


def work_until(crew: Crew, place: str) -> Strand:
    """Let the learner go on until its loop or its publisher is about to do `place`; workers do what there is to do."""
    life = crew.world.newest()
    for _ in range(40):
        crew.do_all(0)
        for _ in range(60):
            for strand in (life.loop, publisher_of(life)):
                if strand.advance() == place:
                    return strand
            life.strands[-1].advance()
    raise AssertionError(f"the learner never came to {place}: {crew.world.describe()}")


def publisher_of(life: Life) -> Strand:
    """Return the strand that announces versions and retires what made them."""
    return next(strand for strand in life.strands if strand.name == "publisher")


def let_go_on(life: Life) -> None:
    """All its strands in turn, for a while."""
    for _ in range(200):
        for strand in list(life.strands):
            strand.advance()


def step_of(life: Life) -> str:
    """A step of each of its strands. Returns where its loop stands."""
    place = life.loop.advance()
    publisher_of(life).advance()
    life.strands[-1].advance()
    return place


def outcome(world: World, group_id: str) -> str:
    world.invariants.read_ledger()
    return world.invariants.ledger.outcomes[group_id].kind


# The five holes.


def test_an_announce_that_is_undone_is_repeated_before_the_slots_are_freed(begin: Begin) -> None:
    """It holds even where the reply of that retire is lost: a retry must not pass a Redis that has forgotten."""
    crew = begin()
    world, life = crew.world, crew.world.newest()
    work_until(crew, "retire")
    version = world.now.version
    life.link.loses.add("retire")
    world.go_back(1)
    assert world.now.version == version - 1
    slots = world.now.slots
    for _ in range(100):
        if step_of(life) == "announce":
            break
        assert world.now.slots == slots, "freed before the version is told again"
    assert life.loop.place == "announce"
    assert life.link.losses == 1
    crew.come_to_an_end()


@pytest.mark.prove
@pytest.mark.parametrize("place", ["reconcile_view", "fsync", "announce", "retire", "step"])
def test_an_older_learner_does_nothing_where_redis_forgot_the_newer(begin: Begin, place: str) -> None:
    crew = begin()
    world, older = crew.world, crew.world.newest()
    work_until(crew, place)
    before = len(world.history)
    newer = world.begin()
    until(newer.loop, "announce")
    world.go_back(len(world.history) - before)
    assert 0 < world.now.fence < newer.fence
    let_go_on(older)  # it wakes first
    crew.do_all(0)
    crew.come_to_an_end()
    let_go_on(older)
    assert not older.is_running, "it found the newer one's ledger, or its fence"
    assert newer.is_running


@pytest.mark.prove
@pytest.mark.parametrize("until_a_checkpoint", [False, True])
def test_a_newer_learner_takes_no_file_of_an_older_one_that_trains_the_journal(
    begin: Begin, *, until_a_checkpoint: bool
) -> None:
    """Both write the weights to compare their checksum; the newer one removes its own, and sweeps at a checkpoint."""
    crew = begin()
    world = crew.world
    while len(world.invariants.ledger.steps) % 3 != 2:  # a checkpoint lies three steps apart
        crew.round()
    world.newest().kill()
    older = world.begin()
    until(older.loop, "gather")
    newer, checkpoints = world.begin(), world.folder / "test" / "checkpoints"
    before = set(checkpoints.glob("step-*"))
    if until_a_checkpoint:
        while set(checkpoints.glob("step-*")) <= before:
            crew.round()
    else:
        until(newer.loop, "announce")
    assert world.newest() is newer
    let_go_on(older)
    assert "has taken" in older.failure, "its fence, and nothing else, ends it"
    crew.come_to_an_end()


def test_a_rewind_between_record_and_announce_undoes_no_step(begin: Begin) -> None:
    crew = begin()
    world, life = crew.world, crew.world.newest()
    work_until(crew, "step")
    world.invariants.read_ledger()
    trained = world.invariants.ledger.steps[-1]
    assert trained["step"] >= world.now.version, "it is on disk, and not told"
    acknowledged = life.session.run_owner.seq
    while (
        int(world.now.cursor["seq"]) >= acknowledged
    ):  # past what workers did, to something of the learner's
        world.go_back(1)
    slots = world.now.slots
    assert slots.keys() >= set(trained["ids"])
    passed: list[str] = []
    while world.now.version <= trained["step"] and len(passed) < 500:
        passed.append(step_of(life))
        assert world.now.slots.keys() >= set(trained["ids"]), "freed before the version is told"
    assert "rejoin" in passed, "it recovered"
    assert world.now.version == trained["step"] + 1
    crew.come_to_an_end()
    assert life.is_running
    assert {outcome(world, group_id) for group_id in trained["ids"]} == {TRAINED}


@pytest.mark.prove
def test_a_group_that_is_held_and_goes_to_dead_is_not_trained(begin: Begin) -> None:
    """Redis goes back to where it had no result yet; this time its worker gives up."""
    crew = begin()  # its score fills no step
    world, life = crew.world, crew.world.newest()
    life.until_it_waits()
    scorer, generator = crew.workers["rollouts", "a"], crew.workers["prompts", "a"]
    generator.lease(100)
    while generator.held:
        generator.finish(0)
    scorer.lease(1)
    (held,) = scorer.held
    before = len(world.history)
    scorer.finish(0)
    life.until_it_waits()
    world.go_back(len(world.history) - before)
    scorer.held = [held]
    scorer.give_up(0)
    crew.come_to_an_end()
    assert outcome(world, held.group_id) == DEAD


@pytest.mark.parametrize("is_clock_back", [False, True], ids=["new entry", "the same entry id again"])
def test_a_late_result_of_an_older_life_of_a_group_does_not_count(begin: Begin, is_clock_back: bool) -> None:
    """The group was issued, forgotten, and issued again with a higher floor: what was sampled before is below it."""
    crew = begin(Bounds(1, 1), is_clock_back=is_clock_back)
    world, life = crew.world, crew.world.newest()
    feeder = life.strands[-1]
    until(work_until(crew, "retire"), "wait")
    until(life.loop, "wait")
    until(feeder, "issue")
    before = len(world.history)
    until(feeder, "wait")
    entry = world.entry(str(world.now.position - 1))  # of the prompt that was issued last
    assert entry is not None
    generator = crew.workers["prompts", "b"]
    generator.lease(100)
    world.go_back(len(world.history) - before)  # it was never issued
    assert entry.group_id not in world.now.slots
    version = world.now.version
    for _ in range(10):  # steps are trained meanwhile, and the feeder stands still
        crew.do_all(0)
        for _ in range(60):
            life.loop.advance()
            publisher_of(life).advance()
        if world.now.version > version:
            break
    life.until_it_waits()
    again = world.entry(entry.group_id)
    assert again is not None
    assert again.floor > entry.floor
    assert (again.entry_id == entry.entry_id) == is_clock_back
    state = world.now.protocol()
    generator.hand_over_late(entry, 0)
    assert world.now.protocol() == state
    crew.come_to_an_end()


# Memory full as each script is about to run; none can be caught half way.


@pytest.mark.prove
@pytest.mark.parametrize("script", ["issue", "issue_eval"])
def test_with_full_memory_nothing_new_comes_in(begin: Begin, script: str) -> None:
    crew = begin(rounds_every=1)
    world, life = crew.world, crew.world.newest()
    for _ in range(200):
        if life.strands[-1].advance() == script:
            break
        crew.do_all(0)
        for _ in range(5):
            life.loop.advance()
    assert life.strands[-1].place == script
    world.fill_memory(True)
    state = world.now.protocol()
    for _ in range(20):
        assert life.strands[-1].advance() in {"wait", "command", script}
    assert world.now.protocol() == state
    crew.come_to_an_end()
    assert life.is_running


@pytest.mark.prove
@pytest.mark.parametrize("script", ["announce", "retire", "claim", "rejoin", "hand_over"])
def test_with_full_memory_what_is_there_can_leave(begin: Begin, script: str) -> None:
    crew = begin()
    world, life = crew.world, crew.world.newest()
    if script in {"claim", "rejoin"}:
        life.kill()
        life = world.begin()
        until(life.loop, script)
    strand = life.loop
    if script in {"announce", "retire"}:
        strand = work_until(crew, script)
    world.fill_memory(True)
    state = world.now.contents
    if script == "hand_over":
        worker = crew.workers["prompts", "a"]
        worker.lease(1)
        worker.finish(0)
    else:
        strand.advance()
    assert world.now.contents != state, f"{script} was refused"
    crew.come_to_an_end()


# Other things that people and machines do.


def test_redis_is_replaced_by_an_empty_one(begin: Begin) -> None:
    crew = begin()
    world = crew.world
    ids = set(world.unended())
    trained = len(world.invariants.ledger.steps)
    assert ids
    assert trained
    world.forget_all()
    crew.come_to_an_end()
    assert {outcome(world, group_id) for group_id in ids} <= {TRAINED, DROPPED, DEAD}
    assert len(world.lives) == 1, "the learner that lived went on"


@pytest.mark.prove
@pytest.mark.parametrize("stream", ["prompts", "rollouts", "scored"])
@pytest.mark.parametrize("what", ["entry", "where"])
@pytest.mark.parametrize("is_learner_alive", [True, False])
def test_what_is_deleted_is_issued_again(
    begin: Begin, stream: str, what: str, is_learner_alive: bool
) -> None:
    crew = begin()
    world, life = crew.world, crew.world.newest()
    life.until_it_waits()
    for source in ("prompts", "rollouts")[: ("prompts", "rollouts", "scored").index(stream)]:
        crew.workers[source, "a"].begins_anew()
        crew.workers[source, "a"].lease(1)
        crew.workers[source, "a"].finish(0)
    places = world.now.streams[stream]
    entry = world.entry(next(place.group_id for place in places if place.group_id in world.now.slots))
    assert entry is not None
    if not is_learner_alive:
        life.kill()
    world.delete_by_hand(entry, what)
    crew.come_to_an_end()
    assert outcome(world, entry.group_id) in {TRAINED, DROPPED}


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("before", "after"), [((2, 2), (2, 0)), ((3, 1), (1, 1)), ((3, 2), (1, 0)), ((1, 0), (3, 2))]
)
def test_other_settings_may_follow(begin: Begin, before: tuple[int, int], after: tuple[int, int]) -> None:
    """Where they are smaller, groups are dropped until the others can be trained in time."""
    crew = begin(Bounds(*before))
    world = crew.world
    world.newest().until_it_waits()
    in_flight = len(world.unended())
    assert in_flight == Bounds(*before).budget
    world.newest().kill()
    world.bounds = Bounds(*after)
    world.begin()
    crew.come_to_an_end()
    ends = [ending.detail for ending in world.invariants.ledger.outcomes.values() if ending.kind == DROPPED]
    too_many = max(0, in_flight - world.bounds.budget)
    assert sum(detail.startswith(("config", "surplus")) for detail in ends) >= too_many


@pytest.mark.prove
def test_a_dead_letter_is_retried_once_though_redis_forgets(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew = begin()
    world = crew.world
    world.newest().until_it_waits()
    worker = crew.workers["prompts", "a"]
    worker.lease(1)
    (entry,) = worker.held
    again = f"{entry.group_id}-r1"
    worker.give_up(0)
    crew.come_to_an_end()
    world.retry_a_dead_letter(0)
    before = len(world.history)
    for _ in range(100):
        world.newest().until_it_waits()
        if again in world.now.slots:
            break
        crew.do_all(0)
    assert again in world.now.slots
    world.go_back(len(world.history) - before)
    link, lost = world.newest().link, []
    evaluate: Any = link._evaluate

    def lose_one_reply(client: Any, name: str, keys: Any, args: tuple[Any, ...], *, guarded: bool) -> Any:
        reply = evaluate(client, name, keys, args, guarded=guarded)
        if name == "issue" and again in args and reply[0] == b"ok":
            lost.append(again)
            raise redis.ConnectionError("the reply was lost")
        return reply

    monkeypatch.setattr(link, "_evaluate", lose_one_reply)
    crew.come_to_an_end()
    for _ in range(5):
        crew.round()
    assert lost == [again]
    assert outcome(world, entry.group_id) == DEAD
    assert outcome(world, again) == TRAINED
    assert world.now.cursor[f"retry:{entry.group_id}"] == "1"
