"""What an entry point answers before anything heavy is imported. Each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

DEMO = "config/recipes/demo_cpu.yaml"
MODULES = ("config", "broker", "tasks")
HEAVY = {"torch", "transformers", "deepspeed", "datasets", "vllm", "math_verify", "sympy", "matplotlib"}
ANSWER_S = 1.5

# Runs `python -m MODULE ARGV...` and then writes which heavy libraries it imported to standard error's last line.
PROBE = f"""
import runpy, sys
module, sys.argv[1:] = sys.argv[1], sys.argv[2:]
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
except SystemExit as end:
    code = end.code
imported = {{name.partition(".")[0] for name in sys.modules}} & set({sorted(HEAVY)!r})
sys.stderr.write("imported " + " ".join(sorted(imported)) + "\\n")
sys.exit(code)
"""


def learner(*words: str, probe: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-c", PROBE, "learner"] if probe else ["-m", "learner"]), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (f"--config {DEMO} bad=1", 2),
        (f"--config {DEMO} learner.steps=0", 2),
        ("", 2),
        (f"--config {DEMO} --print-config", 0),
        ("--version", 0),
        ("--help", 0),
    ],
)
def test_the_learner_answers_without_importing_a_model_library(words: str, code: int) -> None:
    done = learner(*words.split(), probe=True)
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1] == "imported "


def test_a_typo_is_answered_in_less_than_1_5_seconds_with_exit_code_2() -> None:
    seconds = []
    for _ in range(3):  # the best of three: other processes share this machine
        started = time.monotonic()
        done = learner("--config", DEMO, "learner.stepz=1")
        seconds.append(time.monotonic() - started)
        assert done.returncode == 2
        assert done.stderr == "unknown key learner.stepz in the command line; did you mean learner.steps?\n"
        assert not done.stdout
    assert min(seconds) < ANSWER_S


def test_print_config_shows_the_whole_run_with_its_secrets_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://user:planted-password@127.0.0.1:1/0")
    monkeypatch.setenv("HF_TOKEN", "planted-token")
    monkeypatch.setenv("FUSION_SANDBOX_URL", "http://one:8080")
    done = learner("--config", DEMO, "learner.steps=3", "--print-config")
    assert "planted" not in done.stdout + done.stderr
    shown = yaml.safe_load(done.stdout)
    assert shown["learner"]["steps"] == 3
    assert shown["learner"]["objective"]["clip_high"] == 0.28  # a default that the file does not name
    assert shown["broker"]["url"] == shown["model"]["hf_token"] == "**********"
    assert shown["scorers"]["sandbox_urls"] == ["http://one:8080"]


def test_version_names_what_a_bug_report_needs() -> None:
    lines = dict(line.split(" ", 1) for line in learner("--version").stdout.splitlines())
    assert lines["python"].startswith("3.")
    assert {"redis", "rq", "torch", "transformers", "deepspeed", "pydantic"} <= lines.keys()


@pytest.mark.parametrize("role", ["learner", "generators", "scorers"])
def test_a_role_started_by_hand_beside_modules_of_our_names_takes_its_own(tmp_path: Path, role: str) -> None:
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", role, "--version"]
    done = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
