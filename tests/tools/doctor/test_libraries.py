"""What the doctor makes of what its children found: libraries, GPUs, walls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox.local import toolchain
from tests.support.findings import NOTE, OK, PROBLEM, assert_found, only
from tests.support.told import Patch
from tests.tools.conftest import MakeRun
from tools.doctor import libraries, sandbox
from tools.doctor.questions import ProbeAnswer, ProbeQuestion, ask

pytestmark = pytest.mark.process

GIB = 1 << 30
CODE = {"tasks": {"code": {"scorer": {"type": "code"}}}}


TORCH: dict[str, Any] = {"version": "2.13.0", "cuda_build": None, "cuda": False, "gpus": [], "driver": ""}
TORCH |= {"bf16": True, "bf16_native": True, "system_gpus": []}
H200 = {"name": "H200", "memory": 140 * GIB, "capability": "9.0"}
ON_GPU = TORCH | {"cuda": True, "cuda_build": "13.0", "gpus": [H200], "driver": "580.1"}
VLLM = {"type": "vllm"}


TORCHES: list[Any] = [
    ("GPUs", TORCH, {}, OK, "none: learner and generators run on the CPU", ""),
    ("GPUs", TORCH, {"learner": {"device": "cuda"}}, PROBLEM, "the configuration wants some",
        "learner.device=auto"),
    ("GPUs", ON_GPU, {"learner": {"gpus": [0]}}, OK, "0: H200, 140.0 GiB, capability 9.0, driver 580.1", ""),
    ("GPUs", ON_GPU, {"generators": {"gpus": [0, 1]}}, PROBLEM, "the configuration names 1 too",
        "generators.gpus="),
    ("GPUs", TORCH | {"system_gpus": ["H200"]}, {}, PROBLEM, "it is built for the CPU", "make setup GPU=1"),
    ("GPUs", TORCH | {"system_gpus": ["H200"], "cuda_build": "13.0"}, {}, PROBLEM, "the driver is too old",
        "nvidia"),
    ("bfloat16", TORCH | {"bf16": False}, {}, PROBLEM, "comes out wrong", "model.dtype=float32"),
    ("bfloat16", TORCH | {"bf16_native": False}, {}, NOTE, "slow", "model.dtype=float32"),
    ("attention", TORCH, {"learner": {"attention": "varlen"}}, PROBLEM, "runs on a GPU alone", "=auto"),
    ("attention", ON_GPU, {"learner": {"attention": "flash", "device": "cpu"}}, PROBLEM,
        "learner.attention=flash runs on a GPU alone", "learner.attention=auto"),
    ("attention", ON_GPU, {"learner": {"attention": "varlen"}, "model": {"path": "t", "dtype": "float32"}}, PROBLEM,
        "does not know float32", "learner.attention=auto"),
    ("bfloat16", TORCH | {"bf16_native": False}, {"model": {"path": "t", "dtype": "float32"}}, OK, "slow", ""),
]  # fmt: skip


@pytest.mark.parametrize("case", TORCHES)
def test_torch_is_judged_by_what_it_sees_and_what_the_run_wants(make_run: MakeRun, case: Any) -> None:
    name, facts, sections, level, seen, do = case
    found = libraries.torch("torch", ProbeAnswer(facts), make_run(**sections))
    assert_found(only(found, name), level, seen, do)


def installed(*names: str) -> Callable[[str], str]:
    return lambda name: "1.0" if name in names else ""


LIBRARIES: list[Any] = [
    ("torch", None, None, NOTE, "not installed; the learner and every engine need it", "make setup"),
    ("torch", None, {}, PROBLEM, "not installed", "make setup"),
    ("vllm", None, {"generators": {"engine": {"type": "hf"}}}, NOTE, "generators with the engine vllm",
        "make setup"),
    ("vllm", None, {"generators": {"engine": VLLM}}, PROBLEM, "not installed", "make setup"),
    ("flash-attn", None, {}, OK, "only GPUs have a use for it", ""),
    ("flash-attn", None, {"learner": {"attention": "flash"}}, PROBLEM, "not installed",
        "make setup GPU=1 FLASH_ATTN=1"),
    ("deepspeed", ProbeAnswer(trouble="ImportError: no ninja"), {}, PROBLEM, "can't be imported: ImportError",
        "make setup"),
    ("deepspeed", ProbeAnswer(trouble="no answer in 180 s"), {}, NOTE, "this machine is busy", "ask again later"),
    ("vllm", ProbeAnswer(trouble="OSError: libnuma.so.1: cannot open"), {"generators": {"engine": VLLM}}, PROBLEM,
        "libnuma", "apt-get install libnuma1"),
    ("vllm", ProbeAnswer({"version": "1", "platform": "cpu", "libnuma": False}), {"generators": {"engine": VLLM}},
        PROBLEM, "its kernels need libnuma.so.1", "libnuma1"),
    ("vllm", ProbeAnswer({"version": "1", "platform": "cuda", "libnuma": False}), {}, OK, "1, for CUDA", ""),
    ("KV cache", ProbeAnswer({"version": "1", "platform": "cpu", "libnuma": True}), {"generators": {"engine": VLLM}},
        PROBLEM, "kv_cache_mb is not set", "kv_cache_mb=1024"),
    ("flash-attn", ProbeAnswer({"version": "2"}), {}, OK, "2", ""),
    ("transformers", ProbeAnswer({"version": "5"}), {}, OK, "5", ""),
]  # fmt: skip


@pytest.mark.parametrize("case", LIBRARIES)
def test_a_missing_or_broken_library_is_a_problem_where_it_is_needed(make_run: MakeRun, case: Any) -> None:
    name, answer, run, level, seen, do = case
    key = {"flash-attn": "flash_attn", "KV cache": "vllm"}.get(name, name)
    has = installed(*([name, key] if answer is not None else []))
    answers = {} if answer is None else {key: answer}
    found = libraries.check_libraries(answers, None if run is None else make_run(**run), has=has)
    assert_found(only(found, name), level, seen, do)


HOLDS = {"version": "python=3.11.2 g++=12.2.0", "languages": ["cpp", "python"]}
REFUSED = {"reason": "bubblewrap: bwrap is not installed"}


@pytest.mark.parametrize("sections", [{}, {"learner": {"attention": "varlen"}}])
def test_a_gpu_without_flash_attn_is_in_order(make_run: MakeRun, sections: dict[str, Any]) -> None:
    answers, run = {"torch": ProbeAnswer(ON_GPU)}, make_run(**sections)
    found = list(libraries.check_libraries(answers, run, has=installed("torch")))
    assert_found(only(found, "flash-attn"), OK, "the learner takes torch's own varlen kernels")
    assert "attention" not in {finding.name for finding in found}


SANDBOXES: list[Any] = [
    ({"bubblewrap": HOLDS, "landlock": HOLDS}, {}, "bubblewrap", OK, "and this one is used", ""),
    ({"bubblewrap": HOLDS, "landlock": HOLDS}, {"sandbox": "landlock"}, "landlock", OK, "and this one is used", ""),
    ({"bubblewrap": REFUSED, "landlock": HOLDS}, CODE, "bubblewrap", NOTE, "installed; landlock is used instead",
        ""),
    ({"bubblewrap": REFUSED, "landlock": REFUSED}, CODE, "bubblewrap", PROBLEM, "not installed",
        "install bubblewrap"),
    ({"bubblewrap": REFUSED, "landlock": REFUSED}, {}, "bubblewrap", NOTE, "only scorers that run programs",
        "install"),
    ({"bubblewrap": REFUSED, "landlock": HOLDS}, CODE | {"sandbox": "bubblewrap"}, "bubblewrap", PROBLEM, "is not",
        ""),
    ({"bubblewrap": HOLDS, "landlock": HOLDS}, {}, "cpp", OK, "g++ 12.2.0 runs inside", ""),
    ({"bubblewrap": HOLDS, "landlock": HOLDS}, {}, "javascript", NOTE, "node is not in", "apt-get install nodejs"),
    ({"bubblewrap": HOLDS | {"version": "python=3.11.2 numpy=2.3.5 scipy=none"}, "landlock": HOLDS}, {}, "packages",
        NOTE, "scipy can't be imported inside", "pip install 'millrace[sandbox]'"),
    ({}, {"sandbox": "unsafe"}, "walls", NOTE, "without any protection", "scorers.sandbox=auto"),
    ({}, {"sandbox": "fusion"}, "servers", PROBLEM, "names none", "scorers.sandbox_urls="),
    ({"version": "python=3"}, {"sandbox_urls": ["http://s:1"]}, "servers", OK, "http://s:1 run programs: python=3",
        ""),
]  # fmt: skip


@pytest.mark.parametrize("case", SANDBOXES)
def test_the_sandbox_is_judged_by_what_holds_and_what_the_tasks_need(make_run: MakeRun, case: Any) -> None:
    facts, scorers, name, level, seen, do = case
    answer = ProbeAnswer({"landlock_abi": 7} | facts)
    assert_found(only(sandbox.check_sandbox(answer, make_run(scorers=scorers)), name), level, seen, do)


def test_a_sandbox_that_could_not_be_tried_says_why(make_run: MakeRun) -> None:
    for trouble, scorers, name, seen, do in (
        ("no answer in 180 s", CODE, "walls", "not tried: no", ""),
        (
            "http://s:1: refused",
            {"sandbox_urls": ["http://s:1"]},
            "servers",
            "refused",
            "sandbox --port 8080",
        ),
    ):
        found = sandbox.check_sandbox(ProbeAnswer(trouble=trouble), make_run(scorers=scorers))
        assert_found(only(found, name), PROBLEM, seen, do)


@pytest.mark.prove
@pytest.mark.timeout(120)
def test_programs_are_missed_where_the_path_is_empty(monkeypatch: Patch, tmp_path: Path) -> None:
    """A child that really looks: neither bwrap nor a compiler is anywhere."""
    program = (
        "import sys, tools.doctor.probe as probe; from sandbox.local import toolchain; "
        f"toolchain.PATH = sys.prefix = {str(tmp_path)!r}; probe.main(['sandbox'])"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    ((_, answer),) = ask([ProbeQuestion(name="sandbox", command=(sys.executable, "-c", program))])
    found = list(sandbox.check_sandbox(answer, None))
    assert_found(only(found, "bubblewrap"), NOTE, "bwrap is not installed")
    if "version" in answer.facts["landlock"]:
        for name, package in (("cpp", "g++"), ("javascript", "nodejs")):
            assert_found(only(found, name), NOTE, f"is not in {toolchain.PATH}", package)
