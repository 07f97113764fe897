"""Keep the last lines that the user's code has printed, for the message of a failure.

In: a pipe that a process writes to. Out: the end of it, with secrets masked. Read by the worker's event loop, so that
output fills no disk and never blocks the writer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Final

from config.logs import mask

KEPT_BYTES: Final = 4096
KEPT_LINES: Final = 8


class Output:
    """The reading end of a pipe."""

    def __init__(self) -> None:
        self._source, self.sink = os.pipe()  # the sink is for the process
        os.set_blocking(self._source, False)
        self._kept = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._source, self._read)

    def close_sink(self) -> None:
        """Close the process's end of the pipe here, unless that is done."""
        if self.sink >= 0:
            os.close(self.sink)
            self.sink = -1

    def close(self) -> None:
        """Stop reading."""
        if self._source < 0:
            return
        self._read()
        self._loop.remove_reader(self._source)
        os.close(self._source)
        self._source = -1
        self.close_sink()

    @property
    def last_lines(self) -> str:
        """Return the end of the output."""
        if self._source >= 0:
            self._read()
        lines = self._kept.decode("utf-8", "replace").strip().split("\n")
        return mask("\n".join(lines[-KEPT_LINES:]))

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(16):
                data = os.read(self._source, 1 << 16)
                if not data:
                    self._loop.remove_reader(self._source)
                    return
                self._kept = (self._kept + data)[-KEPT_BYTES:]
