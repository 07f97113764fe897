"""LiveBench's tasks: right answers score what their rule says, wrong ones less, attacks and silence nothing."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from broker.errors import BadMessage
from broker.messages import ScoreStatus
from config.scorer_kinds import LivebenchConfig
from scorers.livebench.rules import MAX_SENTENCES
from scorers.livebench.scorer import RULES, Livebench
from scorers.livebench.tables import MAX_TABLE_CHARS
from tasks.kinds import LIVEBENCH_TASKS
from tasks.route import route
from tests.scorers.livebench.corpus import ATTACKS, HONEST, MEASURED, QUESTIONS, WRONG, Asked, as_asked
from tests.support.growth import is_linear
from tests.support.text_tables import listed

NULL_ANSWERS = (
    *listed(r"""
¦⏎¦I don't know¦</think>¦pass¦<think>it is¦\boxed{}¦<answer></answer>¦<solution></solution>¦****¦**  **¦**.**
<PLOT_SUMMARY>¦```⏎```¦{}¦[]¦<table></table>¦|¦\u00a0¦**\u00a0**
The weather was fine, and so they walked home. It was late.
"""),
    "# a comment",
)
PIECES = listed(r"""
*¦**a**, ¦**Answer:** ¦\boxed{¦<¦<td>¦|-¦"¦'a':¦```⏎¦⏎¦ ¦Ann wakes. ¦a ⏎⏎**
""")
SCORER = Livebench(LivebenchConfig())


def info(question: Asked) -> dict[str, Any]:
    answer = {"value": question.value, "task": question.task}
    asked = {} if question.prompt is None else {"prompt": question.prompt}
    return {"type": "livebench", "answer": {**answer, **asked}}


def failing(cases: list[tuple[Asked, str, float]]) -> list[str]:
    """Return a line for every text that does not score what it should."""
    scores = [(SCORER.score(text, info(question)), question, text, value) for question, text, value in cases]
    return [
        f"{question.task} {text[:60]!r}: {score.value}, expected {value}: {score.reason}"
        for score, question, text, value in scores
        if score.value != pytest.approx(value)
    ]


def test_a_right_answer_scores_1() -> None:
    assert failing([(question, text, 1.0) for question, text in HONEST]) == []


def test_a_wrong_answer_scores_what_is_right_of_it() -> None:
    assert failing(WRONG) == []


def test_the_reference_as_the_prompt_asks_for_it_scores_1() -> None:
    for dress in ("{}", "<think>well</think>\n{}\n<|im_end|>"):
        assert failing([(asked, dress.replace("{}", as_asked(asked)), 1.0) for asked in QUESTIONS]) == []


def test_what_was_measured_is_repeated_but_where_a_rule_can_be_fooled() -> None:
    assert failing([(row.question, row.text, row.strict) for row in MEASURED]) == []
    assert [row for row in MEASURED if bool(row.remark) != (row.old != row.strict)] == []


def test_an_attack_gets_nothing() -> None:
    assert failing([(question, text, 0.0) for question, text, _ in ATTACKS]) == []


def test_saying_nothing_scores_nothing() -> None:
    assert failing([(question, text, 0.0) for question in QUESTIONS for text in NULL_ANSWERS]) == []


def test_one_text_answers_one_reference() -> None:
    """Whatever stands in a list, no two references are both equal to it."""
    texts = [
        f"**{first}{between}{second}**"
        for first in ("yes", "no")
        for second in ("yes", "no")
        for between in (", ", " or ", "/", "; ", "** or **", "** **", "**, **", ",,")
    ]
    references = ["yes", "no", "yes, no", "no, yes", "no, no", "yes, yes"]
    for task in ("web_of_lies_v2", "web_of_lies_v3", "zebra_puzzle", "house_traversal", "spatial", "cta"):
        for text in texts:
            right = [
                value for value in references if SCORER.score(text, info(Asked(task, value))).value == 1.0
            ]
            assert len({value.replace(",", "") for value in right}) <= 1, (task, text, right)


@pytest.mark.process
@pytest.mark.prove
def test_no_text_is_slow() -> None:
    questions = {question.task + (question.prompt or ""): question for question in QUESTIONS}
    for question in questions.values():
        row = info(question)
        for piece in PIECES:
            assert is_linear(partial(score_both, row), piece.__mul__, 8_000 // len(piece)), (row, piece)


def score_both(row: dict[str, Any], text: str) -> None:
    for whole in (f"<PLOT_SUMMARY>{text}", f"<solution>{text}</solution>"):
        assert SCORER.score(whole, row).value is not None


def test_a_response_of_more_than_a_million_characters_is_refused() -> None:
    score = SCORER.score("a" * 1_000_001, info(QUESTIONS[0]))
    assert (score.value, score.reason) == (0.0, "a response of 1000001 characters; 1000000 is the limit")


def test_every_task_that_a_row_may_have_has_a_rule() -> None:
    assert set(RULES) == set(LIVEBENCH_TASKS) == {question.task for question in QUESTIONS}


def test_the_self_test_passes() -> None:
    SCORER.self_test()


def test_a_reference_that_can_not_be_read_is_unscorable() -> None:
    cases: list[tuple[Asked, str]] = [
        (Asked("tablejoin", "a -> b"), "the reference is no mapping"),
        (Asked("tablejoin", "{'a': None}"), "is no mapping"),
        (Asked("tablereformat", "no json", "Target Format: JSON"), "is no table in json: no JSON"),
        (Asked("tablereformat", "a,b", "Target Format: CSV"), "no table in csv: it has no cells"),
        (Asked("tablereformat", "a" * (MAX_TABLE_CHARS + 1), "Target Format: CSV"), "200001 characters"),
    ]
    for question, reason in cases:
        score = SCORER.score("{'a': 'b'}", info(question))
        assert (score.status, reason in score.reason) == (ScoreStatus.UNSCORABLE, True), score.reason


def test_a_row_that_lacks_something_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ("1", "the livebench scorer needs verification_info"),
        ({"value": "1"}, "no rule for LiveBench's task None"),
        ({"value": "1", "task": 10**5_000}, "task int too large to be shown; known are"),
        ({"value": "1", "task": "ct"}, r"task 'ct'; did you mean cta\?; known are web_of"),
        ({"value": " ", "task": "cta"}, "a row without an answer: .* is ' '"),
        ({"value": True, "task": "cta"}, "a row without an answer"),
        ({"value": "?!", "task": "cta"}, "has nothing in it"),
        ({"value": "yes,,no", "task": "web_of_lies_v2"}, "or an empty item"),
        ({"value": "a", "task": "cta", "prompt": ["a"]}, "answer.prompt .* must be text"),
        ({"value": "a", "task": "tablereformat"}, "needs answer.prompt, which names"),
        ({"value": "a", "task": "tablereformat", "prompt": "Target Format: XLS"}, "got .Target Format: XLS"),
        (
            {"value": "a. " * (MAX_SENTENCES + 1), "task": "plot_unscrambling"},
            "201 sentences; 200 is the limit",
        ),
    ]
    for answer, message in cases:
        with subtests.test(answer=answer):
            with pytest.raises(BadMessage, match=message):
                SCORER.check_row({"type": "livebench", "answer": answer})
            with pytest.raises(BadMessage, match="the livebench scorer needs verification_info"):
                SCORER.check_row({"type": "math", "answer": answer})


@pytest.mark.parametrize("source", ["ood__livebench", "ood__livebench_reasoning"])
def test_a_row_of_reasoning360_becomes_one_of_ours(source: str) -> None:
    for question in QUESTIONS:
        row = {
            "data_source": source,
            "prompt": [{"role": "user", "content": question.prompt or "?"}],
            "reward_model": {"style": "rule", "ground_truth": question.value},
            "extra_info": {"task": question.task, "category": "any", "prompt": [question.prompt or "?"]},
        }
        task, found = route(row)
        got = (task, found["answer"]["task"], found["answer"]["value"])
        assert got == ("livebench", question.task, question.value)
        assert SCORER.score(as_asked(question), json.loads(json.dumps(found))).value == 1.0


def test_a_task_without_a_rule_is_refused_where_the_row_is_read(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"value": "1", "task": "tableformat"}, "'tableformat' is not scored; did you mean tablereformat"),
        ({"value": "1", "task": "AMPS_Hard"}, "'AMPS_Hard' is not scored; those that are: web_of_lies_v2"),
        ({"value": "1", "task": ["cta"]}, "is not scored"),
        ({"value": "1"}, "needs value and task; its answer has value"),
    ]
    for answer, message in cases:
        with subtests.test(answer=answer), pytest.raises(BadMessage, match=message):
            route({"verification_info": {"type": "livebench", "answer": answer}})
