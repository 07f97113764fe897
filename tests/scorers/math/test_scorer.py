"""Equality of answers: honest ones, hostile ones, broken references, and a child that is killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

from broker.errors import BadMessage, Retryable
from broker.messages import Score, ScoreStatus
from config.scorer_kinds import MathConfig
from scorers.math.scorer import HANGING, MathAnswer, reference_of
from scorers.scorer import OVER_LIMIT, OwnTime
from tests.support.child_waits import child_waits
from tests.support.tried_again import unless_starved
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2), pytest.mark.together("mathematics")]


@pytest.fixture(scope="module")
def hasty() -> Iterator[MathAnswer]:
    """Yield a scorer that gives an answer a second, and so a loaded machine's honest work half of one, twice."""
    scorer = MathAnswer(MathConfig(deadline_s=1.0))
    yield scorer
    scorer.close()


SOME = [
    ("<think>\\boxed{4}</think> \\boxed{5}", "5", 1.0),
    ("\\boxed{1\n+ 2}", "3", 1.0),
    ("\\boxed{\\text{Evelyn}}", "Evelyn", 1.0),
    ("\\boxed{3,2,1}", "1,2,3", 1.0),
    ("\\boxed{5, 6}", "6", 0.0), ("\\boxed{I think & it is 72}", "72", 0.0), ("\\boxed{1/0}", "5", 0.0),
    ("\\boxed{9**9**9**9}", "5", 0.0), ("\\boxed{" + "1" * 20_000 + "}", "5", 0.0), ("", "5", 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reference", "value"), SOME)
def test_an_answer_is_1_where_it_is_equal(
    math_scorer: MathAnswer, text: str, reference: str, value: float
) -> None:
    score = math_scorer.score_text(text, reference)
    assert (score.status, score.value) == (ScoreStatus.SCORED, value), score.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\\boxed{\\frac{4}{3}}", "answer \\frac{4}{3}, expected 5"),
        ("\\boxed{5.0}", "answer 5.0 equals 5"),
        ("5", "no closed \\boxed{}"),
        ("<think>5", "the thinking was never closed"),
        ("\\boxed{}", "the box is empty"),
        ("\\boxed{" + "1" * 20_000 + "}", "an answer of 20000 characters; 10000 is the limit"),
    ],
)
def test_a_score_says_why(math_scorer: MathAnswer, text: str, reason: str) -> None:
    assert reason in math_scorer.score_text(text, "5").reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The answer is 5.", 1.0), ("the final answer is $\\frac{10}{2}$", 1.0), ("\\boxed{5}", 1.0),
        ("I give up", 0.0), ("", 0.0), ("<think>5", 0.0), ("first 5, then \\boxed{6}", 0.0),
    ],
)  # fmt: skip
def test_without_require_box_the_last_expression_counts(text: str, value: float) -> None:
    scorer = MathAnswer(MathConfig(require_box=False))
    try:
        assert scorer.score_text(text, "5").value == value
    finally:
        scorer.close()


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    "answer",
    [
        HANGING, "9^{9^{9^{9}}}", "(10^{9})!", "\\binom{10^{9}}{5\\cdot 10^{8}}",
        "(" * 3000 + "1" + ")" * 3000,
        "x^{" * 1500 + "2" + "}" * 1500,
    ],
)  # fmt: skip
def test_an_answer_that_hangs_is_wrong_after_one_deadline_and_says_so(hasty: MathAnswer, answer: str) -> None:
    def timed() -> tuple[Score, list[float]]:
        with child_waits() as waits:
            return hasty.score_text(f"\\boxed{{{answer}}}", "5"), waits

    score, waits = unless_starved(timed)
    assert score.value == 0.0
    assert "exceeded its deadline of 0.5 s, and again alone in a fresh child" in score.reason
    assert score.components == {OVER_LIMIT: 1.0}
    assert waits == [0.5, 0.5]
    assert hasty.score_text("\\boxed{5}", "5").value == 1.0


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("compatible", [False, True])
def test_no_text_of_a_model_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compatible: bool, subtests: pytest.Subtests
) -> None:
    monkeypatch.chdir(tmp_path)
    scorer = MathAnswer(MathConfig(deadline_s=6.0, compatible=compatible))
    call = "open('p','w')"
    spelled = "+".join(f"chr({ord(character)})" for character in call)
    for payload in (
        call, f"\\pi+len(str(exec({spelled})))", f"exec({spelled})", f"1+eval({spelled})", f"{call}#\\pi",
    ):  # fmt: skip
        with subtests.test(payload=payload):
            for row_type in ("math", "prime_math"):
                asked = partial(scorer.score_text, f"\\boxed{{{payload}}}", "\\pi", row_type)
                assert unless_starved(asked).value == 0.0
    assert unless_starved(partial(scorer.score_text, "\\boxed{5}", call, "math")).value in (0.0, None)
    scorer.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("\\frac{1}{", "can't be parsed"),
        ("\\pi &&& 3", "can't be parsed"),
        (HANGING, "itself exceeded the deadline"),
        ("1" * 20_000, "20000 characters"),
    ],
)
@pytest.mark.parametrize("text", ["\\boxed{5}", "no box"])
def test_a_broken_reference_is_unscorable(hasty: MathAnswer, reference: str, reason: str, text: str) -> None:
    score = hasty.score_text(text, reference)
    assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None)
    assert reason in score.reason


def test_a_child_that_is_killed_at_work_is_retryable_and_never_a_zero() -> None:
    scorer = MathAnswer(MathConfig(deadline_s=60.0))

    def kill() -> None:
        child = psutil.Process(wait_until(lambda: scorer.child_pid, "a child"))
        wait_until(lambda: child.cpu_times().user > 0.2, "the child works")
        child.kill()

    try:
        assert scorer.score_text("\\boxed{5}", "5").value == 1.0
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        with pytest.raises(Retryable, match="ended with -9"):
            scorer.score_text(f"\\boxed{{{HANGING}}}", "5")
        assert scorer.score_text("\\boxed{5}", "5").value == 1.0
    finally:
        scorer.close()


class WatchedTime(OwnTime):
    """The time of answers, which knows whether it is being measured."""

    clocks = 0

    @contextmanager
    def measured(self) -> Iterator[float]:
        with super().measured() as most_s:
            WatchedTime.clocks += 1
            try:
                yield most_s
            finally:
                WatchedTime.clocks -= 1


def test_what_warms_a_process_up_is_no_answers_time(monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[int] = []
    monkeypatch.setattr("scorers.math.scorer._warm_up", lambda: warmed.append(WatchedTime.clocks))
    scorer = MathAnswer(MathConfig(deadline_s=60.0))
    scorer.own_time = WatchedTime(deadline_s=60.0)
    for _ in range(2):
        assert scorer.score_text("\\boxed{\\frac{4\\pi}{3}}", "\\frac{3\\pi}{4}").value == 0.0
        scorer.close()
        assert scorer.own_time.ran_s > 0
    assert warmed == [0], "before the second child, with no clock running"


def test_the_same_text_gets_the_same_value_from_every_child_and_in_any_order(math_worker: MathAnswer) -> None:
    pairs = [(text, reference) for text, reference, _ in SOME]
    forwards = [math_worker.score_text(*pair).value for pair in pairs]
    math_worker.close()
    assert [math_worker.score_text(*pair).value for pair in reversed(pairs)] == forwards[::-1]


@pytest.mark.parametrize(
    ("info", "value"),
    [
        ({"type": "math", "answer": {"value": "72"}}, "72"),
        ({"type": "math_verifiable", "answer": {"value": "72"}}, "72"),
        ({"type": "math", "answer": {"value": 72}}, "72"),
        ({"type": "gsm8k", "answer": {"value": "-1,072.5"}}, "-1,072.5"),
        ({"type": "hendrycks_math", "answer": {"value": "\\frac12"}}, "\\frac12"),
        ({"type": "prime_math", "answer": {"value": "Evelyn"}}, "Evelyn"),
    ],
)
def test_a_row_holds_its_reference_under_answer_value(info: dict[str, object], value: str) -> None:
    assert reference_of(info) == value


@pytest.mark.parametrize(
    "info",
    [
        {}, {"type": "math"}, {"type": "math", "answer": {}}, {"type": "math", "answer": "72"},
        {"type": "math", "answer": {"value": None}},
        {"type": "math", "answer": {"value": " "}},
        {"type": "math", "answer": {"value": ["2"]}},
        {"type": "math", "answer": {"value": {}}},
        {"type": "math", "answer": {"value": True}},
        {"type": "code_verifiable", "answer": {"value": "72"}},
        {"type": ["math"], "answer": {"value": "72"}},
        {"type": "gsm8k", "answer": {"value": "seventy"}},
        {"type": "prime_math", "answer": {"value": ""}},
    ],
)  # fmt: skip
def test_a_row_without_an_answer_is_refused(math_scorer: MathAnswer, info: dict[str, object]) -> None:
    with pytest.raises(BadMessage, match="the math scorer needs verification_info"):
        math_scorer.check_row(info)
    with pytest.raises(BadMessage):
        math_scorer.score("\\boxed{5}", info)


def test_a_score_names_the_libraries_that_decided(math_scorer: MathAnswer) -> None:
    score = math_scorer.score_text("\\boxed{5}", "5")
    assert score.scorer == "math"
    assert "math-verify=" in score.version
    assert "sympy=" in score.version
