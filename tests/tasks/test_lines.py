"""Lines of JSON: each has its place, and what is wrong with one is said without losing the others."""

from __future__ import annotations

import io

import pytest

from broker.errors import BadMessage
from tasks.lines import Line, read_lines


def test_a_line_that_is_too_long_is_skipped_without_being_held() -> None:
    text = b"\xef\xbb\xbf{1}\n" + b"x" * 35 + b"\n\n \r\n0123456789\n012345678\n" + b"y" * 11
    long = "longer than 0 MiB"
    assert list(read_lines(io.BytesIO(text), 10)) == [
        *(Line(1, b"{1}\n", 7), Line(2, None, 43, long), Line(5, None, 58, long)),
        *(Line(6, b"012345678\n", 68), Line(7, None, 79, long)),
    ]
    whole = list(read_lines(io.BytesIO(text)))
    assert [(line.number, line.end) for line in whole] == [(1, 7), (2, 43), (5, 58), (6, 68), (7, 79)]
    with pytest.raises(BadMessage, match=long):
        Line(2, None, 43, long).record()
