"""The turns of episodes in Redis: a record is there before an agent sees it, and nothing of an older attempt counts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import pytest
from redis.exceptions import ResponseError

from broker import codec
from broker.connection import RedisLink
from broker.errors import BrokerUnavailable
from broker.keys import DEAD, EPISODES, POLICY_CALLS, PROMPTS, ROLLOUTS
from broker.monitoring import group_view
from broker.protocol.episodes import (
    Asking,
    Attempt,
    BegunCall,
    CallState,
    CallStream,
    EndState,
    Episodes,
    PolicyCall,
    calls_near,
    id_of,
    key_of,
    with_id,
)
from broker.protocol.leases import Consumer, read_any
from broker.protocol.leftovers import leftovers
from broker.protocol.run_owner import NewGroup
from broker.protocol.streams import Entry, dead_letter_entry, hand_over
from tests.broker.conftest import Board, result_of
from tests.support.edited_scripts import without_line
from tests.support.groups import a_prompt

N = 2
PROMPT = b"what is asked"


class Playground:
    """A group of two episodes, a worker who has leased it, and generators."""

    def __init__(self, board: Board) -> None:
        self.board, self.link, self.keys = board, board.link, board.keys
        fields = codec.encode_prompt(a_prompt("0", n=N))
        assert board.learner.issue(0, 1, 10, 0, [NewGroup("0", fields, EPISODES)]).floor == 0
        self.entry = board.entry("0")

    def worker(self, name: str = "a") -> Episodes:
        """Lease the group as `name`, from whoever has it."""
        consumer = Consumer(self.link, self.keys, EPISODES, name, lease_s=60)
        client = self.board.client
        if not consumer.read_new(1, block_s=0):
            client.xclaim(self.keys(EPISODES), "workers", name, 0, [self.entry.entry_id], justid=True)
        return Episodes(consumer)

    def generator(self, name: str = "g", *, own: bool = False) -> CallStream:
        calls = CallStream(self.link, self.keys, name, lease_s=60, own=own)
        calls.keep()
        return calls

    def answer(self, record: bytes, generator: CallStream | None = None) -> bool:
        """Have a generator answer the next call."""
        generator = generator or self.generator()
        (entry,) = generator.consumer.lease(1, block_s=0)
        asked = generator.begin(entry)
        assert asked is not None
        assert asked.prompt == PROMPT
        return generator.answer(asked, record)

    def turns(self) -> dict[str, bytes]:
        found = self.board.client.hgetall(self.keys("turns:0"))
        return {name.decode(): value for name, value in found.items()}

    def calls(self) -> int:
        return int(self.board.client.xlen(self.keys(POLICY_CALLS)))

    def hand_over(self, attempt: Attempt, ends: list[bytes], to: str = ROLLOUTS, token: str = "") -> bool:
        ids = [id_of(end) for end in ends]
        result = result_of(self.entry)
        return hand_over(
            self.link, self.keys, self.entry, to, result, attempt=token or attempt.token, ends=ids
        )


@pytest.fixture
def ground(board: Board) -> Playground:
    return Playground(board)


def opened(ground: Playground, worker: Episodes, *, token: str | None = None) -> Attempt:
    attempt = worker.open(ground.entry, N, token=token)
    assert attempt is not None
    return attempt


FIRST, SECOND = PolicyCall(0, key_of(PROMPT, 0)), PolicyCall(1, key_of(PROMPT, 0))


def test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing(ground: Playground) -> None:
    worker = ground.worker()
    attempt = opened(ground, worker)
    assert (attempt.number, attempt.in_vain, attempt.ends, attempt.floor) == (1, 1, (None, None), 0)
    ends = []
    for call in (FIRST, SECOND):
        assert worker.look(attempt, call) == (CallState.ASK, b"")
        assert worker.ask(attempt, call, PROMPT) == (CallState.ASKED, b"")
        assert worker.ask(attempt, call, PROMPT) == (CallState.ASKED, b""), "it is asked once"
        record = with_id(b"ids, log-probabilities, spans")
        assert ground.answer(record)
        assert worker.look(attempt, call) == (CallState.TURN, record)
        ends.append(with_id(b"how it ended"))
        assert worker.end(attempt, call.episode, ends[-1], {call.key: record}) is EndState.OK
        assert worker.end(attempt, call.episode, ends[-1], {call.key: record}) is EndState.OK, "a lost reply"
        assert worker.end(attempt, call.episode, with_id(b"other"), {}) is EndState.ENDED
        assert worker.ask(attempt, PolicyCall(call.episode, key_of(b"more", 0)), b"more") == (
            CallState.ENDED,
            b"",
        )
    assert ground.hand_over(attempt, ends)
    assert (ground.board.ids(ROLLOUTS), ground.turns(), ground.calls()) == (["0"], {}, 0)
    assert not ground.hand_over(attempt, ends), "once"
    assert worker.look(attempt, FIRST) == (CallState.GONE, b"")
    ground.board.audit()


def test_a_group_that_is_played_again_gets_the_answers_that_it_had(ground: Playground) -> None:
    first = ground.worker("a")
    before = opened(ground, first)
    first.ask(before, FIRST, PROMPT)
    record = with_id(b"turn")
    assert ground.answer(record)
    first.ask(before, SECOND, PROMPT)  # is in flight when its worker dies
    end = with_id(b"end")
    assert first.end(before, 0, end, {FIRST.key: record}) is EndState.OK
    second = ground.worker("b")
    after = opened(ground, second)
    assert (after.number, after.ends) == (2, (end, None))
    assert first.look(before, SECOND) == (CallState.GONE, b"")
    assert first.end(before, 1, with_id(b""), {}) is EndState.GONE
    assert second.look(after, SECOND) == (CallState.ASKED, b""), "the call goes on"
    assert ground.answer(other := with_id(b"for whoever plays now"))
    assert second.look(after, SECOND) == (CallState.TURN, other)
    assert not ground.hand_over(before, [end, with_id(b"")]), "of an older attempt"


def test_several_turns_are_asked_and_looked_for_in_one_go(ground: Playground) -> None:
    worker = ground.worker()
    attempt = opened(ground, worker)
    asked = [Asking(attempt, FIRST, PROMPT), Asking(attempt, SECOND)]
    assert worker.ask_all(asked) == [(CallState.ASKED, b""), (CallState.ASK, b"")]
    assert ground.answer(record := with_id(b"said"))
    looks = [Asking(attempt, FIRST), Asking(attempt, SECOND, PROMPT)]
    assert worker.ask_all(looks) == [(CallState.TURN, record), (CallState.ASKED, b"")]


def test_an_open_whose_reply_is_lost_counts_once(ground: Playground) -> None:
    worker = ground.worker()
    first = opened(ground, worker)
    again = opened(ground, worker, token=first.token)
    assert (first, again.number) == (again, 1)
    assert ground.board.hash("tries")["0"] == "a"
    assert opened(ground, worker).number == 2


def test_attempts_in_vain_are_those_in_a_row_that_brought_no_turn_and_no_end(ground: Playground) -> None:
    worker = ground.worker()
    assert [opened(ground, worker).in_vain for _ in range(3)] == [1, 2, 3]
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT)
    assert opened(ground, worker).in_vain == 5, "a call that is out is nothing yet"
    assert ground.answer(record := with_id(b"turn"))
    attempt = opened(ground, worker)
    assert (attempt.number, attempt.in_vain) == (6, 1)
    assert opened(ground, worker, token=attempt.token) == attempt, "a lost reply"
    ground.board.client.hdel(ground.keys("turns:0"), "progress")
    assert opened(ground, worker, token=attempt.token) == attempt, "how far it had come is lost as well"
    assert worker.end(attempt, 0, with_id(b"end"), {FIRST.key: record}) is EndState.OK
    assert opened(ground, worker).in_vain == 1
    assert opened(ground, worker).in_vain == 2


def test_a_group_is_opened_by_the_holder_of_its_lease_alone(ground: Playground) -> None:
    first = ground.worker("a")
    ground.worker("b")
    assert first.open(ground.entry, N) is None
    moved = Entry(EPISODES, ground.entry.entry_id, {**ground.entry.raw, b"floor": b"7"})
    assert ground.worker("c").open(moved, N) is None, "another life of the group, with another floor"


def test_a_group_that_is_handed_back_was_no_attempt(ground: Playground) -> None:
    first, second = (Consumer(ground.link, ground.keys, EPISODES, name, lease_s=60) for name in "ab")
    first.lease(1, block_s=0)
    opened(ground, Episodes(first))
    assert first.hand_back() == 1
    second.lease(1, block_s=0)
    assert opened(ground, Episodes(second)).number == 1
    assert ground.board.hash("tries")["0"] == "b"


def test_a_failure_is_of_its_attempt_and_a_new_one_asks_anew(ground: Playground) -> None:
    worker, generator = ground.worker(), ground.generator()
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT)
    asked = generator.begin(generator.consumer.lease(1, block_s=0)[0])
    assert asked is not None
    assert generator.refuse(asked, "the prompt does not fit")
    assert worker.look(attempt, FIRST) == (CallState.FAILED, b"the prompt does not fit")
    later = opened(ground, worker)
    assert worker.look(later, FIRST) == (CallState.ASK, b"")
    assert worker.ask(later, FIRST, PROMPT) == (CallState.ASKED, b"")
    assert "failed:" not in " ".join(ground.turns())


def test_an_answer_that_nobody_asks_any_more_is_thrown_away(ground: Playground) -> None:
    worker, generator = ground.worker(), ground.generator()
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT)
    (entry,) = generator.consumer.lease(1, block_s=0)
    asked = generator.begin(entry)
    assert asked is not None
    assert generator.answer(asked, with_id(b"first"))
    assert not generator.answer(asked, with_id(b"second")), "its reply was lost, and it is sampled again"
    assert worker.look(attempt, FIRST)[1].endswith(b"first")
    worker.ask(attempt, SECOND, PROMPT)
    (entry,) = generator.consumer.lease(1, block_s=0)
    ground.board.learner.retire(["0"])
    assert generator.begin(entry) is None
    assert (ground.turns(), ground.calls()) == ({}, 0)


def test_a_call_is_begun_by_the_holder_of_its_lease_and_each_attempt_counts(ground: Playground) -> None:
    worker, generator, other = ground.worker(), ground.generator(), ground.generator("h")
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT)
    (entry,) = generator.consumer.lease(1, block_s=0)
    assert other.begin(entry) is None
    numbers = []
    for one in (generator, other):
        client, key = ground.board.client, ground.keys(POLICY_CALLS)
        client.xclaim(key, "workers", one.consumer.name, 0, [entry.entry_id], justid=True)
        asked = one.begin(entry)
        numbers.append(asked.number if asked else None)
    assert numbers == [1, 2]


def test_a_conversation_goes_to_its_generator_while_that_one_lives(ground: Playground) -> None:
    worker, own = ground.worker(), ground.generator("near", own=True)
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT, near="near")
    assert (ground.calls(), [entry.stream for entry in own.consumer.lease(9, block_s=0)]) == (
        0,
        [calls_near("near")],
    )
    ground.board.client.delete(ground.keys(calls_near("near")))  # it has expired with its generator
    assert worker.look(attempt, FIRST) == (CallState.ASKED, b""), "from the prompt that is kept"
    assert ground.calls() == 1
    assert ground.answer(with_id(b"from another"))
    assert worker.look(attempt, FIRST)[0] is CallState.TURN
    own.keep()
    assert worker.ask(attempt, SECOND, PROMPT, near="near")[0] is CallState.ASKED
    assert ground.calls() == 0


def test_what_redis_has_forgotten_is_not_handed_over(ground: Playground) -> None:
    worker = ground.worker()
    attempt = opened(ground, worker)
    records = []
    for call in (FIRST, SECOND):
        worker.ask(attempt, call, PROMPT)
        records.append(with_id(b"turn"))
        assert ground.answer(records[-1])
    ends = [with_id(b"end"), with_id(b"end")]
    assert worker.end(attempt, 0, ends[0], {FIRST.key: records[0]}) is EndState.OK
    never = PolicyCall(1, key_of(b"never asked", 0))
    assert worker.end(attempt, 1, ends[1], {never.key: with_id(b"")}) is EndState.UNDONE
    ground.board.client.hset(ground.keys("turns:0"), f"turn:1:{SECOND.key}", with_id(b"sampled again"))
    assert worker.end(attempt, 1, ends[1], {SECOND.key: records[1]}) is EndState.UNDONE
    assert not ground.hand_over(attempt, ends), "one has not ended"
    assert worker.end(attempt, 1, ends[1], {}) is EndState.OK
    assert not ground.hand_over(attempt, [ends[0], with_id(b"another")])
    assert ground.hand_over(attempt, ends)


@pytest.mark.parametrize("by", ["learner", "worker", "collector"])
def test_a_group_that_ends_otherwise_takes_its_turns_and_calls_along(ground: Playground, by: str) -> None:
    worker = ground.worker()
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT)
    match by:
        case "learner":
            ground.board.learner.retire(["0"])
        case "worker":
            assert ground.hand_over(attempt, [], DEAD)
        case "collector":
            assert dead_letter_entry(ground.link, ground.keys, ground.entry, reason="it is late")
    assert (ground.turns(), ground.calls(), ground.board.ids(EPISODES)) == ({}, 0, [])
    assert worker.look(attempt, FIRST) == (CallState.GONE, b"")
    assert worker.open(ground.entry, N) is None


def test_an_older_attempt_dead_letters_nobody(ground: Playground) -> None:
    before = opened(ground, ground.worker("a"))
    opened(ground, ground.worker("b"))
    assert not ground.hand_over(before, [], DEAD)
    assert ground.board.ids(EPISODES) == ["0"]


def test_a_result_without_an_attempt_is_nobodys(ground: Playground) -> None:
    worker = ground.worker()
    attempt = opened(ground, worker)
    end = with_id(b"end")
    assert worker.end(attempt, 0, end, {}) is EndState.OK
    assert not hand_over(
        ground.link, ground.keys, ground.entry, ROLLOUTS, result_of(ground.entry), ends=[end[:16]]
    )
    assert ground.board.ids(EPISODES) == ["0"]


def test_a_group_that_was_spoilt_by_hand_is_opened_where_it_is_put_back(ground: Playground) -> None:
    client, worker, group = (
        ground.board.client,
        ground.worker(),
        ground.board.group("0")._replace(stream=EPISODES),
    )
    before = opened(ground, worker)
    worker.ask(before, FIRST, PROMPT)
    record = with_id(b"turn")
    assert ground.answer(record)
    client.hdel(ground.keys("where"), "0")
    assert worker.open(ground.entry, N) is None
    client.hset(ground.keys("where"), "0", f"{EPISODES} {ground.entry.entry_id}")
    client.xdel(ground.keys(EPISODES), ground.entry.entry_id)
    assert worker.open(ground.entry, N) is None
    assert ground.board.learner.reissue([group]) == ["0"]
    ground.entry = ground.board.entry("0")
    again = ground.worker()
    after = opened(ground, again)
    assert again.look(after, FIRST) == (CallState.TURN, record), "it keeps its turns"


def test_a_call_whose_turns_were_deleted_by_hand_is_dropped(ground: Playground) -> None:
    worker, generator = ground.worker(), ground.generator()
    worker.ask(opened(ground, worker), FIRST, PROMPT)
    (entry,) = generator.consumer.lease(1, block_s=0)
    ground.board.client.delete(ground.keys("turns:0"))
    assert generator.begin(entry) is None
    assert ground.calls() == 0


def test_an_answer_of_an_older_life_is_thrown_away_and_leaves_the_call_that_has_its_entry_id(
    ground: Playground,
) -> None:
    worker, generator = ground.worker(), ground.generator()
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT)
    asked = generator.begin(generator.consumer.lease(1, block_s=0)[0])
    assert asked is not None
    for older in ({b"floor": b"7"}, {b"key": b"of another call"}):
        entry = Entry(POLICY_CALLS, asked.entry.entry_id, {**asked.entry.raw, **older})
        assert not generator.answer(BegunCall(entry, 1, PROMPT), with_id(b"older"))
        assert (worker.look(attempt, FIRST), ground.calls()) == ((CallState.ASKED, b""), 1)
    assert generator.answer(asked, with_id(b"its own"))


def test_a_conversation_of_a_generator_that_is_gone_goes_to_all(ground: Playground) -> None:
    worker = ground.worker()
    worker.ask(opened(ground, worker), FIRST, PROMPT, near="gone")
    assert ground.calls() == 1


def test_a_generators_own_stream_expires_however_it_was_made(ground: Playground) -> None:
    client, key = ground.board.client, ground.keys(calls_near("near"))
    own = CallStream(ground.link, ground.keys, "near", lease_s=60, own=True)
    for make in (
        lambda: None,
        lambda: own.consumer.read_new(1, block_s=0),
        lambda: read_any([own.consumer], block_s=0.01),
        own.renew,
    ):
        make()
        assert 0 < client.pttl(key) <= 60_000
        client.delete(key)


def test_an_answer_is_hinted_at_where_the_user_may_and_counts_where_not(ground: Playground) -> None:
    worker, client = ground.worker(), ground.board.client
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT)
    with worker.hints() as channel:
        assert ground.answer(with_id(b"turn"))
        heard = [channel.get_message(timeout=0.3) for _ in range(2)]  # the first is that of the subscription
        assert [one["data"] for one in heard if one] == [b"0 0"]
    client.execute_command("ACL", "SETUSER", "deaf", "on", ">word", "~*", "+@all", "resetchannels")
    link = RedisLink(ground.link.url.replace("//", "//deaf:word@"), outage_s=0.0)
    worker.ask(attempt, SECOND, PROMPT)
    assert ground.answer(with_id(b"turn"), CallStream(link, ground.keys, "g", lease_s=60))
    client.execute_command("ACL", "DELUSER", "deaf")
    link.close()


def test_a_held_out_group_holds_no_slot_and_takes_the_same_way(board: Board) -> None:
    name = "eval-3-0"
    board.learner.issue_eval(3, [NewGroup(name, codec.encode_prompt(a_prompt(name, n=1)), EPISODES)])
    consumer = Consumer(board.link, board.keys, EPISODES, "a", lease_s=60)
    (entry,) = consumer.read_new(1, block_s=0)
    worker, generator = Episodes(consumer), CallStream(board.link, board.keys, "g", lease_s=60)
    board.client.hset(board.keys("where"), "9", f"{EPISODES} {entry.entry_id}")
    nobodys = Entry(EPISODES, entry.entry_id, {b"group": b"9", b"floor": b"3"})
    assert worker.open(nobodys, 1) is None, "a training group without a slot is not here"
    attempt = worker.open(entry, 1)
    assert attempt is not None
    worker.ask(attempt, FIRST, PROMPT)
    asked = generator.begin(generator.consumer.lease(1, block_s=0)[0])
    assert asked is not None
    assert generator.answer(asked, record := with_id(b"turn"))
    assert worker.end(attempt, 0, end := with_id(b"end"), {FIRST.key: record}) is EndState.OK
    assert hand_over(
        board.link, board.keys, entry, ROLLOUTS, result_of(entry), attempt=attempt.token, ends=[id_of(end)]
    )


def test_a_group_that_has_neither_place_nor_slot_is_rejected_with_its_turns_and_calls(
    ground: Playground,
) -> None:
    """A person deleted the place of a group, it was retired, and Redis went back to before that."""
    worker, client = ground.worker(), ground.board.client
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT)
    client.hdel(ground.keys("where"), "0")
    client.zrem(ground.keys("slots"), "0")
    ground.worker("b")._consumer.let_go(ground.entry)
    assert (ground.board.ids(EPISODES), ground.turns(), ground.calls()) == ([], {}, 0)


def test_a_group_that_is_put_back_keeps_its_turns(ground: Playground) -> None:
    worker, client = ground.worker(), ground.board.client
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT)
    client.hdel(ground.keys("where"), "0")
    ground.worker("b")._consumer.let_go(ground.entry)
    assert (ground.board.ids(EPISODES), ground.calls()) == ([], 1), "it has a slot: the learner puts it back"


def test_full_memory_refuses_nothing_of_a_group_that_is_there(ground: Playground) -> None:
    worker, generator, client = ground.worker(), ground.generator(), ground.board.client
    try:
        client.config_set("maxmemory", 1)
        ground.generator("near", own=True)
        assert client.exists(ground.keys(calls_near("near")))
        attempt = opened(ground, worker)
        ends = []
        for call in (FIRST, SECOND):
            assert worker.ask(attempt, call, PROMPT) == (CallState.ASKED, b"")
            record = with_id(b"turn")
            assert ground.answer(record, generator)
            ends.append(with_id(b"end"))
            assert worker.end(attempt, call.episode, ends[-1], {call.key: record}) is EndState.OK
        assert ground.hand_over(attempt, ends)
        fields = codec.encode_prompt(a_prompt("1"))
        assert ground.board.learner.issue(1, 2, 10, 0, [NewGroup("1", fields, EPISODES)]).full
    finally:
        client.config_set("maxmemory", 0)


def test_groups_of_both_kinds_are_issued_side_by_side_and_again_where_they_were(board: Board) -> None:
    def group(group_id: str, stream: str) -> NewGroup:
        return NewGroup(group_id, codec.encode_prompt(a_prompt(group_id)), stream)

    board.learner.issue(0, 2, 10, 0, [group("0", EPISODES), group("1", PROMPTS)])
    assert (board.ids(EPISODES), board.ids(PROMPTS)) == (["0"], ["1"])
    board.client.xdel(board.keys(EPISODES), board.entry("0").entry_id)
    assert board.learner.reissue([group("0", EPISODES), group("1", PROMPTS)]) == ["0"]
    assert board.learner.issue_eval(0, [group("eval-0-0", EPISODES)]) == 1
    assert sorted(board.ids(EPISODES)) == ["0", "eval-0-0"]
    board.audit()


def test_nothing_is_left_over_while_a_group_is_played_and_what_is_left_is_named(ground: Playground) -> None:
    worker = ground.worker()
    attempt = opened(ground, worker)
    generator = ground.generator("far", own=True)
    worker.ask(attempt, FIRST, PROMPT, near="far")
    worker.ask(attempt, SECOND, PROMPT)
    assert leftovers(ground.link, ground.keys) == ()
    client = ground.board.client
    client.hdel(ground.keys("turns:0"), f"asked:0:{FIRST.key}")
    ((near, _),) = client.xrange(generator.consumer.key)
    entry = near.decode()
    assert leftovers(ground.link, ground.keys) == (
        f"call {entry} in policy_calls:far, which group 0 does not ask",
    )
    client.hdel(ground.keys("where"), "0")
    assert leftovers(ground.link, ground.keys)[0] == "turns of group 0, which is not in episodes"


def test_a_look_at_a_group_says_how_far_its_episodes_are(ground: Playground) -> None:
    def said() -> str:
        return str(group_view.look(ground.link, ground.keys, "0").played)

    assert said().startswith("0 of 2 episodes have ended, 0 turns are recorded, 0 wait")
    worker = ground.worker()
    attempt = opened(ground, worker)
    record = with_id(b"ids")
    worker.ask(attempt, FIRST, PROMPT)
    assert ground.answer(record)
    worker.end(attempt, 0, with_id(b"an end"), {FIRST.key: record})
    worker.ask(attempt, SECOND, PROMPT)
    assert said().startswith("1 of 2 episodes have ended, 1 turns are recorded, 1 wait")


# Guard -> the case that notices when it is taken out, the script, the part that is taken out, what stands in its place.
GUARDS: Mapping[str, tuple[Callable[..., None], str, str, str]] = {
    "who opens has the lease": (test_a_group_is_opened_by_the_holder_of_its_lease_alone, "open", "pending[1][2] ~= consumer or ", ""),
    "`where` names the group that is opened": (test_a_group_that_was_spoilt_by_hand_is_opened_where_it_is_put_back, "open", "not is_at(id, 'episodes', entry) or ", ""),
    "a group is opened with its floor": (test_a_group_is_opened_by_the_holder_of_its_lease_alone, "open", " or not is_floor(id, floor)", ""),
    "the entry that is opened is there": (test_a_group_that_was_spoilt_by_hand_is_opened_where_it_is_put_back, "open", "or not exists('episodes', entry)", ""),
    "an open counts once": (test_an_open_whose_reply_is_lost_counts_once, "open", "if redis.call('HGET', turns, 'attempt') == attempt then", "if false then"),
    "an open counts": (test_a_group_that_is_played_again_gets_the_answers_that_it_had, "open", "redis.call('XCLAIM', STREAMS.episodes, GROUP, consumer, 0, entry)", ""),
    "an open tells what has ended": (test_a_group_that_is_played_again_gets_the_answers_that_it_had, "open", "for k = 0, n - 1 do found[#found + 1] = redis.call('HGET', turns, 'end:' .. k) end", "for k = 0, n - 1 do found[#found + 1] = false end"),
    "an attempt that got further is not in vain": (test_attempts_in_vain_are_those_in_a_row_that_brought_no_turn_and_no_end, "open", "if not known or recorded > tonumber(known) then", "if not known then"),
    "an attempt that got no further is in vain": (test_attempts_in_vain_are_those_in_a_row_that_brought_no_turn_and_no_end, "open", "if not known or recorded > tonumber(known) then", "if true then"),
    "how far it had come may be lost": (test_attempts_in_vain_are_those_in_a_row_that_brought_no_turn_and_no_end, "open", "before = before or count - 1", ""),
    "a call that is out is nothing yet": (test_attempts_in_vain_are_those_in_a_row_that_brought_no_turn_and_no_end, "open", "if kind == 'turn:' or kind == 'end:' then recorded", "if kind then recorded"),
    "an open names who began": (test_an_open_whose_reply_is_lost_counts_once, "open", "redis.call('HSET', TRIES, id, names and names .. ' ' .. worker or worker)", ""),
    "a call is of the newest attempt": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "call", "if redis.call('HGET', turns, 'attempt') ~= attempt then return {'gone'} end", ""),
    "an ended episode asks nothing": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "call", "if redis.call('HEXISTS', turns, 'end:' .. k) == 1 then return {'ended'} end", ""),
    "a record is found": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "call", "if record then return {'turn', record} end", ""),
    "a failure is told": (test_a_failure_is_of_its_attempt_and_a_new_one_asks_anew, "call", "if of == attempt then return {'failed', reason} end", ""),
    "a failure is its own attempt's": (test_a_failure_is_of_its_attempt_and_a_new_one_asks_anew, "call", "if of == attempt then", "if of then"),
    "a call is out once": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "call", "if asked and exists(split(asked)) then return {'asked'} end", ""),
    "a call whose entry is gone is out again": (test_a_conversation_goes_to_its_generator_while_that_one_lives, "call", "if asked and exists(split(asked)) then", "if asked then"),
    "the prompt is kept until the answer": (test_a_conversation_goes_to_its_generator_while_that_one_lives, "call", "prompt = prompt or redis.call('HGET', turns, 'prompt:' .. at)", ""),
    "a call has a prompt": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "call", "if not prompt then return {'ask'} end", "prompt = prompt or ''"),
    "full memory refuses no call": (test_full_memory_refuses_nothing_of_a_group_that_is_there, "call", "redis.call('XDEL', STREAMS.policy_calls, '0-1')", ""),
    "a generator that is gone is asked nothing": (test_a_conversation_of_a_generator_that_is_gone_goes_to_all, "call", " and redis.call('EXISTS', STREAMS[stream .. ':' .. near]) == 1", ""),
    "a conversation goes to its generator": (test_a_conversation_goes_to_its_generator_while_that_one_lives, "call", "then stream = stream .. ':' .. near end", "then end"),
    "a call that is out has not failed": (test_a_failure_is_of_its_attempt_and_a_new_one_asks_anew, "call", "redis.call('HDEL', turns, 'failed:' .. at)", ""),
    "who begins a call has its lease": (test_a_call_is_begun_by_the_holder_of_its_lease_and_each_attempt_counts, "begin_call", " or pending[1][2] ~= consumer", ""),
    "a call that is begun is asked": (test_a_call_whose_turns_were_deleted_by_hand_is_dropped, "begin_call", "if not turns then", "if false then"),
    "a call that nobody asks is dropped": (test_a_call_whose_turns_were_deleted_by_hand_is_dropped, "begin_call", "  remove(stream, entry)\n", ""),
    "each attempt at a call counts": (test_a_call_is_begun_by_the_holder_of_its_lease_and_each_attempt_counts, "begin_call", "redis.call('XCLAIM', STREAMS[stream], GROUP, consumer, 0, entry)", ""),
    "a call is asked where its group names its entry": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "keys", "if redis.call('HGET', turns, 'asked:' .. at) == stream .. ' ' .. entry then return turns, at end", "return turns, at"),
    "an answer is asked": (test_an_answer_that_nobody_asks_any_more_is_thrown_away, "answer", "redis.call('HGET', turns, 'asked:' .. at) == stream .. ' ' .. entry and is_floor(id, floor)", "redis.call('EXISTS', turns) == 1"),
    "an answer is of its group's floor": (test_an_answer_of_an_older_life_is_thrown_away_and_leaves_the_call_that_has_its_entry_id, "answer", " and is_floor(id, floor)", ""),
    "an answer takes its call": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "answer", "if not asked_at(stream, entry) then remove(stream, entry) end", ""),
    "an answer leaves another's call": (test_an_answer_of_an_older_life_is_thrown_away_and_leaves_the_call_that_has_its_entry_id, "answer", "if not asked_at(stream, entry) then remove(stream, entry) end", "remove(stream, entry)"),
    "a call is answered once": (test_a_failure_is_of_its_attempt_and_a_new_one_asks_anew, "answer", "if is_asked then redis.call('HDEL', turns, 'asked:' .. at, 'prompt:' .. at) end", ""),
    "a prompt goes with the answer": (test_a_failure_is_of_its_attempt_and_a_new_one_asks_anew, "answer", "'asked:' .. at, 'prompt:' .. at)", "'asked:' .. at)"),
    "a failure is the newest attempt's": (test_a_failure_is_of_its_attempt_and_a_new_one_asks_anew, "answer", "redis.call('HGET', turns, 'attempt') .. ' ' .. said", "'x ' .. said"),
    "an answer is hinted at": (test_an_answer_is_hinted_at_where_the_user_may_and_counts_where_not, "answer", "redis.pcall('PUBLISH', PREFIX .. 'answered', id .. ' ' .. k)", ""),
    "an end is of the newest attempt": (test_a_group_that_is_played_again_gets_the_answers_that_it_had, "end", "if redis.call('HGET', turns, 'attempt') ~= attempt then return 'gone' end", ""),
    "an episode ends once": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "end", "if ended then return ended == result and 'ok' or 'ended' end", ""),
    "an end that is asked twice is one": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "end", "ended == result and 'ok' or 'ended'", "'ended'"),
    "another end is refused": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "end", "ended == result and 'ok' or 'ended'", "'ok'"),
    "what an end uses is recorded": (test_what_redis_has_forgotten_is_not_handed_over, "end", "if not record or string.sub", "if record and string.sub"),
    "what an end uses is the record that is there": (test_what_redis_has_forgotten_is_not_handed_over, "end", " or string.sub(record, 1, ID_BYTES) ~= ARGV[i + 1]", ""),
    "full memory refuses no end": (test_full_memory_refuses_nothing_of_a_group_that_is_there, "end", "redis.call('HDEL', turns, '')", ""),
    "full memory refuses no stream of a generator": (test_full_memory_refuses_nothing_of_a_group_that_is_there, "keep_calls", "redis.call('XDEL', stream, '0-1')", ""),
    "a generator's own stream is made": (test_a_conversation_goes_to_its_generator_while_that_one_lives, "keep_calls", "redis.pcall('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM')", ""),
    "a generator's own stream expires": (test_a_generators_own_stream_expires_however_it_was_made, "keep_calls", "return redis.call('PEXPIRE', stream, ARGV[2])", "return 1"),
    "a hand-over is of the newest attempt": (test_an_older_attempt_dead_letters_nobody, "hand_over", "(attempt ~= '' or dest ~= 'dead') and redis.call('HGET', turns, 'attempt') ~= attempt", "false"),
    "a worker's burial is of the newest attempt": (test_an_older_attempt_dead_letters_nobody, "hand_over", "if (attempt ~= '' or dest ~= 'dead') and redis.call", "if dest ~= 'dead' and redis.call"),
    "a result is of an attempt": (test_a_result_without_an_attempt_is_nobodys, "hand_over", "if (attempt ~= '' or dest ~= 'dead') and redis.call", "if attempt ~= '' and redis.call"),
    "the collector buries without an attempt": (test_a_group_that_ends_otherwise_takes_its_turns_and_calls_along, "hand_over", "if (attempt ~= '' or dest ~= 'dead') and redis.call", "if redis.call"),
    "what is handed over has ended": (test_what_redis_has_forgotten_is_not_handed_over, "hand_over", "if not said or string.sub(said", "if said and string.sub(said"),
    "what is handed over are the ends that are there": (test_what_redis_has_forgotten_is_not_handed_over, "hand_over", " or string.sub(said, 1, ID_BYTES) ~= string.sub(ends, k * ID_BYTES + 1, (k + 1) * ID_BYTES)", ""),
    "a hand-over forgets": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "hand_over", "if source == 'episodes' then forget(id) end", ""),
    "a rejected group is forgotten": (test_a_group_that_has_neither_place_nor_slot_is_rejected_with_its_turns_and_calls, "reject", "then forget(id) end", "then end"),
    "a rejected group that is put back is not": (test_a_group_that_is_put_back_keeps_its_turns, "reject", " and not redis.call('ZSCORE', SLOTS, id)", ""),
    "retirement forgets": (test_an_answer_that_nobody_asks_any_more_is_thrown_away, "retire", "  forget(id)\n", ""),
    "forgetting takes the calls": (test_a_group_that_ends_otherwise_takes_its_turns_and_calls_along, "keys", "if string.sub(field, 1, 6) == 'asked:' then remove(split(redis.call('HGET', turns, field))) end", ""),
    "forgetting takes the turns": (test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing, "keys", "  redis.call('UNLINK', turns)\n", ""),
    "a held-out group needs no slot": (test_a_held_out_group_holds_no_slot_and_takes_the_same_way, "keys", "if not slot then return is_eval(id) end", "if not slot then return false end"),
    "a training group needs its slot": (test_a_held_out_group_holds_no_slot_and_takes_the_same_way, "keys", "if not slot then return is_eval(id) end", "if not slot then return true end"),
    "a floor is the slot's": (test_a_group_is_opened_by_the_holder_of_its_lease_alone, "keys", "return tonumber(slot) == tonumber(floor)", "return true"),
    "an answer needs no right to hint": (test_an_answer_is_hinted_at_where_the_user_may_and_counts_where_not, "answer", "redis.pcall('PUBLISH'", "redis.call('PUBLISH'"),
    "a group is issued to its stream": (test_groups_of_both_kinds_are_issued_side_by_side_and_again_where_they_were, "keys", "redis.call('XADD', STREAMS[stream], '*', unpack(fields))\n  if takes_slot", "redis.call('XADD', STREAMS.prompts, '*', unpack(fields))\n  if takes_slot"),
}  # fmt: skip


@pytest.mark.prove(after=2)
@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_that_is_missing_is_noticed(name: str, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    case, *edit = GUARDS[name]
    without_line(*edit)(monkeypatch)
    board.link.wait_at_most(0.0)
    wanted = inspect.signature(case).parameters
    on = [board if "board" in wanted else Playground(board), *(["collector"] if "by" in wanted else [])]
    with pytest.raises((AssertionError, ResponseError, BrokerUnavailable, KeyError)):
        case(*on)
