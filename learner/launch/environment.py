"""Set the environment variables of torch and DeepSpeed, before the learner imports them, and the C library's allocator.

In: this process's environment. Out: the same with torch's allocator configured, and with this Python's own programs on
PATH, for this process and the ranks that it starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sysconfig

# Micro-batches have all sizes. With blocks of fixed size a new size needs another block, and freed blocks of other
# sizes stay allocated: on a shared GPU, the memory that a generator needs to restart. Expandable blocks are reused.
ALLOCATOR, EXPANDABLE = "PYTORCH_ALLOC_CONF", "expandable_segments:True"
OLDER_NAME = "PYTORCH_CUDA_ALLOC_CONF"  # torch still reads it, and first

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
KEPT_BYTES = 1 << 29  # at most, of what was freed
LARGE_BYTES = 1 << 25  # of an allocation that is mapped by itself: as large as glibc lets it be


def set_environment() -> None:
    """Let torch's blocks of GPU memory grow, and DeepSpeed find ninja; the operator's settings stay.

    DeepSpeed compiles its CPU-Adam with ninja, which is installed next to this Python and searched in PATH alone: a
    learner started as `.venv/bin/python -m learner` would not find it.
    """
    if OLDER_NAME not in os.environ:
        os.environ.setdefault(ALLOCATOR, EXPANDABLE)
    programs = sysconfig.get_path("scripts")
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if programs not in folders:
        os.environ["PATH"] = os.pathsep.join([*folders, programs])


def keep_freed_memory() -> None:
    """Let the C library keep what a step on the CPU frees for the next: else the kernel clears every page of it again.

    glibc gives memory back once 128 KiB are free, and learns slowly that a process asks for them again. Other C
    libraries are left as they are.
    """
    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
