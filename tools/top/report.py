"""Convert a run's view to one object, for `millrace top --json`.

In: a `RunView`. Out: a tree of mappings, lists, text and numbers, which `tools.top.keys` describes. Seconds and
shares are numbers, a share from 0 to 1; unknown values are null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from broker.monitoring.counters import ScorerStats
from broker.monitoring.snapshot import Process, Snapshot
from broker.monitoring.work_meter import PLAYED
from tools.run_view.finding import BottleneckFinding
from tools.run_view.flow import Flow, Works
from tools.run_view.follower import RunView

DIGITS = 4


def report(view: RunView) -> dict[str, Any]:
    """Make the object, after the first snapshot that Redis answered."""
    now, flow = view.snapshot, view.flow
    if now is None:
        raise ValueError("nothing has been seen of the run")
    return {
        "run": view.name,
        "status": now.status,
        "reason": now.reason,
        "wanted": now.wanted,
        "advice": now.advice,
        "at": _round(now.at),
        "seconds": _round(flow.seconds),
        "silent_s": _round(view.silent_s) if view.trouble else 0.0,
        "step": max(0, now.version),
        "steps": now.steps,
        "verdict": _finding(view.finding),
        "roles": [_role(works) for works in flow.works],
        "processes": [_process(process, now, flow) for process in now.processes],
        "streams": {
            name: {
                "depth": state.depth,
                "leased": state.leased,
                "waiting": state.waiting,
                "oldest_s": _round(state.oldest_s),
                "oldest_group": state.oldest_group or None,
            }
            for name, state in now.streams.items()
        },
        "budget": {
            "slots": now.slots,
            "bound": now.bound or None,
            "issued": now.issued,
            "floor": None if now.floor < 0 else now.floor,
            "version": now.version,
            "max_lag": now.run.learner.max_lag if now.run else None,
        },
        "staleness": staleness(flow.ages),
        **({} if (played := episodes(now)) is None else {"episodes": played}),
        "queued_jobs": dict(now.queued_jobs),
        "scorers": [_scorer(stats) for stats in now.scorers],
    }


def staleness(ages: Mapping[str, float]) -> dict[str, float] | None:
    """Divide the mean seconds of a trained group from its issue to its step; None before the first step."""
    if not ages:
        return None
    queue = ages["prompts"] + ages["rollouts"] + ages["scored"]
    return {
        "total_s": _round(sum(ages.values())),
        "sampling_s": _round(ages["sampling"]),
        "queue_s": _round(queue),
        "scoring_s": _round(ages["scoring"]),
        "queue_prompts_s": _round(ages["prompts"]),
        "queue_rollouts_s": _round(ages["rollouts"]),
        "queue_scored_s": _round(ages["scored"]),
    }


def episodes(now: Snapshot) -> dict[str, Any] | None:
    """Sum the counts of the living agents; None in a run without agents."""
    if not now.has_agents:
        return None
    agents = [process for process in now.processes if process.role == "agent"]
    sums = {what: sum(agent.sums.get(what, 0.0) for agent in agents) for what in ("turns", *PLAYED)}
    ends: Counter[str] = Counter()
    for agent in agents:
        ends.update(agent.ends)
    return {
        **{what: _round(value) if what.endswith("_s") else int(value) for what, value in sums.items()},
        "ends": dict(sorted(ends.items())),
    }


def since_s(process: Process, now: Snapshot) -> float:
    """Return for how many seconds a process has been in its state."""
    return process.sums.get("idle_s") or (max(0.0, now.at - process.since) if process.since else 0.0)


def _finding(finding: BottleneckFinding) -> dict[str, Any]:
    return {
        "text": finding.text,
        "bottleneck": finding.bottleneck or None,
        "queues": list(finding.queues),
        "utilisation": _round(finding.utilisation),
        "groups_a_second": _round(finding.groups_a_second),
        "gain": _round(finding.gain),
        "then": finding.then or None,
        "knob": dict(finding.knob),
    }


def _role(works: Works) -> dict[str, Any]:
    return {
        "role": works.stage,
        "queues": list(works.queues),
        "workers": works.workers,
        "utilisation": _round(works.utilisation),
        "in_hand": _round(works.in_hand),
        "kept": _round(works.kept),
        "groups_a_second": _round(works.groups_a_second),
        "tokens_a_second": _round(works.tokens_a_second),
        **({"turns_a_second": _round(works.turns_a_second)} if works.turns_a_second else {}),
        "seconds_each": _round(works.seconds_each),
        "waits": {what: _round(share) for what, share in works.waits.items()},
    }


def _process(process: Process, now: Snapshot, flow: Flow) -> dict[str, Any]:
    share = flow.shares.get(f"{process.role}:{process.id}")
    return {
        "role": process.role,
        "id": process.id,
        "pid": process.pid,
        "host": process.host,
        "state": process.state,
        "since_s": _round(since_s(process, now)),
        "utilisation": None if share is None else _round(share),
        "version": int(process.version) if process.version.lstrip("-").isdecimal() else None,
        "queues": list(process.queues),
        "groups": int(process.sums.get("groups", 0)),
    }


def _scorer(stats: ScorerStats) -> dict[str, Any]:
    return {**asdict(stats), "failures": dict(stats.failures), "seconds": _round(stats.seconds)}


def _round(number: float) -> float:
    return round(number, DIGITS)
