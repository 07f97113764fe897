"""This module sets what torch and DeepSpeed read from the environment. The learner calls it before it imports them.

In: this process's environment. Out: the same with torch's allocator set, and with this Python's own programs to be
found, for this process and the ranks that it starts.
"""

from __future__ import annotations

import os
import sysconfig

# Micro-batches have all sizes. With blocks of fixed size a new size takes another block, and what was freed of other
# sizes stays taken: on a shared card that is the memory that a generator restarts with. Expandable blocks are reused.
ALLOCATOR, EXPANDABLE = "PYTORCH_ALLOC_CONF", "expandable_segments:True"
OLDER_NAME = "PYTORCH_CUDA_ALLOC_CONF"  # torch still reads it, and before the other


def set_environment() -> None:
    """Let torch's blocks of GPU memory grow, and DeepSpeed find ninja; what the operator has set stays.

    DeepSpeed compiles its CPU-Adam with ninja, which is installed beside this Python and looked for in PATH alone: a
    learner that is started as `.venv/bin/python -m learner` would not find it.
    """
    if OLDER_NAME not in os.environ:
        os.environ.setdefault(ALLOCATOR, EXPANDABLE)
    programs = sysconfig.get_path("scripts")
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if programs not in folders:
        os.environ["PATH"] = os.pathsep.join([*folders, programs])
