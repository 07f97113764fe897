"""Set the environment variables of torch and DeepSpeed, before the learner imports them.

In: this process's environment. Out: the same with torch's allocator configured, and with this Python's own programs on
PATH, for this process and the ranks that it starts.
"""

from __future__ import annotations

import os
import sysconfig

# Micro-batches have all sizes. With blocks of fixed size a new size needs another block, and freed blocks of other
# sizes stay allocated: on a shared GPU, the memory that a generator needs to restart. Expandable blocks are reused.
ALLOCATOR, EXPANDABLE = "PYTORCH_ALLOC_CONF", "expandable_segments:True"
OLDER_NAME = "PYTORCH_CUDA_ALLOC_CONF"  # torch still reads it, and first


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
