"""This module sets what torch reads when it first takes a GPU's memory. The learner calls it before it imports torch.

In: this process's environment. Out: the same with torch's allocator set, for this process and the ranks that it starts.
"""

from __future__ import annotations

import os

# Micro-batches have all sizes. With blocks of fixed size a new size takes another block, and what was freed of other
# sizes stays taken: on a shared card that is the memory that a generator restarts with. Expandable blocks are reused.
ALLOCATOR, EXPANDABLE = "PYTORCH_ALLOC_CONF", "expandable_segments:True"
OLDER_NAME = "PYTORCH_CUDA_ALLOC_CONF"  # torch still reads it, and before the other


def set_environment() -> None:
    """Let torch's blocks of GPU memory grow; what the operator has set stays. On a CPU it changes nothing."""
    if OLDER_NAME not in os.environ:
        os.environ.setdefault(ALLOCATOR, EXPANDABLE)
