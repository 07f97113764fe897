"""What a dead letter says of those who died of its group, and when that is forgotten. Real Redis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker import codec
from broker.connection import RedisLink
from broker.keys import Keys
from broker.messages import DeadLetter
from broker.monitoring.crash_reports import Death, dead_letter_exhausted, deaths_of, record_death
from broker.protocol.leases import Consumer
from broker.protocol.streams import Entry
from tests.broker.conftest import Board, result_of
from tests.support.redis_servers import RedisServer


def die(client: Any, keys: Keys, pid: int, how: str, *last_lines: str) -> None:
    record_death(client, keys, host="h", pid=pid, how=how, last_lines=last_lines)


def test_a_death_is_known_by_the_workers_name_for_a_day(link: RedisLink, keys: Keys) -> None:
    die(link.client, keys, 17, "was killed by SIGSEGV", "one", "two")
    death = Death("was killed by SIGSEGV", "one\ntwo")
    assert deaths_of(link, keys, ["h-17-0f3c", "h-18-0f3c"]) == {"h-17-0f3c": death}
    assert 86_000 < link.client.ttl(keys("died:h-17")) <= 86_400


def test_last_lines_are_few_and_hold_no_secret(
    link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    die(link.client, keys, 1, "ended with code 1", *map(str, range(60)), "401 for hf_planted")
    kept = deaths_of(link, keys, ["h-1-aa"])["h-1-aa"].last_lines.splitlines()
    assert (len(kept), kept[0], kept[-1]) == (40, "21", "401 for **********")


def test_a_death_without_a_redis_is_said(
    tmp_path: Path, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(tmp_path)
    server.kill()
    die(RedisLink(server.url, outage_s=1).client, keys, 1, "was killed by SIGKILL")
    assert "death_unrecorded process=h-1 how='was killed by SIGKILL'" in caplog.text


def begun_by(board: Board, *names: str) -> tuple[Consumer, Entry]:
    """Group 0, begun by these workers one after the other, and the last of them."""
    board.issue(0)
    for name in names:
        consumer = Consumer(board.link, board.keys, "prompts", name, lease_s=0.0)
        (entry,) = consumer.take_over(1) or consumer.read_new(1, block_s=0)
        consumer.begin(entry)
    return consumer, entry


def dead_letter(board: Board) -> DeadLetter:
    """Return that of group 0, of whose tries nothing is left."""
    assert board.hash("tries") == {}
    return codec.decode_dead(board.entry("0").raw)


def test_the_dead_letter_names_who_began_how_each_ended_and_its_last_lines(board: Board) -> None:
    consumer, entry = begun_by(board, "h-1-aa", "h-2-bb", "h-2-bb", "h-3-cc", "h-9-zz")
    die(board.client, board.keys, 1, "was killed by SIGSEGV", "first")
    die(board.client, board.keys, 3, "ended with code 1", "MemoryError")
    dead_letter_exhausted(consumer, entry, attempts=4, most=4, what="generators began this prompt")
    found = dead_letter(board)
    assert found.reason == (
        "4 generators began this prompt and none finished it (broker.max_attempts=4): h-1-aa (was killed by SIGSEGV), "
        "h-2-bb 2 times, h-3-cc (ended with code 1)"
    )
    assert found.traceback == "The last lines of h-3-cc, which ended with code 1:\nMemoryError"
    assert (found.attempts, found.original) == (4, entry.raw[b"payload"])


def test_the_dead_letter_carries_the_last_error_without_secrets(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    consumer, entry = begun_by(board, "h-1-aa", "h-9-zz")
    consumer.note_failure(entry, "Traceback: the first\nKeyError: 'x'")
    consumer.note_failure(entry, "Traceback: the last\nValueError: hf_planted is no token\n")
    dead_letter_exhausted(consumer, entry, attempts=1, most=1, what="scorers began this group")
    found = dead_letter(board)
    assert found.reason.endswith(": h-1-aa; the last error: ValueError: ********** is no token")
    assert found.traceback == "Traceback: the last\nValueError: ********** is no token"


def test_of_a_group_that_was_issued_again_only_the_tries_of_this_life_count(board: Board) -> None:
    consumer, entry = begun_by(board, "h-1-aa", "h-2-bb", "h-9-zz")
    dead_letter_exhausted(consumer, entry, attempts=1, most=1, what="generators began this prompt")
    assert dead_letter(board).reason.endswith(": h-2-bb")


def test_what_is_known_of_the_tries_goes_with_each_stage_and_with_the_group(board: Board) -> None:
    consumer, entry = begun_by(board, "h-1-aa")
    consumer.note_failure(entry, "Boom")
    assert board.hash("tries") == {"0": "h-1-aa", "error:0": "Boom"}
    assert consumer.hand_over(entry, "rollouts", result_of(entry))
    assert board.hash("tries") == {}
    scorers = Consumer(board.link, board.keys, "rollouts", "scorers", lease_s=60, worker="h-7-dd")
    scorers.begin(*scorers.lease(1, block_s=0))
    assert board.hash("tries") == {"0": "h-7-dd"}, "the process, where all share a consumer's name"
    board.learner.retire(["0"])
    assert board.hash("tries") == {}


def test_a_foreign_copy_of_an_entry_leaves_no_trace_among_the_tries(board: Board) -> None:
    board.issue(0)
    board.client.xadd(board.keys("prompts"), dict(board.entry("0").raw))
    consumer = Consumer(board.link, board.keys, "prompts", "h-1-aa", lease_s=60)
    own, copy = consumer.lease(2, block_s=0)
    assert (consumer.begin(copy), board.hash("tries")) == (1, {})
    consumer.note_failure(copy, "Boom")
    assert (consumer.begin(own), board.hash("tries")) == (1, {"0": "h-1-aa"})
