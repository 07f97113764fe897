"""A data row as the prompt source holds it, and the error for bad rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.errors import Permanent

SHOWN = 3  # bad rows named in a message; `millrace data check` lists all


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One problem, with its chat and its reference."""

    messages: tuple[Mapping[str, Any], ...]  # `role`, `content`, and other fields that the chat template uses
    task: str
    verification_info: Mapping[str, Any]
    data_source: str = ""  # the row's own column of that name; "": none
    raw_prompt: str = ""  # the prompt's text in place of the chat template's; "": the template makes it
    solution: str = ""  # a reference program in addition to the row's tests, for the gold test alone
    columns: Mapping[str, Any] = field(default_factory=dict)  # the columns of `data.columns` that the row has
    changed: tuple[str, ...] = ()  # values that reading has changed, in words; not stored with the row


class RowError(Permanent):
    """A row, or a whole source, is unusable.

    Attributes:
        rows: a line for each bad row; empty where the source itself is unusable.
    """

    def __init__(self, *lines: str, of_rows: bool = False) -> None:
        more = len(lines) - SHOWN
        said = [
            *lines[:SHOWN],
            *([f"and {more} more bad rows: `millrace data check CONFIG` lists all"] * (more > 0)),
        ]
        super().__init__("\n".join(said))
        self.rows = lines if of_rows else ()
