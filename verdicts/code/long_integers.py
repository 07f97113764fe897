"""Read and write integers in a row's tests that have more digits than Python allows.

In: nothing. Out: a context in which this process converts integers of up to MAX_DIGITS digits. Used by `verdicts.code`
for reading a row's JSON and Python, and for writing the payload that is made of them, never for a model's text: the
time of a conversion grows with the square of the digits, to a sixth of a second at MAX_DIGITS. Longer integers raise
ValueError in the context, as in Python itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MAX_DIGITS: Final = 100_000


@contextmanager
def long_integers() -> Iterator[None]:
    """Convert integers of up to MAX_DIGITS digits within the context."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MAX_DIGITS)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)
