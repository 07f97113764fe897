"""The demo in its short form, with what may happen to it: `millrace up`, and kill -9 of each part but the learner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
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
MILLRACE = str(Path(sys.executable).with_name("millrace"))
NAME = f"short-{os.getpid()}"  # in every command line of the run, and in nobody else's
WORDS = (
    *(f"name={NAME}", f"learner.steps={STEPS}", "scorers.workers=1", "broker.lease_s=3"),
    "evaluation.every=100",  # the first version, and the last
)


def processes() -> dict[int, str]:
    """Command lines of the run's processes, by pid."""
    lines = {one.pid: " ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])}
    return {pid: line for pid, line in lines.items() if NAME in line and "millrace up" not in line}


def kill_one(words: str, without: str = "--none") -> None:
    """kill -9 one process whose command line has `words`, and not `without`."""
    pid = next(pid for pid, line in processes().items() if words in line and without not in line)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.timeout(280)
def test_the_demo_learns_while_its_processes_are_killed_and_nothing_is_lost(
    tmp_path: Path, capsys: Capsys
) -> None:
    runs_dir, log = tmp_path / "runs", tmp_path / "up.log"
    folder = runs_dir / NAME
    command = [MILLRACE, "up", str(DEMO), f"runs_dir={runs_dir}", *WORDS]
    environment = {**os.environ, "HF_TOKEN": PLANTED, "OMP_NUM_THREADS": "1"}
    with log.open("wb") as stream:
        up = subprocess.Popen(command, stdout=stream, stderr=stream, cwd=ROOT, env=environment)

    def wait_for_step(step: int) -> None:
        done, said = (lambda: len(read_metrics(folder)) >= step), (lambda: log.read_text()[-6000:])
        wait_until(done, f"step {step}", within_s=120, poll_s=0.1, log=said)

    try:
        wait_for_step(3)
        kill_one("-m generators")
        kill_one("--part worker")
        kill_one("--part dispatcher")
        wait_for_step(7)
        kill_one("-m scorers", without="--part")  # the kernel kills its dispatcher and its worker with it
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

    left = ("config.yaml", "samples.jsonl", "curves.png", "report.html", "status.json")
    for name in (*left, *(f"logs/{role}.log" for role in ("learner", "generator-0", "scorers-0"))):
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
