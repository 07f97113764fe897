"""Honest programs beside hanging ones: what a pool of four workers loses where two answers of a hundred never end.

MBPP's solutions, each scored against its own tests with a case's limit of ten seconds, go through a real pool, alone
and with hanging answers among them. The rate counts honest groups until the last of them is handed over. Then the same
groups, to the last hanging one, beside a pool that puts nothing off (`patience_s: null`). Rounds by turns; the honest
answers must all be right and the hanging ones all wrong. Where MBPP is not beside the checkout, nothing is measured.
"""

from __future__ import annotations

import ast
import json
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from benchmarks.comparison import Comparison, TimedWork, take_turns
from benchmarks.proofs.mbpp import DATA
from benchmarks.rigs.groups import spoken_rollout
from benchmarks.rigs.live_pool import live_pool
from broker.messages import JsonObject, SampledGroup, ScoredGroup

WORKERS = 4
CASE_S = 10.0
HANGING = 0.02  # of all answers
LIMIT = "limit: the same without hanging answers"
PATIENT = "the same pool with `patience_s: null`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    answers: int = 960  # honest ones
    sizes: tuple[int, ...] = (1, 8)  # of a group
    rounds: int = 3
    case_s: float = CASE_S


FULL, SMOKE = Size(), Size(answers=8, sizes=(1,), rounds=1, case_s=0.6)


def measure(size: Size) -> list[Comparison]:
    """Make two rows for each size of a group."""
    if not DATA.is_file():
        sys.stderr.write(f"left out: {DATA} is not there\n")
        return []
    return [row for group in size.sizes for row in _beside(size, group)]


def _beside(size: Size, group: int) -> Iterator[Comparison]:
    honest = _groups(size.answers // group, group, 0.0)
    mixed = _groups(size.answers // group, group, max(HANGING, 1 / size.answers))
    name = f"{size.answers} honest answers, {WORKERS} workers, groups of {group}"
    mine, others = take_turns(
        lambda _: _honest_rate(mixed, size), lambda _: _honest_rate(honest, size), rounds=size.rounds
    )
    yield Comparison(
        what=f"{name}, beside {_hanging(mixed)} that hang",
        unit="honest answers/s",
        ours=[turn.rate for turn in mine],
        beside=LIMIT,
        other=[turn.rate for turn in others],
    )
    yield Comparison(
        what=f"{name}, to the last of {_hanging(mixed)} that hang",
        unit="s",
        less_is_better=True,
        ours=[_score(mixed, size)[0]],
        beside=PATIENT,
        other=[_score(mixed, size, patience_s=None)[0]],
    )


def _honest_rate(groups: list[SampledGroup], size: Size) -> TimedWork:
    """Count the answers of groups in which nothing hangs, and the seconds to the last of these groups."""
    seconds, scored = _score(groups, size)
    quick = [group for group in scored if all(reward == 1.0 for reward in group.rewards)]
    after_s = max(group.scored_at for group in scored) - max(group.scored_at for group in quick)
    return TimedWork(sum(len(group.rewards) for group in quick), seconds - after_s)


def _score(groups: list[SampledGroup], size: Size, **section: Any) -> tuple[float, list[ScoredGroup]]:
    """Score groups by a new pool. Raises RuntimeError where an answer gets what it does not deserve."""
    task = {"code": {"scorer": {"type": "code", "case_timeout_s": size.case_s}}}
    with live_pool(WORKERS, tasks=task, **section) as pool:
        seconds, scored = pool.score(groups)
    for group in scored:
        for completion, reward in zip(group.rollout.completions, group.rewards, strict=True):
            if reward != float("while True: pass" not in completion.text):
                raise RuntimeError(f"group {group.group_id}: {reward} for {completion.text}")
    return seconds, scored


def _groups(count: int, size: int, share: float) -> list[SampledGroup]:
    """Make groups of `size` honest answers to one problem each; `share` of all answers hang, at seeded places."""
    with DATA.open(encoding="utf-8") as lines:
        problems = [json.loads(line) for _, line in zip(range(count), lines, strict=False)]
    hanging = round(share / (1 - share) * count * size)
    places = [*[True] * hanging, *[False] * (count * size)]
    random.Random(0).shuffle(places)  # noqa: S311 - a sample, not a secret
    answers = iter(places)
    groups = []
    for number, problem in enumerate(problems):
        texts: list[str] = []
        honest = 0
        while honest < size:
            hangs = next(answers)
            honest += not hangs
            texts.append(_answer(problem, len(texts), hangs=hangs))
        group = spoken_rollout(str(number), texts, "")
        info = {
            "type": "code",
            "answer": {"tests": problem["test_list"], "setup": problem["test_setup_code"]},
        }
        groups.append(
            replace(group, prompt=replace(group.prompt, task="code", verification_info=JsonObject(info)))
        )
    return groups


def _answer(problem: Mapping[str, Any], number: int, *, hangs: bool) -> str:
    """Write the problem's solution; the comment makes each answer a text of its own, so that each is scored."""
    code = problem["code"]
    if hangs:
        code += f"\ndef {_tested(problem)}(*arguments, **named):\n    while True: pass\n"
    return f"```python\n{code}\n# answer {number}\n```"


def _tested(problem: Mapping[str, Any]) -> str:
    """Find the function that the problem's first test calls."""
    own = {node.name for node in ast.walk(ast.parse(problem["code"])) if isinstance(node, ast.FunctionDef)}
    called = (
        node.func.id
        for node in ast.walk(ast.parse(problem["test_list"][0]))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    return next(name for name in called if name in own)


def _hanging(groups: list[SampledGroup]) -> int:
    return sum("while True: pass" in answer.text for group in groups for answer in group.completions)
