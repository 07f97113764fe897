"""This logger writes TensorBoard's event files.

In: the objects of steps. Out: `tensorboard/` in the run's folder. A run that goes on writes one more file, and
TensorBoard shows them as one run.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learner.reporting.scalars import rounds, scalars

FLUSH_S = 10.0  # seconds until what was logged is in the file


class TensorBoard:
    """A `Logger` of curves and sample answers."""

    def __init__(self, folder: Path) -> None:
        """Begin a file of events.

        Args:
            folder: of the run.
        """
        from tensorboardX import SummaryWriter

        # The name has the second, and a file of the same name would be written over.
        self._writer = SummaryWriter(
            str(folder / "tensorboard"), flush_secs=FLUSH_S, filename_suffix=f".{secrets.token_hex(4)}"
        )

    def log(self, record: Mapping[str, Any]) -> None:
        """Write each number of a step, and of the rounds that have ended."""
        for name, value in scalars(record).items():
            self._writer.add_scalar(name, value, record["step"])
        for version, numbers in rounds(record):
            for name, value in numbers.items():
                self._writer.add_scalar(name, value, version)

    def sample(self, record: Mapping[str, Any]) -> None:
        """Write a sample answer with its question."""
        question = record["prompt"][-1]["content"] if record["prompt"] else ""
        text = f"**{question}**\n\n{record['answer']}\n\nreward {record['reward']}: {record['reason']}"
        self._writer.add_text("sample", text, record["step"])

    def close(self) -> None:
        """Write what is left, and end the file."""
        self._writer.close()
