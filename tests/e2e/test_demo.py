"""The demo in its short form, with what may happen to it: `millrace up`, and kill -9 of each part but the learner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.processes import stop
from learner.reporting.metrics_file import read_metrics
from tests.e2e.conftest import DEMO
from tests.support.paths import ROOT
from tests.support.told import Capsys, told
from tests.support.waiting import wait_until

pytestmark = pytest.mark.e2e

STEPS = 26
PLANTED = "hf_planted_secret_that_must_not_leak"
LEARNED = 0.75  # of the full demo's 0.85: this is a third of its steps
MILLRACE = Path(sys.executable).with_name("millrace")


NAME = f"short-{os.getpid()}"  # in every command line of the run, and in nobody else's


def processes() -> dict[int, str]:
    """Command lines of the run's processes, by pid."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
            except OSError:
                continue
            if NAME in words and "millrace up" not in words:
                found[int(entry.name)] = words
    return found


def kill_one(*words: str, without: str = "--none") -> None:
    """kill -9 one process whose command line has all of `words`, and not `without`."""
    pid = next(
        pid
        for pid, line in processes().items()
        if all(word in line for word in words) and without not in line
    )
    os.kill(pid, signal.SIGKILL)


def until(condition: Callable[[], Any], log: Path, timeout_s: float = 120.0) -> None:
    """Wait for `condition`."""
    wait_until(condition, within_s=timeout_s, poll_s=0.1, log=lambda: log.read_text()[-6000:])


def steps_done(folder: Path) -> int:
    """Objects in metrics.jsonl."""
    return len(read_metrics(folder))


@pytest.mark.timeout(280)
def test_the_demo_learns_while_its_processes_are_killed_and_nothing_is_lost(
    tmp_path: Path, capsys: Capsys
) -> None:
    runs_dir = tmp_path / "runs"
    folder = runs_dir / NAME
    log = tmp_path / "up.log"
    environment = {**os.environ, "HF_TOKEN": PLANTED, "OMP_NUM_THREADS": "1"}
    with log.open("wb") as stream:
        up = subprocess.Popen(
            [
                MILLRACE,
                "up",
                str(DEMO),
                f"runs_dir={runs_dir}",
                f"name={NAME}",
                f"learner.steps={STEPS}",
                "scorers.workers=1",
                "evaluation.every=100",
                "broker.lease_s=3",
            ],
            stdout=stream,
            stderr=stream,
            cwd=ROOT,
            env=environment,
        )
    try:
        until(lambda: steps_done(folder) >= 3, log)
        kill_one("-m generators")
        kill_one("-m scorers", "--part worker")
        kill_one("-m scorers", "--part dispatcher")
        until(lambda: steps_done(folder) >= 7, log)
        kill_one("-m scorers", without="--part")  # their parent: they end with it, and `up` starts it again
        assert up.wait(200) == 0, log.read_text()[-6000:]
    finally:
        stop(up, 5)
    assert not processes(), "no process is left behind"

    records = read_metrics(folder)
    rates = {
        result["version"]: result["pass_rate"]
        for record in records
        for result in record.get("evaluations", ())
    }
    assert rates[0] <= 0.5
    assert rates[STEPS] >= LEARNED, rates
    assert max(record["lag_max"] for record in records) <= 4

    audited = told(capsys, "audit", NAME, "--runs-dir", runs_dir, "--json")
    assert audited.code == 0, audited
    result = audited.json
    assert (result["lost"], result["twice"], result["in_flight"]) == (0, 0, 0)
    assert result["trained"] == STEPS * 16
    assert result["issued"] == result["trained"] + result["dropped"] + result["dead"]

    for name in (
        "config.yaml",
        "samples.jsonl",
        "curves.png",
        "report.html",
        "status.json",
        "logs/learner.log",
        "logs/generator-0.log",
        "logs/scorers-0.log",
    ):
        assert (folder / name).stat().st_size > 0, name
    assert _loads(folder / "model")
    leaks = [path for path in tmp_path.rglob("*") if path.is_file() and PLANTED.encode() in path.read_bytes()]
    assert not leaks, "Redis's file, the run's folder and the logs know no secret"


def _loads(model: Path) -> bool:
    """Return whether transformers loads the run's result and answers with it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    chat = [{"role": "user", "content": "Reverse the digits of 123. Answer in \\boxed{}."}]
    ids: Any = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    policy: Any = AutoModelForCausalLM.from_pretrained(model)
    answer = policy.generate(**ids, max_new_tokens=20, do_sample=False)
    return "boxed" in tokenizer.decode(answer[0, ids["input_ids"].shape[1] :])
