"""Which stage holds the others up, and what one more of it gives: numbers for paper."""

from __future__ import annotations

from typing import Any

import pytest

from tools.run_view.bottleneck import BUDGET, Budget, ProcessStage, find_bottleneck, utilisation_of

WIDE = Budget(bound=80, raised=96)  # steps of 16 groups and a lag of 4
NARROW = Budget(bound=4, raised=8)  # steps of 4 groups and no lag


def stages(
    *,
    generators: tuple[int, float, int],
    scorers: tuple[int, float],
    learner: tuple[int, float],
    step: int = 16,
) -> list[ProcessStage]:
    """Of workers, utilisation, and of a generator its room for groups."""
    (count, share, room), (judges, judging), (ranks, training) = generators, scorers, learner
    return [
        ProcessStage(name="generators", workers=count, utilisation=share, in_hand=count * share * room),
        ProcessStage(name="scorers", workers=judges, utilisation=judging, in_hand=judges * judging),
        ProcessStage(
            name="learner", workers=ranks, utilisation=training, in_hand=training * step, is_shared=True
        ),
    ]


BOTTLENECKS: list[Any] = [
    # Always at work: a third worker is half as much again, and the generators, half used, would allow twice as much.
    (stages(generators=(1, 0.5, 16), scorers=(2, 1.0), learner=(1, 0.25)), WIDE, "scorers", 0.5, "scorers"),
    # A second one would be twice as much, and the learner allows a quarter more: 1 / 0.8.
    (stages(generators=(1, 1.0, 16), scorers=(2, 0.1), learner=(1, 0.8)), WIDE, "generators", 0.25, "learner"),
    # 1 / (1 - 0.9 / 4): a tenth of its time it waits, which a fourth worker does not change.
    (stages(generators=(1, 0.2, 16), scorers=(3, 0.9), learner=(1, 0.2)), WIDE, "scorers", 0.2903, "scorers"),
    # Two ranks instead of one: twice as much, with 8 + 0.5 + 16 of 80 slots in hand.
    (stages(generators=(2, 0.25, 16), scorers=(2, 0.25), learner=(1, 1.0)), WIDE, "learner", 1.0, "learner"),
    # Of 8 slots 2 are sampled and 4 trained. Two ranks have their 4 for half as long: 8 / (2 + 2), twice as much.
    (stages(generators=(1, 0.5, 4), scorers=(1, 0.0), learner=(1, 1.0), step=4), Budget(bound=8, raised=12),
        "learner", 1.0, "learner"),
    # A generator with room for 16, always full, beside 0.1 + 0.4 in other hands: a second one finds 20 / 16.5 slots.
    (stages(generators=(1, 1.0, 16), scorers=(1, 0.1), learner=(1, 0.1), step=4), Budget(bound=20, raised=24),
        "generators", 20 / 16.5 - 1, BUDGET),
    # One at a time: sampled for half of the time, trained on for the other, all slots in hand. With a lag of 1 at once.
    (stages(generators=(1, 0.5, 4), scorers=(1, 0.0), learner=(1, 0.5), step=4), NARROW, BUDGET, 1.0, BUDGET),
    # The same with a second scorer that takes 0.6 of each turn: it would allow 1 / 0.6.
    (stages(generators=(1, 0.3, 4), scorers=(2, 0.6), learner=(1, 0.1), step=4), NARROW, BUDGET, 0.6667, "scorers"),
    # Nobody works much: 6 of 8 slots are kept by groups that the learner may not take before older ones.
    (stages(generators=(2, 0.55, 1), scorers=(2, 0.1), learner=(1, 0.05), step=4),
        Budget(bound=8, raised=12, kept=6.0), BUDGET, 0.5, BUDGET),
    # The last steps: more slots would change nothing.
    (stages(generators=(1, 0.6, 4), scorers=(1, 0.1), learner=(1, 0.3), step=4), None, "generators", 0.4286,
        "generators"),
]  # fmt: skip


@pytest.mark.parametrize(("found", "budget", "name", "gain", "then"), BOTTLENECKS)
def test_the_bottleneck_is_what_is_used_most_and_its_gain_is_bounded_by_the_next(
    found: list[ProcessStage], budget: Budget | None, name: str, gain: float, then: str
) -> None:
    narrow = find_bottleneck(found, budget)
    assert narrow is not None
    assert (narrow.name, narrow.then) == (name, then)
    assert narrow.gain == pytest.approx(gain, abs=1e-4)


@pytest.mark.parametrize(
    ("found", "budget"),
    [([], None), ([], WIDE), (stages(generators=(1, 0.4, 16), scorers=(2, 0.3), learner=(1, 0.2)), WIDE)],
)
def test_with_nothing_near_its_limit_there_is_none(found: list[ProcessStage], budget: Budget | None) -> None:
    assert find_bottleneck(found, budget) is None


@pytest.mark.parametrize(
    ("budget", "in_hand", "share"),
    [
        (WIDE, 0.0, 0.0),
        (WIDE, 40.0, 0.5),
        (WIDE, 90.0, 1.0),  # evaluation's groups need no slot
        (Budget(bound=4, raised=8, kept=1.5), 1.0, 0.4),  # the learner keeps some for a whole step
        (Budget(bound=4, raised=8, kept=4.0), 0.5, 0.5),
    ],
)
def test_the_budget_is_used_by_what_is_worked_on(budget: Budget, in_hand: float, share: float) -> None:
    assert utilisation_of(budget, in_hand) == pytest.approx(share)
