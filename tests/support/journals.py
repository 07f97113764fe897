"""Journals for tests: lives with a few steps and ends, and hands that damage them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.messages import ScoredGroup
from learner.journal.ledger import DEAD, DROPPED, GroupOutcome
from learner.journal.records import Whole, scan
from learner.journal.writer import Journal
from tests.support.chain import make_prompt, make_scored


class Lives:
    """The journal of a run, in a folder that is not there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: list[Journal] = []

    def open(self, fence: int = 1, **options: Any) -> Journal:
        self._open.append(Journal(self.folder, fence, run="test", **options))
        return self._open[-1]

    def write(self, fence: int = 1, *, step: int = 0, ids: tuple[str, str] = ("0", "1")) -> Journal:
        """Return an incarnation of five records: its first, a step of two groups, one dropped, one dead, an evaluation round."""
        journal = self.open(fence)
        journal.append(step, groups(*ids), [[0.5, -0.5], [0.5, -0.5]], published={step: "checksum"})
        dropped, dead = GroupOutcome(DROPPED, "zero_variance", 4), GroupOutcome(DEAD, "deadline")
        journal.end({f"{step}-dropped": dropped, f"{step}-dead": dead})
        journal.evaluation(step, {"pass_rate": 0.25})
        return journal

    def ledger_file(self, fence: int = 1) -> Path:
        return self.folder / f"ledger-{fence:06d}.log"

    def payload_file(self, fence: int = 1, number: int = 0) -> Path:
        """One of that life's segments."""
        return self.folder / f"payload-{fence:06d}-{number:03d}.bin"

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    made = Lives(tmp_path / "journal")
    yield made
    made.close()


def groups(*ids: str) -> list[ScoredGroup]:
    """Return a group of two completions for each id."""
    return [make_scored(make_prompt(group_id), [1.0, 0.0]) for group_id in ids]


def silent(group: ScoredGroup) -> ScoredGroup:
    """Return the group without its completions' text."""
    completions = tuple(replace(completion, text="") for completion in group.rollout.completions)
    return replace(group, rollout=replace(group.rollout, completions=completions))


def records(path: Path) -> list[Whole]:
    return [found for found in scan(path) if isinstance(found, Whole)]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
