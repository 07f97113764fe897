"""What the audit says of ledgers and streams that were laid out by hand. Real Redis, real journals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker import embedded
from broker.connection import Link
from broker.keys import Keys
from broker.streams import bury
from config.run import Run
from learner.journal import Journal
from learner.ledger import DEAD, DROPPED, Ledger, Outcome, read_ledger
from tests.learner.chain import Chain, make_prompt, make_run, make_scored
from tools import audit as audit_module
from tools.audit import Audit, as_text, audit, main

COUNTS = ("issued", "trained", "dropped", "dead", "in_flight", "lost", "twice")
BY = ("dropped_by_reason", "dead_by_reason", "in_flight_by_stream")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "PAUSE_S", 0.0)


@pytest.fixture
def chain(tmp_path: Path, link: Link, keys: Keys) -> Iterator[Chain]:
    chain = Chain(make_run(tmp_path), link, keys)
    yield chain
    chain.journal.close()


def train(journal: Journal, step: int, *ids: str) -> None:
    """Write a step down."""
    groups = [make_scored(make_prompt(group_id), [1.0, 0.0]) for group_id in ids]
    journal.append(step, groups, [[0.5, -0.5]] * len(groups), weights="checksum")


def lay_out(chain: Chain) -> None:
    """Nine groups: two trained, one dropped, one dead, one buried and not yet written down, and four on their way."""
    chain.issue(9)
    train(chain.journal, 0, "0", "1")
    chain.ownership.retire(["0", "1"])
    chain.journal.end({"2": Outcome(DROPPED, "zero_variance: all 0"), "3": Outcome(DEAD, "deadline")})
    chain.ownership.retire(["2"])
    bury(chain.link, chain.keys, chain.entry("3"), reason="deadline")
    chain.ownership.retire(["3"])
    bury(chain.link, chain.keys, chain.entry("4"), reason="no answer")
    chain.sample("6")
    chain.score("7")
    chain.score("8")


def look(chain: Chain) -> Audit:
    return audit(chain.link, chain.keys, chain.run.folder / "journal")


def test_every_group_is_counted_once_by_what_became_of_it(chain: Chain) -> None:
    lay_out(chain)
    found = look(chain)
    assert {name: getattr(found, name) for name in COUNTS} == {
        "issued": 9, "trained": 2, "dropped": 1, "dead": 1, "in_flight": 5, "lost": 0, "twice": 0}
    assert found.dropped_by_reason == {"zero_variance": 1}
    assert found.dead_by_reason == {"deadline": 1}
    assert found.in_flight_by_stream == {"prompts": 1, "rollouts": 1, "scored": 2, "dead": 1}
    assert (found.is_clean, found.went_back, found.foreign) == (True, False, 0)
    assert as_text("test", found).endswith("nothing lost, nothing twice\n")


def test_a_group_that_somebody_deleted_is_lost_by_name(chain: Chain) -> None:
    lay_out(chain)
    entry = chain.entry("6")
    chain.client.xdel(chain.keys(entry.stream), entry.entry_id)
    found = look(chain)
    assert (found.lost, found.lost_ids, found.in_flight, found.is_clean) == (1, ("6",), 4, False)
    assert as_text("test", found).endswith("NOT CLEAN\n")


def test_a_group_whose_slot_is_gone_too_is_lost_all_the_same(chain: Chain) -> None:
    chain.issue(2)
    chain.ownership.retire(["1"])           # without an outcome
    assert look(chain).lost_ids == ("1",)


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
    found = look(chain)
    assert (found.foreign, found.in_flight, found.twice, found.is_clean) == (2, 5, 0, True)
    assert "foreign entries, with the dead: 2" in as_text("test", found)


def test_a_redis_that_went_back_between_the_looks_is_said(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(chain)
    def forgetting(folder: Path) -> Ledger:
        chain.client.hincrby(chain.keys("cursor"), "seq", -1)
        return read_ledger(folder)
    monkeypatch.setattr(audit_module, "read_ledger", forgetting)
    found = look(chain)
    assert (found.went_back, found.is_clean) == (True, True)
    assert "Redis went back or was started anew" in as_text("test", found)


def test_the_command_prints_one_json_object_of_integers_and_ends_with_1_unless_clean(
        chain: Chain, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    lay_out(chain)
    words = ["test", "--runs-dir", str(chain.run.runs_dir), "--json"]
    assert main(words) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {name: type(shown[name]) for name in COUNTS} == dict.fromkeys(COUNTS, int)
    assert all(isinstance(count, int) for by in BY for count in shown[by].values())
    chain.client.delete(chain.keys("scored"))
    assert main(words) == 1
    assert json.loads(capsys.readouterr().out)["lost_ids"] == ["7", "8"]


def test_a_folder_without_a_journal_is_an_error_and_no_loss(
        chain: Chain, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    lay_out(chain)
    assert main(["test", "--runs-dir", str(tmp_path / "elsewhere"), "--json"]) == 1
    shown = capsys.readouterr()
    assert f"no journal in {tmp_path}/elsewhere/test/journal: give --runs-dir" in shown.err
    assert not shown.out


def test_the_journal_of_a_private_redis_is_found_from_any_directory(
        make_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run("test")
    server = embedded.start(run)
    try:
        link = Link(server.url, outage_s=10)
        chain = Chain(run, link, Keys("test"))
        lay_out(chain)
        chain.journal.close()
        link.close()
        monkeypatch.chdir(tmp_path)
        assert main(["test", "--runs-dir", "elsewhere", "--json"]) == 0
    finally:
        server.stop()
    assert json.loads(capsys.readouterr().out)["trained"] == 2
