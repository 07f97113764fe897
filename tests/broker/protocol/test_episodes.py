"""The turns of episodes in Redis: a record is there before an agent sees it, and nothing of an older attempt counts."""

from __future__ import annotations

import pytest

from broker import codec
from broker.keys import DEAD, EPISODES, POLICY_CALLS, PROMPTS, ROLLOUTS
from broker.protocol.consumer import Consumer
from broker.protocol.episodes import (
    Answer,
    Asking,
    Attempt,
    Call,
    Calls,
    Ended,
    Episodes,
    calls_near,
    id_of,
    key_of,
    with_id,
)
from broker.protocol.run_owner import NewGroup
from broker.protocol.streams import Entry, bury, hand_over
from tests.broker.conftest import Board, result_of
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

    def generator(self, name: str = "g", *, own: bool = False) -> Calls:
        calls = Calls(self.link, self.keys, name, lease_s=60, own=own)
        calls.keep()
        return calls

    def answer(self, record: bytes, generator: Calls | None = None) -> bool:
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


FIRST, SECOND = Call(0, key_of(PROMPT, 0)), Call(1, key_of(PROMPT, 0))


def test_an_episode_goes_from_its_first_call_to_the_hand_over_and_leaves_nothing(ground: Playground) -> None:
    worker = ground.worker()
    attempt = opened(ground, worker)
    assert (attempt.number, attempt.ends, attempt.floor) == (1, (None, None), 0)
    ends = []
    for call in (FIRST, SECOND):
        assert worker.look(attempt, call) == (Answer.ASK, b"")
        assert worker.ask(attempt, call, PROMPT) == (Answer.ASKED, b"")
        assert worker.ask(attempt, call, PROMPT) == (Answer.ASKED, b""), "it is asked once"
        record = with_id(b"ids, log-probabilities, spans")
        assert ground.answer(record)
        assert worker.look(attempt, call) == (Answer.TURN, record)
        ends.append(with_id(b"how it ended"))
        assert worker.end(attempt, call.episode, ends[-1], {call.key: record}) is Ended.OK
        assert worker.end(attempt, call.episode, ends[-1], {call.key: record}) is Ended.OK, "a lost reply"
        assert worker.end(attempt, call.episode, with_id(b"other"), {}) is Ended.ENDED
        assert worker.ask(attempt, Call(call.episode, key_of(b"more", 0)), b"more") == (Answer.ENDED, b"")
    assert ground.hand_over(attempt, ends)
    assert (ground.board.ids(ROLLOUTS), ground.turns(), ground.calls()) == (["0"], {}, 0)
    assert not ground.hand_over(attempt, ends), "once"
    assert worker.look(attempt, FIRST) == (Answer.GONE, b"")
    ground.board.audit()


def test_a_group_that_is_played_again_gets_the_answers_that_it_had(ground: Playground) -> None:
    first = ground.worker("a")
    before = opened(ground, first)
    first.ask(before, FIRST, PROMPT)
    record = with_id(b"turn")
    assert ground.answer(record)
    first.ask(before, SECOND, PROMPT)  # is out when its worker dies
    end = with_id(b"end")
    assert first.end(before, 0, end, {FIRST.key: record}) is Ended.OK
    second = ground.worker("b")
    after = opened(ground, second)
    assert (after.number, after.ends) == (2, (end, None))
    assert first.look(before, SECOND) == (Answer.GONE, b"")
    assert first.end(before, 1, with_id(b""), {}) is Ended.GONE
    assert second.look(after, SECOND) == (Answer.ASKED, b""), "the call goes on"
    assert ground.answer(other := with_id(b"for whoever plays now"))
    assert second.look(after, SECOND) == (Answer.TURN, other)
    assert not ground.hand_over(before, [end, with_id(b"")]), "of an older attempt"


def test_several_turns_are_asked_and_looked_for_in_one_go(ground: Playground) -> None:
    worker = ground.worker()
    attempt = opened(ground, worker)
    asked = [Asking(attempt, FIRST, PROMPT), Asking(attempt, SECOND)]
    assert worker.ask_all(asked) == [(Answer.ASKED, b""), (Answer.ASK, b"")]
    assert ground.answer(record := with_id(b"said"))
    looks = [Asking(attempt, FIRST), Asking(attempt, SECOND, PROMPT)]
    assert worker.ask_all(looks) == [(Answer.TURN, record), (Answer.ASKED, b"")]


def test_an_open_whose_reply_is_lost_counts_once(ground: Playground) -> None:
    worker = ground.worker()
    first = opened(ground, worker)
    again = opened(ground, worker, token=first.token)
    assert (first, again.number) == (again, 1)
    assert ground.board.hash("tries")["0"] == "a"
    assert opened(ground, worker).number == 2


def test_a_group_is_opened_by_the_holder_of_its_lease_alone(ground: Playground) -> None:
    first = ground.worker("a")
    ground.worker("b")
    assert first.open(ground.entry, N) is None
    moved = Entry(EPISODES, ground.entry.entry_id, {**ground.entry.raw, b"floor": b"7"})
    assert ground.worker("c").open(moved, N) is None, "another life of the group, with another floor"


def test_a_failure_is_of_its_attempt_and_a_new_one_asks_anew(ground: Playground) -> None:
    worker, generator = ground.worker(), ground.generator()
    attempt = opened(ground, worker)
    worker.ask(attempt, FIRST, PROMPT)
    asked = generator.begin(generator.consumer.lease(1, block_s=0)[0])
    assert asked is not None
    assert generator.refuse(asked, "the prompt does not fit")
    assert worker.look(attempt, FIRST) == (Answer.FAILED, b"the prompt does not fit")
    later = opened(ground, worker)
    assert worker.look(later, FIRST) == (Answer.ASK, b"")
    assert worker.ask(later, FIRST, PROMPT) == (Answer.ASKED, b"")
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
    assert worker.look(attempt, FIRST) == (Answer.ASKED, b""), "from the prompt that is kept"
    assert ground.calls() == 1
    assert ground.answer(with_id(b"from another"))
    assert worker.look(attempt, FIRST)[0] is Answer.TURN
    own.keep()
    assert worker.ask(attempt, SECOND, PROMPT, near="near")[0] is Answer.ASKED
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
    assert worker.end(attempt, 0, ends[0], {FIRST.key: records[0]}) is Ended.OK
    ground.board.client.hset(ground.keys("turns:0"), f"turn:1:{SECOND.key}", with_id(b"sampled again"))
    assert worker.end(attempt, 1, ends[1], {SECOND.key: records[1]}) is Ended.UNDONE
    assert not ground.hand_over(attempt, ends), "one has not ended"
    assert worker.end(attempt, 1, ends[1], {}) is Ended.OK
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
            assert bury(ground.link, ground.keys, ground.entry, reason="it is late")
    assert (ground.turns(), ground.calls(), ground.board.ids(EPISODES)) == ({}, 0, [])
    assert worker.look(attempt, FIRST) == (Answer.GONE, b"")
    assert worker.open(ground.entry, N) is None


def test_an_older_attempt_buries_nobody(ground: Playground) -> None:
    before = opened(ground, ground.worker("a"))
    opened(ground, ground.worker("b"))
    assert not ground.hand_over(before, [], DEAD)
    assert ground.board.ids(EPISODES) == ["0"]


def test_full_memory_refuses_nothing_of_a_group_that_is_there(ground: Playground) -> None:
    worker, generator, client = ground.worker(), ground.generator(), ground.board.client
    try:
        client.config_set("maxmemory", 1)
        attempt = opened(ground, worker)
        ends = []
        for call in (FIRST, SECOND):
            assert worker.ask(attempt, call, PROMPT) == (Answer.ASKED, b"")
            record = with_id(b"turn")
            assert ground.answer(record, generator)
            ends.append(with_id(b"end"))
            assert worker.end(attempt, call.episode, ends[-1], {call.key: record}) is Ended.OK
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
