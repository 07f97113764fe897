"""`python -m learner` as its own processes, where there is nothing to train."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_finished_run_whose_folder_has_lost_its_status_is_done_for_every_rank_at_once(
    ranks: int, link: RedisLink, keys: Keys, tmp_path: Path
) -> None:
    run = make_run(tmp_path, learner={"steps": 1, "ranks": ranks, "device": "cpu"})
    run_owner = RunOwner(link, keys)
    journal = Journal(run.folder / "journal", run_owner.claim(0), run=run.name, facts={"start": None})
    journal.append(0, [make_scored(make_prompt("0"), [1.0, 0.0])], [[0.5, -0.5]])
    journal.close()
    link.client.hset(keys("run"), "version", 1)
    Status(run, link, keys, run_owner).end("finished", "", 1)
    (run.folder / "status.json").unlink()
    config = tmp_path / "run.yaml"
    config.write_text(to_yaml(run))
    words = [sys.executable, "-m", "learner", "--config", str(config)]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "REDIS_URL": link.url},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
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
    setting: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(entry, "set_up_logging", lambda *_: None)  # this process's log is pytest's
    config = tmp_path / "run.yaml"
    config.write_text(to_yaml(make_run(tmp_path / "runs")))
    assert entry.main(["--config", str(config), setting]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("size", [1, 2])
def test_a_group_of_one_is_told_at_every_start(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(entry, "set_up_logging", lambda *_: None)
    config = tmp_path / "run.yaml"
    config.write_text(to_yaml(make_run(tmp_path / "runs", sampling={"group_size": size})))
    for _ in range(2):
        caplog.clear()
        assert entry.main(["--config", str(config), "model.path=./tiny"]) == 2
        assert ("group_of_one" in caplog.text) is (size == 1)


def test_a_run_that_has_begun_is_not_refused_before_those_who_wait_for_it_can_hear_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, model={"path": "./tiny"})
    Journal(run.folder / "journal", 1, run=run.name, facts={"start": None}).close()
    monkeypatch.setattr(entry, "set_up_logging", lambda *_: None)
    monkeypatch.setattr(entry, "_lead", lambda run, _: 7 if run.model.path == "./tiny" else 1)
    config = tmp_path / "run.yaml"
    config.write_text(to_yaml(run))
    assert entry.main(["--config", str(config)]) == 7


def test_a_rank_that_raises_leaves_its_launcher_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_run: Run, _ranks: Ranks) -> int:
        raise ValueError("no such row")

    reader, writer = os.pipe()
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", LAST_WORDS: str(writer)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(entry, "_follow", fail)
    monkeypatch.setattr(entry, "set_up_logging", lambda *_: None)  # this process's log is pytest's
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    config = tmp_path / "run.yaml"
    config.write_text(to_yaml(make_run(tmp_path, learner={"ranks": 2})))
    try:
        assert entry.main(["--config", str(config)]) == 1
        assert os.read(reader, 100) == b"ValueError: no such row"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
