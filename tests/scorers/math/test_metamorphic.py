"""A template of each kind, through the scorer: what is right is paid, what is wrong is not, by either rule.

Of each template one right answer and one wrong one; `make prove-suite` has another template of each kind, and
`make prove-metamorphic` all of them, every rewrite, and files of real references.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator

import pytest
from _pytest.mark.structures import ParameterSet

from benchmarks.proofs.metamorphic import templates
from benchmarks.proofs.metamorphic.references import Reference
from benchmarks.proofs.metamorphic.scoring import TEMPLATE, Pair, verdict
from scorers.math.scorer import MathAnswer

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]


def _cases() -> Iterator[ParameterSet]:
    kinds: defaultdict[str, list[Reference]] = defaultdict(list)
    for template in templates.read():
        filled = template.filled(random.Random(template.reference))
        kinds[filled.kind].append(Reference(filled.reference, "", filled.kind, filled.right, filled.wrong))
    for kind, found in kinds.items():
        first, second = random.Random(kind).sample(found, 2)
        yield pytest.param(first, id=kind)
        yield pytest.param(second, id=f"{kind}, another", marks=pytest.mark.prove)


def _pairs(reference: Reference) -> Iterator[Pair]:
    chance = random.Random(reference.text)
    for answer in reference.right and [chance.choice(reference.right)]:
        yield Pair(answer, TEMPLATE, "math", 1.0)
    wrong = chance.choice(reference.wrong)
    for row_type in ("math", "prime_math"):
        yield Pair(wrong, TEMPLATE, row_type, 0.0)


@pytest.mark.parametrize("reference", _cases())
def test_a_reference_is_paid_by_what_equals_it_and_by_nothing_else(
    math_scorer: MathAnswer, reference: Reference
) -> None:
    wrong = []
    for pair in _pairs(reference):
        found = verdict(math_scorer, reference, pair)
        # Of a reference that can't be read, a wrong answer is unscorable, and a right one has to be its spelling.
        if found.is_paid or (pair.expected and found.value != 1.0):
            wrong.append(f"{reference.text} / {pair.answer} ({pair.row_type}): {found.value}, {found.reason}")
    assert wrong == []
