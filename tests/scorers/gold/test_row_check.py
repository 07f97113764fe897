"""Rows are shown to their scorers, in this process or in forks of it: the same is found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.errors import BadMessage
from config.scorers import ScorersConfig
from scorers.gold import row_check
from scorers.gold.row_check import BATCH, DoubtfulRow, RowCheck, found_in

pytestmark = pytest.mark.process

CONFIG = ScorersConfig.model_validate(
    {
        "tasks": {
            "choice": {"scorer": {"type": "choice"}},
            "both": {
                "scorer": {"type": "choice"},
                "extra_scorers": {"more": {"scorer": {"type": "custom", "import_path": f"{__name__}:Picky"}}},
            },
            "bug": {"scorer": {"type": "custom", "import_path": f"{__name__}:Bug"}},
        }
    }
)


class Bug:
    """A user's scorer whose check raises what no row is to blame for."""

    name, version = "bug", "1"

    def check_row(self, verification_info: Any) -> None:
        raise RuntimeError(verification_info["type"])

    def score(self, *_: Any) -> None: ...

    def self_test(self) -> None: ...

    def close(self) -> None: ...


class Picky(Bug):
    name = "picky"

    def check_row(self, verification_info: Any) -> None:
        raise BadMessage("picky")


def line(task: str, value: Any) -> bytes:
    return json.dumps([task, {"type": "choice", "answer": {"value": value}}]).encode() + b"\n"


def test_what_is_refused_is_told_from_what_could_not_be_looked_at() -> None:
    rows = [line("choice", "B"), line("choice", "seven"), line("both", "B"), line("bug", "B")]
    found = list(found_in(RowCheck(CONFIG), rows))
    assert [(one.number, one.is_refused) for one in found] == [(1, True), (2, True), (3, False)]
    assert "seven" in found[0].reason
    assert found[1].reason == "picky"
    assert found[2] == DoubtfulRow(3, "bug: RuntimeError('choice')", is_refused=False)


@pytest.mark.parametrize("alone_s", [-1.0, 1e9], ids=["in forks", "alone"])
def test_dear_rows_are_shared_and_come_back_in_order(alone_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_check, "ALONE_S", alone_s)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    rows = (line("choice", "B" if number % 3 else "none") for number in range(BATCH * 30 + 7))
    found = list(found_in(RowCheck(CONFIG), rows))
    assert [one.number for one in found] == list(range(0, BATCH * 30 + 7, 3))
