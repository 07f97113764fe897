"""What an entry point answers before anything heavy is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from learner.__main__ import main
from tests.support.paths import ROOT
from tests.support.told import Capsys

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

DEMO = "config/recipes/demo_cpu.yaml"
MODULES = ("config", "broker", "tasks")
HEAVY = {"torch", "transformers", "deepspeed", "datasets", "vllm", "math_verify", "sympy", "matplotlib"}

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


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (f"--config {DEMO} bad=1", 2),
        (f"--config {DEMO} learner.stepz=1", 2),
        (f"--config {DEMO} learner.steps=0", 2),
        ("", 2),
        (f"--config {DEMO} --print-config", 0),
        ("--version", 0),
        ("--help", 0),
    ],
)
def test_the_learner_answers_without_importing_a_model_library(words: str, code: int) -> None:
    command = [sys.executable, "-c", PROBE, "learner", *words.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1] == "imported "


def test_what_is_printed_has_no_secret_and_a_typo_its_neighbour(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://user:planted-password@127.0.0.1:1/0")
    monkeypatch.setenv("HF_TOKEN", "planted-token")
    monkeypatch.setenv("FUSION_SANDBOX_URL", "http://one:8080")
    assert main(["--config", str(ROOT / DEMO), "learner.steps=3", "--print-config"]) == 0
    out, err = capsys.readouterr()
    assert "planted" not in out + err
    shown = yaml.safe_load(out)
    assert shown["learner"]["steps"] == 3
    assert shown["learner"]["objective"]["clip_high"] == 0.28  # a default that the file does not name
    assert shown["broker"]["url"] == shown["model"]["hf_token"] == "**********"
    assert shown["scorers"]["sandbox_urls"] == ["http://one:8080"]
    assert main(["--config", str(ROOT / DEMO), "learner.stepz=1"]) == 2
    said = "unknown key learner.stepz in the command line; did you mean learner.steps?\n"
    assert capsys.readouterr() == ("", said)
    assert main(["--version"]) == 0
    lines = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["python"].startswith("3.")
    assert {"redis", "rq", "torch", "transformers", "deepspeed", "pydantic"} <= lines.keys()


@pytest.mark.prove(after=1)
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
