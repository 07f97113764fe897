"""What comes back, on a real Redis: held, dropped, dead, wrong or nobody's, and what is kept of groups that never trained."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from msgspec import structs

from broker import codec
from broker.errors import RunFailed, WentBack
from broker.keys import DEAD, PROMPTS, ROLLOUTS, SCORED, WORK_STREAMS
from broker.messages import ScoredGroup
from broker.protocol.streams import dead_letter_entry, hand_over
from learner.groups.discarded import dropped
from learner.groups.reconciliation import LOOK_COUNT
from learner.journal.ledger import GroupOutcome, read_ledger
from tests.learner.conftest import MakeChain
from tests.support.chain import Chain, make_prompt, make_scored

LookAt = Callable[[int], None]
ALL = (0.0, 1.0)


@pytest.fixture
def look_at(monkeypatch: pytest.MonkeyPatch) -> LookAt:
    """Set how many entries a reconciliation reads."""
    return lambda count: monkeypatch.setattr("learner.groups.reconciliation.LOOK_COUNT", count)


def look(chain: Chain, times: int = 1, *, after_s: float = 0.0) -> None:
    chain.elapsed += after_s
    for _ in range(times):
        chain.reconciliation.look()


def delete(chain: Chain, group_id: str) -> None:
    chain.client.xdel(chain.keys(PROMPTS), chain.entry(group_id).entry_id)


def outcomes(chain: Chain) -> dict[str, GroupOutcome]:
    """Read what is to be read, and return what has ended by then."""
    chain.read()
    return chain.journal.ledger.outcomes


@pytest.mark.parametrize(
    ("pass_rate", "rewards", "reason"),
    [
        ((0.4, 0.6), [1.0, 0.0], ""),
        ((0.4, 0.6), [0.5, 0.25], "too_hard: the mean score is 0.375, below learner.filters.pass_rate's 0.4"),
        ((0.4, 0.6), [1.0, 0.5], "too_easy: the mean score is 0.75, above learner.filters.pass_rate's 0.6"),
        (ALL, [None, None], "unscorable: none of 2 scored; the sandbox is away"),
        (ALL, [None, 1.0, None, None], "zero_variance: every reward is 1"),
        (ALL, [None, 1.0, None, None, 0.0], ""),  # how few scores are enough is the scorer's decision
    ],
)
def test_a_group_with_nothing_to_learn_from_is_dropped_with_the_reason(
    make_chain: MakeChain, pass_rate: tuple[float, float], rewards: list[float | None], reason: str
) -> None:
    chain = make_chain(learner={"filters": {"pass_rate": pass_rate}})
    (group_id,) = chain.issue(n=len(rewards))
    chain.score(group_id, rewards)
    chain.read()
    ended = {group_id: GroupOutcome("dropped", reason, 2 * len(rewards))} if reason else {}
    assert read_ledger(chain.journal.folder).outcomes == ended
    assert set(chain.buffer.groups) == chain.slots == {group_id} - ended.keys()
    counted = {"math": {reason.partition(":")[0]: 1}} if reason else {}
    assert chain.filters.take_arrivals().dropped_by_source == counted


def test_groups_beyond_those_that_may_be_replaced_before_a_step_train(make_chain: MakeChain) -> None:
    chain = make_chain(learner={"filters": {"max_replaced": 1}})
    replaced, kept, good = chain.issue(3)
    for group_id in (replaced, kept):
        chain.score(group_id, [1.0, 1.0])
        chain.read()
    chain.score(good)
    chain.read()
    assert set(chain.buffer.groups) == chain.slots == {kept, good}
    assert chain.filters.take_arrivals().dropped == {"zero_variance": 1}
    (next_one,) = chain.issue(1)
    chain.score(next_one, [0.0, 0.0])
    chain.read()
    assert chain.slots == {kept, good}
    assert chain.filters.take_arrivals().dropped == {"zero_variance": 1}  # of the step after


def test_a_group_without_variance_is_dropped_and_its_slot_is_free_for_another(chain: Chain) -> None:
    flat, good = chain.issue(2)
    chain.score(flat, [1.0, 1.0])
    chain.score(good)
    flat_ended = {flat: GroupOutcome("dropped", "zero_variance: every reward is 1", 4)}
    assert outcomes(chain) == read_ledger(chain.journal.folder).outcomes == flat_ended
    assert set(chain.buffer.groups) == chain.slots == {good}
    assert chain.depth(SCORED) == 1
    arrivals = chain.filters.take_arrivals()
    assert arrivals.reward_mean == 0.75  # the mean of 1, 1, 1 and 0
    assert arrivals.dropped == {"zero_variance": 1}
    assert arrivals.facts["completions"] == 4
    assert chain.filters.take_arrivals().facts == {}


def test_what_was_sampled_and_is_over_counts_with_its_tokens(chain: Chain) -> None:
    chain.issue(2)
    chain.score("0")  # two completions of two tokens
    chain.read()
    chain.outcomes.drop_the_rest()
    ended = chain.journal.ledger.outcomes
    assert {group_id: (outcome.kind, outcome.tokens) for group_id, outcome in ended.items()} == {
        "0": ("dropped", 4),
        "1": ("dropped", 0),
    }
    assert (chain.slots, len(chain.buffer), chain.journal.ledger.over) == (set(), 0, ["0", "1"])


def test_no_slot_is_freed_before_an_outcome_is_written(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    (group_id,) = chain.issue()
    chain.score(group_id, [1.0, 1.0])
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(chain.journal, "_log", full)
        with pytest.raises(RunFailed, match="No space left on device"):
            chain.read()
    assert chain.slots == {group_id}
    assert chain.entry(group_id).stream == SCORED


@pytest.mark.parametrize("rewards", [[0.0, 0.0], [None, None]], ids=["no variance", "unscorable"])
def test_nothing_but_empty_groups_ends_the_run(make_chain: MakeChain, rewards: list[float | None]) -> None:
    chain = make_chain(learner={"filters": {"max_empty_groups": 3}})
    for some in ([0.0, 0.0], [1.0, 1.0], [1.0, 0.0]):
        chain.score(chain.issue()[0], some)
        chain.read()
    assert set(chain.buffer.groups) == {"2"}
    for group_id in chain.issue(3):
        chain.score(group_id, rewards)
    with pytest.raises(RunFailed, match=r"3 groups in a row had nothing to learn from.*max_empty_groups=3"):
        chain.read()
    assert chain.slots == {"2"}  # their outcomes are written down all the same
    assert len(chain.journal.ledger.outcomes) == 5


def test_a_group_without_variance_is_held_where_the_run_keeps_such(make_chain: MakeChain) -> None:
    chain = make_chain(learner={"filters": {"zero_variance": "keep", "max_empty_groups": 1}})
    for group_id in chain.issue(3):
        chain.score(group_id, [0.0, 0.0])
    chain.read()
    assert set(chain.buffer.groups) == {"0", "1", "2"}


def test_a_dead_letter_is_an_outcome_and_no_held_group_that_dies_trains(chain: Chain) -> None:
    waiting, held = chain.issue(2)
    chain.score(held)
    chain.read()
    dead_letter_entry(chain.link, chain.keys, chain.entry(waiting), reason="it failed", attempts=5)
    dead_letter_entry(chain.link, chain.keys, chain.entry(held), reason="by hand")
    assert outcomes(chain) == {
        waiting: GroupOutcome("dead", "it failed"),
        held: GroupOutcome("dead", "by hand", 4),
    }
    assert (chain.slots, chain.depth(DEAD), chain.depth(PROMPTS)) == (set(), 2, 0)
    assert chain.buffer.groups == {}
    assert chain.client.hlen(chain.keys("where")) == 0
    assert chain.filters.take_arrivals().dropped == {"dead": 2}


def test_nothing_but_deaths_end_the_run(chain: Chain) -> None:
    with pytest.raises(RunFailed, match=r"to `dead` and none was scored .the last one: it failed"):  # noqa: PT012
        for _ in range(2 * chain.run.most_in_flight + 1):
            dead_letter_entry(chain.link, chain.keys, chain.entry(chain.issue()[0]), reason="it failed")
            chain.read()
    assert len(chain.journal.ledger.outcomes) == 2 * chain.run.most_in_flight + 1


@pytest.mark.parametrize("stream", [PROMPTS, ROLLOUTS])
def test_a_group_past_its_deadline_dies_and_its_late_result_is_void(chain: Chain, stream: str) -> None:
    (late,) = chain.issue(issued_at=time.time() - 200)
    look(chain)
    chain.elapsed += 101
    (young,) = chain.issue(issued_at=time.time() - 200)
    if stream == ROLLOUTS:
        chain.sample(late)
    before = chain.entry(late)
    look(chain)
    assert chain.entry(late).stream == DEAD
    fields = codec.encode_scored(make_scored(make_prompt(late), [1.0, 0.0]))
    assert not hand_over(chain.link, chain.keys, before, SCORED, fields)
    assert f"it was still in {stream} (learner.group_deadline_s=300)" in outcomes(chain)[late].detail
    assert (chain.slots, chain.buffer.groups) == ({young}, {})


@pytest.mark.parametrize(("own_s", "dies_at_s"), [(50.0, 51), (600.0, 601)])
def test_a_task_has_its_deadline_and_scores_none(make_chain: MakeChain, own_s: float, dies_at_s: int) -> None:
    chain = make_chain(scorers={"tasks": {"math": {"deadline_s": own_s}}})
    group_id, scored = chain.issue(2)
    look(chain)
    chain.score(scored)
    look(chain, after_s=dies_at_s - 2)
    assert chain.entry(group_id).stream == PROMPTS
    look(chain, after_s=2)
    assert chain.entry(group_id).stream == DEAD
    look(chain)
    chain.read()
    assert f"(scorers.tasks.math.deadline_s={own_s:g})" in outcomes(chain)[group_id].detail
    assert set(chain.buffer.groups) == {scored}


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_clock_that_jumps_ages_nobody(chain: Chain, monkeypatch: pytest.MonkeyPatch, jump_s: float) -> None:
    seen = chain.issue()
    look(chain)
    new = chain.issue()
    wall_clock = time.time
    monkeypatch.setattr("learner.groups.reconciliation.time.time", lambda: wall_clock() + jump_s)
    look(chain)
    assert chain.reconciliation.latest.places[PROMPTS] == 2, "nobody is buried"
    assert chain.reconciliation.latest.oldest_s < 100
    look(chain, after_s=301)
    assert outcomes(chain).keys() == {*seen, *new}, "and the deadline passes as ever"


def test_a_group_that_is_issued_again_begins_anew(chain: Chain) -> None:
    (group_id,) = chain.issue()
    look(chain)
    look(chain, after_s=290)
    chain.client.flushall()
    chain.run_owner.rejoin()
    chain.intake.reset()
    chain.reconciliation.reset()
    assert chain.issue() == [group_id]
    look(chain, after_s=20)
    chain.read()
    assert chain.slots == {group_id}


@pytest.mark.parametrize("what", ["entry", "where"])
def test_what_somebody_deleted_by_hand_is_noticed_at_the_second_look(chain: Chain, what: str) -> None:
    gone, _ = chain.issue(2)
    if what == "entry":
        delete(chain, gone)
    else:
        chain.client.hdel(chain.keys("where"), gone)
    look(chain)
    with pytest.raises(WentBack, match=r"group 0 \(at least 1 in all\) has a slot, and no entry in any"):
        look(chain)


def test_a_reconciliation_reads_few_entries_since_each_is_copied(chain: Chain) -> None:
    ids = set(chain.issue(LOOK_COUNT + 10))
    looked: list[int] = []
    for _ in range(3):
        chain.client.config_resetstat()
        look(chain)
        looked.append(chain.client.info("commandstats")["cmdstat_xrange"]["calls"])
    assert looked == [LOOK_COUNT] * 3
    assert chain.reconciliation.latest.places[PROMPTS] == LOOK_COUNT + 10
    assert set(chain.reconciliation._since) == ids


@pytest.mark.parametrize("looks", [0, 4], ids=["from the first look on", "after it was seen"])
def test_a_deleted_entry_among_many_is_noticed_soon(chain: Chain, look_at: LookAt, looks: int) -> None:
    look_at(2)
    gone = chain.issue(6)[-1]
    look(chain, looks)
    delete(chain, gone)
    with pytest.raises(WentBack, match=f"group {gone}"):
        look(chain, 3 + 1)  # three to have looked at all, one more to be sure


def test_a_hole_is_looked_at_again_before_new_groups_are(chain: Chain, look_at: LookAt) -> None:
    look_at(1)
    (gone,) = chain.issue()
    look(chain)
    delete(chain, gone)
    look(chain)
    chain.issue(1)
    with pytest.raises(WentBack, match=f"group {gone}"):
        look(chain)


def test_late_groups_are_dead_lettered_after_few_looks_of_few_entries(chain: Chain, look_at: LookAt) -> None:
    look_at(1)
    late = chain.issue(2)
    look(chain, 2)
    chain.elapsed += 301
    young = chain.issue(4)
    look(chain, 3)
    assert outcomes(chain).keys() == set(late)
    assert chain.slots == set(young)


def test_entries_that_a_lost_reply_hid_are_found_by_looking_around(chain: Chain) -> None:
    scored, dead = chain.issue(2)
    (evaluated,) = chain.issue_eval(3, 1)
    for group_id in (scored, evaluated):
        chain.score(group_id)
    dead_letter_entry(chain.link, chain.keys, chain.entry(dead), reason="it failed")
    for stream in (SCORED, DEAD):
        chain.intake._last[stream] = chain.client.xinfo_stream(chain.keys(stream))["last-generated-id"]
    chain.read()
    assert (chain.buffer.groups, chain.evaluation.rounds.ended()) == ({}, [])
    look(chain)
    assert set(chain.buffer.groups) == chain.slots == {scored}
    assert chain.journal.ledger.outcomes.keys() == {dead}
    assert chain.reconciliation.latest.places == {**dict.fromkeys(WORK_STREAMS, 0), SCORED: 1, DEAD: 1}
    (done,) = chain.evaluation.rounds.ended()
    assert list(done.groups) == [evaluated]


def test_the_size_of_what_came_back_is_known(chain: Chain) -> None:
    assert chain.intake.returned.mean_bytes() == 0.0
    sizes = []
    for group_id in [*chain.issue(1), *chain.issue(1, n=4), *chain.issue_eval(0, 1)]:
        chain.score(group_id, [1.0] + [0.0] * (3 if group_id == "1" else 1))
        sizes.append(sum(map(len, chain.entry(group_id).raw.values())))
    chain.read()
    assert chain.intake.returned.mean_bytes() == sum(sizes) / 3


def test_a_group_that_is_seen_twice_counts_once(chain: Chain) -> None:
    first, second = chain.issue(2)
    chain.score(first, [1.0, 0.0])
    look(chain)
    chain.score(second, [0.5, 0.0])
    chain.read()
    assert set(chain.buffer.groups) == {first, second}
    assert chain.filters.take_arrivals().reward_mean == (1.0 + 0.5) / 4


def test_a_group_that_the_ledger_has_is_retired_and_never_held(chain: Chain) -> None:
    """As after Redis forgot that it was retired."""
    read, looked = chain.issue(2)
    chain.journal.end({group_id: GroupOutcome("dropped", "before") for group_id in (read, looked)})
    chain.score(read)
    chain.read()
    assert chain.slots == {looked}
    look(chain)
    assert (chain.slots, chain.buffer.groups, chain.journal.ledger.twice) == (set(), {}, [])
    assert chain.depth(SCORED) == chain.depth(PROMPTS) == 0


ANOTHER = codec.pack(make_scored(make_prompt("77"), [1.0, 0.0]))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"payload": b"\xc1 no msgpack"}, "payload: "),
        ({"payload": ANOTHER}, "the header says group '0', the payload '77'"),
        ({"v": b"0"}, "schema version 0, this program reads 1, 2, 3"),
    ],
    ids=["no message", "another group's", "another schema"],
)
def test_an_entry_of_ours_that_cant_be_read_dies_under_its_own_id_and_the_next_one_is_read(
    chain: Chain, changes: dict[str, bytes], reason: str
) -> None:
    bad, good = chain.issue(2)
    chain.score(bad, **changes)
    chain.score(good)
    ended = outcomes(chain)[bad]
    assert (ended.kind, reason in ended.detail) == ("dead", True)
    assert set(chain.buffer.groups) == chain.slots == {good}
    ((_, dead_letter),) = chain.client.xrange(chain.keys(DEAD))
    assert (dead_letter[b"group"], dead_letter[b"stage"]) == (bad.encode(), b"scored")


def test_a_newer_schema_waits_for_a_newer_learner(chain: Chain, caplog: pytest.LogCaptureFixture) -> None:
    newer, good = chain.issue(2)
    chain.score(newer, v=b"4")
    chain.score(good)
    chain.read()
    look(chain)
    assert (set(chain.buffer.groups), chain.slots, chain.journal.ledger.outcomes) == (
        {good},
        {newer, good},
        {},
    )
    assert (chain.depth(SCORED), chain.depth(DEAD)) == (2, 0)
    said = [message for message in caplog.messages if "left_for_a_newer_learner" in message]
    assert said == [f"left_for_a_newer_learner group={newer}: schema version 4, this program reads 1, 2, 3"]


@pytest.mark.parametrize(
    "fields",
    [{"hello": "world"}, {"v": "1", "group": "0", "payload": b"x"}, {"group": "999"}],
    ids=["nobody's", "of a group that is elsewhere", "of a group that never was"],
)
def test_a_foreign_entry_goes_to_the_dead_and_has_no_outcome(chain: Chain, fields: dict[str, str]) -> None:
    chain.client.xadd(chain.keys(SCORED), fields)
    (group_id,) = chain.issue()
    chain.score(group_id)
    assert outcomes(chain) == {}
    assert set(chain.buffer.groups) == chain.slots == {group_id}
    ((_, dead_letter),) = chain.client.xrange(chain.keys(DEAD))
    assert (dead_letter[b"group"], dead_letter[b"reason"][:13]) == (b"?", b"foreign entry")


def test_evaluation_groups_go_to_their_round_and_late_ones_are_retired(chain: Chain) -> None:
    ids = chain.issue_eval(3, 2)
    (late,) = chain.issue_eval(2, 1)
    del chain.evaluation.rounds.open[2]  # given up
    chain.score(ids[0])
    dead_letter_entry(chain.link, chain.keys, chain.entry(ids[1]), reason="it failed")
    chain.score(late)
    chain.read()
    (done,) = chain.evaluation.rounds.ended()
    assert (list(done.groups), done.dead, done.missing) == ([ids[0]], [ids[1]], set())
    assert chain.journal.ledger.outcomes == {}  # the round's record will be their outcome
    assert {name.decode() for name in chain.client.hkeys(chain.keys("where"))} == set(ids)
    assert chain.buffer.groups == {}


OF_PROMPT = {"task": "math", "row": 0, "epoch": 0, "floor": 0, "n": 2, "issued_at": 1000.0}
SAMPLING = {"generator": "g", "sampled_at": 1002.5, "sample_seconds": 0.1, "sample_attempts": 2}
OF_ROLLOUT = {**OF_PROMPT, **SAMPLING, "versions": [[0, 4]]}
SCORING = {"worker": "w", "scored_at": 1003.5, "score_seconds": 0.1, "score_attempts": 1}
OF_SCORED = {**OF_ROLLOUT, **SCORING, "rewards": [1.0, 1.0]}


def returned(n: int = 2) -> ScoredGroup:
    """Group 0 with nothing to learn from, as it came back."""
    group = make_scored(make_prompt("0", n=n, issued_at=1000.0), [1.0] * n)
    rollout = structs.replace(group.rollout, sampled_at=1002.5, attempts=2)
    return structs.replace(group, rollout=rollout, scored_at=1003.5, attempts=1)


def bring_to(chain: Chain, stage: str) -> None:
    """Issue group 0 in second 1000 and let it come as far as `stage`."""
    chain.issue(issued_at=1000.0)
    if stage != PROMPTS:
        fields = codec.encode_rollout(returned().rollout)
        assert hand_over(chain.link, chain.keys, chain.entry("0"), ROLLOUTS, fields)
    if stage == SCORED:
        assert hand_over(chain.link, chain.keys, chain.entry("0"), SCORED, codec.encode_scored(returned()))


def facts_on_disk(chain: Chain) -> Mapping[str, Any]:
    (record,) = read_ledger(chain.journal.folder, follow="0").followed
    return dict(record["facts"])


def test_a_dropped_group_leaves_who_worked_on_it_and_when_on_the_disk_and_not_in_memory(chain: Chain) -> None:
    bring_to(chain, SCORED)
    chain.read()
    assert chain.journal.ledger.outcomes == {
        "0": GroupOutcome("dropped", "zero_variance: every reward is 1", 4)
    }
    assert chain.journal.ledger.outcomes["0"].facts is None
    assert facts_on_disk(chain) == OF_SCORED
    of_sixteen = dropped(returned(16), "zero_variance: every reward is 1").facts
    assert len(msgpack.packb(of_sixteen)) < 400


@pytest.mark.parametrize(
    ("stage", "facts", "tokens"), [(PROMPTS, OF_PROMPT, 0), (ROLLOUTS, OF_ROLLOUT, 4), (SCORED, OF_SCORED, 4)]
)
def test_what_is_left_of_a_dead_group(chain: Chain, stage: str, facts: dict[str, Any], tokens: int) -> None:
    bring_to(chain, stage)
    dead_letter = chain.entry("0")
    dead_letter_entry(chain.link, chain.keys, dead_letter, reason="it failed", attempts=5)
    entry_id = chain.entry("0").entry_id
    chain.read()
    assert chain.journal.ledger.outcomes == {"0": GroupOutcome(DEAD, "it failed", tokens)}
    died = {"died_at": int(entry_id.partition("-")[0]) / 1000, "stage": stage, "attempts": 5}
    assert facts_on_disk(chain) == {**facts, **died}


def test_a_dead_letter_that_cant_be_read_leaves_when_and_where_it_died(chain: Chain) -> None:
    bring_to(chain, ROLLOUTS)
    entry = chain.entry("0")
    dead_letter_entry(
        chain.link, chain.keys, replace(entry, raw={**entry.raw, b"payload": b"\xc1"}), reason="torn"
    )
    chain.read()
    assert chain.journal.ledger.outcomes == {"0": GroupOutcome(DEAD, "torn")}
    assert facts_on_disk(chain).keys() == {"died_at", "stage", "attempts"}


@pytest.mark.parametrize("group_id", ["0", "eval-0-0"])
def test_a_group_of_a_version_that_is_not_there_yet_dies_with_both(chain: Chain, group_id: str) -> None:
    """Packed into a step it would end the run: its lag is negative. One of the version just announced is none."""

    def come_back(one: str, version: int) -> None:
        entry = chain.entry(one)
        early = make_scored(codec.decode_prompt(entry.raw), [1.0, 0.0], version=version)
        assert hand_over(chain.link, chain.keys, entry, SCORED, codec.encode_scored(early))
        chain.read()

    if group_id == "0":
        chain.issue()
    else:
        chain.issue_eval(0, 1)
    (good,) = chain.issue()
    come_back(group_id, 3)
    chain.announce(1)
    come_back(good, 1)
    assert set(chain.buffer.groups) == {good}
    ((_, dead_letter),) = chain.client.xrange(chain.keys(DEAD))
    assert dead_letter[b"reason"].startswith(b"sampled by version 3, and the learner is at 0: ")
    if group_id == "0":
        assert chain.journal.ledger.outcomes["0"].detail.encode() == dead_letter[b"reason"]
        assert chain.slots == {good}


TOO_LARGE, NO_NUMBER = np.array([99, 100], "<i4").tobytes(), np.array([-0.5, np.nan], "<f4").tobytes()


@pytest.mark.parametrize(
    ("place", "name", "value", "why"),
    [
        ("prompt", "token_ids", TOO_LARGE, "token id 100, and the policy has 100 tokens"),
        ("completion", "token_ids", TOO_LARGE, "token id 100, and the policy has 100 tokens"),
        ("completion", "logprobs", NO_NUMBER, "1 of 2 log-probabilities are not finite"),
    ],
)
def test_useless_tokens_reach_no_step(chain: Chain, place: str, name: str, value: bytes, why: str) -> None:
    bad, good = chain.issue(2)
    tree = msgpack.unpackb(codec.pack(make_scored(make_prompt(bad), [1.0, 0.0])))
    rollout = tree["rollout"]
    where = rollout["prompt"] if place == "prompt" else rollout["completions"][1]["segments"][0]
    where[name] = value
    chain.score(bad, payload=msgpack.packb(tree))
    chain.score(good)
    chain.read()
    assert set(chain.buffer.groups) == chain.slots == {good}
    assert why in chain.journal.ledger.outcomes[bad].detail


@pytest.mark.parametrize(
    "floor", [{}, {b"floor": b"7"}, {b"floor": b"x"}], ids=["none", "another", "no number"]
)
@pytest.mark.parametrize("stream", [ROLLOUTS, SCORED])
def test_a_group_whose_header_has_not_the_floor_of_its_slot_dies_at_its_deadline_at_the_latest(
    chain: Chain, stream: str, floor: dict[bytes, bytes]
) -> None:
    """Where it stayed, rule 3 would end all training."""
    (group_id,) = chain.issue()
    (chain.sample if stream == ROLLOUTS else chain.score)(group_id)
    entry = chain.entry(group_id)
    spoilt = {name: value for name, value in entry.raw.items() if name != b"floor"} | floor
    chain.client.xdel(chain.keys(stream), entry.entry_id)
    added = chain.client.xadd(chain.keys(stream), spoilt).decode()
    chain.client.hset(chain.keys("where"), group_id, f"{stream} {added}")
    chain.read()
    chain.reconciliation.look()
    chain.elapsed += chain.run.learner.group_deadline_s + 1
    chain.reconciliation.look()
    chain.read()
    assert chain.journal.ledger.outcomes[group_id].kind == DEAD
    assert chain.slots == set()


@pytest.mark.parametrize("group_id", ["0", "7"], ids=["an id of ours", "an id that we do not know"])
def test_another_runs_scored_group_is_nobodys_and_no_step_has_it(chain: Chain, group_id: str) -> None:
    (ours,) = chain.issue()
    chain.sample(ours)
    theirs = codec.encode_scored(make_scored(make_prompt(group_id), [0.25, 0.75]))
    chain.client.xadd(chain.keys(SCORED), theirs)
    chain.read()
    assert chain.buffer.groups == {}
    assert (chain.depth(SCORED), chain.depth(DEAD), chain.depth(ROLLOUTS)) == (0, 1, 1)
    assert chain.journal.ledger.outcomes == {}, "nobody's has no outcome"
    chain.score(ours)
    chain.read()
    assert chain.buffer.groups[ours].rewards == (1.0, 0.0), "our own"
