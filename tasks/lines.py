"""Read JSON lines: each with its place, and as the object that it is.

In: the bytes of a file or a pipe. Out: one line at a time, or what is wrong with it. Data sets, `millrace score`,
`millrace judge-check` and the processes that score read lines by this module, so that all say the same of a bad one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any, Final, NamedTuple

from broker.errors import BadMessage

_BOM: Final = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A row of a file as a line of JSON."""

    number: int  # from 1, including empty lines
    data: bytes | None  # None: it can't be read
    end: int = 0  # position of its end in the file, bytes; 0: unknown
    wrong: str = ""  # why it can't be read

    def record(self) -> dict[str, Any]:
        """Return the object that the line is. Raises BadMessage that says what else it is."""
        if self.data is None:
            raise BadMessage(self.wrong)
        return parse_object(self.data)


def read_lines(stream: IO[bytes], most_bytes: int | None = None) -> Iterator[Line]:
    """Yield every nonempty line; of one that is longer than `most_bytes` only its place is kept."""
    limit = -1 if most_bytes is None else most_bytes + 1
    number = end = 0
    while data := stream.readline(limit):
        number += 1
        end += len(data)
        if most_bytes is not None and len(data) > most_bytes:
            while data and not data.endswith(b"\n"):
                data = stream.readline(most_bytes)
                end += len(data)
            yield Line(number, None, end, f"longer than {most_bytes >> 20} MiB")
            continue
        if number == 1:
            data = data.removeprefix(_BOM)
        if data and not data.isspace():
            yield Line(number, data, end)


def parse_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object that a line is. Raises BadMessage that names what else it is."""
    try:
        found = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise BadMessage(f"not UTF-8: byte {error.start} is {line[error.start]:#04x}") from None
    except json.JSONDecodeError as error:
        raise BadMessage(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of 5,000 digits, brackets in brackets in brackets
        raise BadMessage(f"not JSON: {error}") from None
    return checked_object(found)


def checked_object(found: Any) -> dict[str, Any]:
    """Return a row that is an object. Raises BadMessage for one that is anything else."""
    if not isinstance(found, dict):
        raise BadMessage(f"a row must be an object, got {type(found).__name__}")
    return found
