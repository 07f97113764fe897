"""What is wrong with rows, or with a whole source, in one error for people."""

from __future__ import annotations

from broker.errors import Permanent

SHOWN = 3  # bad rows that a message names; `millrace data check` lists all


class RowError(Permanent):
    """A row, or a whole source, that can't be used.

    Attributes:
        rows: a line for each bad row; empty where it is the source that can't be used.
    """

    def __init__(self, *lines: str, of_rows: bool = False) -> None:
        more = len(lines) - SHOWN
        said = [
            *lines[:SHOWN],
            *([f"and {more} more bad rows: `millrace data check CONFIG` lists all"] * (more > 0)),
        ]
        super().__init__("\n".join(said))
        self.rows = lines if of_rows else ()
