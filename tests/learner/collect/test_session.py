"""A collector samples every row once, whatever happens to it, and keeps what no scorer could judge."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.codec import decode_dead
from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.keys import Keys
from broker.messages import Prompt
from broker.monitoring.heartbeat import Heartbeat
from broker.protocol.dead_letters import read_page, request
from broker.protocol.run_owner import RunOwner
from broker.protocol.run_reader import RunReader
from broker.protocol.run_state import DRAIN, ask
from learner.collect.results import NotCollected, open_results
from learner.collect.session import CollectingSession
from learner.collect.settings import collecting
from learner.journal.ledger import COLLECTED, DEAD, read_ledger
from learner.journal.writer import Journal
from learner.resume.history import AlreadyFinished, NameTaken
from learner.session import TrainingSession
from learner.status import read_status
from learner.weight_sync.publisher import Publisher
from tests.support.collecting import (
    ROWS,
    Killed,
    OneTokenSession,
    collect,
    make_collected_run,
    results_of,
    working,
)
from tests.support.waiting import wait_until
from tools.audit.command import audit
from tools.main import main
from tools.trace.journal_view import read_account

Patch = pytest.MonkeyPatch
pytestmark = [pytest.mark.process, pytest.mark.prove(after=3)]


@pytest.fixture(autouse=True)
def _reads_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("learner.collect.loop.BLOCK_S", 0.05)


def right_by_row(prompt: Prompt) -> list[float | None]:
    """Even rows are solved by one sample of two, odd rows by none."""
    return [1.0 if prompt.row % 2 == 0 else 0.0, 0.0]


def test_every_row_is_sampled_once_and_its_result_kept(tmp_path: Path, link: RedisLink, keys: Keys) -> None:
    run = make_collected_run(tmp_path)
    with working(link, keys, right_by_row) as hands:
        assert collect(run, link) == 0
    assert sorted(hands.sampled, key=int) == [str(ordinal) for ordinal in range(ROWS)]
    results = results_of(run)
    assert results.is_complete
    assert [(each.name, each.rows) for each in results.sets] == [("procedural digits train", ROWS)]
    rows = list(results.rows())
    assert [row.row for row in rows] == list(range(ROWS))
    assert [row.scores for row in rows] == [[1.0, 0.0], [0.0, 0.0]] * (ROWS // 2)
    assert {outcome.kind for outcome in read_ledger(run.folder / "journal").outcomes.values()} == {COLLECTED}
    assert read_status(run.folder)["status"] == "finished"
    assert read_status(run.folder)["rows"] == [ROWS, ROWS]
    result = audit(link, keys, run.folder / "journal")
    assert (result.is_clean, result.issued, result.collected, result.trained) == (True, ROWS, ROWS, 0)
    assert not link.client.zcard(keys("slots")), "every slot is free"
    assert (run.folder / "weights" / "v000000" / "model.safetensors").read_bytes() == b"weights"
    with pytest.raises(AlreadyFinished):
        OneTokenSession(run, link, "train").open()


LONG = {"train": {"type": "procedural", "size": 40}}


def after_collecting(patch: pytest.MonkeyPatch, act: Callable[..., None]) -> None:
    """Do something behind each record of collected rows; it is given the reasons of those that died."""
    real = Journal.collect

    def collect_and_act(journal: Journal, groups: Any, *, dead: Any) -> None:
        real(journal, groups, dead=dead)
        act(dead)

    patch.setattr(Journal, "collect", collect_and_act)


def kill_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, call: int, is_after: bool) -> None:
    """Kill the process before or after so many calls of a method."""
    real, calls = getattr(owner, name), 0

    def counted(self: Any, *args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not is_after:
            raise Killed
        answer = real(self, *args, **named)
        if calls == call:
            raise Killed
        return answer

    monkeypatch.setattr(owner, name, counted)


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "line",
    [
        (Journal, "collect", 1),
        (Journal, "_put_payload", 2),
        (RunOwner, "retire", 1),
        (RunOwner, "retire", 2),
        (Publisher, "publish", 1),
    ],
    ids=["record", "payload", "first-retirement", "second-retirement", "weights"],
)
def test_a_collector_that_is_killed_at_any_line_samples_no_row_twice_into_the_result(
    tmp_path: Path, link: RedisLink, keys: Keys, monkeypatch: Patch, *, line: Any, is_after: bool
) -> None:
    run, (owner, name, call) = make_collected_run(tmp_path), line
    with working(link, keys, right_by_row):
        with monkeypatch.context() as patch:
            kill_at(patch, owner, name, call=call, is_after=is_after)
            with pytest.raises(Killed):
                collect(run, link)
        assert collect(run, link) == 0
    ledger = read_ledger(run.folder / "journal")
    assert ledger.twice == []
    assert sorted(ledger.outcomes, key=int) == [str(ordinal) for ordinal in range(ROWS)]
    assert [row.scores for row in results_of(run).rows()] == [[1.0, 0.0], [0.0, 0.0]] * (ROWS // 2)
    assert not link.client.zcard(keys("slots"))


def test_a_redis_that_is_emptied_in_the_middle_costs_no_row(
    tmp_path: Path, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, emptied = make_collected_run(tmp_path), threading.Event()

    def empty(_: Any) -> None:
        if not emptied.is_set():
            emptied.set()
            link.client.flushall()

    after_collecting(monkeypatch, empty)
    with working(link, keys, right_by_row):
        assert collect(run, link) == 0
    ledger = read_ledger(run.folder / "journal")
    assert (ledger.twice, len(ledger.outcomes)) == ([], ROWS)


def test_a_row_that_no_scorer_judged_keeps_its_samples(tmp_path: Path, link: RedisLink, keys: Keys) -> None:
    run = make_collected_run(tmp_path)
    with working(link, keys, lambda prompt: "the judge is away" if prompt.row == 3 else right_by_row(prompt)):
        assert collect(run, link) == 0
    row = list(results_of(run).rows())[3]
    assert (row.row, row.scores, row.died) == (3, [None, None], "the judge is away")
    assert row.reasons == ["the judge is away"] * 2
    assert row.group is not None
    assert row.group.rollout.completions[0].segments[0].token_ids.tolist() == [7, 9], (
        "they can be scored again"
    )
    assert read_ledger(run.folder / "journal").outcomes["3"].kind == DEAD


def test_a_row_whose_prompt_died_has_an_outcome_and_no_samples(
    tmp_path: Path, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_collected_run(tmp_path, learner={"group_deadline_s": 0.3, "groups_per_step": 4, "max_lag": 3})
    monkeypatch.setattr("learner.groups.selection.CHECK_EVERY_S", 0.1)
    monkeypatch.setattr("learner.collect.settings.PATIENCE_S", 0.0)
    assert collect(run, link) == 0, "nobody samples anything, and each row ends at its deadline"
    rows = list(results_of(run).rows())
    assert [(row.row, row.scores, row.group) for row in rows] == [(None, [], None)] * ROWS
    assert all(row.died is not None and "still in prompts" in row.died for row in rows)


def test_a_dead_row_that_an_operator_wants_again_counts_with_its_new_samples(
    tmp_path: Path, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, judges = make_collected_run(tmp_path, data=LONG), threading.Event()
    monkeypatch.setattr("learner.groups.selection.CHECK_EVERY_S", 0.0)

    def ask_again(dead: Any) -> None:
        if "3" in dead:
            judges.set()
            dead_letters = {
                decode_dead(raw).group_id: at for at, raw in read_page(link, keys, "-", "+", count=99)
            }
            request(link, keys, [("3", dead_letters["3"])])

    after_collecting(monkeypatch, ask_again)
    with working(link, keys, lambda prompt: [1.0, None] if judges.is_set() else "the judge is away"):
        assert collect(run, link) == 0
    row = list(results_of(run).rows())[3]
    assert (row.row, row.scores, row.died) == (3, [1.0, None], None)
    assert row.group is not None
    assert row.group.group_id == "3-r1"


def test_a_signal_stops_it_and_the_same_command_goes_on(
    tmp_path: Path, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, stop = make_collected_run(tmp_path), threading.Event()
    with working(link, keys, right_by_row) as hands:
        with monkeypatch.context() as patch:
            after_collecting(patch, lambda _: stop.set())
            assert collect(run, link, stop) == 0
        assert read_status(run.folder)["status"] == "stopped"
        assert results_of(run).missing > 0
        assert collect(run, link) == 0
    assert results_of(run).is_complete
    assert len(hands.sampled) == ROWS, "what was in flight was not sampled again"


def test_an_operator_drains_it_and_it_goes_on(
    tmp_path: Path, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_collected_run(tmp_path, data=LONG)
    monkeypatch.setattr("learner.groups.selection.CHECK_EVERY_S", 0.0)
    with working(link, keys, right_by_row):
        with monkeypatch.context() as patch:
            after_collecting(patch, lambda _: ask(link, keys, DRAIN))
            assert collect(run, link) == 0
        assert read_status(run.folder)["status"] == "stopped"
        assert 0 < results_of(run).missing < 40
        assert collect(run, link) == 0
    assert results_of(run).is_complete


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"sampling": {"group_size": 3}}, "sampling.group_size: 2 -> 3"),
        ({"seed": 5}, "seed: 0 -> 5"),
        ({"scorers": {"credit": "all"}}, "scorers.credit: null -> all"),
    ],
)
def test_a_begun_run_is_not_gone_on_with_where_rows_would_differ(
    tmp_path: Path, link: RedisLink, stopped: threading.Event, sections: dict[str, Any], says: str
) -> None:
    assert collect(make_collected_run(tmp_path), link, stopped) == 0
    with pytest.raises(RunFailed, match=says):
        OneTokenSession(make_collected_run(tmp_path, **sections), link, "train").open()


def test_a_run_is_for_one_purpose_alone(tmp_path: Path, link: RedisLink, stopped: threading.Event) -> None:
    run = make_collected_run(tmp_path)
    assert collect(run, link, stopped) == 0
    with pytest.raises(NameTaken, match="samples a data set and trains on nothing"):
        TrainingSession(run, link).open()
    other = run.model_copy(update={"name": "other"})
    Journal(other.folder / "journal", 1, run="other", facts={"start": None}).close()
    with pytest.raises(NameTaken, match="it trains"):
        CollectingSession(other, link, "train").open()
    with pytest.raises(NotCollected, match="a run that trains"):
        open_results(other.folder)


def test_no_row_is_late_and_a_model_without_safetensors_is_refused(tmp_path: Path, link: RedisLink) -> None:
    run = make_collected_run(tmp_path)
    assert collecting(run).learner.group_deadline_s == 7 * 24 * 3600
    patient = make_collected_run(tmp_path, learner={"group_deadline_s": 30 * 24 * 3600.0})
    assert collecting(patient).learner.group_deadline_s == 30 * 24 * 3600
    (Path(run.model.path) / "model.safetensors").unlink()
    assert collect(run, link) == 1
    assert "save it with save_pretrained" in read_status(run.folder)["reason"]


def test_what_is_collected_is_seen_by_the_verbs_that_read_a_journal(
    tmp_path: Path, link: RedisLink, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_collected_run(tmp_path, generators={"engine": {"type": "fake"}})
    with working(link, keys, lambda prompt: "no judge" if prompt.row == 3 else right_by_row(prompt)):
        assert collect(run, link) == 0
    where = ["--runs-dir", str(run.runs_dir)]
    out = tmp_path / "all.jsonl"
    assert main(["journal", "export", run.name, "--out", str(out), "--outcome", "collected", *where]) == 0
    assert len(out.read_text().splitlines()) == 2 * ROWS
    assert main(["journal", "show", run.name, "--group", "2", *where]) == 0
    assert main(["runs", *where]) == 0
    said = capsys.readouterr().out
    assert "row 2 of epoch 0" in said
    assert f"{ROWS}/{ROWS} rows" in said
    account = read_account(run.folder, "3")
    assert account.record is not None
    assert (account.record["dead"], account.group is not None) == ({"3": "no judge"}, True)


def test_the_end_waits_until_the_others_have_read_it(tmp_path: Path, link: RedisLink, keys: Keys) -> None:
    run, ended = make_collected_run(tmp_path), threading.Event()
    generator = Heartbeat(link, keys, "generator", "host-1")

    def read_the_end() -> None:
        wait_until(lambda: read_status(run.folder).get("status") == "finished")
        ended.set()
        generator.stop()

    other = threading.Thread(target=read_the_end)
    other.start()
    with working(link, keys, right_by_row):
        assert collect(run, link) == 0
    assert ended.is_set()
    other.join(10)
    assert RunReader(link, keys).processes("generator") == []
