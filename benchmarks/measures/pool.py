r"""The pool of scorers beside what its work costs without it.

Math: two workers behind RQ, against twice what math_verify does alone in one process, `parse` and `verify` on the same
pairs in the same order. A group is one problem's reference with eight worked solutions, its own and the next seven
problems', so that each text is parsed once in its life: sympy remembers what it has seen. For the same reason the pool
and the bare process are new in every round. The verdicts of both sides have to agree.

Sleep: groups that cost a second each and nothing else, against as many a second as there are workers.

Memory: a worker and its child after MATH-500, peaks of resident memory, against the 400 MB that a worker may take.

The data (MATH-500 and GSM8K with worked solutions, JSON lines with `answer`) lie beside the checkout or not at all:
where they are missing their rows are left out.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison, TimedWork, take_turns
from benchmarks.results import ROOT
from benchmarks.rigs.groups import spoken_rollout
from benchmarks.rigs.live_pool import live_pool
from broker.messages import SampledGroup
from scorers.child.process import KillableChild
from scorers.text.extract import last_box

DATA = ROOT.parent / "shared" / "data"
TWICE_BARE = "limit: twice math_verify alone in one process"
GROUP = 8
MEMORY_MB = 400.0
DISAGREEMENTS = 0.02  # of the pairs: ours takes the last box alone, math_verify whatever it finds
BARE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    math500: int = 496  # pairs
    gsm8k: int = 4000
    rounds: int = 3
    workers: tuple[int, ...] = (1, 2, 4, 8)
    naps: int = 8  # groups for each worker


FULL, SMOKE = Size(), Size(math500=16, gsm8k=0, rounds=1, workers=(1,), naps=1)


def measure(size: Size) -> list[Comparison]:
    """Make the rows of the table."""
    rows = []
    for name, file, count in (
        ("MATH-500", "math500.jsonl", size.math500),
        ("GSM8K", "gsm8k_train.jsonl", size.gsm8k),
    ):
        if count and (DATA / file).is_file():
            rows += _math(name, _groups(DATA / file, count), size.rounds)
        elif count:
            sys.stderr.write(f"left out: {DATA / file} is not there\n")
    return rows + [_sleep(workers, size.naps) for workers in size.workers]


def bare(request: dict[str, Any]) -> dict[str, Any]:
    """Judge `groups` of (reference, texts) by math_verify alone; return the results and the seconds that they took."""
    peer = import_module("math_verify")  # as its users call it, not as scorers.math.equality does
    started = time.perf_counter()
    verdicts = [
        [
            bool(
                peer.verify(
                    gold=peer.parse(f"\\boxed{{{reference}}}", parsing_timeout=None),
                    target=peer.parse(text, parsing_timeout=None),
                    timeout_seconds=None,
                )
            )
            for text in texts
        ]
        for reference, texts in request["groups"]
    ]
    return {"seconds": time.perf_counter() - started, "verdicts": verdicts}


def _math(name: str, groups: list[tuple[str, list[str]]], rounds: int) -> list[Comparison]:
    """Measure throughput and memory of two workers on these groups."""
    pairs = sum(len(texts) for _, texts in groups)
    rollouts = [
        spoken_rollout(str(number), texts, reference) for number, (reference, texts) in enumerate(groups)
    ]
    peaks: list[float] = []
    verdicts: dict[str, list[list[bool]]] = {}

    def ours(_: int) -> TimedWork:
        with live_pool(2) as pool:
            seconds, scored = pool.score(rollouts)
            peaks.append(max(pool.peak_bytes()) / 1e6)
        scored.sort(key=lambda group: int(group.group_id))
        verdicts["ours"] = [[reward == 1.0 for reward in group.rewards] for group in scored]
        return TimedWork(pairs, seconds)

    def other(_: int) -> TimedWork:
        with closing(KillableChild(bare)) as child:
            child.ask({"groups": [["1", ["\\boxed{1}"]]]}, BARE_S)  # warm, as a worker is after its self-test
            reply = child.ask({"groups": groups}, BARE_S)
        verdicts["bare"] = reply["verdicts"]
        return TimedWork(2 * pairs, reply["seconds"])

    mine, others = take_turns(ours, other, rounds=rounds)
    _agree(name, verdicts, pairs)
    return [
        Comparison(
            what=f"{name}, {pairs:,} pairs in groups of {GROUP}, 2 workers",
            unit="pairs/s",
            ours=[turn.rate for turn in mine],
            beside=TWICE_BARE,
            other=[turn.rate for turn in others],
        ),
        Comparison(
            what=f"{name}, memory of a worker and its child",
            unit="MB",
            ours=peaks[1:],
            beside="limit: what it may take",
            other=[MEMORY_MB] * rounds,
            less_is_better=True,
        ),
    ]


def _agree(name: str, verdicts: dict[str, list[list[bool]]], pairs: int) -> None:
    """Raise where the two sides judge differently: a fast wrong result is no result."""
    differing = sum(
        ours != bare
        for mine, others in zip(verdicts["ours"], verdicts["bare"], strict=True)
        for ours, bare in zip(mine, others, strict=True)
    )
    right = sum(verdict for group in verdicts["ours"] for verdict in group)
    if differing > DISAGREEMENTS * pairs or right < len(verdicts["ours"]) * (1 - DISAGREEMENTS):
        raise RuntimeError(f"{name}: {differing} of {pairs} verdicts differ, and {right} are right")


def _groups(file: Path, pairs: int) -> list[tuple[str, list[str]]]:
    """Make groups of a reference and texts, every text once."""
    texts = list(_solutions(file, pairs))
    return [
        (last_box(texts[first]) or "", texts[first : first + GROUP]) for first in range(0, len(texts), GROUP)
    ]


def _solutions(file: Path, count: int) -> Iterator[str]:
    """Read worked solutions with their answer in a box; GSM8K's `#### 72` becomes one."""
    with file.open(encoding="utf-8") as lines:
        for _, line in zip(range(count), lines, strict=False):
            solution = json.loads(line)["answer"]
            yield re.sub(r"#### *(.+)$", r"The answer is \\boxed{\1}.", solution)


def _sleep(workers: int, naps: int) -> Comparison:
    """Measure groups a second of so many workers that sleep for a second a group."""
    task = {"scorer": {"type": "custom", "import_path": "benchmarks.rigs.sleeper:Sleeper"}}
    rollouts: list[SampledGroup] = [
        spoken_rollout(str(number), ["zzz"], "1") for number in range(workers * naps)
    ]
    with live_pool(workers, tasks={"math": task}) as pool:
        seconds, scored = pool.score(rollouts)
    return Comparison(
        what=f"{len(scored)} groups that sleep a second, {workers} workers",
        unit="groups/s",
        ours=[len(scored) / seconds],
        beside="limit: a second each, and nothing else",
        other=[float(workers)],
    )
