"""A right answer in another form scores 1, a near miss 0; math-verify says of both what is written beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pytest
from math_verify import parse, verify

from scorers.child.process import KillableChild, LimitExceeded
from scorers.math.scorer import MathAnswer
from tests.scorers.math.corpus import HONEST, WRONG
from tests.scorers.math.forms import HANGS, HEAVY, NEAR, RIGHT, Form
from tests.support.judged_here import Pair, misjudged
from tests.support.tried_again import unless_starved

pytestmark = pytest.mark.process

TABLES = {"right": RIGHT, "near": NEAR}
MEMORY_BYTES = 2 << 30
HANG_S = 5.0  # a comparison that takes longer hangs
ANSWER_S = 60.0  # for one that doesn't, on a busy machine


def pairs(table: dict[str, tuple[Form, ...]]) -> list[tuple[str, str]]:
    return [(form.answer, form.reference) for form in chain(*table.values())]


def ask_math_verify(request: dict[str, Any]) -> dict[str, Any]:
    """Compare two boxes with math-verify's defaults, but for its timeouts: they are the child's here."""
    try:
        gold, target = (
            parse(f"\\boxed{{{request[side]}}}", parsing_timeout=None) for side in ("reference", "answer")
        )
        return {"equal": bool(verify(gold, target, timeout_seconds=None))}
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - what math-verify can't read or compare it doesn't call equal
        return {"equal": False}


@pytest.fixture(scope="module")
def math_verify_child() -> Iterator[KillableChild]:
    """Yield a child that math-verify may hang."""
    child = KillableChild(ask_math_verify, memory_bytes=MEMORY_BYTES)
    yield child
    child.close()


def of(forms: Iterable[Form]) -> list[Pair]:
    return [(form.reference, form.answer) for form in forms]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_form_scores_1_and_a_near_miss_0(math_scorer: MathAnswer, name: str) -> None:
    assert misjudged(math_scorer, of(RIGHT[name]), 1.0) == {}
    assert misjudged(math_scorer, of(NEAR[name]), 0.0) == {}


def test_a_workers_killable_child_says_the_same_of_ten_forms(math_worker: MathAnswer) -> None:
    some = [*RIGHT][:: len(RIGHT) // 5]
    assert misjudged(math_worker, [of(RIGHT[name])[-1] for name in some], 1.0) == {}
    assert misjudged(math_worker, [of(NEAR[name])[-1] for name in some], 0.0) == {}


@pytest.mark.prove
@pytest.mark.parametrize(
    "form", HEAVY, ids=[f"{form.answer[:30]} for {form.reference[:30]}" for form in HEAVY]
)
def test_a_wrong_answer_to_a_heavy_reference_is_never_paid(math_worker: MathAnswer, form: Form) -> None:
    score = unless_starved(lambda: math_worker.score_text(f"\\boxed{{{form.answer}}}", form.reference))
    assert score.value in (0.0, None), score.reason


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_each_class_has_ten_pairs_and_each_table_three_hundred(table: dict[str, tuple[Form, ...]]) -> None:
    assert table.keys() == RIGHT.keys()
    assert {name: len(forms) for name, forms in table.items() if len(forms) < 10} == {}
    assert len(pairs(table)) >= 300


def test_no_pair_stands_twice() -> None:
    counts = Counter([*pairs(RIGHT), *pairs(NEAR)])
    assert [pair for pair, count in counts.items() if count > 1] == []


def test_no_pair_contradicts_the_corpus() -> None:
    assert set(pairs(RIGHT)) & set(WRONG) == set()
    assert set(pairs(NEAR)) & set(HONEST) == set()


def test_what_hangs_math_verify_is_in_the_tables_as_a_no() -> None:
    forms = {(form.answer, form.reference): form for form in chain(*RIGHT.values(), *NEAR.values(), HEAVY)}
    assert {pair: forms[pair].math_verify for pair in HANGS} == dict.fromkeys(HANGS, False)


@pytest.mark.prove
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", RIGHT)
def test_math_verify_says_what_is_written_beside(
    math_verify_child: KillableChild, name: str, table: str
) -> None:
    said_otherwise = {}
    for form in TABLES[table][name]:
        request = {"answer": form.answer, "reference": form.reference}
        if (form.answer, form.reference) in HANGS:
            with pytest.raises(LimitExceeded):
                math_verify_child.ask(request, timeout_s=HANG_S)
        elif (says := math_verify_child.ask(request, timeout_s=ANSWER_S)["equal"]) != form.math_verify:
            said_otherwise[form] = says
    assert said_otherwise == {}
