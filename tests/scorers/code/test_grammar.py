"""The grammar of attacks: the same ones for a seed, distinct, of every production, and none that holds a right answer."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from contextlib import closing

import pytest

from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox.harness import cases
from scorers.code.scorer import CodeTests
from tests.scorers.code.corpus.grammar.programs import (
    COUNT,
    EVERYWHERE,
    FAMILIES,
    TIMES,
    Attack,
    attacks_of,
    grammar_attacks,
    grammar_of,
    sealed_honest,
)
from tests.scorers.code.corpus.grammar.rules import Deriver, dead_ends
from tests.scorers.code.corpus.grammar.sealed_rows import ROWS

pytestmark = pytest.mark.unit
MARKS = ("@PORT@", "@FOLDER@", "@SOCKET@", "@ROOT@", "@PID@")  # of what the proving ground plants


@pytest.fixture(scope="module")
def attacks() -> list[Attack]:
    return list(attacks_of(COUNT))


def tree_of(attack: Attack) -> ast.Module:
    source = attack.source
    for mark in MARKS:
        source = source.replace(mark, "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # `[] is ()` and its like
        return ast.parse(source)


def test_a_seed_gives_the_same_attacks_and_another_gives_others() -> None:
    attacks, again, others = ([one.source for one in attacks_of(60, seed=seed)] for seed in (0, 0, 1))
    assert attacks == again
    assert len({*others} - {*attacks}) >= 50


@pytest.mark.prove
def test_attacks_are_distinct_and_of_every_family_at_every_moment_on_every_row(attacks: list[Attack]) -> None:
    assert len({attack.source for attack in attacks}) == len(attacks) == COUNT
    assert len({ast.dump(tree_of(attack)) for attack in attacks}) >= COUNT * 0.99
    assert min(Counter(attack.family for attack in attacks).values()) >= COUNT // len(FAMILIES)
    assert {attack.row for attack in attacks} == ROWS.keys()
    assert {f"moment {attack.moment}" for attack in attacks} == set(TIMES)


def test_every_symbol_has_productions_and_is_used_by_some_family() -> None:
    ends = [dead_ends(grammar_of(family, sealed), TIMES) for family in FAMILIES for sealed in ROWS.values()]
    assert [end for found in ends for end in found if "has no" in end] == []
    assert set.intersection(*map(set, ends)) == set()


def test_a_symbol_takes_its_productions_by_turns() -> None:
    deriver = Deriver("0")
    texts = [deriver.text({"a": ("<b><b>", "x"), "b": ("1", "2")}, "a") for _ in range(6)]
    assert Counter("".join(texts)) == {"x": 3, "1": 3, "2": 3}


def test_attacks_name_every_exception_that_ends_the_tests() -> None:
    """One that was called otherwise since would be nobody's, and an attack by its name would prove nothing."""
    kinds = (one for one in vars(cases).values() if isinstance(one, type))
    own = {
        one.__name__ for one in kinds if issubclass(one, BaseException) and one.__module__ == cases.__name__
    }
    assert len(own) == 4
    assert own <= {*EVERYWHERE["exception name"]} & {*EVERYWHERE["exception word"]}


@pytest.mark.prove
def test_no_attack_holds_a_right_answer_or_the_key(attacks: list[Attack]) -> None:
    """Such an answer would score by its own merit, and the proof would say that there is a hole."""
    secrets = set().union(*(sealed.secrets() for sealed in ROWS.values()))
    texts = {secret for secret in secrets if isinstance(secret, str)}
    numbers = {secret for secret in secrets if isinstance(secret, float)}
    assert min(map(len, texts)) >= 10
    for attack in attacks:
        assert not [text for text in texts if text in attack.source]
        constants = [node.value for node in ast.walk(tree_of(attack)) if isinstance(node, ast.Constant)]
        held = [value for value in constants if isinstance(value, int | float)]
        assert not [value for value in held if any(abs(value - number) < 1e-3 for number in numbers)]


def test_every_sealed_row_is_one_that_the_scorer_takes() -> None:
    with closing(CodeTests(CodeConfig(), ScorersConfig())) as scorer:
        for case in (*sealed_honest(), *grammar_attacks(60)):
            scorer.check_row(case.info)
