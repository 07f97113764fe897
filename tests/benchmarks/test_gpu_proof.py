"""The command of `make prove-gpu`: its verdicts, deadlines and table, its arithmetic, and one step in its CPU form."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.context import SpawnContext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.proofs.gpu import __main__ as command
from benchmarks.proofs.gpu.made_up import QWEN_0_5B, ModelShape
from benchmarks.proofs.gpu.outcomes import (
    Missed,
    Skipped,
    StepFigures,
    StepOutcome,
    StepPlace,
    StepVerdict,
    read_outcome,
)
from benchmarks.proofs.gpu.plan import (
    ALONE,
    BUDGET_S,
    BY_NAME,
    SAMPLES,
    STEPS,
    TRAINS,
    GpuStep,
    chosen,
    takes,
)
from benchmarks.proofs.gpu.rates import size_for
from benchmarks.proofs.gpu.shared_card import GENERATOR, Killer
from benchmarks.proofs.gpu.step import outcome_of
from benchmarks.proofs.gpu.workers import LOG, Worker, fresh, with_libraries
from benchmarks.rigs.groups import demo_run
from tests.support.gpu_steps import CHILD, MadeUpWorker
from tests.support.paths import ROOT
from tests.support.reference_attention import use_on_cpu
from tests.support.waiting import wait_until, wait_until_gone
from tools.estimates.operations import peak_of, step_operations

pytestmark = pytest.mark.process

MACHINE = StepOutcome(
    step="machine",
    verdict=StepVerdict.PASS,
    text="a card",
    facts={"cuda": True, "card": "NVIDIA H100 PCIe", "torch": "2.11", "redis": "7"},
)


FAILED = StepOutcome(step="demo", verdict=StepVerdict.FAIL, text="a|b")


def passed(step: str) -> StepOutcome:
    return StepOutcome(step=step, verdict=StepVerdict.PASS, text="1 of 1", seconds=2.0)


def test_what_a_gpu_has_to_show_fits_into_nine_minutes_with_libraries_read_for_the_first_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept, left_out = chosen(STEPS, "cuda", BUDGET_S)
    assert takes(kept, "cuda") <= BUDGET_S == 540
    shown = (
        "float32",
        "zero-2",
        "zero-3",
        "varlen",
        "engine-eager",
        "float32-head",
        "demo",
        "rates",
        "updates",
    )
    assert set(shown) <= {step.name for step in kept}
    assert set(left_out) == {"engine-graphs", "model-head"}
    assert chosen(STEPS, "cuda", math.inf) == (list(STEPS), {})
    assert command.main(["--list"]) == 0
    said = capsys.readouterr().out
    assert "| demo | samples | 220 | 270 | the demo in bfloat16" in said
    assert "| model-head | samples | 90 | 180 | it takes about 90 s, and all would take" in said


@pytest.mark.parametrize(
    ("budget_s", "names"),
    [
        (100, {"machine"}),
        (150, {"machine", "float32", "zero-2"}),
        # 85 beside the lanes, 210 of training beside 135 of the engine: the demo is too long, and both speeds fit.
        (400, set(BY_NAME) - {"demo", "zero-1", "engine-graphs", "model-head"}),
    ],
)
def test_a_budget_leaves_out_what_it_has_no_room_for_and_says_what_that_takes(
    budget_s: float, names: set[str]
) -> None:
    kept, left_out = chosen(STEPS, "cuda", budget_s)
    assert {step.name for step in kept} == names
    assert left_out.keys() == set(BY_NAME) - names
    assert left_out["demo"].startswith("it takes about 220 s, and all would take ")


def test_every_step_names_a_function_that_is_there_and_a_limit_or_a_reason_on_a_cpu() -> None:
    for step in STEPS:
        module, _, function = step.function.partition(":")
        text = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
        assert f"def {function}(" in text
        assert bool(step.no_cpu_form) or step.cpu_s > 0


def passes(place: StepPlace, *, number: int) -> StepFigures:
    return StepFigures(text=f"{number} tokens", facts={"number": number, "device": place.device})


def outcome_of_function(
    function: Callable[..., StepFigures], patch: pytest.MonkeyPatch, folder: Path, **words: int
) -> StepOutcome:
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
    def raises(place: StepPlace) -> StepFigures:
        raise error

    assert outcome_of_function(raises, monkeypatch, tmp_path).line == line


def test_a_step_that_passes_leaves_its_text_and_its_facts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outcome = outcome_of_function(passes, monkeypatch, tmp_path, number=7)
    outcome.write(tmp_path / "x.json")
    assert read_outcome(tmp_path / "x.json") == outcome
    assert (outcome.verdict, outcome.text) == (StepVerdict.PASS, "7 tokens")
    assert outcome.facts == {"number": 7, "device": "cpu"}


def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    outcome = outcome_of("x", "tests.support.no_such_module:run", {}, device="cpu", shared=tmp_path)
    said = "can't import what it needs: No module named 'tests.support.no_such_module'"
    assert outcome.line == f"FAIL x (0 s): {said}"


def step_of(
    name: str, function: str = "", *, lane: str = TRAINS, limit_s: float = 60.0, session: str = ""
) -> GpuStep:
    return GpuStep(
        name=name,
        what="",
        function=f"tests.support.gpu_steps:{function}",
        cost_s=limit_s,
        cuda_s=limit_s,
        cpu_cost_s=limit_s,
        cpu_s=limit_s,
        lane=lane,
        session=session,
    )


def ended(worker: Worker, step: GpuStep, limit_s: float = 60.0) -> StepOutcome:
    worker.begin(step, limit_s)
    found: list[StepOutcome] = []

    def has_ended() -> bool:
        found.extend(filter(None, [worker.outcome()]))
        return bool(found)

    wait_until(has_ended)
    return found[0]


@pytest.mark.parametrize(
    ("function", "limit_s", "said"),
    [
        ("hangs", 4.0, "not at its end within 4 s"),
        ("dies", 60.0, "was killed by SIGSEGV"),
        ("leaves", 60.0, "ended with code 3"),
    ],
)
def test_a_step_that_hangs_or_dies_fails_with_the_reason_and_the_end_of_its_log(
    tmp_path: Path, function: str, limit_s: float, said: str
) -> None:
    worker = Worker(fresh(), "cpu", tmp_path)
    outcome = ended(worker, step_of("dying", function), limit_s)
    assert outcome.verdict is StepVerdict.FAIL
    assert said in outcome.text
    assert outcome.text.endswith("ends: begun")
    assert not worker.is_alive
    wait_until_gone(int((tmp_path / "dying" / CHILD).read_text(encoding="utf-8")))


def test_the_steps_of_a_session_share_a_process_and_what_it_keeps(tmp_path: Path) -> None:
    worker = Worker(fresh(), "cpu", tmp_path)
    first, second = (ended(worker, step_of(name, "counts")) for name in ("one", "two"))
    assert (first.text[:2], second.text[:2]) == ("1 ", "2 ")
    assert first.facts["pid"] == second.facts["pid"] != os.getpid()
    worker.end()
    assert not worker.is_alive


@pytest.mark.prove
def test_workers_are_fresh_interpreters_where_a_fork_can_not_use_the_card(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (LOG, "DS_ACCELERATOR", "PYTORCH_NVML_BASED_CUDA_CHECK"):
        monkeypatch.setenv(name, "")  # and take away again what comes now
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert isinstance(with_libraries("cuda", tmp_path, 200), SpawnContext)


def proof_of(
    tmp_path: Path, *, budget_s: float = 100.0, commit: str = "c0ffee", torch: str = "2.13"
) -> command.Proof:
    machine = StepOutcome(
        step="machine", verdict=StepVerdict.PASS, text="", facts={"torch": torch, "redis": "7"}
    )
    stop, deadline = threading.Event(), time.monotonic() + budget_s
    return command.Proof(
        out=tmp_path, device="cuda", machine=machine, commit=commit, stop=stop, deadline=deadline
    )


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(MadeUpWorker, "events", [], raising=False)
    monkeypatch.setattr(command, "Worker", MadeUpWorker)
    monkeypatch.setattr(command, "with_libraries", lambda *_: None)
    return MadeUpWorker.events


def test_two_lanes_go_side_by_side_and_what_measures_a_speed_comes_after_them_alone(
    events: list[str], tmp_path: Path
) -> None:
    proof = proof_of(tmp_path)
    lanes = (
        ("varlen", TRAINS, ""),
        ("engine-eager", SAMPLES, "s"),
        ("rates", ALONE, ""),
        ("updates", ALONE, "s"),
    )
    proof.run([step_of(name, lane=lane, limit_s=3, session=session) for name, lane, session in lanes])
    assert events[:2] == ["varlen begins", "engine-eager begins"]
    assert events.index("rates begins") > max(events.index("varlen ends"), events.index("engine-eager ends"))
    assert events.index("updates begins") > events.index("rates ends")
    assert events.count("a worker is told to end") == 3, "one for the session, at the end"
    assert events[-1] == "a worker is told to end"
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert table.index("| varlen |") < table.index("| engine-eager |") < table.index("| updates |")


def test_a_run_that_is_cut_off_counts_as_far_as_it_came(events: list[str], tmp_path: Path) -> None:
    proof = proof_of(tmp_path)
    proof.run([step_of("varlen", limit_s=1)])
    proof.stop.set()
    assert [outcome.verdict for outcome in proof.outcomes] == [StepVerdict.PASS]
    proof.run([step_of("demo", lane=SAMPLES)])
    assert proof.outcomes[-1].line == "LEFT OUT demo (0 s): it was told to end"
    late = proof_of(tmp_path, budget_s=1)
    late.run([step_of("demo")])
    assert late.outcomes[-1].line == "LEFT OUT demo (0 s): no time was left for it: --budget"
    assert "demo begins" not in events
    assert "1 passed, 0 failed, 0 skipped, 1 left out" in "\n".join(proof.write())


def test_what_has_passed_is_not_run_again_but_for_another_commit_or_torch(
    events: list[str], tmp_path: Path
) -> None:
    step = step_of("varlen", limit_s=1)
    proof = proof_of(tmp_path)
    assert proof.without_known([step]) == [step]
    proof.run([step])
    passed("varlen").write(tmp_path / "varlen.json")
    again = proof_of(tmp_path)
    assert again.without_known([step]) == []
    assert again.outcomes == [passed("varlen")]
    for other in (proof_of(tmp_path, commit="beef"), proof_of(tmp_path, torch="2.14")):
        assert other.without_known([step]) == [step]
    FAILED.write(tmp_path / "demo.json")
    assert again.without_known([step_of("demo")]) != []
    assert events


def test_without_a_gpu_the_table_says_that_no_figure_is_a_gpus() -> None:
    outcomes = [passed(name) for name in BY_NAME]
    lines = command.as_table(outcomes, "cpu")
    assert lines[2] == "| machine | PASS | 2 | 1 of 1 |"
    assert (
        f"**Proven**: {len(STEPS)} passed, 0 failed, 0 skipped, 0 left out, of {len(STEPS)} steps." in lines
    )
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
def test_a_part_of_the_steps_proves_nothing(outcomes: list[StepOutcome], said: str) -> None:
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
    shape = ModelShape(name="", hidden=2, inner=4, layers=1, heads=1, groups=1, vocabulary=10)
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
    assert outcome.verdict is StepVerdict.PASS, outcome.line
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
    found = start("--cpu", "--out", str(tmp_path), timeout_s=1850)
    assert found.returncode == 0, found.stdout
    assert "**Proven**" in found.stdout
