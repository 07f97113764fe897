"""The command of `make prove-gpu`: its verdicts, deadlines and table, its arithmetic, and one step in its CPU form."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.proofs.gpu import __main__ as command
from benchmarks.proofs.gpu.made_up import QWEN_0_5B, Shape
from benchmarks.proofs.gpu.outcomes import Found, Missed, Outcome, Place, Skipped, Verdict, read_outcome
from benchmarks.proofs.gpu.plan import BY_NAME, MINUTES, STEPS, Step
from benchmarks.proofs.gpu.rates import size_for
from benchmarks.proofs.gpu.shared_card import GENERATOR, Killer
from benchmarks.proofs.gpu.step import outcome_of
from benchmarks.rigs.groups import demo_run
from tests.support.paths import ROOT
from tests.support.reference_attention import use_on_cpu
from tools.estimates.operations import peak_of, step_operations

pytestmark = pytest.mark.process

MACHINE = Outcome(
    step="machine",
    verdict=Verdict.PASS,
    text="a card",
    facts={"cuda": True, "card": "NVIDIA H100 PCIe", "torch": "2.11", "redis": "7"},
)


FAILED = Outcome(step="demo", verdict=Verdict.FAIL, text="a|b")


def passed(step: str) -> Outcome:
    return Outcome(step=step, verdict=Verdict.PASS, text="1 of 1", seconds=2.0)


def test_all_steps_together_end_within_forty_minutes_on_one_card_whatever_hangs() -> None:
    assert sum(step.cuda_s for step in STEPS) <= 60 * MINUTES


def test_every_step_names_a_function_that_is_there_and_a_limit_or_a_reason_on_a_cpu() -> None:
    for step in STEPS:
        module, _, function = step.function.partition(":")
        text = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
        assert f"def {function}(" in text
        assert bool(step.no_cpu_form) or step.cpu_s > 0


def passes(place: Place, *, number: int) -> Found:
    return Found(text=f"{number} tokens", facts={"number": number, "device": place.device})


def outcome_of_function(
    function: Callable[..., Found], patch: pytest.MonkeyPatch, folder: Path, **words: int
) -> Outcome:
    patch.setattr("tests.support.gpu_steps.chosen", function)
    return outcome_of("x", "tests.support.gpu_steps:chosen", words, device="cpu", shared=folder)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Missed("0.5 apart, at most 0.1"), "FAIL x (0 s): 0.5 apart, at most 0.1"),
        (Skipped("no second card"), "SKIP x (0 s): no second card"),
        (RuntimeError("CUDA error:\n  no memory"), "FAIL x (0 s): RuntimeError: CUDA error: no memory"),
        (
            ModuleNotFoundError("No module named 'deepspeed'"),
            "FAIL x (0 s): can't import what it needs: No module named 'deepspeed'",
        ),
    ],
)
def test_whatever_a_step_raises_is_its_outcome(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, line: str
) -> None:
    def raises(place: Place) -> Found:
        raise error

    assert outcome_of_function(raises, monkeypatch, tmp_path).line == line


def test_a_step_that_passes_leaves_its_text_and_its_facts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outcome = outcome_of_function(passes, monkeypatch, tmp_path, number=7)
    outcome.write(tmp_path / "x.json")
    assert read_outcome(tmp_path / "x.json") == outcome
    assert (outcome.verdict, outcome.text) == (Verdict.PASS, "7 tokens")
    assert outcome.facts == {"number": 7, "device": "cpu"}


def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    outcome = outcome_of("x", "tests.support.no_such_module:run", {}, device="cpu", shared=tmp_path)
    said = "can't import what it needs: No module named 'tests.support.no_such_module'"
    assert outcome.line == f"FAIL x (0 s): {said}"


@pytest.mark.parametrize(
    ("program", "limit_s", "said"),
    [
        ("import time; print('begun', flush=True); time.sleep(60)", 2.0, "not at its end within 2 s"),
        ("import os; print('begun', flush=True); os.kill(os.getpid(), 11)", 60.0, "was killed by SIGSEGV"),
        ("import sys; print('begun'); sys.exit(3)", 60.0, "ended with code 3"),
    ],
)
def test_a_step_that_hangs_or_dies_fails_with_the_reason_and_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, limit_s: float, said: str
) -> None:
    (tmp_path / "dying_step.py").write_text(program, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(command, "STEP_MODULE", "dying_step")
    step = Step(name="dying", what="", function="", cuda_s=limit_s, cpu_s=limit_s)
    outcome = command.play(step, "cpu", tmp_path, time.monotonic() + 100)
    assert outcome.verdict is Verdict.FAIL
    assert said in outcome.text
    assert outcome.text.endswith("ends: begun")


def test_a_step_for_which_no_time_is_left_is_not_begun(tmp_path: Path) -> None:
    outcome = command.play(BY_NAME["demo"], "cpu", tmp_path, time.monotonic() + 1)
    assert outcome.line == "FAIL demo (0 s): no time was left for it: --minutes"


def test_what_has_passed_is_not_run_again_but_for_another_commit_or_torch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    played: list[str] = []

    def play(step: Step, _device: str, out: Path, _deadline: float) -> Outcome:
        played.append(step.name)
        outcome = passed(step.name) if step.name != "demo" else FAILED
        outcome.write(out / f"{step.name}.json")
        return outcome

    monkeypatch.setattr(command, "play", play)

    def start(name: str, *, commit: str = "c0ffee", torch: str = "2.13") -> None:
        machine = Outcome(step="machine", verdict=Verdict.PASS, text="", facts={"torch": torch})
        command.fulfil(BY_NAME[name], machine, "cuda", tmp_path, 0.0, commit=commit)

    for name in ("varlen", "varlen", "demo", "demo"):
        start(name)
    assert played == ["varlen", "demo", "demo"]
    start("varlen", commit="beef")
    start("varlen", commit="beef", torch="2.14")
    assert played[3:] == ["varlen", "varlen"]


def test_without_a_gpu_the_table_says_that_no_figure_is_a_gpus() -> None:
    outcomes = [passed(name) for name in BY_NAME]
    lines = command.as_table(outcomes, "cpu")
    assert lines[2] == "| machine | PASS | 2 | 1 of 1 |"
    assert f"**Proven**: {len(STEPS)} passed, 0 failed, 0 skipped, of {len(STEPS)} steps." in lines
    assert lines[-1] == command.CPU_REMARK
    assert command.CPU_REMARK not in command.as_table(outcomes, "cuda")
    assert command.heading(MACHINE, "cpu")[0].startswith("## The GPU's proofs in their CPU form, ")
    assert command.heading(MACHINE, "cuda")[0].startswith("## On a GPU, NVIDIA H100 PCIe, ")


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([passed("machine")], "**No step of these failed**: 1 passed, 0 failed, 0 skipped"),
        ([passed("machine"), FAILED], "**NOT proven**: 1 passed, 1 failed, 0 skipped"),
    ],
)
def test_a_part_of_the_steps_proves_nothing(outcomes: list[Outcome], said: str) -> None:
    assert said in "\n".join(command.as_table(outcomes, "cuda"))
    assert FAILED.row == "| demo | FAIL | 0 | a/b |", "no bar in a cell"


@pytest.mark.parametrize(
    ("card", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", 989.5),
        ("NVIDIA H100 PCIe", 756.5),
        ("NVIDIA H100 NVL", 835.5),
        ("NVIDIA H200", 989.5),
        ("NVIDIA A100-SXM4-80GB", 312.0),
        ("NVIDIA L4", 121.0),
        ("NVIDIA L40S", 362.05),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA A1000", None),
    ],
)
def test_a_card_has_the_peak_of_its_makers_sheet_or_none(card: str, tera: float | None) -> None:
    peak = peak_of(card)
    assert (None if peak is None else peak.tera) == tera


def test_the_operations_of_a_step_are_those_of_its_products() -> None:
    # One layer of one head, 2 numbers a token: q, k, v, o have 4 weights each, the MLP 3 x 2 x 4 = 24, together 40.
    shape = Shape(name="", hidden=2, inner=4, layers=1, heads=1, groups=1, vocabulary=10)
    assert shape.layer_parameters == 40
    # 5 tokens x 40 x 6 = 1200; 3 trained x 20 x 6 = 360; (4 + 9) x 2 x 6 = 156.
    assert step_operations(shape, [2, 3], trained_tokens=3) == 1200 + 360 + 156


def test_the_made_up_model_has_the_size_of_the_real_one() -> None:
    # Qwen2.5-0.5B has 0.36 B parameters without its embedding, says its model card.
    assert QWEN_0_5B.layer_parameters == pytest.approx(0.36e9, rel=0.01)


QWEN = "Qwen2.5-0.5B's shape"


@pytest.mark.parametrize(
    ("memory", "name"),
    [(80e9, "Qwen2.5-1.5B's shape"), (24e9, QWEN), (16e9, QWEN), (8e9, "a tiny model"), (0, "a tiny model")],
)
def test_the_model_is_the_largest_that_the_card_has_room_for(memory: float, name: str) -> None:
    assert size_for(memory).shape.name == name


def start(*words: str, timeout_s: float = 200, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.proofs.gpu", *words], cwd=ROOT, env=os.environ | variables,
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip


def test_a_machine_without_the_libraries_is_told_so_for_each_step(tmp_path: Path) -> None:
    for name in ("torch", "redis", "pydantic"):
        package = tmp_path / "site" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"raise ImportError('there is no {name} here')")
    found = start("--steps", "varlen", "--out", str(tmp_path / "out"), PYTHONPATH=str(tmp_path / "site"))
    assert found.returncode == 1
    lines = [line for line in found.stdout.splitlines() if line.startswith("FAIL")]
    assert [line.partition(" (")[0] for line in lines] == ["FAIL machine", "FAIL varlen"]
    assert all("can't import what it needs: there is no " in line for line in lines)
    assert "Traceback" not in found.stdout + found.stderr


def test_attention_agrees_with_its_reference_in_the_cpu_form(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_on_cpu(monkeypatch)  # and take it away again
    outcome = outcome_of("varlen", BY_NAME["varlen"].function, {}, device="cpu", shared=tmp_path)
    assert outcome.verdict is Verdict.PASS, outcome.line
    assert outcome.facts["model"] < 1e-5


@pytest.mark.prove
def test_without_a_gpu_the_cpu_form_runs_and_what_has_none_is_skipped(tmp_path: Path) -> None:
    found = start("--cpu", "--steps", "engine-graphs", "--out", str(tmp_path))
    assert found.returncode == 0, found.stdout + found.stderr
    assert "PASS machine" in found.stdout
    assert "SKIP engine-graphs (0 s): CUDA graphs are a GPU's" in found.stdout
    assert "No figure of a GPU" in (tmp_path / "table.md").read_text(encoding="utf-8")


def test_the_demos_generator_is_killed_once_when_the_policy_has_come_so_far(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    run.folder.mkdir()
    killer = Killer(run, at_version=3)
    with subprocess.Popen(["sleep", "60"]) as first, subprocess.Popen(["sleep", "60"]) as second:
        for version, process in ((2, first), (3, first), (4, second)):
            lines = "".join(f'{{"step": {step}, "reward_mean": 0.5}}\n' for step in range(1, version + 1))
            (run.folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
            supervisor: Any = SimpleNamespace(pids=lambda pid=process.pid: {GENERATOR: pid})
            killer.tick(supervisor)
            assert (killer.killed_at is None) == (version == 2)
        assert first.wait(10) == -signal.SIGKILL
        assert second.poll() is None
        second.kill()
    assert killer.killed_at == 3


@pytest.mark.prove
@pytest.mark.timeout(1900)
def test_the_whole_cpu_form_passes(tmp_path: Path) -> None:
    found = start("--cpu", "--minutes", "30", "--out", str(tmp_path), timeout_s=1850)
    assert found.returncode == 0, found.stdout
    assert "**Proven**" in found.stdout
