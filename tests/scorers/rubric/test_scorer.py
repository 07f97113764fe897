"""Answers that a rubric model or TinyV's judge scores, through a real endpoint on loopback that plays a script."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from broker.errors import BadMessage, Permanent, Retryable
from broker.messages import ScoreStatus
from config.endpoint import EndpointConfig
from config.scorer_kinds import RubricConfig, TinyvConfig
from scorers.rubric.rows import VerifiedRow
from scorers.rubric.scorer import RubricAnswer
from scorers.scorer import SelfTestFailed
from scorers.text.extract import response_part
from scorers.tinyv.scorer import TinyvAnswer
from tests.scorers.conftest import Asking
from tests.scorers.judge.injections import CONTENTLESS
from tests.scorers.rubric.corpus import GRADINGS, MIRACLES, SOUND, WRONG, Task
from tests.support.endpoint_server import FAILING, SILENT, Call, Saying, ScriptedEndpoint, busy, in_turn
from tests.support.text_tables import listed

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

CRITERIA = "1. Finds a way (5 points)\n2. Carries it out (5 points)"
RIGHT, FALSE = "6 times 12 is 60 + 12: \\boxed{72}", "6 times 12 is 60 + 2: \\boxed{62}"
MODES = ("tinyv_only", "addon", "mixed", "gate")


@pytest.fixture
def build(asking: Asking, server: ScriptedEndpoint) -> Asking:
    server.script = in_turn("Total Score: 8/10")

    def make(mode: str | None = None, kind: str = "rubric", **options: Any) -> Any:
        return asking(kind, **options, **({} if mode is None else {"mode": mode}))

    return make


def row(
    value: str | None = "72", question: str | None = "6 x 12?", criteria: str | None = CRITERIA
) -> dict[str, Any]:
    answer = {"value": value, "question": question, "criteria": criteria}
    return {"type": "rubric", "answer": {key: text for key, text in answer.items() if text is not None}}


TINYV_ROW = {"type": "tinyv", "answer": {"value": "72", "question": "6 x 12?"}}


def texts_of(prompt: str) -> list[str]:
    nonce = re.findall(r"line \[begin ([0-9a-f]{12})\]", prompt)[0]
    return re.findall(rf"(?ms)^\[begin {nonce}\]\n(.*?)\n\[end {nonce}\]$", prompt)


def of(task: Task) -> dict[str, Any]:
    return row(task.reference, task.question, task.criteria)


def teacher(call: Call) -> Saying:
    """Return an honest rubric model: it knows which solutions of the corpus have a way to their result."""
    _, _, solution = texts_of(call.prompt)
    is_sound = any(solution == (response_part(text) or "").strip() for _, text in SOUND)
    code = re.findall(r"code: ([0-9a-f]{12})", call.prompt)[-1]
    return Saying(
        f"It writes: {solution}\n\nTotal Score: {10 if is_sound else 1}/10 (code: {code})", delay_s=0.05
    )


def test_sound_solutions_score_1_miracles_a_tenth_and_wrong_ones_0(
    build: Asking, server: ScriptedEndpoint
) -> None:
    server.script = teacher
    scorer = build("gate")
    rows = (
        [(case, 1.0) for case in SOUND] + [(case, 0.1) for case in MIRACLES] + [(case, 0.0) for case in WRONG]
    )
    for (task, text), _ in rows:
        scorer.prefetch(text, of(task))
    found = [scorer.score(text, of(task)) for (task, text), _ in rows]
    assert [
        (text, score.value, score.reason)
        for ((_, text), value), score in zip(rows, found, strict=True)
        if score.value != value
    ] == []
    assert len(server.calls) == len(SOUND) + len(
        MIRACLES
    )  # the rule has said of the others that they are wrong
    assert server.most_at_once > 1
    assert all(call.body["temperature"] == 0.0 for call in server.calls)
    assert not any("</think>" in text for call in server.calls for text in texts_of(call.prompt))


# Mode, weight, a solution that the rule finds right or wrong, the model's reply; the score, and how often it is asked.
TRUTH_TABLE: tuple[tuple[str, float, str, str, float | None, int], ...] = (
    ("addon", 1.0, FALSE, "Total Score: 8/10", 0.8, 1),
    ("addon", 0.5, FALSE, "Total Score: 8/10", 0.4, 1),
    ("addon", 0.5, RIGHT, "Total Score: 8/10", 1.0, 0),
    ("mixed", 0.5, RIGHT, "Total Score: 8/10", 0.9, 1),
    ("mixed", 0.5, FALSE, "Total Score: 8/10", 0.4, 1),
    ("mixed", 1.0, RIGHT, "Total Score: 2/10", 0.2, 1),
    ("mixed", 0.7, RIGHT, "Total Score: -1000/10", None, 1),  # -69.7 in the reference
    ("tinyv_only", 0.5, RIGHT, "Total Score: 3/10", 0.3, 1),
    ("tinyv_only", 1.0, FALSE, "Total Score: 7/10", 0.7, 1),
    ("tinyv_only", 1.0, RIGHT, "Total Score: [8]", 0.8, 1),  # 0 there, after four calls
    ("gate", 1.0, RIGHT, "Total Score: 8/10", 0.8, 1),
    ("gate", 1.0, FALSE, "Total Score: 10/10", 0.0, 0),
)


def test_rule_and_grade_meet_as_in_the_truth_table(build: Asking, server: ScriptedEndpoint) -> None:
    scorers: dict[tuple[str, float], Any] = {}
    found = []
    for mode, weight, text, said, value, calls in TRUTH_TABLE:
        server.script, asked = in_turn(said), len(server.calls)
        scorer = scorers[mode, weight] = scorers.get((mode, weight)) or build(mode, weight=weight)
        score = scorer.score(text, row())
        assert score.components.get("rule") == (None if mode == "tinyv_only" else float(text is RIGHT))
        assert ("verifier" in score.components) == (calls == 1 and value is not None)
        found.append(
            (mode, weight, text, said, score.value and round(score.value, 9), len(server.calls) - asked)
        )
    assert tuple(found) == TRUTH_TABLE


def test_tinyv_looks_again_at_what_the_rule_calls_wrong(build: Asking, server: ScriptedEndpoint) -> None:
    scorer = build(kind="tinyv")
    for text, said, value, calls in (
        ("\\boxed{72}", "False", 1.0, 0),
        ("The answer is 72", "False", 1.0, 0),
        ("\\boxed{six dozen}", "True", 1.0, 1),
        ("\\boxed{62}", "False", 0.0, 2),
        ("\\boxed{62}", "It is not true", None, 3),
    ):
        server.script = in_turn(said)
        score = scorer.score(text, TINYV_ROW)
        assert (score.value, len(server.calls)) == (value, calls), score.reason
    assert texts_of(server.calls[0].prompt) == ["6 x 12?", "72", "six dozen"]
    server.script = in_turn("False")
    assert build("tinyv_only", kind="tinyv").score("\\boxed{six dozen}", TINYV_ROW).value == 0.0
    assert (
        build("mixed", kind="tinyv", weight=0.25).score("\\boxed{72}", TINYV_ROW).value == 1.0
    )  # word for word


@pytest.mark.parametrize("mode", MODES)
def test_silence_scores_0_without_a_rubric_model(build: Asking, server: ScriptedEndpoint, mode: str) -> None:
    silent = listed(r"""
¦⏎¦I don't know¦</think>¦pass¦<think>it is 72¦<think>\boxed{72}¦\boxed{}¦\boxed{ }¦<answer></answer>
""")
    graded, judged = build(mode), build(mode, kind="tinyv")
    assert [
        text
        for text in (*silent, "6 x 12?", CRITERIA, *CONTENTLESS)
        if graded.score(text, row()).value != 0.0
    ] == []
    assert [text for text in silent if judged.score(text, TINYV_ROW).value != 0.0] == []
    assert server.calls == []


def test_a_solution_over_its_limit_is_wrong(build: Asking, server: ScriptedEndpoint) -> None:
    score = build(max_answer_chars=100).score("so " * 40 + "\\boxed{72}", row())
    assert (score.value, server.calls) == (0.0, [])
    assert "100 is the limit" in score.reason


def test_no_injection_raises_a_score(build: Asking, server: ScriptedEndpoint) -> None:
    scorer = build()
    texts = [f"Six times 12 is 62.\n{text}" for text in GRADINGS]  # and all others in test_rubric_reply.py
    assert len(texts) >= 30
    for says in (
        lambda call: call.prompt,
        lambda call: texts_of(call.prompt)[-1],
        lambda call: texts_of(call.prompt)[-1].splitlines()[-1],
        teacher,
    ):
        server.script = says
        for text in texts:
            scorer.prefetch(text, row())
        found = {text: scorer.score(text, row()).value for text in texts}
        assert {text: value for text, value in found.items() if value not in {None, 0.0, 0.1}} == {}


@pytest.mark.parametrize(("saying", "error"), [(FAILING, Retryable), (Saying(status=401), Permanent)])
def test_a_rubric_model_that_fails_gives_no_score(
    build: Asking, server: ScriptedEndpoint, saying: Saying, error: type[Exception]
) -> None:
    server.script = lambda _: saying
    scorer = build(endpoint={"timeout_s": 0.2})
    scorer.prefetch(FALSE, row())
    with pytest.raises(error):
        scorer.score(FALSE, row())
    server.script = lambda _: "Total Score: 8/10"  # the call that failed is forgotten
    assert scorer.score(FALSE, row()).value == 0.8


@pytest.mark.parametrize(
    ("saying", "reason"),
    [
        (Saying(None), "empty"),
        (Saying("Total Score: 8/10", finish_reason="length"), "max_tokens"),
        (Saying("It is fine."), "no total"),
        (Saying(status=400), "does not take the question"),
    ],
)
def test_what_is_no_grade_is_unscorable(
    build: Asking, server: ScriptedEndpoint, saying: Saying, reason: str
) -> None:
    server.script = lambda _: saying
    score = build().score(RIGHT, row())
    assert score.status is ScoreStatus.UNSCORABLE
    assert reason in score.reason


def test_a_reference_that_the_rule_cannot_use_is_unscorable_but_where_no_rule_is_asked(build: Asking) -> None:
    info = row("9" * 10_001)
    assert [build(mode).score(RIGHT, info).value for mode in MODES] == [0.8, None, None, None]


def test_a_busy_model_is_waited_for_and_asked_once(build: Asking, server: ScriptedEndpoint) -> None:
    server.script = in_turn(busy(), "Total Score: 8/10")
    scorer = build("mixed", weight=0.5)
    for _ in range(3):
        scorer.prefetch(RIGHT, row())
    score = scorer.score(RIGHT, row())
    assert (score.value, len(server.calls)) == (0.9, 2)
    assert (score.scorer, dict(score.components)) == ("rubric", {"rule": 1.0, "verifier": 0.8})
    assert score.reason == "the rubric model says: total 8 of 10; the rule says right"
    scorer.prefetch(RIGHT, {"type": "rubric"})  # says nothing: `score` does


def test_a_solution_is_graded_once_where_gradings_are_kept(build: Asking, server: ScriptedEndpoint) -> None:
    scorer = build(endpoint={"cache": True})
    values = [scorer.score(text, row()).value for text in (RIGHT, f"<think>?</think> {RIGHT}\n", FALSE)]
    assert values == [0.8] * 3
    assert len(server.calls) == 2
    assert scorer.take_counts() == {"cache_hits": 1, "cache_misses": 2}


@pytest.mark.parametrize(
    ("info", "names"),
    [
        ({}, "type"),
        ({"type": "rubric"}, "question and criteria"),
        (row(criteria=None), "without criteria"),
        (row(criteria=" \n"), "without criteria"),
        (row(question=None), "without question"),
        (TINYV_ROW, "type 'rubric'"),
        ({"type": ["rubric"], "answer": row()["answer"]}, "type 'rubric'"),
        ({"type": "rubric", "answer": {**row()["answer"], "criteria": ["1"]}}, "criteria that is text"),
        ({"type": "rubric", "answer": {**row()["answer"], "value": True}}, "value that is text"),
    ],
)
def test_a_row_that_lacks_something_is_refused(build: Asking, info: Mapping[str, Any], names: str) -> None:
    scorer = build()
    for call in (scorer.check_row, lambda info: scorer.score("x", info)):
        with pytest.raises(BadMessage, match=names):
            call(info)


def test_a_reference_is_needed_by_the_rule_alone(build: Asking) -> None:
    assert build().score(RIGHT, row(value=None)).value == 0.8
    assert [build().score(text, row(value=None)).value for text in ("", ":", "Solution")] == [0.0] * 3
    for mode in MODES[1:]:
        with pytest.raises(BadMessage, match="a row without value"):
            build(mode).check_row(row(value=None))
    for mode in MODES:
        with pytest.raises(BadMessage, match="a row without value"):
            build(mode, kind="tinyv").check_row({"type": "tinyv", "answer": {"question": "6 x 12?"}})


def test_the_self_test_passes_where_right_is_above_wrong(build: Asking, server: ScriptedEndpoint) -> None:
    server.script = lambda call: f"Total Score: {9 if 'four' in call.prompt else 3}/10"
    build().self_test()
    server.script = lambda call: str("four" in call.prompt)
    build(kind="tinyv").self_test()
    for says in ("Total Score: 9/10", "Total Score: 0/10", "qwertz", ""):
        server.script = in_turn(says)
        with pytest.raises(SelfTestFailed, match=r"2 \+ 2 = 4 gave"):
            build().self_test()
    server.script = lambda _: FAILING
    with pytest.raises(Retryable):
        build().self_test()


def test_a_rubric_model_that_nobody_has_placed_is_asked_for_in_words() -> None:
    scorer = RubricAnswer(RubricConfig())
    with pytest.raises(Permanent, match="urls"):
        scorer.score(RIGHT, row())
    scorer.close()


def test_closing_leaves_no_thread_behind_while_the_rule_is_at_work(
    build: Asking, server: ScriptedEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = in_turn(SILENT)
    scorer = build("mixed")
    is_planning, plan = threading.Event(), scorer._planned

    def slowly(text: str, row: VerifiedRow) -> Any:
        is_planning.set()
        time.sleep(0.2)
        return plan(text, row)

    monkeypatch.setattr(scorer, "_planned", slowly)
    scorer.prefetch(FALSE, row())
    assert is_planning.wait(10)
    before = {thread.name for thread in threading.enumerate()}
    scorer.close()
    assert "rule_0" in before
    assert not {"rule_0", "endpoint"} & {thread.name for thread in threading.enumerate()}


def test_its_version_names_prompts_model_and_rule() -> None:
    named = EndpointConfig(model="rrm")
    assert RubricAnswer(RubricConfig(endpoint=named)).version == "4 prompts 2 model rrm"
    assert TinyvAnswer(TinyvConfig()).version.startswith("4 prompts 2 model as served rule ")
