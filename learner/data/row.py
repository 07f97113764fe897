"""One row of the data, as the prompt source holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One problem, with its chat and what checks its answer."""

    messages: tuple[Mapping[str, str], ...]
    task: str
    verification_info: Mapping[str, Any]
    data_source: str = ""  # the row's own column of that name; "": it has none
    raw_prompt: str = ""  # the prompt's text in place of the chat template's; "": the template makes it
    solution: str = ""  # a program that the row has beside its tests, for the gold test alone
    columns: Mapping[str, Any] = field(default_factory=dict)  # those of `data.columns` that the row has
