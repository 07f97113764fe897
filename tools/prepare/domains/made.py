"""Generate a few rows of each of the six domains, for testing a pipeline without a network: the sampler.

In: a random number generator. Out: drafts of mathematics, code, science, logic, simulation and tables, in turn. Each is
answerable, short, and scored instantly by its rule or in the sandbox; no judge is asked. Six consecutive records cover
the domains, and belong to the same split. Called by `tools.prepare.stages`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.prepare.domains.logic import graph_row, ordering_row
from tools.prepare.domains.mathematics import BOXED
from tools.prepare.preparation import Draft, Made, Preparation, Record, Split
from tools.prepare.puzzles import graph, ordering

_LETTERS: Final = "ABCD"
_CROPS: Final = ("rye", "oats", "corn", "peas")


def _mathematics(draw: random.Random) -> Draft:
    a, b, c = (draw.randint(2, 30) for _ in range(3))
    return Draft(prompt=f"How much is {a} * {b} + {c}?\n\n{BOXED}", ground_truth=str(a * b + c))


def _code(draw: random.Random) -> Draft:
    factor, offset = draw.randint(2, 99), draw.randint(1, 99)
    tests = "\n".join(f"assert f({n}) == {factor * n + offset}" for n in (0, 3, -4, 100))
    return Draft(
        prompt=f"Write a Python function f(n) that returns {factor} * n + {offset}, in a code block.",
        ground_truth=json.dumps({"functional": tests}),
        extra={"reference": f"def f(n):\n    return {factor} * n + {offset}\n"},
    )


def _science(draw: random.Random) -> Draft:
    speed, time = draw.randint(2, 30), draw.randint(3, 60)
    right = speed * time
    options = sorted({right, right + speed, right + 1, speed + time + 2 * right})
    shown = " ".join(f"({letter}) {value} m" for letter, value in zip(_LETTERS, options, strict=True))
    return Draft(
        prompt=f"A cart moves at {speed} m/s for {time} s. How far does it go?\n{shown}\n\n"
        r"Put the letter alone in \boxed{}.",
        ground_truth=_LETTERS[options.index(right)],
    )


def _implications(draw: random.Random) -> Draft:
    return graph_row(graph.puzzle(draw.randint(1, 3), 2, draw), draw)


def _order(draw: random.Random) -> Draft:
    found = ordering_row(ordering.make(0, draw), draw)
    return Draft(prompt=found.prompt, ground_truth=json.dumps(found.ground_truth))


def _simulation(draw: random.Random) -> Draft:
    step, n = draw.randint(2, 9), draw.randint(10, 60)
    code = f"def main_solution(n):\n    return {{'total': sum(range(0, n, {step}))}}"
    return Draft(
        prompt=f'What does this program return for n = {n}?\n```python\n{code}\n```\nAnswer with "output": and its '
        r"value as JSON, in \boxed{}.",
        ground_truth=f'"output": {json.dumps({"total": sum(range(0, n, step))})}',
    )


def _table(draw: random.Random) -> Draft:
    crops = draw.sample(_CROPS, 3)
    tons = {crop: (draw.randint(10, 99), draw.randint(10, 99)) for crop in crops}
    lines = ["| crop | 2023 | 2024 |", "|---|---|---|"]
    lines += [f"| {crop} | {before} | {after} |" for crop, (before, after) in tons.items()]
    crop = draw.choice(crops)
    return Draft(
        prompt="\n".join(lines)
        + f"\n\nThe question is: how many tons of {crop} were there in both years together?\n\n{BOXED}",
        ground_truth=str(sum(tons[crop])),
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of rows; scorers are chosen by the prefix of the data source, as with Reasoning360's."""

    data_source: str
    ability: str
    write: Callable[[random.Random], Draft]


_DOMAINS: Final[tuple[tuple[_Kind, ...], ...]] = (  # several kinds alternate
    (_Kind("math__made", "math", _mathematics),),
    (_Kind("codegen__made", "codegen", _code),),
    (_Kind("stem__supergpqa_made", "stem", _science),),
    (
        _Kind("logic__graph_made", "logical_reasoning", _implications),
        _Kind("logic__ordering_puzzle_made", "logical_reasoning", _order),
    ),
    (_Kind("simulation__codeio_made", "coding-inference", _simulation),),
    (_Kind("table__hitab", "table", _table),),
)


def _make(number: int, _: random.Random) -> Mapping[str, Any]:
    turn, domain = divmod(number, len(_DOMAINS))
    return {"domain": domain, "turn": turn}


def _row(record: Record, draw: random.Random) -> Draft:
    kinds = _DOMAINS[record["domain"]]
    kind = kinds[record["turn"] % len(kinds)]
    draft = kind.write(draw)
    return Draft(
        prompt=draft.prompt,
        ground_truth=draft.ground_truth,
        extra={"reference": draft.extra.get("reference")},
        columns={"data_source": kind.data_source, "ability": kind.ability},
    )


PREPARATIONS: Final = (
    Preparation(
        name="sampler",
        domain="all",
        about="a few made rows of each of the six domains, to try a pipeline with",
        source=Made(by="tools.prepare.domains.made", make=_make, cycle=len(_DOMAINS)),
        columns={"domain": (int,), "turn": (int,)},
        row=_row,
        data_source="sampler",
        ability="all",
        splits={"train": Split(share=(0.0, 0.75), size=24), "test": Split(share=(0.75, 1.0), size=12)},
    ),
)
