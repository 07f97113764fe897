"""Log to TensorBoard's event files.

In: the records of steps. Out: `tensorboard/` in the run's folder. A continued run writes one more file, and TensorBoard
shows them as one run. The library writes in its own thread, through a queue. A full disk kills that thread, and later
writes and the close would wait for ever. So events are written directly, and a full disk is an OSError.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from learner.reporting.scalars import rounds, scalars
from tasks.turns import asked, conversation_text

NO_TAG = re.compile(r"[^-/\w.]")  # what the library replaces in a name


class _AtOnce:
    """Replace the library's queue: write events immediately."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def put(self, event: Any) -> None:
        """Write an event. Raises OSError."""
        self._file.write_event(event)

    def close(self) -> None:
        """Do nothing: the library closes the file."""


class TensorBoard:
    """A `Logger` of curves and sample answers."""

    def __init__(self, folder: Path) -> None:
        """Create a file of events.

        Args:
            folder: of the run.
        """
        from tensorboardX import SummaryWriter

        # The name has the second, and a file of the same name would be overwritten.
        self._writer = SummaryWriter(str(folder / "tensorboard"), filename_suffix=f".{secrets.token_hex(4)}")
        events = self._writer.file_writer.event_writer
        events._worker.stop()  # noqa: SLF001 - the library offers no other way to avoid its thread
        self._file = events._ev_writer  # noqa: SLF001
        events._event_queue = _AtOnce(self._file)  # noqa: SLF001

    def log(self, record: Mapping[str, Any]) -> None:
        """Write each number of a step, and of the rounds that ended."""
        self._numbers(scalars(record), record["step"])
        for name, histogram in record.get("histograms", {}).items():
            self._histogram(name, histogram["edges"], histogram["counts"], record["step"])
        for version, numbers in rounds(record):
            self._numbers(numbers, version)
        self._file.flush()

    def _numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Write numbers of one step in one event: an event for each costs six times as much."""
        from tensorboardX.proto.summary_pb2 import Summary

        tagged = [
            Summary.Value(tag=NO_TAG.sub("_", name), simple_value=value) for name, value in numbers.items()
        ]
        self._writer.file_writer.add_summary(Summary(value=tagged), step)

    def _histogram(self, name: str, edges: Sequence[int], counts: Sequence[int], step: int) -> None:
        """Write counts by bin; the upper end of a bin stands for its values."""
        limits = [*edges, 2 * edges[-1] + 1] if edges else []
        values = (
            [(limit, count) for limit, count in zip(limits, counts, strict=True) if count] if edges else []
        )
        if not values:
            return
        self._writer.add_histogram_raw(
            f"histograms/{name}",
            min=values[0][0],
            max=values[-1][0],
            num=sum(count for _, count in values),
            sum=sum(limit * count for limit, count in values),
            sum_squares=sum(limit * limit * count for limit, count in values),
            bucket_limits=[float(limit) for limit, _ in values],
            bucket_counts=[count for _, count in values],
            global_step=step,
        )

    def sample(self, record: Mapping[str, Any]) -> None:
        """Write a sample answer with its question."""
        question = asked(record["prompt"])
        answer = conversation_text(record["messages"]) if "messages" in record else record["answer"]
        text = f"**{question}**\n\n{answer}\n\nreward {record['reward']}: {record['reason']}"
        self._writer.add_text("sample", text, record["step"])
        self._file.flush()

    def close(self) -> None:
        """Write remaining events, and close the file."""
        self._writer.close()
