"""Shapes of answers: by the row, by the config, in which script, and asked for alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from broker.errors import BadMessage
from broker.messages import FinishReason
from config.rewards import FormatConfig
from config.scorer_kinds import CustomConfig, FormatTaskConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers.child.row_worker import RowScorer
from scorers.format.answer_shapes import NAMED
from scorers.format.completion_shape import CompletionShape
from scorers.format.scorer import FormatAnswer
from scorers.format.script import foreign_script
from tasks.kinds import ROW_TYPES
from tasks.route import route
from tests.scorers.format.tables import ATTACKS, BLANK, FILLED, NULLS, RIGHT, ROWS, WRONG
from tests.support.growth import is_linear

FORMAT = FormatAnswer(FormatTaskConfig())
II_THOUGHT = FormatConfig(think="required", language="en", mode="mix")
END = "<\uff5cend\u2581of\u2581sentence\uff5c>"


def of(name: str) -> dict[str, Any]:
    return {"type": "format", "of": ROWS[name]}


def test_every_right_shape_is_1_and_every_wrong_one_0() -> None:
    expected = dict.fromkeys(RIGHT, 1.0) | dict.fromkeys([*WRONG, *ATTACKS], 0.0)
    found = {(name, text): FORMAT.score(text, of(name)).value for name, text in expected}
    assert {line: value for line, value in found.items() if value != expected[line]} == {}


def test_a_box_in_which_nobody_can_read_anything_is_empty(subtests: pytest.Subtests) -> None:
    for name, around in [
        ("math", "\\boxed{%s}"), ("hitab", "\\boxed{%s}"), ("choice", "\\boxed{%s}"), ("gsm8k", "#### %s")
    ]:  # fmt: skip
        with subtests.test(name):
            values = {
                content: FORMAT.score(around.replace("%s", content), of(name)).value
                for content in (*BLANK, *FILLED)
            }
            assert {content for content in BLANK if values[content] != 0.0} == set()
            assert {content for content in FILLED if values[content] != 1.0} == set()


def test_any_answer_is_one_that_can_be_read() -> None:
    shape = CompletionShape(FormatConfig(answer="any"))
    readable = {"{}", "{ }", "{{}}"}  # outside a box
    for content in (*(set(BLANK) - readable), "<answer></answer>", "```\n```", "<answer>\u200b</answer>"):
        assert shape.score(content, ROWS["math"]).value == 0.0, content
    for content in (*FILLED, "A.", "{}", "```py\nx\n```"):
        assert shape.score(content, ROWS["math"]).value == 1.0, content


def test_a_thought_of_what_nobody_sees_has_no_words() -> None:
    shape = CompletionShape(FormatConfig(think="required"))
    for hidden in ("\u3164", "\u200b", "\uffa0\u115f"):
        assert shape.score(f"<think>{hidden}</think>\\boxed{{5}}", ROWS["math"]).value == 0.0


def test_nothing_has_the_shape_of_nothing() -> None:
    assert {(name, text) for name in ROWS for text in NULLS if FORMAT.score(text, of(name)).value} == set()


def test_the_shapes_that_ii_thought_measured_get_its_values(subtests: pytest.Subtests) -> None:
    for text, value in [
        ("<think>x</think> \\boxed{15}" + END, 1.0),
        ("\\boxed{15}" + END, 0.0),
        ("<think>\u7684</think> \\boxed{15}" + END, 0.0),
        # On purpose other than the reference, which gives these 1: the box must stand where the answer is looked for, an
        # empty span is no thinking, and kana and Hangul are no more English than Han.
        ("<think>\\boxed{15}</think>" + END, 0.0),
        ("<think></think> \\boxed{15}" + END, 0.0),
        ("<think> \n</think> \\boxed{15}", 0.0),
        ("<think>...</think> \\boxed{15}", 0.0),
        ("<think>\u3053\u308c</think> \\boxed{15}", 0.0),
        ("<think>\ud55c\uad6d</think> \\boxed{15}", 0.0),
    ]:
        with subtests.test(text=text):
            assert CompletionShape(II_THOUGHT).score(text, ROWS["math"], FinishReason.STOP).value == value


def test_what_was_cut_off_has_not_ended_and_what_was_recorded_may_have(subtests: pytest.Subtests) -> None:
    text = "<think>x</think> \\boxed{15}"
    for config, finish, value in (
        (FormatConfig(), FinishReason.LENGTH, 0.0),
        (FormatConfig(), FinishReason.STOP, 1.0),
        (FormatConfig(), None, 1.0),
        (FormatConfig(finish="optional"), FinishReason.LENGTH, 1.0),
    ):
        with subtests.test(config=config, finish=finish):
            assert CompletionShape(config).score(text, ROWS["math"], finish).value == value


def test_thinking_has_a_least_number_of_words(subtests: pytest.Subtests) -> None:
    for thought, words, value in [
        ("one two three", 3, 1.0), ("one two", 3, 0.0), ("\u6211\u4eec\u7b97", 3, 1.0),
        ("1, 2, 3", 3, 1.0), ("<think></think>", 1, 0.0), (". . .", 1, 0.0),
    ]:  # fmt: skip
        with subtests.test(thought=thought, words=words):
            score = CompletionShape(FormatConfig(think="required", min_think=words)).score(
                f"<think>{thought}</think>\\boxed{{1}}", ROWS["math"]
            )
            assert score.value == value
            assert ("words of thinking" in score.reason) == (value == 0.0)


def test_the_config_may_say_what_is_wanted_of_any_row(subtests: pytest.Subtests) -> None:
    cases: list[tuple[FormatConfig, str, float]] = [
        (FormatConfig(answer="tag"), "<answer>5</answer>", 1.0),
        (FormatConfig(answer="tag"), "\\boxed{5}", 0.0),
        (FormatConfig(answer="block"), "```\n5\n```", 1.0),
        (FormatConfig(answer="block"), "```\n```", 0.0),
        (FormatConfig(answer="any"), "5", 1.0),
        (FormatConfig(answer="any"), " ", 0.0),
        (FormatConfig(box=True), "#### 5 \\boxed{5}", 1.0),
        (FormatConfig(box=True), "#### 5", 0.0),
        (FormatConfig(box=False), "5", 1.0),
    ]
    for config, text, value in cases:
        with subtests.test(config=config, text=text):
            assert CompletionShape(config).score(text, ROWS["gsm8k"]).value == value


def test_a_format_that_contradicts_itself_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"box": True, "answer": "tag"}, "the same thing twice"),
        ({"mode": "mix", "weight": 1}, "leaves nothing"),
        ({"language": "xx"}, "language"),
        ({"min_think": 0}, "min_think"),
    ]
    for section, message in cases:
        with subtests.test(section=section), pytest.raises(ValidationError, match=message):
            FormatConfig.model_validate(section)


LANGUAGES: list[tuple[str, str, bool]] = [
    ("Hello, na\u00efve caf\u00e9 \u0151 \u0259", "en", True),
    ("\\boxed{5}", "en", True),
    ("", "en", True),
    ("\u03c0 \u03b8 \u211d \u2135 \U0001d465 \U0001d6fc \u00aa \u00b5 \u212b \ufb01", "en", True),
    ("\uff58 \u2113 \u2460 2\u03c0r", "en", True),
    ("x \u7684 y", "en", False),
    ("\u3053\u308c", "en", False), ("\uff76\uff80", "en", False), ("\ud55c", "en", False),
    ("\u041f\u0440\u0438\u0432\u0435\u0442", "en", False),
    ("p\u0430ypal", "en", False),
    ("\u0f56\u0f7c\u0f51", "en", False),
    ("\u03b1\u03c5\u03c4\u03ae", "en", False),
    ("\u03b1\u03c5\u03c4\u03ae", "el", True),
    ("\u3005", "en", False),
    ("\u6240\u4ee5\u7b54\u6848\u662f \\boxed{\\frac{1}{2}}", "zh", True),
    ("So it is \\boxed{1}", "zh", False), ("\\boxed{5}", "zh", True), ("\u4e2d\u6587\u306e", "zh", False),
    ("\u7b54\u6848 `long_name` ```py\nfor x in range\n```", "zh", True),
    ("\u7b54\u3048\u306f\u4e94\u3005\u30fc", "ja", True),
    ("\ub2f5\uc740 5 \\boxed{5}", "ko", True),
    ("\u043e\u0442\u0432\u0435\u0442 x = 5", "ru", True),
    ("the answer is x", "ru", False),
    ("\u0e08\u0e1a \u0e17\u0e35\u0e48", "th", True),
    ("\u0939\u093f\u0928\u094d\u0926\u0940", "hi", True),
    ("\u0645\u0631\u062d\u0628\u0627", "ar", True),
    ("\u0645\u0631\u062d\u0628\u0627", "he", False),
]  # fmt: skip


def test_a_language_is_told_by_its_script() -> None:
    found = {
        (text, language): foreign_script(text, language) is None  # type: ignore[arg-type]  # of a table
        for text, language, _ in LANGUAGES
    }
    assert {case: is_right for case, is_right in found.items() if (*case, is_right) not in LANGUAGES} == {}


@pytest.mark.parametrize(
    ("piece", "tail"),
    [
        ("`", ""), ("```a\n", ""), ("\\", ""), ("`a", ""), ("<think>", "</think>"),
        ("a </think>", "\\boxed{" * 1000),
    ],
)  # fmt: skip
def test_no_text_takes_long(piece: str, tail: str) -> None:
    config = FormatConfig(think="required", min_think=1000, language="zh")

    def work(text: str) -> None:
        assert CompletionShape(config).score(text, ROWS["math"]).value == 0.0
        assert (
            CompletionShape(FormatConfig()).score(text + "(" * (len(text) // 4), ROWS["choice"]).value == 0.0
        )
        foreign_script(text, "zh")

    assert is_linear(work, lambda count: piece * count + tail, 100_000 // len(piece))


@pytest.mark.parametrize("as_text", [False, True])
def test_a_format_row_carries_another_rows_verification_info(*, as_text: bool) -> None:
    for row in ROWS.values():
        given = {"type": "format", "of": json.dumps(row) if as_text else row, "id": 7}
        task, info = route({"verification_info": given})
        assert (task, info["type"], info["id"]) == ("format", "format", 7)
        assert info["of"]["type"] == row["type"]
        FORMAT.check_row(info)


def test_a_format_row_around_no_row_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        (None, "must be an object"), ({}, "needs a type"), (5, "object"),
        ({"type": "maths", "answer": {"value": "5"}}, "did you mean math"),
        ({"type": "math", "answer": {}}, "no answer"),
        ({"type": "format", "of": {}}, "can't be `of` another one"),
    ]  # fmt: skip
    for of_what, message in cases:
        with subtests.test(of_what=of_what):
            with pytest.raises(BadMessage, match=message):
                route({"verification_info": {"type": "format", "of": of_what}})
            if not isinstance(of_what, dict) or "type" not in of_what:
                with pytest.raises(BadMessage, match="needs `of`"):
                    FORMAT.check_row({"type": "format", "of": of_what})


def test_a_format_row_may_be_of_a_custom_task() -> None:
    tasks = {
        "format": TaskConfig(scorer=FormatTaskConfig()),
        "parity": TaskConfig(scorer=CustomConfig(import_path="parity:Parity")),
    }
    info = {"type": "format", "of": {"type": "parity", "answer": 1}}
    assert route({"verification_info": info}, tasks) == ("format", info)


def test_a_format_row_may_say_how_its_text_ended(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str | None, float]] = [
        ("required", None, 1.0), ("required", "stop", 1.0), ("required", "length", 0.0),
        ("optional", "length", 1.0),
    ]  # fmt: skip
    for finish, said, value in cases:
        with subtests.test(finish=finish, said=said):
            row = {"type": "format", "of": ROWS["math"], "finish_reason": said}
            scorer = RowScorer(
                ScorersConfig(tasks={"format": TaskConfig(scorer=FormatTaskConfig(finish=finish))})
            )
            line = json.dumps({"llm_output": "\\boxed{5}", "verification_info": row}).encode()
            assert scorer.result(line)["value"] == value


def test_an_end_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BadMessage, match="one of stop, length; got 'eos'"):
        FORMAT.check_row({"type": "format", "of": ROWS["math"], "finish_reason": "eos"})


def test_every_shape_that_a_type_of_rows_declares_is_one_that_can_be_checked() -> None:
    assert {row.shape for row in ROW_TYPES.values()} <= NAMED.keys()


def test_the_self_test_holds() -> None:
    FORMAT.self_test()
