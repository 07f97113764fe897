"""Logic puzzles: right answers score 1, wrong ones what their cells are worth, attacks and silence nothing."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.errors import BadMessage
from broker.messages import Score, ScoreStatus
from config.scorer_kinds import LogicConfig
from config.scorers import ScorersConfig
from scorers.build import build_scorer
from scorers.logic.scorer import MAX_ANSWER_CHARS, LogicAnswer
from scorers.scorer import SelfTestFailed
from scorers.text.literals import MAX_DEPTH, NotALiteral, read_literal, unfenced
from tasks.route import route
from tests.scorers.logic.corpus import (
    ATTACKS,
    BIRDS,
    BROKEN,
    HONEST,
    MEASURED,
    NULL_ANSWERS,
    REFERENCES,
    TABLE,
    WRONG,
    answered,
)
from tests.support.growth import is_linear
from tests.support.text_tables import listed

pytestmark = pytest.mark.process

COMPATIBLE = LogicAnswer(LogicConfig(compatible=True), ScorersConfig())
SCORER = LogicAnswer(LogicConfig(), ScorersConfig())
ALL = LogicAnswer(LogicConfig(), ScorersConfig(credit="all"))
_TWO_RIGHT = [["1", "apple", "pilot"], ["2", "bread", "nurse"], ["3", "corn", "chef"]]
TWO_OF_THREE = json.dumps({"header": TABLE["header"], "rows": _TWO_RIGHT})


def judged(text: str, row_type: str, value: Any, scorer: LogicAnswer = SCORER) -> Score:
    score = scorer.score(text, {"type": row_type, "answer": {"value": value}})
    assert score.status is ScoreStatus.SCORED
    assert score.reason
    return score


def test_a_right_answer_scores_1() -> None:
    texts = listed(
        "{}¦So it is {}.¦<think>or {} ?</think>⏎It is {}<|im_end|>⏎¦first <answer>?</answer> then {}"
    )
    wrong = [
        (row_type, answer, score.reason)
        for row_type, value, answer in HONEST
        for text in texts
        if (score := judged(text.replace("{}", answered(answer)), row_type, value)).value != 1.0
    ]
    assert wrong == []


_ROWS_OF_TABLE = TABLE["rows"]


def test_a_compatible_grid_has_reasoning360s_number(subtests: pytest.Subtests) -> None:
    cases: list[tuple[list[Any], float, float]] = [
        (_ROWS_OF_TABLE, 1.0, 1.0),
        ([["1", "", ""], ["2", "", ""], ["3", "", ""]], 3 / 9, 0.0),  # the column of positions counts there
        ([["1", "bread", "chef"], ["2", "apple", "pilot"], ["3", "corn", "nurse"]], 5 / 9, 2 / 6),
        (_ROWS_OF_TABLE[::-1], 3 / 9, 1.0),  # rows in another order
        ([_ROWS_OF_TABLE[1], _ROWS_OF_TABLE[0], _ROWS_OF_TABLE[2]], 3 / 9, 1.0),
        ([[1, "apple", "pilot"], [2, "bread", "chef"], [3, "corn", "nurse"]], 6 / 9, 1.0),  # 1 is no text
        ([["1", "Apple", "pilot"], *_ROWS_OF_TABLE[1:]], 8 / 9, 1.0),  # case
        (_ROWS_OF_TABLE[:2], 0.0, 0.0),  # a row is missing
        ([["1", "apple"], *_ROWS_OF_TABLE[1:]], 0.0, 0.0),  # a cell is missing
        ([*_ROWS_OF_TABLE, ["4", "fig", "cook"]], 1.0, 0.0),  # what is beyond the reference is not looked at
        ([[*row, "x"] for row in _ROWS_OF_TABLE], 1.0, 0.0),
        ([["1", "apple", "pilot"]] * 3, 3 / 9, 0.0),
    ]
    for rows, theirs, ours in cases:
        with subtests.test(rows=rows, theirs=theirs):
            for text in (json.dumps({"header": TABLE["header"], "rows": rows}), str({**TABLE, "rows": rows})):
                assert judged(answered(text), "zebra", TABLE, COMPATIBLE).value == pytest.approx(theirs)
                assert judged(answered(text), "zebra", TABLE).value == pytest.approx(ours)
            assert judged(answered(str({"rows": rows})), "zebra", TABLE, COMPATIBLE).value == pytest.approx(
                theirs
            )


def test_a_compatible_grid_that_was_measured_scores_as_it_was_measured() -> None:
    found = [row for row in MEASURED if row.row_type == "zebra"]
    assert len(found) >= 5
    values = [judged(row.text, "zebra", row.value, COMPATIBLE).value for row in found]
    assert values == pytest.approx([row.old for row in found], abs=0.001)


def test_compatible_opens_no_door_and_changes_no_other_puzzle() -> None:
    nothing = [text for text in NULL_ANSWERS if judged(text, "zebra", TABLE, COMPATIBLE).value != 0.0]
    assert nothing == []
    for text in (
        answered("{'rows': __import__('os')._exit(0)}"),
        answered("[" * MAX_ANSWER_CHARS),
        answered("{'rows': 5}"), answered("{'rows': [5, 5, 5]}"), answered("[['1']]"),
        "<think>" + answered(str(TABLE)),
        answered("\n" + str(TABLE) + "\n"),  # it reads no answer over several lines
    ):  # fmt: skip
        assert judged(text, "zebra", TABLE, COMPATIBLE).value == 0.0, text[:60]
    everything = LogicAnswer(LogicConfig(compatible=True), ScorersConfig(credit="all"))
    positions = answered('{"rows": [["1", "", ""], ["2", "", ""], ["3", "", ""]]}')
    assert judged(positions, "zebra", TABLE, everything).value == 0.0
    assert judged(positions, "zebra", TABLE, everything).components["cells"] == pytest.approx(1 / 3)
    for row in MEASURED:
        if row.row_type != "zebra":
            assert judged(row.text, row.row_type, row.value, COMPATIBLE).value == row.ours


def test_a_wrong_answer_scores_what_its_cells_are_worth() -> None:
    for row_type, value, answer, expected in WRONG:
        score = judged(answered(answer), row_type, value)
        assert score.value == expected, (row_type, answer, score.reason)


def test_attacks_get_and_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for row_type, value, text, trick in ATTACKS:
        score = judged(text, row_type, value)
        assert score.value == 0.0, (row_type, trick, score.reason)
    assert list(tmp_path.iterdir()) == []


def test_saying_nothing_scores_nothing() -> None:
    for (row_type, value), text in itertools.product(REFERENCES, NULL_ANSWERS):
        assert judged(text, row_type, value).value == 0.0, (row_type, value, text)


def test_the_reference_as_the_prompt_asks_for_it_scores_1() -> None:
    for row_type, value in REFERENCES:
        written_out = [json.dumps(value), json.dumps(value, indent=4), str(value)]
        for written in [value] if isinstance(value, str) else written_out:
            score = judged(f"<think>hm</think> <answer> {written} </answer>", row_type, value)
            assert score.value == 1.0, (row_type, written, score.reason)


def test_no_answer_is_right_for_two_references() -> None:
    for row_type, value in REFERENCES:
        text = answered(value if isinstance(value, str) else json.dumps(value))
        others = [other for other_type, other in REFERENCES if other_type == row_type]
        assert [other for other in others if judged(text, row_type, other).value == 1.0] == [value]


def test_the_measured_answers_of_reasoning360_score_as_there_or_the_table_says_why() -> None:
    for row in MEASURED:
        score = judged(row.text, row.row_type, row.value)
        assert score.value == row.ours, (row.row_type, row.text, score.reason)
    assert [row for row in MEASURED if (row.old != row.ours) != bool(row.remark)] == []


@pytest.mark.parametrize(("row_type", "value", "message"), BROKEN)
def test_a_row_without_a_usable_reference_is_refused(row_type: str, value: Any, message: str) -> None:
    info = {"type": row_type, "answer": {"value": value}}
    for refuse in (lambda: SCORER.check_row(info), lambda: SCORER.score("", info)):
        with pytest.raises(BadMessage, match=f"no answer: .*{message}"):
            refuse()


def test_a_row_of_another_shape_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"type": "sudoku", "answer": {"value": "1"}}, "of type zebra, ordering, graph, arc; got 'sudoku'"),
        ({"answer": {"value": "1"}}, "got None"),
        ({"type": ["zebra"], "answer": {"value": "1"}}, "zebra"),
        ({"type": "arc"}, "needs an answer with a value; got None"),
        ({"type": "arc", "answer": [[1]]}, "an answer with a"),
        ({"type": "arc", "answer": {"value": None}}, "needs an answer with a value"),
    ]
    for info, message in cases:
        with subtests.test(info=info), pytest.raises(BadMessage, match=message):
            SCORER.check_row(info)


def test_a_zero_says_what_is_wrong(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any, str, str]] = [
        ("zebra", TABLE, TWO_OF_THREE, "4 of 6 cells are right; Job of row 2 is 'nurse', expected 'chef'"),
        ("zebra", TABLE, '{"header": ["Position"], "rows": []}', "0 rows of 1 columns, expected 3 of 3"),
        ("zebra", TABLE, "{'rows': [}", "no object with header and rows: a value is missing before '}'"),
        ("ordering", BIRDS, "[pigeon, quail, sparrow]", "2 from the left is 'quail', expected 'sparrow'"),
        ("ordering", BIRDS, "[pigeon]", "the answer has 1 names, expected 3"),
        ("ordering", BIRDS, "pigeon, quail", "the answer is no list: more than one value"),
        ("graph", "fdebme", "zorpus", "answered 'zorpus', expected 'fdebme'"),
        ("graph", "fdebme", "is fdebme", "the answer is not one word: 'is fdebme'"),
        ("arc", [[1, 2]], "[[1, 3]]", "1 of 2 cells are wrong, the first in row 1, column 2: 3, expected 2"),
        ("arc", [[1, 2]], "[[1], [2]]", "the answer has 2 rows of 1 cells, expected 1 rows of 2 cells"),
        ("arc", [[1, 2]], "[[1, 2]", "the answer is no array: ']' is missing before the end"),
        ("arc", [[1, 2]], " ", "the last <answer> is empty"),
        ("arc", [[1, 2]], "1" * (MAX_ANSWER_CHARS + 1), "an answer of 50001 characters; 50000 is the limit"),
    ]
    for row_type, value, answer, reason in cases:
        with subtests.test(row_type=row_type, value=value, answer=answer):
            assert reason in judged(answered(answer), row_type, value).reason


def test_the_column_of_positions_pays_nothing_in_a_table_of_any_size() -> None:
    for objects in range(2, 16):
        for kinds in range(1, 10):
            header = ["Position", *(f"kind {kind}" for kind in range(kinds))]
            rows = [[str(row + 1), *(f"v{kind} {row}" for kind in range(kinds))] for row in range(objects)]
            reference = {"header": header, "rows": rows}
            names_only = {"header": header, "rows": [[row[0], *[f"x{row[0]}"] * kinds] for row in rows]}
            one_guess = {"header": header, "rows": [[row[0], *rows[0][1:]] for row in rows]}
            half_wrong = {"header": header, "rows": [[row[0], *row[1:-1], "?"] for row in rows]}
            values = [
                judged(answered(json.dumps(answer)), "zebra", reference).value
                for answer in (reference, names_only, one_guess, half_wrong)
            ]
            assert values == [1.0, 0.0, 0.0, (kinds - 1) / kinds]


def test_the_credit_of_the_run_decides_what_a_part_of_a_table_is_worth(subtests: pytest.Subtests) -> None:
    for credit, value in ((None, 4 / 6), ("fraction", 4 / 6), ("all", 0.0)):
        with subtests.test(credit=credit):
            scorer = build_scorer(LogicConfig(), ScorersConfig(credit=credit))
            score = scorer.score(answered(TWO_OF_THREE), {"type": "zebra", "answer": {"value": TABLE}})
            assert (score.value, score.components) == (value, {"cells": 4 / 6})


def test_all_or_nothing_leaves_right_answers_right() -> None:
    assert [row for row in HONEST if judged(answered(row[2]), row[0], row[1], ALL).value != 1.0] == []
    assert [row for row in WRONG if judged(answered(row[2]), row[0], row[1], ALL).value != 0.0] == []


ARRAYS = {
    "header": np.array(TABLE["header"], dtype=object),
    "rows": np.array([np.array(row, dtype=object) for row in TABLE["rows"]]),
}


def test_a_row_of_reasoning360_is_scored_as_it_comes(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any, str]] = [
        ("logic__zebra_puzzle_dataset", TABLE, json.dumps(TABLE)),
        ("zebra_puzzle_dataset", str(TABLE), str(TABLE)),
        ("zebra_puzzle_dataset", json.dumps(TABLE), str(TABLE)),
        ("logic__zebra_puzzle", ARRAYS, str(TABLE)),
        ("ordering_puzzle_dataset", np.array(["Emma", "Wei"], dtype=object), "['Emma', 'Wei']"),
        ("logic__ordering_puzzle_dataset", "['Emma', 'Wei']", "['Emma', 'Wei']"),
        ("graph_logical_dataset", "fdebme", "fdebme"),
        ("simulation__arcagi1", [[1, 1], [0, 0]], "[[1, 1], [0, 0]]"),
        ("simulation__barc", np.eye(2), "[[1, 0], [0, 1]]"),
        ("logic__arcagi2", np.array([np.array([1, 2]), np.array([3, 4])], dtype=object), "[[1, 2], [3, 4]]"),
        ("simulation__barc", "[[1, 2]]", "[[1, 2]]"),
    ]
    for source, truth, answer in cases:
        with subtests.test(source=source, truth=truth):
            ground_truth = {"style": "rule", "ground_truth": truth}
            row = {"data_source": source, "reward_model": ground_truth, "extra_info": {"index": 0}}
            config = ScorersConfig.model_validate({"tasks": {"logic": {"scorer": {"type": "logic"}}}})
            task, info = route(row, config.tasks)
            assert task == "logic"
            json.dumps(info)
            assert SCORER.score(answered(answer), info).value == 1.0


@pytest.mark.prove(after=5)
@pytest.mark.parametrize(
    "piece",
    listed(r"""
[¦(¦{'a':¦[1,¦'¦"¦'a',¦a ¦a\u0009¦\¦'\¦-1¦1 ¦`¦<answer>¦ ¦⏎¦x¦[[1]],
"""),
)
def test_no_text_is_slow_to_read(piece: str) -> None:
    def read(text: str) -> None:
        for row_type, value in (("zebra", TABLE), ("ordering", BIRDS), ("graph", "fdebme"), ("arc", [[1]])):
            for answer in (answered(text), answered(f"[{text}")):
                assert judged(answer, row_type, value).value == 0.0

    for size in (MAX_ANSWER_CHARS // 4, 4 * MAX_ANSWER_CHARS):
        assert is_linear(read, piece.__mul__, size // len(piece))


def test_the_same_answer_gets_the_same_score_in_any_thread() -> None:
    def scores(_: int) -> list[float | None]:
        return [judged(answered(answer), row_type, value).value for row_type, value, answer, _ in WRONG]

    with ThreadPoolExecutor(4) as pool:
        assert [found for found in pool.map(scores, range(4)) if found != scores(0)] == []


def test_json_and_pythons_literals_are_read(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any]] = [
        ("[1, -2, 2.5, 'a', \"b\"]", [1, -2, 2.5, "a", "b"]),
        ("[None, true, False, [], {}, ()]", [None, True, False, [], {}, []]),
        ('{"a": {"b": [1]}, \'c\': 2,}', {"a": {"b": [1]}, "c": 2}),
        ('"\\u0041\\n\\"\\\\"', 'A\n"\\'),
        ("'it\\'s'", "it's"),
        ("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH, [[[[[[[[1]]]]]]]]),
    ]
    for text, value in cases:
        with subtests.test(text=text):
            assert read_literal(text) == value


def test_what_is_no_literal_says_where(subtests: pytest.Subtests) -> None:
    for text, message in [
        ("", "it ends too early"), ("[1,", "it ends too early"), ("[1]]", "more than one value"),
        ("1 2", "more than one"),
        ("'a' 'b'", "more than one value"),
        ("[,]", "a value is missing before ','"),
        ("'a", "unreadable from"),
        ("{'a': 1, 'a': 2}", "the key 'a' stands twice"),
        ("{1: 2}", "a key of an object must be text"),
        ("{'a'}", "':' is missing before '}'"),
        ("f(1)", "text without quotes: 'f'"),
        ("1_000", "text without quotes"),
        ("1" * 30, "text without quotes"),
        ("[" * (MAX_DEPTH + 2), "nested more than 8 deep"),
        ("[1 2]", "']' is missing before '2]'"),
    ]:  # fmt: skip
        with subtests.test(text=text), pytest.raises(NotALiteral, match=message.replace("[", r"\[")):
            read_literal(text)


def test_a_fence_around_an_answer_is_taken_off(subtests: pytest.Subtests) -> None:
    for answer, inside in [
        ("```json\n[1]\n```", "[1]"), ("```\n[1]```", "[1]"), ("```[1]```", "[1]"), ("[1]", "[1]"),
        ("```", "```"), ("```\n[1]", "```\n[1]"), ("``````", ""),
    ]:  # fmt: skip
        with subtests.test(answer=answer):
            assert unfenced(answer) == inside


def test_the_self_test_fails_a_scorer_that_pays_for_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    SCORER.self_test()
    ALL.self_test()
    monkeypatch.setattr("scorers.logic.scorer.last_answer", lambda response: "fdebme")
    with pytest.raises(SelfTestFailed, match="logic scorer's self-test failed"):
        SCORER.self_test()
