"""Integers of many digits in a row's tests: read and written beyond the limit that Python sets.

In: nothing. Out: a context in which this process converts integers of up to MAX_DIGITS digits. Used by `verdicts.code`
around what reads a row's JSON and Python, and around the payload that is made of them, never around a text of a
model's: a conversion takes time that grows with the square of the digits, a sixth of a second at MAX_DIGITS. An integer
of more raises ValueError there, as Python itself has it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MAX_DIGITS: Final = 100_000


@contextmanager
def long_integers() -> Iterator[None]:
    """Convert integers of up to MAX_DIGITS digits in here."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MAX_DIGITS)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)
