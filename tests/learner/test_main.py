"""`python -m learner` as its own processes, where there is nothing to train."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from config.loading import to_yaml
from config.run import Run
from learner import __main__ as entry
from learner.journal.writer import Journal
from learner.launch.ranks import LAST_WORDS, Ranks
from learner.status import Status, read_status
from tests.conftest import ROOT
from tests.support.chain import make_prompt, make_run, make_scored

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]


@pytest.fixture
def main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Call the program in this process with a run's configuration, and with more words."""
    monkeypatch.setattr(entry, "set_up_logging", lambda *_: None)  # this process's log is pytest's

    def main(run: Run, *words: str) -> int:
        return entry.main(["--config", str(written(run, tmp_path)), *words])

    return main


def written(run: Run, folder: Path) -> Path:
    config = folder / "run.yaml"
    config.write_text(to_yaml(run))
    return config


@pytest.mark.parametrize("ranks", [1, 2])
def test_finished_without_a_status_is_done(ranks: int, link: RedisLink, keys: Keys, tmp_path: Path) -> None:
    run = make_run(tmp_path, learner={"steps": 1, "ranks": ranks, "device": "cpu"})
    run_owner = RunOwner(link, keys)
    journal = Journal(run.folder / "journal", run_owner.claim(0), run=run.name, facts={"start": None})
    journal.append(0, [make_scored(make_prompt("0"), [1.0, 0.0])], [[0.5, -0.5]])
    journal.close()
    link.client.hset(keys("run"), "version", 1)
    Status(run, link, keys, run_owner).end("finished", "", 1)
    (run.folder / "status.json").unlink()
    words = [sys.executable, "-m", "learner", "--config", str(written(run, tmp_path))]
    variables = {**os.environ, "REDIS_URL": link.url}
    done = subprocess.run(
        words, cwd=ROOT, env=variables, check=False, capture_output=True, text=True, timeout=60
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("run test is finished; its model is in") == ranks
    assert "ranks stayed" not in said
    found = read_status(run.folder)
    assert (found["status"], int(found["version"])) == ("finished", 1)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("model.path=./tiny", "model.path=./tiny: there is no such folder"),
        ("data.train={type: dataset, path: rows.jsonl}", "data.train.path=rows.jsonl: there is no such file"),
        ("learner.resume=aut", "learner.resume=aut: must be auto, never, or a checkpoint's folder"),
    ],
)
def test_a_place_that_is_not_there_is_named_before_anything_starts(
    setting: str, says: str, tmp_path: Path, main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(make_run(tmp_path / "runs"), setting) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("size", [1, 2])
def test_a_group_of_one_is_told_at_every_start(
    size: int, tmp_path: Path, main: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        caplog.clear()
        assert main(make_run(tmp_path / "runs", sampling={"group_size": size}), "model.path=./tiny") == 2
        assert ("group_of_one" in caplog.text) is (size == 1)


def test_a_run_that_has_begun_is_not_refused_before_those_who_wait_for_it_can_hear_why(
    tmp_path: Path, main: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, model={"path": "./tiny"})
    Journal(run.folder / "journal", 1, run=run.name, facts={"start": None}).close()
    monkeypatch.setattr(entry, "_lead", lambda run, _: 7 if run.model.path == "./tiny" else 1)
    assert main(run) == 7


def test_a_rank_leaves_its_launcher_the_reason(
    tmp_path: Path, main: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_run: Run, _ranks: Ranks) -> int:
        raise ValueError("no such row")

    reader, writer = os.pipe()
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", LAST_WORDS: str(writer)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(entry, "_follow", fail)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert main(make_run(tmp_path, learner={"ranks": 2})) == 1
        assert os.read(reader, 100) == b"ValueError: no such row"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
