"""How the time of a piece of text work grows: a bound that a busy machine does not break."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable

LOOKS = 6  # at most; the machine has other things to do
QUICK_S = 0.05  # of processor time: nothing that is quadratic in a text is done so soon
LINEAR = 9.0  # 4 would be exact, 16 is quadratic


def is_linear(work: Callable[[str], object], text: Callable[[int], str], size: int) -> bool:
    """Return whether a text takes no more than LINEAR times as much processor time as one of a quarter of its size.

    Args:
        work: what is measured.
        text: of so many pieces.
        size: pieces of the larger one, in which quadratic time would be seconds.
    """
    small, large = text(size // 4), text(size)
    before = after = math.inf  # the least of all looks: what else the machine does only ever adds
    for _ in range(LOOKS):
        before, after = min(before, _seconds(work, small)), min(after, _seconds(work, large))
        if after < QUICK_S or after < LINEAR * before:
            return True
    return False


def _seconds(work: Callable[[str], object], text: str) -> float:
    """Return the processor time of a piece of work, without that of the garbage collector.

    Its passes go through all that the tests before left in this process: some passes more would be half a second.
    """
    gc.disable()
    try:
        started = time.thread_time()
        work(text)
        return time.thread_time() - started
    finally:
        gc.enable()
