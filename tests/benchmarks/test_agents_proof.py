"""The proof of the environments: its own kinds are played, and what does not hold or can't be installed is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.proofs.agents.__main__ import KINDS, KindOutcome, ProvenKind, _outcome, as_table, is_proven
from benchmarks.proofs.agents.clients import compare
from benchmarks.proofs.agents.player import calls
from benchmarks.proofs.agents.recorded_run import Sampled
from benchmarks.proofs.agents.stage import KindStage
from broker.messages import End, ScoredGroup
from tests.support.tiny import completion, group, talk

pytestmark = pytest.mark.process


def wrong(stage: KindStage) -> None:
    with stage.plays({"type": "tools", "functions": ["math:gcd"]}) as player:
        stage.holds(
            "a function without type hints is played", player.play(calls(("gcd", {}))).failure is None
        )


def in_part(stage: KindStage) -> None:
    stage.leaves_out("in a container, for want of an engine")


def cut_short(stage: KindStage) -> None:
    stage.holds("it begins", True)
    raise IndexError("no answer")


def test_a_kind_is_played_and_what_does_not_hold_is_told(tmp_path: Path) -> None:
    (functions,) = [kind for kind in KINDS if kind.name == "tools"]
    kinds = [
        functions,
        ProvenKind(name="wrong", title="wrong", play=wrong),
        ProvenKind(name="short", title="short", play=cut_short),
    ]
    played, missed, ended = [_outcome(kind, tmp_path) for kind in kinds]
    assert (played.episodes, len(played.held), is_proven([played])) == (2, 3, True)
    assert (missed.episodes, missed.held) == (1, {"a function without type hints is played": False})
    assert "NOT: played to its end: IndexError no answer" in as_table([ended])[-1]
    assert not any(map(is_proven, ([missed], [ended], [])))
    left_out = KindOutcome(
        kind=ProvenKind(name="none", title="none", play=wrong), package="", episodes=0, held={},
        skipped="no such package", seconds=0.0,
    )  # fmt: skip
    assert is_proven([played, left_out])
    assert "skipped: no such package" in as_table([left_out])[-1]


def test_what_is_left_out_is_told_and_counts_for_nothing(tmp_path: Path) -> None:
    outcome = _outcome(ProvenKind(name="part", title="part", play=in_part), tmp_path)
    assert (outcome.held, is_proven([outcome])) == ({}, False)
    assert as_table([outcome])[-1].endswith(": left out: in a container, for want of an engine.")


def trained() -> tuple[ScoredGroup, list[Sampled]]:
    """Return a group with an answer and a conversation, whose history was rewritten once, and what was sampled."""
    said = [
        completion([5, 6], logprobs=[-1.0, -2.0]),
        talk(completion([7, 8, 9, 3], logprobs=[-3.0, -4.0, -5.0, -6.0]), [40, 41], [60]),
    ]
    told = ('{"calls": 1, "conversations": 1}', '{"calls": 3, "conversations": 2}')
    ended = [
        replace(one, remark=remark, ended_by=End.MESSAGE) for one, remark in zip(said, told, strict=True)
    ]
    sampled = (
        ([1, 2], [5, 6], [-1, -2]),
        ([1, 2], [7], [-3]),
        ([1, 2, 7, 40, 41], [8], [-4]),
        ([60], [9, 3], [-5, -6]),
    )
    return group([1, 2], ended, [1.0, 0.0]), [Sampled.of(*map(np.array, one)) for one in sampled]


@pytest.mark.parametrize(
    ("place", "other"),
    [
        (None, None),
        (0, ([1, 2], [5, 7], [-1, -2])),  # another id
        (1, ([1, 2], [7], [-3.0000002])),  # another log-probability, by its last bit
        (2, ([1, 2, 7, 40, 42], [8], [-4])),  # behind something else
        (3, ([1, 2], [7], [-3])),  # a turn that was sampled, and one that was not
    ],
)
def test_what_trained_is_held_to_the_engines_record(tmp_path: Path, place: int | None, other: Any) -> None:
    scored, record = trained()
    if place is not None:
        record[place] = Sampled.of(*map(np.array, other))
    stage = KindStage(tmp_path)
    compare(stage, [scored], record, ["math"])
    first, *rest = stage.held.items()
    assert (first[1], all(held for _, held in rest)) == (place is None, True)
    assert (stage.episodes, stage.conversations, stage.sequences) == (2, 3, 3)


@pytest.mark.parametrize(
    ("ends", "samples", "held"), [((5, 6), 1, True), ((6, 7), 1, False), ((5, 6), 0, False)]
)
def test_a_turn_may_be_a_sample_up_to_a_stop_sequence(
    tmp_path: Path, ends: tuple[int, ...], samples: int, *, held: bool
) -> None:
    scored, record = trained()
    longer = [Sampled.of(*map(np.array, ([1, 2], [5, 6, 0], [-1, -2, -9])))] * samples
    stage = KindStage(tmp_path)
    stop = np.array(ends, "<i4").tobytes()
    compare(stage, [scored], [*longer, *record[1:]], ["math"], is_stopped=lambda ids: ids.endswith(stop))
    first, *_ = stage.held.values()
    assert first == held


def test_nothing_is_held_of_groups_that_there_are_not(tmp_path: Path) -> None:
    stage = KindStage(tmp_path)
    compare(stage, [], [], ["math"])
    assert stage.held
    assert not any(stage.held.values())


@pytest.mark.parametrize(
    "remark", ["", '{"calls": 2, "conversations": 2}', '{"calls": 3, "conversations": 1}']
)
def test_an_agents_own_count_of_its_calls_is_held_to_what_trained(tmp_path: Path, remark: str) -> None:
    scored, record = trained()
    first, second = scored.rollout.completions
    rollout = replace(scored.rollout, completions=(first, replace(second, remark=remark)))
    stage = KindStage(tmp_path)
    compare(stage, [replace(scored, rollout=rollout)], record, ["math"])
    assert not all(stage.held.values())
