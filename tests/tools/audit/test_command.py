"""What the audit says of ledgers and streams that were laid out by hand. Real Redis, real journals."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from broker.private_redis import server as embedded
from learner.journal.ledger import Ledger, read_ledger
from tests.support.chain import Chain
from tests.support.laid_out import lay_out, look, train
from tests.support.told import Millrace, Patch
from tests.tools.conftest import MakeRun
from tools.audit import command as audit_module
from tools.audit.command import as_text
from tools.audit.payloads import Payloads

COUNTS = ("issued", "trained", "dropped", "dead", "in_flight", "lost", "twice")
BY = ("dropped_by_reason", "dead_by_reason", "in_flight_by_stream", "tokens_by_reason")


def test_every_group_is_counted_once_by_what_became_of_it(chain: Chain) -> None:
    lay_out(chain)
    found = look(chain)
    assert [getattr(found, name) for name in COUNTS] == [9, 2, 1, 1, 5, 0, 0]
    assert found.dropped_by_reason == {"zero_variance": 1}
    assert found.dead_by_reason == {"deadline": 1}
    assert found.in_flight_by_stream == {"prompts": 1, "rollouts": 1, "scored": 2, "dead": 1}
    assert found.tokens_by_reason == {"zero_variance": 8}
    assert (found.payloads, found.looks) == (Payloads(whole=1, removed=0, damaged=()), ())
    assert (found.is_clean, found.went_back, found.foreign) == (True, False, 0)
    assert as_text("test", found).endswith("nothing lost, nothing twice\n")


def test_a_group_that_somebody_deleted_is_lost_by_name(chain: Chain) -> None:
    lay_out(chain)
    entry = chain.entry("6")
    chain.client.xdel(chain.keys(entry.stream), entry.entry_id)
    found = look(chain)
    assert (found.lost, found.lost_ids, found.in_flight, found.is_clean) == (1, ("6",), 4, False)
    assert found.lost_how["6"].startswith("it has a slot, and no entry in any stream (where: rollouts ")
    assert [(one.lost, one.went_back) for one in found.looks] == [(1, False)] * 3
    text = as_text("test", found)
    assert "  lost              1   6\n" in text
    assert text.endswith("NOT CLEAN: groups are lost\n")


def test_a_group_whose_slot_is_gone_too_is_lost_all_the_same(chain: Chain) -> None:
    chain.issue(2)
    chain.run_owner.retire(["1"])  # without an outcome
    found = look(chain)
    assert found.lost_how == {"1": "it was issued, and has no slot, no entry and no outcome"}


def test_a_slot_that_somebody_deleted_is_a_lost_group_though_its_entry_is_there(chain: Chain) -> None:
    lay_out(chain)
    chain.client.zrem(chain.keys("slots"), "7")
    found = look(chain)
    assert (found.lost, found.lost_ids, found.in_flight, found.is_clean) == (1, ("7",), 4, False)
    assert found.lost_how["7"] == "it has an entry in scored, and neither a slot nor an outcome"


def test_a_group_that_where_forgot_is_named_and_not_lost(chain: Chain) -> None:
    lay_out(chain)
    chain.client.hdel(chain.keys("where"), "6")
    found = look(chain)
    assert (found.lost, found.in_flight, found.is_clean) == (0, 5, True)
    assert found.remarks == ("`where` does not name 6, which have a slot: the learner issues them again",)


def test_a_group_that_two_steps_trained_on_is_twice(chain: Chain) -> None:
    lay_out(chain)
    train(chain.journal, 1, "1")
    found = look(chain)
    assert (found.twice, found.twice_ids, found.lost, found.is_clean) == (1, ("1",), 0, False)


def test_a_group_in_two_entries_of_a_stream_is_twice(chain: Chain) -> None:
    lay_out(chain)
    chain.client.xadd(chain.keys("scored"), chain.entry("7").raw)
    assert look(chain).twice_ids == ("7",)


def test_entries_of_nobody_are_counted_apart(chain: Chain) -> None:
    lay_out(chain)
    chain.client.xadd(chain.keys("dead"), {"reason": "foreign entry", "group": "?"})
    chain.client.xadd(chain.keys("dead"), {"planted": "by hand"})
    chain.client.xadd(chain.keys("rollouts"), {"group": "99", "payload": "of another run"})
    found = look(chain)
    assert (found.foreign, found.in_flight, found.twice, found.is_clean) == (3, 5, 0, True)
    assert "foreign entries, with the dead: 3" in as_text("test", found)


def test_a_redis_that_went_back_between_the_looks_is_said(chain: Chain, monkeypatch: Patch) -> None:
    lay_out(chain)

    def forgetting(folder: Path, *, strict: bool) -> Ledger:
        chain.client.hincrby(chain.keys("cursor"), "seq", -1)
        return read_ledger(folder, strict=strict)

    monkeypatch.setattr(audit_module, "read_ledger", forgetting)
    found = look(chain)
    assert (found.went_back, found.is_clean) == (True, True)
    assert "Redis went back or was started anew" in as_text("test", found)


@pytest.mark.usefixtures("at_redis")
def test_the_command_prints_one_json_object_of_integers_and_ends_with_1_unless_clean(
    chain: Chain, millrace: Millrace, tmp_path: Path
) -> None:
    lay_out(chain)
    words = ["audit", "test", "--runs-dir", chain.run.runs_dir, "--json"]
    told = millrace(*words)
    assert told.code == 0
    assert {name: type(told.json[name]) for name in COUNTS} == dict.fromkeys(COUNTS, int)
    assert all(isinstance(count, int) for by in BY for count in told.json[by].values())
    told = millrace("audit", "test", "--runs-dir", tmp_path / "elsewhere", "--json")
    missing = f"no journal in {tmp_path}/elsewhere/test/journal: give --runs-dir"
    assert (told.code, told.out, missing in told.err) == (1, "", True), "an error, and no loss"
    chain.client.delete(chain.keys("scored"))
    told = millrace(*words)
    assert (told.code, told.json["lost_ids"]) == (1, ["7", "8"])


def test_the_journal_of_a_private_redis_is_found_from_any_directory(
    make_run: MakeRun, tmp_path: Path, monkeypatch: Patch, millrace: Millrace
) -> None:
    run = make_run("test")
    server = embedded.start(run)
    try:
        with contextlib.closing(RedisLink(server.url, outage_s=10)) as link:
            chain = Chain(run, link, Keys("test"))
            lay_out(chain)
            chain.journal.close()
        monkeypatch.chdir(tmp_path)
        told = millrace("audit", "test", "--runs-dir", "elsewhere", "--json")
    finally:
        server.stop()
    assert (told.code, told.json["trained"]) == (0, 2)
