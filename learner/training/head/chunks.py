"""Choose how many logits the head computes at once, by the memory of its device.

In: a device's bytes. Out: entries of one chunk of float32 logits. Used by the backend and the reference model, and by
the doctor's estimate of a rank's memory (`tools.estimates.learner`); loads no library.
"""

from __future__ import annotations

# Each chunk's backward pass reads and writes the head's whole float32 gradient, so few large chunks are faster. A chunk
# and the copies of its backward pass take memory, so small GPUs and CPUs use small ones.
SMALL_CHUNK = 2**26  # 256 MiB: 441 tokens of a vocabulary of 151,936, 19 chunks of a row of 8,192 tokens
LARGE_CHUNK = 2**28  # 1 GiB: 1,766 tokens, 5 chunks of the same row
LARGE_CARD_BYTES = 40e9  # an A100 of 40 GB has 42.4e9, a card of 24 GB 25.3e9


def logits_at_once(device_bytes: int | None) -> int:
    """Return the entries of one chunk of logits.

    Args:
        device_bytes: memory of the GPU; None for a CPU, where the result is fixed.
    """
    return LARGE_CHUNK if device_bytes is not None and device_bytes >= LARGE_CARD_BYTES else SMALL_CHUNK
