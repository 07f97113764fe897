"""`millrace difficulty`: rates known by construction, the rows within bounds, and the same bytes after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyarrow import parquet

from broker.connection import RedisLink
from broker.errors import PipelineError, RunFailed
from broker.keys import Keys
from broker.messages import Prompt
from config.loading import load_run
from learner.collect.results import open_results
from learner.collect.session import CollectingSession
from learner.journal.writer import Journal
from tests.support.collecting import Killed, working
from tests.support.paths import ROOT
from tests.support.told import Millrace, Patch
from tests.support.waiting import wait_until
from tools.collect.launch import collected
from tools.main import main

pytestmark = pytest.mark.process

MODEL = str(ROOT / "config" / "recipes" / "demo_model")
FILES = ["kept.parquet", "manifest.json", "pass_rates.png", "rows.parquet"]
ANSWERS = ["\\boxed{0}", "\\boxed{1}", "\\boxed{1}", "\\boxed{2}"]  # of a group, in turn
RATES = [0.25, 0.5, 0.25, 0.0]  # of a row whose answer is 0, 1, 2 or 3


def write_run(folder: Path, *, rows: int, **sections: Any) -> Path:
    """Write rows whose rates are known, and a run of them; return its file."""
    lines = [
        {
            "messages": [{"role": "user", "content": f"Row {number}: what is {number % 4}?"}],
            "verification_info": {"type": "math", "answer": {"value": str(number % 4)}},
            "level": number,
        }
        for number in range(rows)
    ]
    source = {"type": "dataset", "path": str(folder / "rows.jsonl")}
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    tree = {
        "name": "d", "runs_dir": str(folder / "runs"), "model": {"path": MODEL, "dtype": "float32"},
        "data": {"train": source, "cache_dir": str(folder / "cache"), "max_prompt_tokens": 64},
        "sampling": {"group_size": 4, "max_tokens": 24},
        "generators": {"engine": {"type": "fake", "answers": ANSWERS}}, "scorers": {"workers": 1},
        "learner": {"groups_per_step": 4, "max_lag": 1}, "broker": {"lease_s": 6},
    }  # fmt: skip
    (folder / "run.yaml").write_text(yaml.safe_dump({**tree, **sections}))
    return folder / "run.yaml"


def collect_by_hand(config: Path, name: str, link: RedisLink, *, model: str = "") -> None:
    """Leave what `millrace difficulty` would, with hands in place of generators and scorers."""
    words = ["--config", str(config), f"name={name}", *([f"model.path={model}"] if model else [])]

    def scores(prompt: Prompt) -> Sequence[float | None] | str:
        if prompt.row == 7:
            return "the judge is away"
        if prompt.row == 6:
            return [1.0, None, None, 0.0]
        passed = int(4 * RATES[prompt.row % 4])
        return [1.0] * passed + [0.0] * (4 - passed)

    run = load_run(words)
    session = CollectingSession(run, link, "train")
    session.open()
    with working(link, Keys(run.name), scores):
        assert session.collect(threading.Event()) == 0


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_rates_stand_beside_the_rows_and_the_kept_set_is_the_computed_one(
    tmp_path: Path, link: RedisLink, millrace: Millrace, monkeypatch: Patch
) -> None:
    config, out = write_run(tmp_path, rows=10), tmp_path / "out"
    real, calls = Journal.collect, [0]

    def collect_and_die(journal: Journal, *args: Any, **named: Any) -> None:
        real(journal, *args, **named)
        calls[0] += 1
        if calls[0] == 2:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "collect", collect_and_die)
        with pytest.raises(Killed):
            collect_by_hand(config, "d-difficulty-demo_model", link)
    collect_by_hand(config, "d-difficulty-demo_model", link)
    keep = ["--keep", "demo_model>0,demo_model<0.5"]
    told = millrace("difficulty", config, *keep, "-o", out)
    assert told.code == 0
    rows = parquet.read_table(out / "rows.parquet").to_pylist()
    rates = [*RATES, *RATES[:2], 0.5, None, *RATES[:2]]
    assert [row["demo_model_pass_rate"] for row in rows] == rates, "row 6 has two scores, row 7 none"
    assert [row["demo_model_scored"] for row in rows] == [4] * 6 + [2, 0] + [4] * 2
    assert [row["level"] for row in rows] == list(range(10)), "the rows' own columns and their order"
    kept = parquet.read_table(out / "kept.parquet").to_pylist()
    assert kept == [row for row in rows if row["demo_model_pass_rate"] == 0.25]
    manifest = json.loads((out / "manifest.json").read_text())
    (model,) = manifest["models"]
    assert (model["rows"], model["without_rate"], model["samples"], model["unscorable"]) == (10, 1, 40, 6)
    assert manifest["files"]["kept.parquet"]["rows"] == len(kept) == 4
    assert "mean pass rate 0.3333" in told.out  # 3 in sum, of nine rows
    assert "6 samples could not be scored" in told.out
    first = bytes_of(out)
    assert sorted(first) == FILES
    assert millrace("difficulty", config, *keep, "-o", tmp_path / "again").code == 0
    assert bytes_of(tmp_path / "again") == first
    told = millrace("difficulty", config, "--full", "0.5", "-o", out)
    assert told.code == 0, "other files, no other samples"
    (tmp_path / "rows.jsonl").write_text((tmp_path / "rows.jsonl").read_text().replace("Row 3", "Row three"))
    told = millrace("difficulty", config, "-o", out)
    assert (told.code, "are no longer those that were sampled" in told.err) == (1, True)


@pytest.mark.prove
def test_each_of_several_sources_has_a_file_with_every_row_once(tmp_path: Path, link: RedisLink) -> None:
    write_run(tmp_path, rows=6)
    of_file = {"type": "dataset", "path": str(tmp_path / "rows.jsonl")}
    made = {"type": "procedural", "size": 2, "epochs": 4}
    sources = [{**of_file, "limit": 3, "weight": 0.9}, made, of_file]
    data = {"train": sources, "cache_dir": str(tmp_path / "cache"), "max_prompt_tokens": 64}
    config, out = write_run(tmp_path, rows=6, data=data), tmp_path / "out"
    collect_by_hand(config, "d-difficulty-demo_model", link)
    assert main(["difficulty", str(config), "-o", str(out)]) == 0
    counts = [parquet.read_metadata(out / f"rows-{number}.parquet").num_rows for number in (1, 2, 3)]
    assert counts == [3, 2, 6]
    (model,) = json.loads((out / "manifest.json").read_text())["models"]
    path = of_file["path"]
    assert [each["name"] for each in model["sets"]] == [path, "procedural digits train", f"{path} (2)"]
    last = parquet.read_table(out / "rows-3.parquet").to_pylist()
    assert [(row["level"], row["demo_model_scored"]) for row in last] == [(number, 4) for number in range(6)]


@pytest.mark.prove
def test_rows_of_another_set_are_not_taken_for_those_that_are_wanted(tmp_path: Path, link: RedisLink) -> None:
    config = write_run(tmp_path, rows=2)
    collect_by_hand(config, "d", link)
    words = ["--config", str(config)]
    assert collected(load_run(words), words, "train").size == 2
    other = r"has the rows of data\.train, and those of data\.held_out are wanted"
    with pytest.raises(RunFailed, match=other):
        collected(load_run(words), words, "held_out")
    with pytest.raises(RunFailed, match=r"sampling\.max_tokens: 24 -> 25"):
        collected(load_run([*words, "sampling.max_tokens=25"]), words, "train")


@pytest.mark.prove
def test_stored_samples_are_scored_again_by_another_scorer(tmp_path: Path, link: RedisLink) -> None:
    config = write_run(tmp_path, rows=8)
    collect_by_hand(config, "d-difficulty-demo_model", link)
    again = ["difficulty", str(config), "--rescore", "--workers", "1", "-o", str(tmp_path / "out")]
    assert main(again) == 0
    rows = parquet.read_table(tmp_path / "out" / "rows.parquet").to_pylist()
    assert [row["demo_model_scored"] for row in rows] == [4] * 8, "row 7 had its samples, and no judge"
    assert {row["demo_model_pass_rate"] for row in rows} == {0.0}, "the hands said nothing that is right"
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["rescored"] is True


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--keep", "other>0"], 2, "no model 'other' is measured; there is demo_model"),
        (["--model", "a"], 2, "write NAME=PATH"),
        (["--model", "a=x", "--model", "a=y"], 2, "two models are named 'a'"),
        (["--model", f"a.b={MODEL}", "--model", f"a_b={MODEL}"], 2, "their runs would have one name"),
        (["--model", "a=./nowhere"], 2, "model.path=./nowhere: there is no such folder"),
        (["--data", "none.jsonl"], 2, "data.train.path=none.jsonl: there is no such file"),
        (["-n", "0"], 2, "'0' is no number of samples"),
        (["--full", "0"], 2, "a score lies between 0 and 1"),
        (["--rescore"], 1, "has no row: sample the others first"),
        (["sampling.group_sze=3"], 2, "group_sze"),
    ],
)
def test_what_can_not_be_measured_is_said_before_anything_starts(
    tmp_path: Path, millrace: Millrace, *, words: list[str], code: int, says: str
) -> None:
    told = millrace("difficulty", write_run(tmp_path, rows=2), "-o", tmp_path / "out", *words)
    assert (told.code, says in told.err) == (code, True)
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_shows_the_commands_of_each_model(tmp_path: Path, millrace: Millrace) -> None:
    config = write_run(tmp_path, rows=2)
    models = ["--model", f"weak={MODEL}", "--model", f"strong={MODEL}"]
    told = millrace("difficulty", config, *models, "--dry-run", "-o", tmp_path / "out")
    assert told.code == 0
    assert sum("-m learner.collect --of=train" in line for line in told.lines) == 2
    assert sum("-m generators --run d-difficulty-strong" in line for line in told.lines) == 1
    assert not (tmp_path / "out").exists()


def difficulty(config: Path, out: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start `millrace difficulty` with a private Redis; its output goes to a log beside `out`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment.pop("REDIS_URL", None)
    command = [sys.executable, "-m", "tools.main", "difficulty", str(config), "-o", str(out), *words]
    with (config.parent / f"{out.name}.log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)


def kill_when(process: subprocess.Popen[bytes], folder: Path, *, rows: int) -> None:
    """Kill the command and with it all that it started, once so many rows have an outcome."""

    def has_so_many() -> bool:
        try:
            results = open_results(folder)
        except PipelineError:  # it is only beginning
            return False
        return results.size - results.missing >= rows

    wait_until(has_so_many, f"{rows} rows", within_s=120)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    time.sleep(1.0)  # for the processes that it takes along


@pytest.mark.prove(cases=("hf", "scripted"))
@pytest.mark.parametrize("engine", [
    {"type": "fake", "answers": ANSWERS, "seconds_per_group": 0.2},
    {"type": "hf", "batch_groups": 4, "threads": 1},
], ids=["scripted", "hf"])  # fmt: skip
def test_files_are_the_same_bytes_with_kills_and_without(tmp_path: Path, *, engine: dict[str, Any]) -> None:
    """Whole runs by real roles; for the engine `hf` with the demo's model, whose rates nobody knows beforehand."""
    outs = []
    for name in ("peace", "kills"):
        folder = tmp_path / name
        folder.mkdir()
        config = write_run(folder, rows=48, generators={"engine": engine})
        # The same words of a source in both: the manifest has its path.
        (tmp_path / "rows.jsonl").write_bytes((folder / "rows.jsonl").read_bytes())
        words = [f"data.train.path={tmp_path / 'rows.jsonl'}", "--keep", "demo_model>0.3"]
        outs.append(folder / "out")
        for rows in (6, 20) if name == "kills" else ():
            run_folder = folder / "runs" / "d-difficulty-demo_model"
            kill_when(difficulty(config, outs[-1], *words), run_folder, rows=rows)
        assert difficulty(config, outs[-1], *words).wait(240) == 0, (folder / "out.log").read_text()
    peace, kills = map(bytes_of, outs)
    assert sorted(peace) == FILES
    assert kills == peace
    rows = parquet.read_table(outs[0] / "rows.parquet").to_pylist()
    assert [row["demo_model_scored"] for row in rows] == [4] * 48
    if engine["type"] == "fake":
        assert [row["demo_model_pass_rate"] for row in rows] == RATES * 12
    kept = parquet.read_table(outs[0] / "kept.parquet").to_pylist()
    assert kept == [row for row in rows if row["demo_model_pass_rate"] > 0.3]
