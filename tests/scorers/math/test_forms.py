"""What a worker's child says of forms, and that math-verify says of them what is written beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from math_verify import parse, verify

from scorers.child.process import KillableChild, LimitExceeded
from scorers.math.scorer import MathAnswer
from tests.scorers.math.forms import HEAVY, NEAR, RIGHT, pairs
from tests.support.judged_here import misjudged
from tests.support.tried_again import unless_starved

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

MEMORY_BYTES = 2 << 30
HANG_S = 5.0  # a comparison that takes longer hangs
ANSWER_S = 60.0  # for one that doesn't, on a busy machine


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
    child = KillableChild(ask_math_verify, memory_bytes=MEMORY_BYTES)
    yield child
    child.close()


@pytest.mark.parametrize(("table", "value"), [(RIGHT, 1.0), (NEAR, 0.0)])
def test_a_workers_child_says_the_same(math_worker: MathAnswer, table: dict[str, Any], value: float) -> None:
    some = [forms[-1] for forms in pairs(table).values()][:: len(table) // 5]
    assert misjudged(math_worker, some, value) == {}


@pytest.mark.prove
@pytest.mark.parametrize(("reference", "answer"), HEAVY)
def test_a_wrong_answer_to_a_heavy_reference_is_never_paid(
    math_worker: MathAnswer, reference: str, answer: str
) -> None:
    score = unless_starved(lambda: math_worker.score_text(f"\\boxed{{{answer}}}", reference))
    assert score.value in (0.0, None), score.reason


@pytest.mark.prove
@pytest.mark.parametrize("table", [RIGHT, NEAR], ids=["right", "near"])
@pytest.mark.parametrize("name", RIGHT)
def test_math_verify_says_what_is_written_beside(
    math_verify_child: KillableChild, name: str, table: dict[str, Any]
) -> None:
    said_otherwise = {}
    for form in table[name]:
        request = {"answer": form.answer, "reference": form.reference}
        if form.hangs:
            with pytest.raises(LimitExceeded):
                math_verify_child.ask(request, timeout_s=HANG_S)
        elif (says := math_verify_child.ask(request, timeout_s=ANSWER_S)["equal"]) != form.is_taken:
            said_otherwise[form] = says
    assert said_otherwise == {}
