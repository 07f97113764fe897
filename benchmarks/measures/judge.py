"""Answers that a served model judges, beside what the model can do and what was agreed with it.

One worker: how many calls it keeps under way. Two workers: how many calls a second they get out of an endpoint that
answers a hundred, each after half a second: while there is work for both, and with the beginning, before the first
answer, and the end, when the last job is one worker's; how many they have under way together, beside `concurrency`;
and how many they begin in a second, beside `requests_per_minute`. Real workers, real Redis, real HTTP; no answer is
asked about twice, and each verdict is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from benchmarks.comparison import Comparison
from benchmarks.rigs.groups import spoken_rollout
from benchmarks.rigs.live_pool import live_pool
from benchmarks.rigs.paced_endpoint import WRONG, PacedEndpoint, paced_endpoint
from broker.messages import JsonObject, SampledGroup, ScoredGroup

CONCURRENCY = 64
LATENCY_S, RATE = 0.5, 100.0  # of the endpoint
PACE = 50  # calls a second that are agreed
GROUP = 8
ONE_JOB = 16  # groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    groups: int = 250  # of two workers
    rounds: int = 3
    workers: tuple[int, ...] = (1, 2)


FULL, SMOKE = Size(), Size(rounds=1, workers=(1,))


def measure(size: Size) -> list[Comparison]:
    """Return the rows of the table."""
    rows = []
    if 1 in size.workers:
        held = [_judge(1, ONE_JOB) for _ in range(size.rounds)]
        rows.append(
            _row(
                "calls under way, 1 worker",
                "calls",
                [float(run.endpoint.most_at_once) for run in held],
                "limit: `concurrency`",
                CONCURRENCY,
            )
        )
    if 2 in size.workers:
        fast = [_judge(2, size.groups) for _ in range(size.rounds)]
        paced = [_judge(2, size.groups // 2, requests_per_minute=60 * PACE) for _ in range(size.rounds)]
        rows += [
            _row(
                f"{size.groups * GROUP:,} answers judged, 2 workers: the middle eight tenths",
                "calls/s",
                [run.endpoint.middle_rate for run in fast],
                "limit: what the endpoint answers",
                RATE,
            ),
            _row(
                "all of them, from the first group there to the last handed over",
                "calls/s",
                [run.rate for run in fast],
                "limit: what the endpoint answers",
                RATE,
            ),
            _row(
                "most calls under way in these, 2 workers",
                "calls",
                [float(run.endpoint.most_at_once) for run in fast],
                "limit: `concurrency`",
                CONCURRENCY,
                is_cap=True,
            ),
            _row(
                f"{size.groups // 2 * GROUP:,} answers judged with `requests_per_minute`, 2 workers",
                "calls/s",
                [run.rate for run in paced],
                "limit: what is agreed",
                PACE,
            ),
            _row(
                "most calls that came in 10 seconds of these",
                "calls",
                [float(run.endpoint.most_within(10.0)) for run in paced],
                "limit: what is agreed",
                10 * PACE,
                is_cap=True,
            ),
        ]
    return rows


@dataclass(frozen=True, slots=True)
class _Run:
    """One pool's work."""

    endpoint: PacedEndpoint
    rate: float  # calls a second, from the groups being there to the last one's hand-over


def _judge(workers: int, groups: int, **limits: Any) -> _Run:
    """Have a new pool judge so many groups."""
    with paced_endpoint(latency_s=LATENCY_S, rate=RATE) as endpoint:
        section = {
            "type": "judge",
            "variant": "stem",
            "endpoint": {"urls": [endpoint.url], "model": "judge", "concurrency": CONCURRENCY, **limits},
        }
        rollouts = [_rollout(number) for number in range(groups)]
        with live_pool(workers, tasks={"math": {"scorer": section}}) as pool:
            endpoint.came_at.clear()  # of the self-test
            endpoint.most_at_once = 0
            seconds, scored = pool.score(rollouts)
        _check(scored)
        if len(endpoint.came_at) != groups * GROUP:
            raise RuntimeError(f"{len(endpoint.came_at)} calls for {groups * GROUP} answers")
    return _Run(endpoint, groups * GROUP / seconds)


def _rollout(number: int) -> SampledGroup:
    """Return a group with one wrong answer; no two alike in any group."""
    texts = [f"\\boxed{{the answer {number} {WRONG if place == 0 else place} }}" for place in range(GROUP)]
    rollout = spoken_rollout(str(number), texts, "")
    row = {"type": "llm_judge", "answer": {"value": "what it says in the book", "question": "What is it?"}}
    return replace(rollout, prompt=replace(rollout.prompt, verification_info=JsonObject(row)))


def _check(scored: Sequence[ScoredGroup]) -> None:
    """Refuse a wrong verdict: a fast one is no result."""
    expected = (0.0, *[1.0] * (GROUP - 1))
    if wrong := [group for group in scored if group.rewards != expected]:
        raise RuntimeError(
            f"{len(wrong)} of {len(scored)} groups have other rewards, such as {wrong[0].rewards}: "
            f"{wrong[0].scores[0].reason}"
        )


def _row(
    what: str, unit: str, ours: list[float], beside: str, limit: float, *, is_cap: bool = False
) -> Comparison:
    return Comparison(
        what=what,
        unit=unit,
        ours=ours,
        beside=beside,
        other=[float(limit)] * len(ours),
        less_is_better=is_cap,
    )
