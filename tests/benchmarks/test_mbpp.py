"""MBPP: mutants are what they say, and a sample of real problems is told right from wrong in the sandbox."""

from __future__ import annotations

import ast
import random
from itertools import islice

import pytest

from benchmarks.proofs.mbpp import DATA, as_table, is_proven, judge, read, wrong_mutants
from benchmarks.rigs.mutants import is_wrong, mutate

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("source", "mutant"),
    [
        ("x = a + b", "x = a - b"),
        ("x = a < b", "x = a >= b"),
        ("x = a and b", "x = a or b"),
        ("x = 3", "x = 4"),
        ("x = True", "x = False"),
        ("x = 'a'", "x = 'ax'"),
        ("x += y", "x -= y"),
        ("x = a in b", "x = a not in b"),
        ("def f(x):\n    return x", None),
    ],
)
def test_mutant_differs_in_one_operator_or_constant(source: str, mutant: str | None) -> None:
    assert mutate(source, random.Random(0)) == mutant


def test_one_place_of_many_is_changed_and_the_seed_says_which() -> None:
    source = "def f(a):\n    return a * 2 + 3 if a < 4 else -a"
    mutants = {mutate(source, random.Random(seed)) for seed in range(50)}
    assert len(mutants) == 6  # *, 2, +, 3, <, 4
    assert ast.unparse(ast.parse(source)) not in mutants


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("def f(x): return x + 1", False),
        ("def f(x): return x", True),
        ("def f(x): return 1 / 0", True),
        ("f(", True),
    ],
)
def test_plain_run_labels_what_fails_its_tests(source: str, wrong: bool) -> None:
    assert is_wrong(source, ["assert f(1) == 2"], "") is wrong


@pytest.mark.prove
@pytest.mark.skipif(not DATA.exists(), reason=f"no {DATA}: MBPP as published")
def test_sample_of_references_passes_and_no_mutant_does() -> None:
    problems = random.Random(1).sample(read(DATA), 25)
    references = judge([(problem, problem.code) for problem in problems], 2)
    mutants = judge(list(islice(wrong_mutants(problems, 1), 10)), 2)
    assert [verdict.score.reason for verdict in references if verdict.score.value != 1.0] == []
    assert [verdict.source for verdict in mutants if verdict.score.value != 0.0] == []
    assert is_proven(references, mutants)
    assert not is_proven(references, references)  # a mutant that passes
    assert "| reference solutions | 25 | 25 | 0 |" in "\n".join(as_table(references, 1.0, mutants, 1.0, 1))
