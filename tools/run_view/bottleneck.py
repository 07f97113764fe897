"""Find the bottleneck of a run by arithmetic: the part that limits the others, and the gain of one more of it.

In: the share of time that each stage works, and the groups it has in hand; the budget. Out: a `Bottleneck`. Independent
of Redis; `tools.run_view.flow` measures, and `tools.run_view.finding` words the result.

The rules, with X groups a second going through all stages:

- Utilisation law: a stage that works a share u of its time could do X / u. The others wait for the stage with the
  largest u.
- Little's law for the budget: N groups are worked on at any moment, the sum of all stages' groups in hand. The learner
  keeps K groups while it waits for the rest of its step, or for older ones (max_lag). So of B slots B - K can be worked
  on. A share u = N / (B - K) of them is, and the other groups wait for a stage.
- One more of n workers takes an equal part of the stage's busy time. The stage then does 1 / (1 - u / (n + 1)) times X.
  For a stage that always works that is (n + 1) / n.
- Room for one more step of S slots gives (B + S) / B.
- The gain is limited by the other stages, X / u with the largest u of them, and by the budget. With more ranks sharing
  a step, its groups are in hand for a shorter time; with more generators or scorers they are not.

The arithmetic assumes three things. Workers do not slow each other down, on one machine's cores or at one served model.
Ranks share a step's time evenly. A generator takes no longer per group when it has more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BUDGET = "budget"
LEAST = 0.5  # utilisation below which nothing is near its limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStage:
    """Processes of one kind: generators, agents, the scorers of some queues, or the learner."""

    name: str
    workers: int  # those that could work concurrently; for the learner, its ranks
    utilisation: float  # share of time at work, from 0 to 1; the mean over workers
    in_hand: float  # groups that the workers have in hand, on average
    is_shared: bool = False  # the workers share each group, as ranks do


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The slots of a run: the current number, and that with the next larger setting."""

    bound: int  # groups that may be in flight, at least 1
    raised: int  # the bound with the next larger setting; equal where no setting would change it
    kept: float = 0.0  # groups that the learner holds until others arrive, on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """The stage, or the budget, that limits all others."""

    name: str  # of a stage, or BUDGET
    utilisation: float
    gain: float  # of one more: 0.5 is half as many groups per second again
    then: str  # the next limit: another stage, BUDGET, or itself


def find_bottleneck(stages: Sequence[ProcessStage], budget: Budget | None) -> Bottleneck | None:
    """Find the stage with the largest utilisation, or the budget; None where nothing is near its limit."""
    shares = {stage.name: stage.utilisation for stage in stages}
    in_hand = sum(stage.in_hand for stage in stages)
    if budget is not None:
        shares[BUDGET] = utilisation_of(budget, in_hand)
    if not shares:
        return None
    name = max(shares, key=lambda place: shares[place])  # the first of equals
    if shares[name] < LEAST:
        return None
    narrow = next((stage for stage in stages if stage.name == name), None)
    own = _joined(narrow) if narrow else _raised(budget)
    if budget is not None and narrow is not None and narrow.is_shared:
        shares[BUDGET] = utilisation_of(budget, in_hand - narrow.in_hand / (narrow.workers + 1))
    others = {place: 1 / share for place, share in shares.items() if place != name and share > 0}
    then = min(others, key=lambda place: others[place], default=name)
    limit = others.get(then, own)
    return Bottleneck(
        name=name,
        utilisation=shares[name],
        gain=max(0.0, min(own, limit) - 1),
        then=name if own <= limit else then,
    )


def utilisation_of(budget: Budget, in_hand: float) -> float:
    """Return the share of the usable slots that are worked on."""
    return min(1.0, in_hand / max(1.0, budget.bound - budget.kept))


def _joined(stage: ProcessStage) -> float:
    """Return the throughput with one more worker, as a multiple of today's."""
    return 1 / (1 - stage.utilisation / (stage.workers + 1))


def _raised(budget: Budget | None) -> float:
    return budget.raised / budget.bound if budget else 1.0
