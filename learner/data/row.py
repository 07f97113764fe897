"""This module describes one row of the data as the prompt source holds it, and the error of rows that can't be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.errors import Permanent

SHOWN = 3  # bad rows that a message names; `millrace data check` lists all


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One problem, with its chat and what checks its answer."""

    messages: tuple[Mapping[str, Any], ...]  # `role` and `content`, and what else the chat template may write
    task: str
    verification_info: Mapping[str, Any]
    data_source: str = ""  # the row's own column of that name; "": it has none
    raw_prompt: str = ""  # the prompt's text in place of the chat template's; "": the template makes it
    solution: str = ""  # a program that the row has beside its tests, for the gold test alone
    columns: Mapping[str, Any] = field(default_factory=dict)  # those of `data.columns` that the row has
    changed: tuple[str, ...] = ()  # values that reading has changed, in words; it does not lie with the row


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
