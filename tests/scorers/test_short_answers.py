"""Short answers: of tables, of multiple choice, of search. Right ones score 1, all else nothing."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.errors import BadMessage
from broker.messages import Score, ScoreStatus
from config.scorer_kinds import ChoiceConfig, SearchConfig, TableConfig
from config.scorers import ScorersConfig
from scorers.build import build_scorer
from scorers.choice.scorer import ChoiceAnswer
from scorers.scorer import SelfTestFailed
from scorers.search.scorer import SearchAnswer
from scorers.short_answer import SelfTest, ShortAnswer
from scorers.table.scorer import TableAnswer
from tests.scorers.choice import corpus
from tests.scorers.search import corpus as search_corpus
from tests.scorers.table import corpus as table_corpus
from tests.support.text_tables import listed

CORPORA: dict[str, Any] = {"table": table_corpus, "choice": corpus, "search": search_corpus}
CONFIGS: dict[str, Any] = {"table": TableConfig(), "choice": ChoiceConfig(), "search": SearchConfig()}
SCORERS: dict[str, ShortAnswer[Any]] = {
    "table": TableAnswer(CONFIGS["table"]),
    "choice": ChoiceAnswer(CONFIGS["choice"]),
    "search": SearchAnswer(CONFIGS["search"]),
}
REFERENCES = {task: found.REFERENCES for task, found in CORPORA.items()}
NULL_ANSWERS = [
    *listed(r"""
¦⏎¦I don't know¦</think>¦pass¦<think>It could be 5, but¦\boxed{}¦\boxed{ }¦<answer></answer>
<answer> ⏎ </answer>¦\boxed{\text{}}¦\boxed{{}}¦\boxed{$}¦Answer:¦()¦\boxed{I don't know}
<answer>I don't know</answer>¦Answer: I don't know
It was a fine day, and the table had many rows. Nobody could say which of them was meant.
"""),
    "# a comment",
]


class Case(NamedTuple):
    row_type: str
    answer: Any
    text: str


def boxed(content: str) -> str:
    return f"\\boxed{{{content}}}"


def tagged(content: str) -> str:
    return f"<answer>{content}</answer>"


HONEST = {
    "table": [Case(row_type, answer, boxed(box)) for row_type, answer, box in table_corpus.HONEST],
    "choice": [Case("choice", answer, text) for answer, text in corpus.HONEST],
    "search": [Case("qa_em", {"value": value}, tagged(content)) for value, content in search_corpus.HONEST],
}
WRONG = {
    "table": [Case(row_type, answer, boxed(box)) for row_type, answer, box in table_corpus.WRONG],
    "choice": [Case("choice", answer, text) for answer, text in corpus.WRONG],
    "search": [Case("qa_em", {"value": value}, tagged(content)) for value, content in search_corpus.WRONG],
}
ATTACKS = {
    "table": [Case(row_type, answer, text) for row_type, answer, text, _ in table_corpus.ATTACKS],
    "choice": [Case("choice", answer, text) for answer, text, _ in corpus.ATTACKS],
    "search": [Case("qa_em", {"value": value}, text) for value, text, _ in search_corpus.ATTACKS],
}
MEASURED: dict[str, list[tuple[Case, Any]]] = {
    "table": [(Case(row.row_type, row.answer, row.text), row) for row in table_corpus.MEASURED],
    "choice": [(Case("choice", row.answer, row.text), row) for row in corpus.MEASURED],
    "search": [(Case("qa_em", {"value": row.value}, row.text), row) for row in search_corpus.MEASURED],
}


def judged(task: str, case: Case) -> Score:
    score = SCORERS[task].score(case.text, {"type": case.row_type, "answer": case.answer})
    assert score.status is ScoreStatus.SCORED
    assert score.reason
    return score


def not_worth(task: str, cases: list[Case], value: float) -> list[tuple[Any, str, str]]:
    """Return the cases that score something else: the row's answer, the text's beginning, the reason."""
    return [
        (case.answer, case.text[:100], score.reason[:200])
        for case in cases
        if (score := judged(task, case)).value != value
    ]


def renderings(task: str, answer: dict[str, Any]) -> list[str]:
    value = answer["value"]
    if task == "table":
        return [boxed("|".join(map(str, value)) if isinstance(value, list) else str(value))]
    if task == "choice":
        return [prompt.replace("{}", value.strip("()").upper()) for prompt in corpus.PROMPTED]
    targets = value["target"] if isinstance(value, dict) else value
    return [tagged(str(target)) for target in (targets if isinstance(targets, list) else [targets])]


def test_a_right_answer_scores_1() -> None:
    for task in SCORERS:
        assert not_worth(task, HONEST[task], 1.0) == []
        thought = "<think>\\boxed{0} or <answer>0</answer>?</think>\n"
        dressed = [case._replace(text=f"{thought}{case.text}<|im_end|>\n") for case in HONEST[task]]
        assert not_worth(task, dressed, 1.0) == []


def test_a_wrong_answer_scores_0() -> None:
    for task in SCORERS:
        assert not_worth(task, WRONG[task], 0.0) == []


@pytest.mark.parametrize("task", SCORERS)
def test_attacks_get_and_run_nothing(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    started = time.process_time()
    assert not_worth(task, ATTACKS[task], 0.0) == []
    assert time.process_time() - started < 5.0
    assert list(tmp_path.iterdir()) == []


def test_saying_nothing_scores_nothing() -> None:
    for task in SCORERS:
        cases = [
            Case(row_type, answer, text) for row_type, answer in REFERENCES[task] for text in NULL_ANSWERS
        ]
        assert not_worth(task, cases, 0.0) == []


def test_the_reference_as_the_prompt_asks_for_it_scores_1() -> None:
    for task in SCORERS:
        for row_type, answer in REFERENCES[task]:
            cases = [Case(row_type, answer, text) for text in renderings(task, answer)]
            assert not_worth(task, cases, 1.0) == []


def test_a_measured_answer_scores_as_it_was_measured_or_the_table_says_why() -> None:
    for task in SCORERS:
        for case, row in MEASURED[task]:
            score = judged(task, case)
            assert score.value == row.ours, (row, score.reason)
        assert [row for _, row in MEASURED[task] if (row.old != row.ours) != bool(row.remark)] == []


@pytest.mark.parametrize("task", SCORERS)
def test_a_broken_row_is_refused_and_says_what_it_lacks(task: str) -> None:
    for row_type, answer, message in CORPORA[task].BROKEN:
        info = {"type": row_type, "answer": answer}
        for refuse in (SCORERS[task].check_row, lambda info: SCORERS[task].score("\\boxed{5}", info)):
            with pytest.raises(BadMessage) as refused:
                refuse(info)
            assert message in str(refused.value), (answer, str(refused.value))
    with pytest.raises(BadMessage, match=f"the {task} scorer takes rows of type .*; got 'sudoku'"):
        SCORERS[task].check_row({"type": "sudoku", "answer": {"value": "1"}})


@pytest.mark.parametrize("task", SCORERS)
def test_a_score_is_the_same_every_time_and_on_every_thread(task: str) -> None:
    cases = [*HONEST[task], *WRONG[task]]
    with ThreadPoolExecutor(4) as pool:
        runs = [
            list(pool.map(lambda case: (judged(task, case).value, judged(task, case).reason), cases))
            for _ in "12"
        ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("task", SCORERS)
def test_the_registry_builds_it_with_a_real_self_test(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = CONFIGS[task]
    scorer = build_scorer(config, ScorersConfig())
    assert (scorer.name, config.queue) == (task, "light")
    scorer.self_test()
    row_type = SCORERS[task].types[0]
    value = SCORERS[task].self_tests[0].reference
    monkeypatch.setattr(type(scorer), "self_tests", [SelfTest(row_type, value, "nothing", 1.0)])
    with pytest.raises(SelfTestFailed, match=f"the {task} scorer's self-test failed: 'nothing'"):
        scorer.self_test()


def test_no_answer_is_right_for_two_references_of_a_table() -> None:
    for row_type, answer in REFERENCES["table"]:
        (text,) = renderings("table", answer)
        rights = {
            str(other["value"])
            for other_type, other in REFERENCES["table"]
            if other_type == row_type and judged("table", Case(row_type, other, text)).value == 1.0
        }
        assert rights == {str(answer["value"])} or rights in table_corpus.TWINS, answer


def test_a_search_reference_without_a_word_is_unscorable() -> None:
    info = {"type": "qa_em", "answer": {"value": ["The", "?"]}}
    score = SCORERS["search"].score("<answer>the</answer>", info)
    assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None)
    assert "nothing without articles and punctuation" in score.reason


def test_two_answers_say_where_they_stand_and_a_letter_out_of_the_options_is_named() -> None:
    info = {"type": "choice", "answer": {"value": "A", "options": 4}}
    two = SCORERS["choice"].score("\\boxed{B}\nAnswer: A", info)
    assert "B in the last box and A in the last line" in two.reason
    assert "answer E, which is none of the 4 options" in SCORERS["choice"].score("\\boxed{E}", info).reason
