"""The proof of the environments: its own kinds are played, and what does not hold or can't be installed is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.proofs.agents.__main__ import KINDS, Kind, Outcome, _outcome, as_table, is_proven
from benchmarks.proofs.agents.stage import Stage, calls

pytestmark = pytest.mark.process


def wrong(stage: Stage) -> None:
    with stage.plays({"type": "tools", "functions": ["math:gcd"]}) as player:
        stage.holds(
            "a function without type hints is played", player.play(calls(("gcd", {}))).failure is None
        )


def cut_short(stage: Stage) -> None:
    stage.holds("it begins", True)
    raise IndexError("no answer")


def test_a_kind_is_played_and_what_does_not_hold_is_told(tmp_path: Path) -> None:
    (functions,) = [kind for kind in KINDS if kind.name == "tools"]
    kinds = [
        functions,
        Kind(name="wrong", title="wrong", play=wrong),
        Kind(name="short", title="short", play=cut_short),
    ]
    played, missed, ended = [_outcome(kind, tmp_path) for kind in kinds]
    assert (played.episodes, len(played.held), is_proven([played])) == (2, 3, True)
    assert (missed.episodes, missed.held) == (1, {"a function without type hints is played": False})
    assert "NOT: played to its end: IndexError no answer" in as_table([ended])[-1]
    assert not any(map(is_proven, ([missed], [ended], [])))
    left_out = Outcome(
        kind=Kind(name="none", title="none", play=wrong), package="", episodes=0, held={},
        skipped="no such package", seconds=0.0,
    )  # fmt: skip
    assert is_proven([played, left_out])
    assert "skipped: no such package" in as_table([left_out])[-1]
