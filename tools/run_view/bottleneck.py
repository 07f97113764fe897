"""The bottleneck of a run: which part holds the others up, and what one more of it would give. Arithmetic alone.

In: for each stage how much of its time it works, and how many groups it then has in hand; the budget. Out: a
`Bottleneck`. Nothing here knows Redis; `tools.run_view.flow` measures, and `tools.run_view.finding` finds the words.

The rules, with X groups a second going through all stages:

- Utilisation law: a stage that works a share u of its time could do X / u. The stage with the largest u is the one that
  the others wait for.
- Little's law for the budget: N groups are worked on at any moment, all that the stages have in hand. The learner keeps
  K groups while it waits for the rest of its step, or for older ones (max_lag). So of B slots B - K can be worked on.
  A share u = N / (B - K) of them is, and the other groups wait in front of a stage.
- One more of n workers takes its part of the stage's busy time. The stage then does 1 / (1 - u / (n + 1)) times X. Of a
  stage that always works that is (n + 1) / n.
- One more step's room of S slots gives (B + S) / B.
- Neither gives more than the other stages could do, X / u with the largest u of them, nor more than the budget lets in.
  Where more ranks share a step, its groups are in hand for a shorter time; with more generators or scorers they are
  not.

The arithmetic takes three things for granted. Workers do not slow each other down, on one machine's cores or at one
served model. Ranks share a step's time evenly. A generator takes no longer for a group when it has more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BUDGET = "budget"
LEAST = 0.5  # utilisation below which nothing is near its limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The processes that do one kind of work: generators, agents, the scorers of some queues, or the learner."""

    name: str
    workers: int  # those that could work side by side; of the learner, its ranks
    utilisation: float  # share of the time that they work, from 0 to 1; the mean over them
    in_hand: float  # groups that the workers have in hand, on average
    is_shared: bool = False  # the workers share each group, as ranks do


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The slots of a run, as many as there are and as many as the next larger setting would give."""

    bound: int  # groups that may be out, at least 1
    raised: int  # the bound with the next larger setting; the same where no setting would change it
    kept: float = 0.0  # groups that wait with the learner for others to be there too, on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """The stage, or the budget, that all others wait for."""

    name: str  # the name of a stage, or BUDGET
    utilisation: float
    gain: float  # what one more would add: 0.5 is half as many groups a second again
    then: str  # what limits after that: another stage, BUDGET, or itself


def find_bottleneck(stages: Sequence[Stage], budget: Budget | None) -> Bottleneck | None:
    """Finds the stage with the largest utilisation, or the budget; None where nothing is near its limit."""
    shares = {stage.name: stage.utilisation for stage in stages}
    in_hand = sum(stage.in_hand for stage in stages)
    if budget is not None:
        shares[BUDGET] = utilisation_of(budget, in_hand)
    if not shares:
        return None
    name = max(shares, key=lambda place: shares[place])  # of equals the first
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
    """Returns the share of the slots that are worked on, of those that can be worked on."""
    return min(1.0, in_hand / max(1.0, budget.bound - budget.kept))


def _joined(stage: Stage) -> float:
    """Returns the throughput with one worker more, as a multiple of today's."""
    return 1 / (1 - stage.utilisation / (stage.workers + 1))


def _raised(budget: Budget | None) -> float:
    return budget.raised / budget.bound if budget else 1.0
