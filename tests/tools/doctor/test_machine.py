"""What a run needs of this machine, and what the doctor says of what there is."""

from __future__ import annotations

import json
import resource
import struct
import sysconfig
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from config.gpus import SystemGpus
from config.learner import LearnerConfig
from config.run import Run
from tests.support.findings import NOTE, OK, PROBLEM, assert_found, only
from tests.support.told import Patch
from tests.tools.conftest import MakeRun
from tools.doctor import machine
from tools.doctor.findings import Level
from tools.estimates import stores
from tools.estimates.learner import trained_parameters
from tools.estimates.model import KNOWN, Size, shape_of, size_of

GIB = 1 << 30


def said(value: Any, *_: object) -> Any:
    return value


def test_what_a_run_needs_is_arithmetic_that_can_be_done_on_paper(make_run: MakeRun) -> None:
    run = make_run(
        model={"path": "me/Tiny-0.5B-x", "dtype": "bfloat16"},
        data={"train": {"type": "procedural"}, "max_prompt_tokens": 100},
        sampling={"group_size": 4, "max_tokens": 225},
        learner={"groups_per_step": 10, "max_lag": 1, "steps": 50, "checkpoint": {"every": 5, "keep": 2}},
    )
    size = size_of(run.model)
    assert size == Size(494_032_768, "by the name Tiny-0.5B-x"), "rounded, as Qwen2.5's is"
    shape = replace(shape_of(run.model, size), parameters=1000)
    step = 10 * (4 * 225 + 100) * 8
    assert stores.redis_room(run).groups == 40 * 1000 * 12, "as many as fill a step when one in four trains"
    assert stores.journal_bytes(run) == 50 * step
    assert stores.versions_bytes(run, 1000) == 1000 * 2 * 3
    assert stores.checkpoints_bytes(run, shape) == 1000 * (14 * 3 + 2)
    for journal, steps in (({"keep": "since_checkpoint"}, 15), ({"keep_mb": 1}, 15), ({"keep_mb": 2}, 27)):
        section = run.learner.model_copy(update={"journal": run.learner.journal.model_validate(journal)})
        needed = stores.journal_bytes(run.model_copy(update={"learner": section}))
        assert needed == steps * step, journal


def test_a_models_size_is_read_from_its_files_where_they_are_here(make_run: MakeRun, tmp_path: Path) -> None:
    shapes = {"__metadata__": {"format": "pt"}, "a": {"shape": [3, 4]}, "embed": {"shape": [5, 1]}}
    header = json.dumps(shapes).encode()
    for number in (1, 2):
        (tmp_path / f"model-{number}.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    (tmp_path / "other.safetensors").write_bytes(b"junk")
    here, hub = (make_run(model={"path": path}) for path in (str(tmp_path), "me/nameless"))
    assert size_of(here.model) == Size(34, f"as {tmp_path} has them")
    assert size_of(hub.model) is None
    assert_found(machine.model_size(hub, None), NOTE, "can't be told", "hf download me/nameless")


@pytest.mark.parametrize(
    ("free", "level", "seen"),
    [(10_000, OK, "9.8 KiB free"), (5_000, NOTE, "it may fill up"), (2_000, PROBLEM, "too little")],
)
def test_a_disk_is_measured_against_what_it_gets(tmp_path: Path, free: int, level: Level, seen: str) -> None:
    needs = [
        machine.Need(folder=tmp_path / "not" / "yet", what="checkpoints", count=3_000, is_sure=True),
        machine.Need(folder=tmp_path, what="the journal", count=4_000, is_sure=False),
    ]
    (finding,) = machine.disks(needs, free_of=lambda _: free)
    assert_found(finding, level, seen, "make room" if level is not OK else "")
    assert "estimate: checkpoints about 2.9 KiB, the journal at most about 3.9 KiB" in finding.seen


def test_a_folder_that_can_not_be_written_is_found(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(
        "os.access", lambda *_: False
    )  # these tests may run as root, who may write everywhere
    needs = [machine.Need(folder=tmp_path, what="a run", count=1, is_sure=True)]
    assert_found(only(machine.disks(needs), "disk"), PROBLEM, "can't be written", "runs_dir=")


def test_memory_and_open_files_are_measured_against_the_run(make_run: MakeRun, tmp_path: Path) -> None:
    shape = replace(KNOWN[0], parameters=1_000_000_000)
    run = make_run(generators={"count": 2, "engine": {"type": "hf"}})

    def but(learner: object) -> Run:
        return run.model_copy(update={"learner": LearnerConfig.model_validate(learner)})

    pulled = but({"ranks": 2, "objective": {"kl": {"coef": 0.1}}})
    adapted = but({"lora": {"rank": 8}})
    for asked, of, gib, level, seen, do in (
        (run, shape, 10, NOTE, "more than there is", "a GPU"),
        (run, shape, 30, OK, "training 18.6 GiB, 2 generators", ""),
        (None, None, 1, OK, "available", ""),
        (pulled, shape, 40, OK, "training 26.1 GiB, the reference model 3.7 GiB", ""),
        (adapted, shape, 10, OK, "training 1.9 GiB, 2 generators", ""),
    ):
        assert_found(machine.memory(asked, of, available=partial(said, gib * GIB)), level, seen, do)
    # a layer has edges of 4 x 896, 2 x (14 + 2) x 64, and 3 x (896 + 4,864)
    assert trained_parameters(adapted, shape) == 8 * 24 * (3584 + 2048 + 17_280)

    several = make_run(learner={"ranks": 2})
    for asked, total, level in (
        (None, GIB, OK),
        (None, GIB - 1, NOTE),
        (run, GIB - 1, NOTE),
        (several, 1, PROBLEM),
    ):
        finding = machine.shared_memory(asked, folder=tmp_path, total_of=partial(said, total))
        assert_found(finding, level, "at ", "--shm-size=8g" if level is not OK else "")
    assert_found(machine.shared_memory(several, folder=tmp_path / "none"), PROBLEM, "0 bytes")

    judge = {"type": "judge", "endpoint": {"concurrency": 500}}
    judges = make_run(scorers={"tasks": {"j": {"scorer": judge}}})
    infinity = resource.RLIM_INFINITY
    for asked, limits, level, do in (
        (None, (1024, 4096), OK, ""),
        (None, (256, infinity), PROBLEM, "ulimit -n 4096"),
        (judges, (1024, infinity), PROBLEM, "ulimit -n 4096"),
        (judges, (infinity, infinity), OK, ""),
        (None, (256, 512), PROBLEM, "the hard limit is 512"),
    ):
        assert_found(machine.open_files(asked, limits=partial(said, limits)), level, "", do)


@pytest.mark.parametrize(
    ("here", "offloads", "level", "words"),
    [
        ({"gcc", "g++", "Python.h"}, True, OK, "are here"),
        ({"clang", "c++", "Python.h"}, True, OK, "are here"),
        ({"g++", "Python.h"}, False, PROBLEM, "a C compiler (Triton)"),
        ({"cc", "Python.h"}, True, PROBLEM, "CPU-Adam, with learner.zero.offload_optimizer"),
        ({"cc", "Python.h"}, False, NOTE, "CPU-Adam"),  # this run does without it
        ({"cc", "g++"}, False, PROBLEM, "Python.h in "),
        (set(), False, PROBLEM, "a C compiler (Triton); g++"),
    ],
)
def test_what_compiles_for_gpus_is_looked_for_by_name(
    make_run: MakeRun, tmp_path: Path, *, here: set[str], offloads: bool, level: Level, words: str
) -> None:
    if "Python.h" in here:
        (tmp_path / "Python.h").touch()
    run = make_run(learner={"zero": {"offload_optimizer": offloads}})
    found = machine.compilers(run, which=lambda name: name if name in here else None, headers=tmp_path)
    assert_found(found, level, words, "" if level is OK else "python3-dev")


def test_the_headers_are_those_of_the_python_that_runs(monkeypatch: Patch) -> None:
    assert Path(sysconfig.get_paths()["include"]) == machine.HEADERS
    monkeypatch.setattr(machine, "system_gpus", lambda: SystemGpus("580.1", ("H200",)))
    monkeypatch.setattr(machine, "cards", tuple)
    assert [found.name for found in machine.check_machine(None)].count("compilers") == 1
