"""What the learner sets before torch and DeepSpeed are imported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from learner.launch.environment import set_environment

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        ({"PYTORCH_ALLOC_CONF": "backend:native"}, {"PYTORCH_ALLOC_CONF": "backend:native"}),
        ({"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}, {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}),
    ],
)
def test_blocks_of_memory_may_grow_unless_the_operator_has_set_the_allocator(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: dict[str, str]
) -> None:
    monkeypatch.setattr(os, "environ", {"PATH": "/bin", **given})
    set_environment()
    assert {name: value for name, value in os.environ.items() if name != "PATH"} == expected


def test_this_pythons_programs_are_found_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("ninja") is None
    for _ in range(2):
        set_environment()
    assert os.environ["PATH"] == f"{tmp_path}{os.pathsep}{Path(sys.executable).parent}"
    assert shutil.which("ninja") is not None  # it is in the lock: DeepSpeed compiles with it


STEPS = """
import ctypes, resource, sys
from learner.launch.environment import keep_freed_memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
if "keep" in sys.argv:
    keep_freed_memory()
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [libc.malloc(20 << 20) for _ in range(3)]
    for block in blocks:
        ctypes.memset(block, 1, 20 << 20)
    for block in blocks:
        libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize(("words", "is_kept"), [(["keep"], True), ([], False)])
def test_what_a_step_frees_is_kept_for_the_next(words: list[str], *, is_kept: bool) -> None:
    said = subprocess.run([sys.executable, "-c", STEPS, *words], capture_output=True, text=True, check=True)
    pages = 3 * (20 << 20) // os.sysconf("SC_PAGE_SIZE")
    assert (int(said.stdout) < pages / 10) == is_kept
