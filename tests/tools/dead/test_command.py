"""`millrace dead`: dead letters listed, shown, asked for again and thrown away. Real Redis, real journals."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker import codec, group_ids
from broker.keys import ROLLOUTS
from broker.protocol.run_owner import NewGroup
from broker.protocol.streams import Entry, dead_letter_entry, hand_over, reject
from learner.journal.ledger import DEAD, DROPPED, GroupOutcome
from tests.support.chain import Chain, make_prompt
from tests.support.episodes import episodes
from tests.support.laid_out import look
from tests.support.told import Millrace, Patch, Told
from tests.support.waiting import wait_until
from tools.audit.notes import read_notes
from tools.dead.command import age
from tools.dead.dead_letters import DeadLetterChoice, ask_again, open_records, read_dead_letters

Dead = Callable[..., Told]
DeadLetters = dict[str, str]


@pytest.fixture
def dead(chain: Chain, at_redis: str, millrace: Millrace) -> Dead:
    def call(verb: str, *words: str) -> Told:
        return millrace("dead", verb, "test", "--runs-dir", chain.run.runs_dir, *words)

    return call


@pytest.fixture
def dead_letters(chain: Chain) -> DeadLetters:
    """Five dead letters, by group: 0 and 1 are dead in the ledger, 2 is not recorded, one of evaluation, one of nobody's."""
    chain.issue(3)
    (held_out,) = chain.issue_eval(0, 1)
    chain.sample("1")
    red = "Traceback\n  line\x1b[31m 7\nValueError: red"
    for group_id, reason, more in (
        ("0", "deadline: 900 s after its issue", {"attempts": 2}),
        ("1", "scorer math: no answer", {"attempts": 5, "traceback": red}),
        ("2", "deadline: 901 s after its issue", {}),
        (held_out, "held out and broken", {}),
    ):
        dead_letter_entry(chain.link, chain.keys, chain.entry(group_id), reason=reason, **more)
    chain.journal.end({"0": GroupOutcome(DEAD, "deadline"), "1": GroupOutcome(DEAD, "scorer math")})
    chain.run_owner.retire(["0", "1"])
    planted = chain.client.xadd(chain.keys("rollouts"), {"payload": b"\x01\x02"}).decode()
    entry = Entry("rollouts", planted, {b"payload": b"\x01\x02"})
    reject(chain.link, chain.keys, entry, reason="where is silent")
    found = chain.client.xrange(chain.keys("dead"))
    return {fields[b"group"].decode(): dead_letter.decode() for dead_letter, fields in found}


def requests(chain: Chain) -> dict[str, str]:
    found = chain.client.hgetall(chain.keys("retries"))
    return {group.decode(): entry.decode() for group, entry in found.items()}


def issue_again(chain: Chain, group_id: str) -> None:
    """The learner's part of a retry."""
    chain.journal.retry(str(group_ids.ordinal_of(group_id)), group_ids.retry_of(group_id))
    position = int(chain.client.hget(chain.keys("cursor"), "position") or 0)
    prompt = codec.encode_prompt(make_prompt(group_id))
    chain.run_owner.issue(position, position, 1000, 0, [NewGroup(group_id, prompt)])


def issue_what_is_asked_for(chain: Chain) -> None:
    """The learner's part of the first retry of group 1, done once it is asked for."""
    wait_until(lambda: "1" in requests(chain), "group 1 is asked for again")
    issue_again(chain, "1-r1")


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        ((), ["0", "1", "2", "eval-0-0", "?"]),
        (("--stage", "prompts"), ["0", "2", "eval-0-0"]),
        (("--stage", "rollouts"), ["1", "?"]),
        (("--reason", "DEADLINE"), ["0", "2"]),
        (("--reason", "deadline", "--group", "2"), ["2"]),
        (("--group", "7"), []),
    ],
)
def test_dead_letters_are_listed_by_stage_reason_and_group(
    dead: Dead, dead_letters: DeadLetters, words: tuple[str, ...], groups: list[str]
) -> None:
    told = dead("list", "--json", *words)
    assert (told.code, [dead_letter["group"] for dead_letter in told.json]) == (0, groups)


@pytest.mark.parametrize("verb", ["show", "retry", "purge"])
def test_a_group_without_a_dead_letter_is_told_where_to_look(
    dead: Dead, dead_letters: DeadLetters, verb: str
) -> None:
    where = "`millrace dead list test` names those that are there"
    assert dead(verb, "--group", "777") == (1, "", f"no such dead letter of group 777: {where}\n")


def test_the_table_says_when_where_how_often_and_why(dead: Dead, dead_letters: DeadLetters) -> None:
    lines = dead("list").lines
    headings, *rows = [[cell.strip() for cell in line.split("  ") if cell] for line in lines]
    cells = {row[0]: row for row in rows}
    assert headings == ["entry", "group", "age", "stage", "attempts", "state", "reason"]
    entry, group, age, *rest = cells[dead_letters["1"]]
    assert (entry, group, rest) == (
        dead_letters["1"],
        "1",
        ["rollouts", "5", "dead", "scorer math: no answer"],
    )
    assert re.fullmatch(r"\d+ s", age)
    states = {"0": "dead", "1": "dead", "2": "not recorded", "eval-0-0": "evaluation", "?": "foreign"}
    assert {group: cells[entry][5] for group, entry in dead_letters.items()} == states


def test_a_dead_letter_is_shown_with_prompt_answers_and_its_workers_words(
    dead: Dead, dead_letters: DeadLetters
) -> None:
    code, out, _ = dead("show", dead_letters["1"])
    assert code == 0
    for text in (
        "  attempts  5\n",
        "  reason    scorer math: no answer\n",
        "task math, row 0 of epoch 0, 2 tokens",
        "    user: 2 + 3?\n",
        'answer    {"type": "math", "answer": {"value": "5"}}',
        "  completion 1: 2 tokens, stop\n    5\n",
        "    ValueError: red\n",
        "  line\\x1b[31m 7\n",
    ):
        assert text in out
    assert "\x1b" not in out


def test_a_dead_letter_of_an_episode_is_shown_turn_by_turn(dead: Dead, chain: Chain) -> None:
    (group_id,) = chain.issue(1)
    entry = chain.entry(group_id)
    rollout = episodes(prompt=codec.decode_prompt(entry.raw)).rollout
    assert hand_over(chain.link, chain.keys, entry, ROLLOUTS, codec.encode_rollout(rollout))
    dead_letter_entry(chain.link, chain.keys, chain.entry(group_id), reason="deadline")
    code, out, _ = dead("show", "--group", group_id)
    assert code == 0
    assert "    3 turns, 2 tool calls, 1 error; 8 tokens sampled" in out
    assert "    tool search, an error: \\x1b[2Jno such query\n    assistant (version 4: 2 tokens" in out
    assert "  completion 1: 2 tokens, stop\n    5\n" in out
    assert "\x1b" not in out


def test_a_prompt_of_parts_and_of_a_call_is_shown_as_its_text(dead: Dead, chain: Chain) -> None:
    (group_id,) = chain.issue(1)
    entry = chain.entry(group_id)
    said = (
        {"role": "user", "content": [{"type": "text", "text": "2 + 3?"}]},
        {"role": "assistant", "content": None},
    )
    prompt = replace(codec.decode_prompt(entry.raw), messages=said)
    assert hand_over(
        chain.link, chain.keys, entry, ROLLOUTS, codec.encode_rollout(episodes(prompt=prompt).rollout)
    )
    dead_letter_entry(chain.link, chain.keys, chain.entry(group_id), reason="deadline")
    code, out, _ = dead("show", "--group", group_id)
    assert code == 0
    assert "    user: 2 + 3?\n    assistant: \n" in out


def test_a_payload_that_is_no_message_is_said_and_the_rest_is_shown(
    dead: Dead, dead_letters: DeadLetters
) -> None:
    code, out, _ = dead("show", dead_letters["?"])
    assert code == 0
    assert "  reason    foreign entry: where is silent\n" in out
    assert "  payload   2 bytes that can't be read: payload: " in out


def test_a_retry_asks_for_the_dead_and_refuses_others_by_name(
    dead: Dead, chain: Chain, dead_letters: DeadLetters
) -> None:
    code, out, err = dead("retry", "--all")
    assert (code, requests(chain)) == (1, {"0": dead_letters["0"], "1": dead_letters["1"]})
    assert out == "asked for 0-r1\nasked for 1-r1\nNo learner runs: they are issued when one starts\n"
    refusals = dict(line.removeprefix("refused ").split(": ", 1) for line in err.splitlines())
    assert refusals[dead_letters["2"]].startswith(
        "group 2 has no outcome yet: the learner has not recorded it"
    )
    assert refusals[dead_letters["eval-0-0"]].startswith("eval-0-0 is of an evaluation round")
    assert refusals[dead_letters["?"]] == "a foreign entry, of no group of this run"
    assert look(chain).asked_again == 2
    assert dead("list", "--json", "--group", "0").json[0]["state"] == "asked again"


def test_a_retried_group_is_issued_and_its_dead_letter_is_gone(
    dead: Dead, chain: Chain, dead_letters: DeadLetters
) -> None:
    assert dead("retry", dead_letters["0"]).code == 0
    issue_again(chain, "0-r1")
    found = look(chain)
    assert (found.issued, found.dead, found.in_flight, found.is_clean) == (4, 2, 2, True)
    assert (found.retried, found.asked_again) == (1, 0)
    assert dead("list", dead_letters["0"]).err.startswith(
        f"millrace dead list: no letter {dead_letters['0']} in "
    )
    dead_letter_entry(chain.link, chain.keys, chain.entry("0-r1"), reason="again")
    chain.journal.end({"0-r1": GroupOutcome(DEAD, "again")})
    chain.run_owner.retire(["0-r1"])
    assert dead("retry", "--reason", "again").out.startswith("asked for 0-r2\n")
    assert list(requests(chain)) == ["0-r1"]


def test_a_dead_letter_that_goes_meanwhile_is_not_asked_for(chain: Chain, dead_letters: DeadLetters) -> None:
    records = open_records(chain.link, chain.keys, chain.journal.folder, strict=True)
    chosen = DeadLetterChoice(entries=(dead_letters["0"], dead_letters["1"]))
    found = list(read_dead_letters(chain.link, chain.keys, records, chosen))
    chain.client.xdel(chain.keys("dead"), dead_letters["0"])
    assert ask_again(chain.link, chain.keys, found, records) == ["1-r1"]
    assert requests(chain) == {"1": dead_letters["1"]}


def test_a_retry_waits_and_says_where_the_group_is(
    dead: Dead, chain: Chain, dead_letters: DeadLetters
) -> None:
    learner = threading.Thread(target=issue_what_is_asked_for, args=(chain,), daemon=True)
    learner.start()
    told = dead("retry", dead_letters["1"], "--wait", "20")
    learner.join()
    assert (told.code, told.lines[0]) == (0, "asked for 1-r1")
    assert told.lines[1].startswith("1-r1 is issued, now in prompts ")


def test_a_retry_that_nobody_issues_says_who_is_missing(
    dead: Dead, chain: Chain, dead_letters: DeadLetters
) -> None:
    told = dead("retry", dead_letters["1"], "--wait", "0.05")
    missing = "no learner has issued 1-r1. No learner runs: they are issued when one starts\n"
    assert (told.code, told.err) == (1, f"millrace dead retry: 0.05 s: {missing}")
    assert requests(chain) == {"1": dead_letters["1"]}


def test_a_group_that_ended_otherwise_is_not_begun_anew(
    dead: Dead, chain: Chain, dead_letters: DeadLetters
) -> None:
    chain.journal.end({"2": GroupOutcome(DROPPED, "config")})
    refusal = f"refused {dead_letters['2']}: group 2 is dropped in the ledger, not dead\n"
    assert dead("retry", dead_letters["2"]) == (1, "", refusal)


def test_a_purge_takes_what_has_an_outcome_and_is_noted(
    dead: Dead, chain: Chain, dead_letters: DeadLetters
) -> None:
    dead("retry", dead_letters["0"])
    code, out, err = dead("purge", "--all", "--yes")
    left = [fields[b"group"].decode() for _, fields in chain.client.xrange(chain.keys("dead"))]
    assert (code, left, requests(chain)) == (1, ["2", "eval-0-0"], {})
    assert out.startswith("purged 3 letters; noted in ")
    assert f"refused {dead_letters['2']}: group 2 has no outcome yet" in err
    (note,) = read_notes(chain.journal.folder)
    assert (note["note"], note["count"]) == ("purge", 3)
    noted = [(dead_letter["group"], dead_letter["entry"]) for dead_letter in note["letters"]]
    assert noted == [(group, dead_letters[group]) for group in ("0", "1", "?")]
    result = look(chain)
    assert (result.dead, result.in_flight, result.lost, result.is_clean) == (2, 1, 0, True)


def test_a_held_out_dead_letter_is_purged_once_recorded(
    dead: Dead, chain: Chain, dead_letters: DeadLetters
) -> None:
    chain.journal.evaluation(0, {"ids": ["eval-0-0"]})
    chain.run_owner.retire(["eval-0-0"])
    assert dead("purge", dead_letters["eval-0-0"], "--yes").code == 0


def test_nothing_is_purged_where_no_note_can_be_written(
    dead: Dead, chain: Chain, dead_letters: DeadLetters
) -> None:
    (chain.journal.folder / "notes.jsonl").mkdir()
    told = dead("purge", dead_letters["0"], "--yes")
    assert "notes.jsonl can't be written: Is a directory. Nothing was done" in told.err
    assert told.code == 1
    assert chain.client.xlen(chain.keys("dead")) == 5


class Terminal:
    """Somebody who sits there and gives one answer."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self.answer


@pytest.mark.parametrize(("answer", "left"), [("n\n", 1), ("", 1), ("y\n", 0)])
def test_a_purge_asks_first(
    dead: Dead, dead_letters: DeadLetters, monkeypatch: Patch, answer: str, left: int
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    told = dead("purge", dead_letters["0"])
    assert told.out.startswith("throw 1 dead letter of run test away? [y/N] ")
    assert (told.code, len(dead("list", "--json", "--group", "0").json)) == (left, left)


def test_a_purge_without_anybody_to_ask_wants_a_word(dead: Dead, dead_letters: DeadLetters) -> None:
    wanted = "nobody is here to ask whether 1 letter should go; use --yes\n"
    told = dead("purge", dead_letters["0"])
    assert (told.code, told.err) == (1, f"millrace dead purge: {wanted}")


def test_dead_letters_are_kept_where_the_journal_is_elsewhere(
    dead: Dead, dead_letters: DeadLetters, tmp_path: Path
) -> None:
    elsewhere = ("--runs-dir", str(tmp_path / "elsewhere"))
    assert dead("list", "--json", "--group", "0", *elsewhere).json[0]["state"] == "no journal here"
    told = dead("purge", dead_letters["0"], "--yes", *elsewhere)
    where = "give --runs-dir, the folder that the run's own folder is in"
    missing = f"millrace dead purge: no journal in {tmp_path}/elsewhere/test/journal: {where}\n"
    assert (told.code, told.err) == (1, missing)


@pytest.mark.parametrize("word", ["17", "1-2-3", "9-9"])
def test_a_dead_letter_that_is_not_there_is_named(dead: Dead, dead_letters: DeadLetters, word: str) -> None:
    told = dead("show", word)
    where = "`millrace dead list test` names those that are there"
    refusal = f"millrace dead show: no letter {word} in rl:{{test}}:dead: {where}\n"
    assert (told.code, told.err) == (1, refusal)


@pytest.mark.usefixtures("at_redis")
def test_a_run_that_nobody_knows_is_an_error(millrace: Millrace, tmp_path: Path) -> None:
    told = millrace("dead", "list", "typo", "--runs-dir", tmp_path)
    assert (told.code, "no run typo in redis at 127.0.0.1:" in told.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["retry", "test"], "say which letters: their entries, a filter, or --all"),
        (["list", "test", "--stage", "dead"], "invalid choice: 'dead'"),
    ],
)
def test_a_wrong_word_never_gets_to_redis(words: list[str], complaint: str, millrace: Millrace) -> None:
    told = millrace("dead", *words)
    assert (told.code, complaint in told.err) == (2, True)


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0 s"), (59, "59 s"), (600, "10 min"), (5400, "1.5 h"), (172800, "2.0 d")]
)
def test_an_age_has_one_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text
