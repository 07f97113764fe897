"""Rows that their scorer could never score: found when the data are read, told, and never in the pool."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import pytest

from broker.errors import RunFailed
from config.data import DatasetSource, HeldOutDataset
from config.run import Run
from learner.data.held_out import open_held_out
from learner.data.ingest import ingest
from learner.data.prompts import PromptSource, open_sources
from learner.data.refused import RefusedRows
from learner.data.row import RowError
from learner.data.scorers_digest import scorers_digest
from learner.data.store import RowList, RowStore
from scorers.gold.row_check import answers
from tests.support.character_tokenizer import OneTokenACharacter
from tests.support.ingested import with_data, with_tasks
from tests.support.verl_runs import write_jsonl

pytestmark = pytest.mark.process
ROWS_ARE_SHOWN = True  # see conftest.py
OWN = """
from broker.errors import BadMessage
from scorers.custom import SimpleScorer

class Even(SimpleScorer):
    name, version = "even", "1"

    def check_row(self, verification_info):
        print("a scorer that talks")
        if int(verification_info["answer"]["value"]) % 2:
            raise BadMessage("odd")

    def score(self, text, verification_info):
        return self.scored(0.0, "nothing")
"""
PLAIN = """
from pathlib import Path
from scorers.custom import SimpleScorer

class Plain(SimpleScorer):
    name, version = "plain", "1"

    def __init__(self):
        Path("built").touch()

    def score(self, text, verification_info):
        return self.scored(0.0, "nothing")

def half(text, verification_info):
    return 0.5
"""


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return with_tasks(run, {kind: {"type": kind} for kind in ("math", "choice", "logic")})


def with_own(run: Run, import_path: str) -> Run:
    return with_tasks(run, {"own": {"type": "custom", "import_path": import_path}})


def row(row_type: str, value: Any, task: str | None = None) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": f"{row_type} {value}?"}],
        "verification_info": {"type": row_type, "answer": {"value": value}},
        "task": task or row_type,
    }


def source(name: str, *rows: dict[str, Any]) -> DatasetSource:
    return DatasetSource(path=str(write_jsonl(Path(name), rows)), task_column="task")


def opened(run: Run, *sources: DatasetSource) -> PromptSource:
    tokenizer: Any = OneTokenACharacter()
    return open_sources(run, sources, tokenizer, shuffle=False)


def numbers(prompts: PromptSource) -> list[int]:
    return [prompts.place(draw)[0].row for draw in range(len(prompts))]


MIXED = (row("choice", "seven"), row("math", "3"), row("choice", "B"), row("choice", "eight"))


def test_a_row_that_its_scorer_refuses_is_not_in_the_pool_and_the_next_start_reads_what_was_found(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = source("rows.jsonl", *MIXED)
    with caplog.at_level(logging.WARNING):
        prompts = opened(run, data)
    assert numbers(prompts) == [1, 2]
    (said,) = [message for message in caplog.messages if "rows_refused" in message]
    assert "source=rows.jsonl count=2 of=4" in said
    assert "row 0: " in said
    monkeypatch.setattr(RefusedRows, "_ask", lambda *_: pytest.fail("it was asked before"))
    again = opened(run, data)
    assert (numbers(again), again.fingerprint) == (numbers(prompts), prompts.fingerprint)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Look at the rows in this process, as that of the scorers does. Returns how many stores each would be shown."""
    counts: list[int] = []

    def ask(check: RefusedRows, stores: Sequence[RowStore], said: IO[bytes]) -> None:
        counts.append(len(stores))
        check._send(stores, sent := io.BytesIO())
        said.writelines(line.encode() for line in answers(sent.getvalue().splitlines(keepends=True)))

    monkeypatch.setattr(RefusedRows, "_ask", ask)
    return counts


SETS = {"a": MIXED, "b": (row("math", "1"), row("math", "2")), "c": (row("math", "5"), row("choice", "nine"))}


def test_one_process_sees_all_sources(run: Run, monkeypatch: pytest.MonkeyPatch, started: list[int]) -> None:
    sources = {name: source(f"{name}.jsonl", *rows) for name, rows in SETS.items()}
    prompts = opened(run, *sources.values())
    assert (numbers(prompts), started) == ([1, 2, 4, 5, 6], [3])
    opened(run, sources["b"])
    assert started == [3], "it was found before that none of its rows is refused"
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread was started"))
    made = RowList([])
    with RefusedRows(run, [made, made]) as check:
        assert [len(each.places) for each in check.result()] == [0, 0], "rows in memory start nothing"


def test_one_process_sees_all_held_out_sets_and_refused_ones_are_none(run: Run, started: list[int]) -> None:
    held_out = [
        HeldOutDataset(name=name, path=source(f"{name}.jsonl", *rows).path, task_column="task", every=1)
        for name, rows in SETS.items()
    ]
    found = open_held_out(with_data(run, held_out=tuple(held_out)), cast("Any", OneTokenACharacter()))
    assert found is not None
    assert ([len(each.source) for each in found.sets], started) == ([2, 2, 1], [3])
    with pytest.raises(RowError, match=r"rows\.jsonl: its scorer takes no row .*; the first: row 0: "):
        opened(run, source("rows.jsonl", row("choice", "seven")))


def test_a_scorer_of_ones_own_refuses_rows_and_is_asked_again_when_it_has_changed(run: Run) -> None:
    Path("own_even.py").write_text(OWN)
    own = with_own(run, "own_even:Even")
    rows = source("rows.jsonl", *(row("anything", str(number), "own") for number in range(4)))
    assert numbers(opened(own, rows)) == [0, 2]
    Path("own_even.py").write_text(OWN.replace("% 2:", "% 2 == 0:"))
    assert numbers(opened(own, rows)) == [1, 3]


@pytest.mark.parametrize("name", ["Plain", "half"])
def test_a_scorer_of_ones_own_without_a_check_is_left_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch, started: list[int], name: str
) -> None:
    monkeypatch.syspath_prepend(Path.cwd())
    Path("own_plain.py").write_text(PLAIN)
    rows = source("rows.jsonl", row("anything", "1", "own"))
    assert numbers(opened(with_own(run, f"own_plain:{name}"), rows)) == [0]
    assert (Path("built").exists(), started) == (False, [1])
    monkeypatch.delitem(sys.modules, "own_plain")


def test_unseen_rows_are_counted(run: Run, caplog: pytest.LogCaptureFixture, started: list[int]) -> None:
    rows = source("rows.jsonl", row("anything", "1", "own"), row("anything", "2", "own"))
    with caplog.at_level(logging.WARNING):
        assert numbers(opened(with_own(run, "not_on_this_machine:Scorer"), rows)) == [0, 1]
    assert ("rows_unchecked count=2 reason=" in caplog.text, started) == (True, [1])
    assert "not_on_this_machine" in caplog.text


HANGS = ("-c", "import time; time.sleep(600)")


def test_a_process_ends_early_or_hangs_on_a_row(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("learner.data.refused.COMMAND", ("-c", "raise SystemExit(3)"))
    with pytest.raises(RunFailed, match="exit code 3"):
        opened(run, source("rows.jsonl", *MIXED))
    assert not list(Path("cache").glob("*/refused-*"))
    for name, value in (("COMMAND", HANGS), ("SAY_EVERY_S", 0.05), ("STUCK_S", 0.2)):
        monkeypatch.setattr(f"learner.data.refused.{name}", value)
    with pytest.raises(RunFailed, match=r"has taken no row for 0 s, after \d of 4: a scorer's check_row"):
        opened(run, source("a.jsonl", *MIXED))


def test_who_leaves_early_waits_for_no_row(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("learner.data.refused.COMMAND", HANGS)
    check = RefusedRows(run, [ingest(run, source("rows.jsonl", *MIXED)).rows])
    with pytest.raises(KeyError), check:
        raise KeyError
    with pytest.raises(RunFailed):
        check.result()


def test_the_digest_follows_configuration_and_the_users_own_file(run: Run) -> None:
    own = with_own(run, "own_even:Even")
    digests = [scorers_digest(run), scorers_digest(own)]
    Path("own_even.py").write_text(OWN)
    digests.append(scorers_digest(own))
    assert len(set(digests)) == 3
