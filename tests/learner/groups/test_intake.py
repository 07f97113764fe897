"""What comes back, on a real Redis: held, dropped, dead, or nobody's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from broker import codec
from broker.errors import RunFailed, WentBack
from broker.keys import DEAD, PROMPTS, ROLLOUTS, SCORED
from broker.protocol.streams import bury, hand_over
from learner.groups.intake import LOOK_COUNT
from learner.journal.ledger import Outcome, read_ledger
from tests.learner.conftest import MakeChain
from tests.support.chain import Chain, make_prompt, make_scored


def test_a_scored_group_is_held_and_keeps_its_slot(chain: Chain) -> None:
    (group_id,) = chain.issue()
    chain.score(group_id)
    chain.read()
    assert set(chain.buffer.groups) == chain.slots == {"0"}
    assert chain.depth(SCORED) == 1
    assert not chain.journal.has("0")


@pytest.mark.parametrize(
    ("rewards", "reason"),
    [
        ([1.0, 0.0], None),
        ([0.5, 0.25], "too_hard: the mean score is 0.375, below learner.filters.pass_rate's 0.4"),
        ([1.0, 0.5], "too_easy: the mean score is 0.75, above learner.filters.pass_rate's 0.6"),
    ],
)
def test_a_group_outside_the_pass_rates_is_dropped_with_its_number(
    make_chain: MakeChain, rewards: list[float], reason: str | None
) -> None:
    chain = make_chain(learner={"filters": {"pass_rate": [0.4, 0.6]}})
    [group_id] = chain.issue(1)
    chain.score(group_id, rewards)
    chain.read()
    outcomes = read_ledger(chain.journal.folder).outcomes
    assert outcomes == ({} if reason is None else {group_id: Outcome("dropped", reason, 4)})
    if reason is not None:
        assert chain.intake.take_arrivals().dropped_by_source == {"math": {reason.split(":")[0]: 1}}


def test_so_many_groups_are_replaced_before_a_step_and_what_comes_beyond_trains(
    make_chain: MakeChain,
) -> None:
    chain = make_chain(learner={"filters": {"max_replaced": 1}})
    replaced, kept, good = chain.issue(3)
    for group_id in (replaced, kept):
        chain.score(group_id, [1.0, 1.0])
        chain.read()
    chain.score(good)
    chain.read()
    assert set(chain.buffer.groups) == chain.slots == {kept, good}
    assert chain.intake.take_arrivals().dropped == {"zero_variance": 1}
    (next_one,) = chain.issue(1)
    chain.score(next_one, [0.0, 0.0])
    chain.read()
    assert chain.slots == {kept, good}
    assert chain.intake.take_arrivals().dropped == {"zero_variance": 1}  # of the step after


def test_a_group_without_variance_is_dropped_and_its_slot_is_free_for_another(chain: Chain) -> None:
    flat, good = chain.issue(2)
    chain.score(flat, [1.0, 1.0])
    chain.score(good)
    chain.read()
    assert set(chain.buffer.groups) == chain.slots == {good}
    assert chain.depth(SCORED) == 1
    assert read_ledger(chain.journal.folder).outcomes == {
        flat: Outcome("dropped", "zero_variance: every reward is 1", 4)
    }
    arrivals = chain.intake.take_arrivals()
    assert arrivals.reward_mean == 0.75  # the mean of 1, 1, 1 and 0
    assert arrivals.dropped == {"zero_variance": 1}
    assert arrivals.dropped_by_source == {"math": {"zero_variance": 1}}
    assert arrivals.facts["completions"] == 4
    assert chain.intake.take_arrivals().facts == {}


def test_a_slot_is_not_freed_while_the_ledger_does_not_have_its_outcome(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    (group_id,) = chain.issue()
    chain.score(group_id, [1.0, 1.0])
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(chain.journal, "_log", full)
        with pytest.raises(RunFailed, match="No space left on device"):
            chain.read()
    assert chain.slots == {group_id}
    assert chain.entry(group_id).stream == SCORED


def test_a_group_without_variance_is_held_where_the_run_keeps_such(make_chain: MakeChain) -> None:
    chain = make_chain(learner={"filters": {"zero_variance": "keep", "max_empty_groups": 1}})
    for group_id in chain.issue(3):
        chain.score(group_id, [0.0, 0.0])
    chain.read()
    assert set(chain.buffer.groups) == {"0", "1", "2"}


@pytest.mark.parametrize("rewards", [[0.0, 0.0], [None, None]], ids=["no variance", "unscorable"])
def test_nothing_but_empty_groups_ends_the_run_with_the_reason(
    make_chain: MakeChain, rewards: list[float | None]
) -> None:
    chain = make_chain(learner={"filters": {"max_empty_groups": 3}})
    for group_id in chain.issue(3):
        chain.score(group_id, rewards)
    with pytest.raises(RunFailed, match=r"3 groups in a row had nothing to learn from.*max_empty_groups=3"):
        chain.read()
    assert chain.slots == set()  # their outcomes are written down all the same
    assert len(chain.journal.ledger.outcomes) == 3


def test_a_good_group_between_empty_ones_begins_the_count_anew(make_chain: MakeChain) -> None:
    chain = make_chain(learner={"filters": {"max_empty_groups": 3}})
    for rewards in ([0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [None, None]):
        chain.score(chain.issue()[0], rewards)
        chain.read()
    assert set(chain.buffer.groups) == {"2"}


def test_a_group_without_any_score_is_dropped_with_the_scorers_reason(chain: Chain) -> None:
    (group_id,) = chain.issue()
    chain.score(group_id, [None, None])
    chain.read()
    assert chain.journal.ledger.outcomes[group_id] == Outcome(
        "dropped", "unscorable: none of 2 scored; the sandbox is away", 4
    )
    assert chain.slots == set()


def test_how_few_scores_are_enough_is_the_scorers_decision(chain: Chain) -> None:
    (group_id,) = chain.issue(n=4)
    chain.score(group_id, [None, 1.0, None, None])
    chain.read()
    assert chain.journal.ledger.outcomes == {
        group_id: Outcome("dropped", "zero_variance: every reward is 1", 8)
    }
    (group_id,) = chain.issue(n=5)
    chain.score(group_id, [None, 1.0, None, None, 0.0])
    chain.read()
    assert set(chain.buffer.groups) == {group_id}


def test_a_dead_letter_is_an_outcome_and_stays_for_its_operator(chain: Chain) -> None:
    (group_id,) = chain.issue()
    bury(chain.link, chain.keys, chain.entry(group_id), reason="it failed", attempts=5)
    chain.read()
    assert chain.journal.ledger.outcomes == {group_id: Outcome("dead", "it failed")}
    assert (chain.slots, chain.depth(DEAD), chain.depth(PROMPTS)) == (set(), 1, 0)
    assert chain.client.hlen(chain.keys("where")) == 0
    arrivals = chain.intake.take_arrivals()
    assert (arrivals.reward_mean, arrivals.dropped) == (None, {"dead": 1})


def test_a_held_group_that_dies_is_not_trained(chain: Chain) -> None:
    (group_id,) = chain.issue()
    chain.score(group_id)
    chain.read()
    bury(chain.link, chain.keys, chain.entry(group_id), reason="by hand")
    chain.read()
    assert chain.buffer.groups == {}
    assert chain.journal.ledger.outcomes == {group_id: Outcome("dead", "by hand", 4)}


def test_nothing_but_deaths_end_the_run(chain: Chain) -> None:
    with pytest.raises(RunFailed, match=r"to `dead` and none was scored .the last one: it failed"):  # noqa: PT012
        for _ in range(2 * chain.run.budget + 1):
            bury(chain.link, chain.keys, chain.entry(chain.issue()[0]), reason="it failed")
            chain.read()
    assert len(chain.journal.ledger.outcomes) == 2 * chain.run.budget + 1


@pytest.mark.parametrize("stream", [PROMPTS, ROLLOUTS])
def test_a_group_past_its_deadline_goes_to_dead_and_its_late_result_counts_no_more(
    chain: Chain, stream: str
) -> None:
    (late,) = chain.issue(issued_at=time.time() - 200)
    chain.intake.look_around()
    chain.elapsed += 101
    (young,) = chain.issue(issued_at=time.time() - 200)
    if stream == ROLLOUTS:
        chain.sample(late)
    before = chain.entry(late)
    chain.intake.look_around()
    assert chain.entry(late).stream == DEAD
    fields = codec.encode_scored(make_scored(make_prompt(late), [1.0, 0.0]))
    assert not hand_over(chain.link, chain.keys, before, SCORED, fields)
    chain.read()
    assert chain.slots == {young}
    assert chain.buffer.groups == {}
    assert (
        f"it was still in {stream} (learner.group_deadline_s=300)"
        in chain.journal.ledger.outcomes[late].detail
    )


def test_a_scored_group_has_no_deadline(chain: Chain) -> None:
    (group_id,) = chain.issue()
    chain.intake.look_around()
    chain.score(group_id)
    chain.elapsed += 301
    chain.intake.look_around()
    assert set(chain.buffer.groups) == {group_id}


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_clock_that_jumps_ages_nobody_and_makes_nobody_young(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    seen = chain.issue()
    chain.intake.look_around()
    new = chain.issue()
    wall_clock = time.time
    monkeypatch.setattr("learner.groups.intake.time.time", lambda: wall_clock() + jump_s)
    chain.intake.look_around()
    assert chain.intake.survey.places[PROMPTS] == 2, "nobody is buried"
    assert chain.intake.survey.oldest_s < 100
    chain.elapsed += 301
    chain.intake.look_around()
    chain.read()
    assert set(chain.journal.ledger.outcomes) == {*seen, *new}, "and the deadline passes as ever"


def test_a_group_that_is_issued_again_begins_anew(chain: Chain) -> None:
    (group_id,) = chain.issue()
    chain.intake.look_around()
    chain.elapsed += 290
    chain.intake.look_around()
    chain.client.flushall()
    chain.run_owner.rejoin()
    chain.intake.reset()
    assert chain.issue() == [group_id]
    chain.elapsed += 20
    chain.intake.look_around()
    chain.read()
    assert chain.slots == {group_id}


@pytest.mark.parametrize("what", ["entry", "where"])
def test_what_somebody_deleted_by_hand_is_noticed_at_the_second_look(chain: Chain, what: str) -> None:
    gone, _ = chain.issue(2)
    if what == "entry":
        chain.client.xdel(chain.keys(PROMPTS), chain.entry(gone).entry_id)
    else:
        chain.client.hdel(chain.keys("where"), gone)
    chain.intake.look_around()
    with pytest.raises(
        WentBack, match=r"group 0 \(at least 1 in all\) has a slot, and no entry in any stream"
    ):
        chain.intake.look_around()


def test_a_survey_looks_at_few_entries_since_each_is_copied(chain: Chain) -> None:
    ids = set(chain.issue(LOOK_COUNT + 10))
    looked: list[int] = []
    for _ in range(3):
        chain.client.config_resetstat()
        chain.intake.look_around()
        looked.append(chain.client.info("commandstats")["cmdstat_xrange"]["calls"])
    assert looked == [LOOK_COUNT] * 3
    assert chain.intake.survey.places[PROMPTS] == LOOK_COUNT + 10
    assert set(chain.intake._since) == ids


@pytest.mark.parametrize("looks", [0, 4], ids=["from the first look on", "after it was seen"])
def test_a_deleted_entry_among_many_is_noticed_after_a_few_looks(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    monkeypatch.setattr("learner.groups.intake.LOOK_COUNT", 2)
    gone = chain.issue(6)[-1]
    for _ in range(looks):
        chain.intake.look_around()
    chain.client.xdel(chain.keys(PROMPTS), chain.entry(gone).entry_id)
    with pytest.raises(WentBack, match=f"group {gone}"):  # noqa: PT012
        for _ in range(3 + 1):  # three to have looked at all, one more to be sure
            chain.intake.look_around()


def test_a_hole_is_looked_at_again_before_new_groups_are(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learner.groups.intake.LOOK_COUNT", 1)
    (gone,) = chain.issue()
    chain.intake.look_around()
    chain.client.xdel(chain.keys(PROMPTS), chain.entry(gone).entry_id)
    chain.intake.look_around()
    chain.issue(1)
    with pytest.raises(WentBack, match=f"group {gone}"):
        chain.intake.look_around()


def test_late_groups_among_many_are_buried_after_a_few_looks(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learner.groups.intake.LOOK_COUNT", 2)
    late = chain.issue(2)
    chain.intake.look_around()
    chain.elapsed += 301
    young = chain.issue(4)
    for _ in range(3):
        chain.intake.look_around()
    chain.read()
    assert chain.slots == set(young)
    assert set(chain.journal.ledger.outcomes) == set(late)


def test_a_group_gets_late_without_being_looked_at_again(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learner.groups.intake.LOOK_COUNT", 1)
    first, second = chain.issue(2)
    for _ in range(2):
        chain.intake.look_around()
    chain.elapsed += 301
    chain.intake.look_around()
    chain.read()
    assert set(chain.journal.ledger.outcomes) == {first, second}


def test_entries_that_a_lost_reply_hid_are_found_by_looking_around(chain: Chain) -> None:
    scored, dead = chain.issue(2)
    chain.score(scored)
    bury(chain.link, chain.keys, chain.entry(dead), reason="it failed")
    for stream in (SCORED, DEAD):
        chain.intake._last[stream] = chain.client.xinfo_stream(chain.keys(stream))["last-generated-id"]
    chain.read()
    assert not chain.buffer.groups
    chain.intake.look_around()
    assert set(chain.buffer.groups) == chain.slots == {scored}
    assert set(chain.journal.ledger.outcomes) == {dead}
    assert chain.intake.survey.places == {PROMPTS: 0, ROLLOUTS: 0, SCORED: 1, DEAD: 1}


def test_an_evaluation_group_that_a_lost_reply_hid_is_found_by_looking_around(chain: Chain) -> None:
    (group,) = chain.issue_eval(3, 1)
    chain.score(group)
    chain.intake._last[SCORED] = chain.client.xinfo_stream(chain.keys(SCORED))["last-generated-id"]
    chain.read()
    assert not chain.evaluation.rounds.ended()
    chain.intake.look_around()
    (done,) = chain.evaluation.rounds.ended()
    assert list(done.groups) == [group]


def test_the_size_of_what_came_back_is_known(chain: Chain) -> None:
    assert chain.intake.mean_bytes() == 0.0
    sizes = []
    for group_id in [*chain.issue(1), *chain.issue(1, n=4), *chain.issue_eval(0, 1)]:
        chain.score(group_id, [1.0] + [0.0] * (3 if group_id == "1" else 1))
        sizes.append(sum(map(len, chain.entry(group_id).raw.values())))
    chain.read()
    assert chain.intake.mean_bytes() == sum(sizes) / 3


def test_a_group_that_is_seen_twice_counts_once(chain: Chain) -> None:
    first, second = chain.issue(2)
    chain.score(first, [1.0, 0.0])
    chain.intake.look_around()
    chain.score(second, [0.5, 0.0])
    chain.read()
    assert set(chain.buffer.groups) == {first, second}
    assert chain.intake.take_arrivals().reward_mean == (1.0 + 0.5) / 4


def test_a_group_that_the_ledger_has_is_retired_and_never_held(chain: Chain) -> None:
    """As after Redis forgot that it was retired."""
    read, looked = chain.issue(2)
    chain.journal.end({group_id: Outcome("dropped", "before") for group_id in (read, looked)})
    chain.score(read)
    chain.read()
    assert chain.slots == {looked}
    chain.intake.look_around()
    assert chain.slots == set()
    assert chain.buffer.groups == {}
    assert chain.depth(SCORED) == chain.depth(PROMPTS) == 0
    assert chain.journal.ledger.twice == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"payload": b"\xc1 no msgpack"}, "payload: "),
        (
            {"payload": codec.encode_scored_payload(make_scored(make_prompt("77"), [1.0, 0.0]))},
            "the header says group '0', the payload '77'",
        ),
        ({"v": b"9"}, "schema version 9, this program reads 1 and 2"),
    ],
    ids=["no message", "another group's", "another schema"],
)
def test_an_entry_of_ours_that_can_not_be_read_dies_under_its_own_id_and_the_next_one_is_read(
    chain: Chain, changes: dict[str, bytes], reason: str
) -> None:
    bad, good = chain.issue(2)
    chain.score(bad, **changes)
    chain.score(good)
    chain.read()
    assert set(chain.buffer.groups) == chain.slots == {good}
    assert chain.journal.ledger.outcomes[bad].kind == "dead"
    assert reason in chain.journal.ledger.outcomes[bad].detail
    ((_, letter),) = chain.client.xrange(chain.keys(DEAD))
    assert (letter[b"group"], letter[b"stage"]) == (bad.encode(), b"scored")


@pytest.mark.parametrize(
    "fields",
    [{"hello": "world"}, {"v": "1", "group": "0", "payload": b"x"}, {"group": "999"}],
    ids=["nobody's", "of a group that is elsewhere", "of a group that never was"],
)
def test_a_foreign_entry_goes_to_the_dead_and_has_no_outcome(chain: Chain, fields: dict[str, str]) -> None:
    chain.client.xadd(chain.keys(SCORED), fields)
    (group_id,) = chain.issue()
    chain.score(group_id)
    chain.read()
    assert set(chain.buffer.groups) == chain.slots == {group_id}
    assert chain.journal.ledger.outcomes == {}
    ((_, letter),) = chain.client.xrange(chain.keys(DEAD))
    assert letter[b"group"] == b"?"
    assert letter[b"reason"].startswith(b"foreign entry")


def test_evaluation_groups_go_to_their_round_and_late_ones_are_retired(chain: Chain) -> None:
    ids = chain.issue_eval(3, 2)
    (late,) = chain.issue_eval(2, 1)
    del chain.evaluation.rounds.open[2]  # given up
    chain.score(ids[0])
    bury(chain.link, chain.keys, chain.entry(ids[1]), reason="it failed")
    chain.score(late)
    chain.read()
    (done,) = chain.evaluation.rounds.ended()
    assert (list(done.groups), done.dead, done.missing) == ([ids[0]], [ids[1]], set())
    assert chain.journal.ledger.outcomes == {}  # the round's record will be their outcome
    assert {name.decode() for name in chain.client.hkeys(chain.keys("where"))} == set(ids)
    assert chain.buffer.groups == {}
