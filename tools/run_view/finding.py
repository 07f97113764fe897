"""Say in one line what limits a run, and what one more of it would give.

In: two snapshots of a run (`broker.monitoring.snapshot`). Out: a `BottleneckFinding`. States that need no arithmetic
come first: a run that has ended, an operator's pause, work without a living process. Otherwise
`tools.run_view.bottleneck` decides. Used by `millrace up` and `millrace top`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from broker.monitoring.snapshot import Snapshot
from broker.protocol.run_state import DRAIN, PAUSE
from learner.groups.facts.same_reward import WARNING
from tools.run_view.bottleneck import BUDGET, Bottleneck, find_bottleneck
from tools.run_view.flow import (
    AGENTS,
    GENERATORS,
    LEARNER,
    SCORERS,
    Flow,
    Works,
    budget_of,
    flow,
    next_budget,
    stages_of,
)

NOTHING = ""
WAITS_FOR = {
    "late": "older groups",
    "round": "an evaluation round",
    "publishing": "the version before to be published, where learner.weights are put",
    "operator": "the operator",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BottleneckFinding:
    """What limits a run, in one line, and the numbers in that line."""

    text: str
    bottleneck: str = NOTHING  # generators | agents | scorers | learner | budget, or NOTHING
    queues: tuple[str, ...] = ()  # the limiting scorers' queues, where scorers serve different ones
    utilisation: float = 0.0  # of the bottleneck
    groups_a_second: float = 0.0  # output of the bottleneck now
    gain: float = 0.0  # of one more, as a share of these groups: 0.5 is half as many again
    then: str = NOTHING  # the bottleneck with one more
    knob: Mapping[str, int] = field(default_factory=dict)  # the keys to set, where no process can be added


def finding_of(before: Snapshot, now: Snapshot) -> tuple[BottleneckFinding, Flow]:
    """Find what limits the run now. Returns it with the flow that shows it."""
    found = flow(before, now)
    if said := _plain(now):
        return BottleneckFinding(text=said), found
    budget = budget_of(found, now)
    narrow = find_bottleneck(stages_of(found), budget)
    is_flat = now.advice.startswith(WARNING)
    if narrow is None:
        return BottleneckFinding(text=now.advice if is_flat else _nothing_near(found, now)), found
    named = _named(narrow, found, now)
    return (replace(named, text=f"{now.advice}; {named.text}") if is_flat else named), found


def _plain(now: Snapshot) -> str:
    """Say what needs no arithmetic; "" where the run continues and every kind of work has a process."""
    if now.status != "running":
        ended = f"the run has ended: {now.status}" + (f", {now.reason}" if now.reason else "")
        return ended if now.status else "the run has not begun"
    if now.wanted == PAUSE:
        return "an operator paused the run: nothing is let in or trained until `millrace resume`"
    if now.wanted == DRAIN:
        return f"an operator drains the run: {now.slots} groups are out, then it ends"
    if not now.alive("learner"):
        return "no learner is alive: nothing is let in or trained until one comes"
    return now.nobody


def _named(narrow: Bottleneck, found: Flow, now: Snapshot) -> BottleneckFinding:
    works = next((works for works in found.works if works.name == narrow.name), None)
    knob = _knob(works, now)
    rate = works.groups_a_second if works else _rate(found)
    more = ", ".join(f"{key}={value}" for key, value in knob.items()) or "one more"
    if narrow.gain < 0.005:
        gives = (
            f"{more} gives nothing, {_then(narrow)} next to it"
            if narrow.then != narrow.name
            else f"{more}: +0%"
        )
    else:
        gives = f"{more}: about +{narrow.gain:.0%}"
        if rate:
            gives += f", {_short(rate)} → {_short(rate * (1 + narrow.gain))} groups/s"
        if narrow.then != narrow.name:
            gives += f", then {narrow.then}"
    return BottleneckFinding(
        text=f"{_what(narrow, works, found, now)}; {gives}",
        bottleneck=works.stage if works else BUDGET,
        queues=works.queues if works else (),
        utilisation=narrow.utilisation,
        groups_a_second=rate,
        gain=narrow.gain,
        then=narrow.then,
        knob=knob,
    )


def _what(narrow: Bottleneck, works: Works | None, found: Flow, now: Snapshot) -> str:
    if works is None:
        idle = found.of(GENERATORS)
        rest = f", generators idle {1 - idle.utilisation:.0%}" if idle else ""
        return f"bottleneck: budget ({now.bound} slots), {narrow.utilisation:.0%} in hand{rest}"
    many = f" ({works.workers})" if works.stage != LEARNER else ""
    return f"bottleneck: {works.name}{many}, {narrow.utilisation:.0%} busy"


def _short(rate: float) -> str:
    """Format a rate with two digits, or with all digits before the point."""
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"


def _then(narrow: Bottleneck) -> str:
    return f"{narrow.then} are" if narrow.then in {GENERATORS, AGENTS, SCORERS} else f"{narrow.then} is"


def _knob(works: Works | None, now: Snapshot) -> dict[str, int]:
    if now.run is None or (works is not None and works.stage != LEARNER):
        return {}
    return next_budget(now.run) if works is None else {"learner.ranks": now.run.learner.ranks + 1}


def _rate(found: Flow) -> float:
    """Return the groups per second through the run, as counted by its busiest stage."""
    return max(found.works, key=lambda works: works.utilisation).groups_a_second if found.works else 0.0


def _nothing_near(found: Flow, now: Snapshot) -> str:
    if not found.works:
        return "no role has begun to work"
    busiest = max(found.works, key=lambda works: works.utilisation)
    said = f"nothing is near its limit: {busiest.name} with {busiest.utilisation:.0%} are the busiest"
    if (learner := found.of(LEARNER)) is not None and learner.waits:
        what = max(learner.waits, key=lambda name: learner.waits[name])
        said += f"; the learner waits {learner.waits[what]:.0%} of its time for {WAITS_FOR.get(what, what)}"
    if 0 < now.slots < now.bound:
        said += (
            f"; {now.bound - now.slots} of {now.bound} slots are free: the feeder or Redis' memory is short"
        )
    return said


def finding_over(looks: Sequence[Snapshot]) -> tuple[BottleneckFinding, Flow]:
    """Make the finding over several snapshots, the oldest first; from a single one, as far as possible."""
    if len(looks) > 1:
        return finding_of(looks[0], looks[-1])
    now = looks[-1]
    flat = now.advice if now.advice.startswith(WARNING) else ""
    return BottleneckFinding(text=_plain(now) or flat or now.pile), flow(now, now)
