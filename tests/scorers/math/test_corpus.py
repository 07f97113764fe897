"""Attacks score nothing, nor does saying nothing, nor what stands between two answers."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from broker.errors import BadMessage
from broker.messages import Score
from config.scorer_kinds import MathConfig
from scorers.math.equality import judge
from scorers.math.scorer import MathAnswer
from scorers.math.text import difference, is_integer, normalised
from scorers.math.variants import MAX_CHARS, VARIANTS
from tests.scorers.math.corpus import ATTACKS, NULL_ANSWERS, REFERENCES
from tests.support.child_waits import child_waits
from tests.support.growth import is_linear
from tests.support.text_tables import listed
from tests.support.tried_again import unless_starved

pytestmark = [pytest.mark.process, pytest.mark.prove(after=5), pytest.mark.together("mathematics")]

SEPARATORS = listed(r"""
 or ¦, ¦; ¦ ¦\quad ¦\\ ¦\text{ or }¦\text{ (or } ¦\text{, }¦\lor ¦\cup ¦\mid ¦/¦⏎¦&¦=¦\equiv ¦\to ¦\implies\u0020
:¦\ldots ¦\pm ¦\%¦%¦<¦} {¦$ $¦$, $¦$ or $¦\boxed ¦_¦^¦\u0009¦\u2028¦{}¦\
""")
PIECES = listed(r"0¦1 ¦\text{¦\text{ or¦or  ¦6-¦a^¦}^2¦\frac¦\frac{¦\sqrt ¦ .5¦0_{\text{¦5 \u0020")


@pytest.fixture(scope="module")
def hasty() -> Iterator[MathAnswer]:
    scorer = MathAnswer(MathConfig(deadline_s=1.0))
    yield scorer
    scorer.close()


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("row_type", ["math", "hendrycks_math", "prime_math"])
@pytest.mark.parametrize(
    ("text", "reference", "trick"), ATTACKS, ids=[f"{n}-{row[2]}" for n, row in enumerate(ATTACKS)]
)
def test_an_attack_gets_nothing_within_its_deadline(
    hasty: MathAnswer, text: str, reference: str, trick: str, row_type: str
) -> None:
    def timed() -> tuple[Score, float]:
        with child_waits() as waits:
            return hasty.score_text(text, reference, row_type), sum(waits)

    score, seconds = unless_starved(timed)
    assert score.value == 0.0, (trick, score.reason)
    assert seconds <= 1.0


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("end", ["", "}", "_x", "_{2", "!"])
def test_no_text_is_slow_to_compare_in_the_scorers_own_process(piece: str, end: str) -> None:
    def compare(text: str) -> None:
        for answer in (f"5\\text{{{text}", text):
            difference(answer, "5")
            normalised(answer)

    assert is_linear(compare, lambda count: piece * count + end, MAX_CHARS // len(piece))


def test_no_text_scores_for_two_references(math_scorer: MathAnswer) -> None:
    """Whatever stands between two answers, at most one of them counts."""
    found = []
    for row_type in VARIANTS:
        for separator in SEPARATORS:
            stated = f"5{separator}7"
            text = f"#### {stated}" if row_type == "gsm8k" else f"\\boxed{{{stated}}}"
            values = [math_scorer.score_text(text, reference, row_type).value for reference in ("5", "7")]
            found += [(row_type, stated)] if values == [1.0, 1.0] else []
    assert found == []


@pytest.mark.parametrize("row_type", VARIANTS)
def test_saying_nothing_scores_nothing(math_scorer: MathAnswer, row_type: str) -> None:
    for reference in REFERENCES:
        info = {"type": row_type, "answer": {"value": reference}}
        for text in NULL_ANSWERS:
            try:
                score = math_scorer.score(text, info)
            except BadMessage:
                assert row_type == "gsm8k"  # whose references are numbers
                continue
            assert score.value in (0.0, None), (text, reference, score.reason)


def test_the_mark_of_a_turns_end_changes_no_verdict(
    math_scorer: MathAnswer, subtests: pytest.Subtests
) -> None:
    for mark in ["<|im_end|>", "<|endoftext|>", "</s>\n", "<|eot_id|>"]:
        for row_type, text in [
            ("math", "so \\boxed{5}"), ("hendrycks_math", "so $\\boxed 5$"), ("gsm8k", "#### 5"),
            ("prime_math", "The answer is 5"),
            ("prime_math", "5"),
        ]:  # fmt: skip
            with subtests.test(mark=mark, row_type=row_type, text=text):
                assert math_scorer.score_text(text + mark, "5", row_type).value == 1.0
                assert math_scorer.score_text(text + mark, "6", row_type).value == 0.0


def test_integers_are_compared_without_the_child_as_it_would_compare_them() -> None:
    source = random.Random(0)
    texts = [
        "0",
        "-1",
        "1",
        *(str(source.randrange(-(10**size), 10**size)) for size in (1, 3, 20, 30, 200, 999)),
    ]
    for reference in texts:
        for answer in texts:
            assert is_integer(answer)
            verdict = judge({"reference": reference, "answer": answer, "boxed": True})
            assert verdict["equal"] == (answer == reference), (reference, answer)
    assert not any(map(is_integer, ("", "-0", "007", "1,000", "5.0", "+5", "5\n", "\uff15", "1" * 1001)))


def test_a_value_is_not_made_another_by_what_stands_beside_it(
    math_scorer: MathAnswer, subtests: pytest.Subtests
) -> None:
    for text, reference, row_type, value in [
        ("\\boxed{5 = \\infty}", "\\infty", "math", 0.0),
        ("\\boxed{5 = \\infty}", "\\infty", "prime_math", 0.0),
        ("\\boxed{-\\infty}", "\\infty", "math", 0.0),
        ("\\boxed{\\infty}", "\\infty", "math", 1.0),
        ("\\boxed{50\\text{ per cent}}", "50", "math", 0.0),
        ("\\boxed{50\\text{ per cent}}", "50", "hendrycks_math", 0.0),
        ("\\boxed{50\\text{ pc}}", "50", "prime_math", 0.0),
        ("\\boxed{50\\text{ per cent}}", "50\\%", "math", 1.0),
        ("\\boxed{5\\text{ or thirteen}}", "5", "math", 0.0),
        ("\\boxed{5\\text{ or maybe fifty}}", "5", "prime_math", 0.0),
        ("\\boxed{5\\text{ or maybe fifty}}", "5", "hendrycks_math", 0.0),
        ("\\boxed{5\\text{ cm}}", "5", "math", 1.0),
        ("#### 5e3", "5", "gsm8k", 0.0),
        ("#### 5k", "5", "gsm8k", 0.0),
        ("#### 5 million", "5", "gsm8k", 0.0),
        ("#### 5 apples", "5", "gsm8k", 1.0),
        ("#### 5kg", "5", "gsm8k", 1.0),
    ]:
        with subtests.test(text=text, reference=reference, row_type=row_type):
            score = math_scorer.score_text(text, reference, row_type)
            assert score.value == value, score.reason


def test_no_number_is_infinite_in_the_compatible_mode_either() -> None:
    for answer in ["5", "-3", "0"]:
        for reference in ["\\infty", "-\\infty"]:
            scorer = MathAnswer(MathConfig(compatible=True))
            value = scorer.score_text(f"\\boxed{{{answer}}}", reference, "prime_math").value
            assert value == 0.0, (answer, reference)
            scorer.close()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("so it is 5", 1.0), ("1 2 5", 1.0), ("final answer: 5e3", 0.0), ("10^5", 0.0), ("5*3", 0.0),
        ("v5", 0.0), ("$x = 5$", 1.0), ("1.5", 0.0), ("15/3", 1.0),
    ],
)  # fmt: skip
def test_a_bare_number_is_found_without_parse_expr(
    monkeypatch: pytest.MonkeyPatch, text: str, value: float
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a text of a model met parse_expr")

    monkeypatch.setattr("math_verify.parser.parse_expr", refuse)
    scorer = MathAnswer(MathConfig(require_box=False))
    assert scorer.score_text(text, "5").value == value
    scorer.close()
