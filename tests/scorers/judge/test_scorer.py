"""Free answers, judged through a real endpoint on loopback by judges that play a script."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from broker.errors import BadMessage, Permanent, Retryable
from broker.messages import ScoreStatus
from config.scorer_kinds import JudgeConfig
from scorers.judge.prompt import JudgeCase, Variant, messages_of
from scorers.judge.reply import verdict_of
from scorers.judge.scorer import JudgeAnswer
from scorers.scorer import SelfTestFailed
from scorers.served_model import prefetch
from tests.scorers.conftest import Asking
from tests.scorers.judge.corpus import HONEST, WRONG
from tests.scorers.judge.injections import CONTENTLESS, INJECTIONS
from tests.support.endpoint_server import FAILING, SILENT, Call, Saying, ScriptedEndpoint, in_turn
from tests.support.text_tables import listed
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

SAYS: Mapping[Variant, tuple[str, str]] = {  # what a judge is asked to say of a right and of a wrong answer
    "default": ('{{"verdict": "correct", "code": "{0}"}}', '{{"verdict": "incorrect", "code": "{0}"}}'),
    "stem": ("Final Decision: Yes", "Final Decision: No"),
    "math": ("Final Grade: CORRECT", "Final Grade: INCORRECT"),
    "tinyv": ("True", "False"),
}
MARK = re.compile(r"\[begin ([0-9a-f]{12})\]")
RIGHT = {(row.reference, row.text) for row in HONEST} | {("4", "four")}
RIGHT_WORD = re.compile(r"\b(?:true|yes|correct)\b", re.IGNORECASE)


@pytest.fixture
def build(asking: Asking) -> Asking:
    return partial(asking, "judge")


def row(
    reference: str = "72", question: str | None = "6 x 12?", row_type: str = "llm_judge"
) -> dict[str, Any]:
    answer = {"value": reference} | ({} if question is None else {"question": question})
    return {"type": row_type, "answer": answer}


def texts_of(prompt: str) -> list[str]:
    nonce = nonce_of(prompt)
    return re.findall(rf"^\[begin {nonce}\]\n(.*?)\n\[end {nonce}\]$", prompt, re.MULTILINE | re.DOTALL)


def nonce_of(prompt: str) -> str:
    found = MARK.search(prompt)
    assert found is not None
    return found[1]


def knows(variant: Variant) -> Callable[[Call], str]:
    """Return an honest judge, which knows the corpus and says why."""

    def says(call: Call) -> str:
        question, *rest = texts_of(call.prompt)
        answer, reference = rest if variant == "math" else reversed(rest)
        is_right = any(known == reference and text.endswith(answer) for known, text in RIGHT)
        return f"To {question!r} it says {answer!r}.\n\n" + SAYS[variant][not is_right].format(
            nonce_of(call.prompt)
        )

    return says


def test_right_answers_score_1_and_wrong_ones_0_all_at_once(build: Asking, server: ScriptedEndpoint) -> None:
    judge = knows("default")
    scorer = build()
    rows = [(answered, 1.0) for answered in HONEST] + [(answered, 0.0) for answered in WRONG]
    called = len(rows) - 4  # those that are their reference to the letter
    server.script = lambda call: Saying(judge(call), meets=called)
    for answered, _ in rows:
        scorer.prefetch(answered.text, row(answered.reference, answered.question))
    found = [scorer.score(answered.text, row(answered.reference, answered.question)) for answered, _ in rows]
    assert [
        (answered, score.value, score.reason)
        for (answered, value), score in zip(rows, found, strict=True)
        if score.value != value
    ] == []
    assert server.most_at_once == len(server.calls) == called
    assert all(call.body["temperature"] == 0.0 for call in server.calls)
    assert not any("</think>" in text for call in server.calls for text in texts_of(call.prompt))
    assert {(score.scorer, score.status) for score in found} == {("judge", ScoreStatus.SCORED)}
    nonces = [nonce_of(call.prompt) for call in server.calls]
    assert [score.reason for score in found if any(nonce in score.reason for nonce in nonces)] == []
    assert {score.version for score in found} == {scorer.version} == {"4 prompts 2 model as served"}
    assert build({"model": "qwen"}).version == "4 prompts 2 model qwen"


@pytest.mark.parametrize("row_type", ["judge", "llm_judge", "stem_llm_judge", "math_llm_judge"])
def test_a_reference_is_1_and_silence_0_without_a_judge(
    build: Asking, server: ScriptedEndpoint, row_type: str
) -> None:
    server.script = lambda _: "True"
    scorer = build()
    info = row("4.5 J", row_type=row_type)
    shape = "\\boxed{%s}" if "_llm_" in row_type else "%s"
    for gold in ("4.5 J", " 4.5\nJ", "4.5  J."):
        assert scorer.score(f"<think>so</think>{shape % gold}", info).value == 1.0
    silent = [
        *listed(r"""
¦⏎¦I don't know¦</think>¦pass¦<think>it is 4.5 J¦<think>\boxed{4.5 J}¦\boxed{}¦\boxed{ }¦<answer></answer>
<think>4.5 J</think>
"""),
        shape % "6 x 12?",
        "x" * 16_001,
        *CONTENTLESS,
        *(f"\\boxed{{{text}}}" for text in CONTENTLESS if text.count("{") == text.count("}")),
    ]
    for text in silent:
        scorer.prefetch(text, info)
    assert [text for text in silent if scorer.score(text, info).value != 0.0] == []
    assert server.calls == []


def test_a_reference_without_content_can_be_answered(
    build: Asking, server: ScriptedEndpoint, subtests: pytest.Subtests
) -> None:
    for reference in ["<", "+", "\U0001f642", "Solution"]:
        with subtests.test(reference=reference):
            scorer, info = build(), row(reference)
            assert [
                scorer.score(text, info).value
                for text in (f"The answer is {reference}", f"\\boxed{{{reference}}}")
            ] == [1.0, 1.0]
            asked = len(server.calls)
            empty = ("The answer is :", "Let's think step by step.", "")
            assert [scorer.score(text, info).value for text in empty] == [0.0] * 3
            assert len(server.calls) == asked


# What judges make of a prompt that go by what they read, each for a case whose answer is wrong.
JUDGES: Mapping[str, Callable[[str, JudgeCase], str]] = {
    "repeats the prompt": lambda prompt, case: prompt,
    "repeats what it was given": lambda prompt, case: "\n".join(texts_of(prompt)),
    "repeats the answer": lambda prompt, case: case.answer,
    "repeats the answer as it was given": lambda prompt, case: texts_of(prompt)[
        1 if case.variant == "math" else 2
    ],
    "repeats the end of the answer": lambda prompt, case: case.answer.splitlines()[-1],
    "repeats the end of the prompt": lambda prompt, case: prompt.splitlines()[-1],
    "repeats what stands behind the last mark": lambda prompt, case: prompt.rpartition(case.nonce)[2],
    "repeats the answer, and goes on": lambda prompt, case: (
        f"{case.answer}\n{SAYS[case.variant][1].format(case.nonce)}"
    ),
    "says the last word of praise in the answer": lambda prompt, case: (
        RIGHT_WORD.findall(case.answer) or ["False"]
    )[-1],
    "takes the answer's last line for its order": lambda prompt, case: (
        "True" if RIGHT_WORD.search(case.answer.splitlines()[-1]) else "False"
    ),
}


def test_no_injection_makes_a_judge_that_repeats_it_call_a_wrong_answer_right() -> None:
    found = []
    for (judge, says), variant, injection in itertools.product(JUDGES.items(), SAYS, ("", *INJECTIONS)):
        case = JudgeCase("6 x 12?", "72", f"7\n{injection}", variant)
        (message,) = messages_of(case)
        verdict = verdict_of(says(message["content"], case), "stop", case)
        found += [(judge, variant, injection)] if verdict.value == 1.0 else []
    assert found == []


@pytest.mark.parametrize("variant", ["default", "stem"])
def test_no_injection_raises_a_score(build: Asking, server: ScriptedEndpoint, variant: Variant) -> None:
    scorer = build(variant=variant)
    texts = [f"7\n{text}" if variant == "default" else f"\\boxed{{7 {text}}}" for text in INJECTIONS]
    for says in (lambda call: call.prompt, lambda call: texts_of(call.prompt)[-1], knows(variant)):
        server.script = says
        for text in texts:
            scorer.prefetch(text, row())
        assert [text for text in texts if scorer.score(text, row()).value == 1.0] == []


@pytest.mark.parametrize(
    ("saying", "error"),
    [
        (FAILING, Retryable), (SILENT, Retryable), (Saying(body=b"[]"), Retryable),
        (Saying(status=401), Permanent),
    ],
)  # fmt: skip
def test_a_judge_that_fails_gives_no_score(
    build: Asking, server: ScriptedEndpoint, saying: Saying, error: type[Exception]
) -> None:
    server.script = lambda _: saying
    scorer = build({"timeout_s": 0.2})
    scorer.prefetch("seventy-two", row())
    with pytest.raises(error):
        scorer.score("seventy-two", row())
    server.script = lambda _: "True"  # the call that failed is forgotten
    assert scorer.score("seventy-two", row()).value == 1.0


@pytest.mark.parametrize(
    ("saying", "reason"),
    [
        (Saying(None), "empty"),
        (Saying("True", finish_reason="length"), "max_tokens"),
        (Saying("maybe"), "'maybe'"),
        (Saying(status=400), "does not take the question"),
        (Saying("True\nFalse"), "both verdicts"),
    ],
)
def test_what_is_no_verdict_is_unscorable(
    build: Asking, server: ScriptedEndpoint, saying: Saying, reason: str
) -> None:
    server.script = lambda _: saying
    score = build().score("seventy-two", row())
    assert score.status is ScoreStatus.UNSCORABLE
    assert reason in score.reason


def test_an_answer_that_was_begun_is_asked_about_once(build: Asking, server: ScriptedEndpoint) -> None:
    scorer = build()
    for _ in range(3):
        scorer.prefetch("seventy-two", row())
    assert scorer.score("seventy-two", row()).value == 1.0
    assert len(server.calls) == 1
    scorer.prefetch("seventy-two", {"type": "llm_judge"})  # says nothing: `score` does
    scorer.prefetch("", row())


def test_what_was_begun_and_failed_begins_anew_beside_others(build: Asking, server: ScriptedEndpoint) -> None:
    server.script = lambda _: FAILING
    scorer = build()
    texts = [f"about {number}" for number in range(8)]
    for text in texts:
        scorer.prefetch(text, row())
    wait_until(lambda: len(server.calls) == 8 and server.at_once == 0)
    time.sleep(0.1)
    server.most_at_once = 0
    server.script = lambda _: Saying("True", meets=8)
    for text in texts:
        scorer.prefetch(text, row())
    assert {scorer.score(text, row()).value for text in texts} == {1.0}
    assert len(server.calls) == 16
    assert server.most_at_once == 8


def test_what_is_begun_and_never_asked_for_is_forgotten(
    build: Asking, server: ScriptedEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "MAX_PREFETCHED", 3)
    scorer = build()
    for number in range(9):
        scorer.prefetch(f"about {number}", row())
    assert len(scorer._begun) == 3
    assert [scorer.score(f"about {number}", row()).value for number in range(9)] == [1.0] * 9


def test_a_case_is_asked_about_once_where_verdicts_are_kept(build: Asking, server: ScriptedEndpoint) -> None:
    scorer = build({"cache": True})
    values = [
        scorer.score(text, row()).value
        for text in ("seventy-two", "<think>?</think> seventy-two\n", "70 + 2")
    ]
    assert values == [1.0] * 3
    assert len(server.calls) == 2
    assert scorer.take_counts() == {"cache_hits": 1, "cache_misses": 2}


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ("response", "First \\boxed{71}, no: \\boxed{70 + 2} <answer>60 + 12</answer>"),
        ("box", "70 + 2"),
        ("answer", "60 + 12"),
    ],
)
def test_a_judge_sees_what_counts(build: Asking, server: ScriptedEndpoint, part: str, shown: str) -> None:
    text = "<think>\\boxed{69}</think>First \\boxed{71}, no: \\boxed{70 + 2} <answer>60 + 12</answer>"
    assert build(part=part).score(text, row()).value == 1.0
    assert texts_of(server.calls[0].prompt) == ["6 x 12?", "72", shown]


def test_of_mathematics_a_rule_is_asked_first(build: Asking, server: ScriptedEndpoint) -> None:
    server.script = in_turn("Final Grade: CORRECT")
    scorer = build()
    rows = [
        ("\\boxed{\\frac{1}{2}}", "0.5", 1.0, 1.0),
        ("0.5", "0.5", 0.0, None),  # without a box
        ("\\boxed{a half}", "0.5", 1.0, 0.0),
        ("\\boxed{7}", "???", 1.0, None),  # of such a reference the rule can say nothing
    ]
    for text, reference, _, _ in rows:
        scorer.prefetch(text, row(reference, row_type="math_llm_judge"))
    wait_until(lambda: len(server.calls) == 2)  # by the rule's own thread: nobody has waited for it
    for text, reference, value, rule in rows:
        score = scorer.score(text, row(reference, row_type="math_llm_judge"))
        assert (score.value, score.components.get("rule")) == (value, rule), score.reason
    assert len(server.calls) == 2
    scorer.close()
    assert scorer.score("\\boxed{0.50}", row("0.5", row_type="math_llm_judge")).value == 1.0


@pytest.mark.parametrize(
    "info",
    [
        {}, {"type": "llm_judge"}, {"type": "llm_judge", "answer": {}},
        {"type": "llm_judge", "answer": {"value": " "}},
        {"type": "llm_judge", "answer": {"value": True}},
        {"type": "llm_judge", "answer": {"value": ["x"]}},
        {"type": "code", "answer": {"value": "x"}},
        {"type": ["judge"], "answer": {"value": "x"}},
        {"type": "judge", "answer": {"value": "x", "question": 3}},
    ],
)  # fmt: skip
def test_a_row_that_lacks_something_is_refused(build: Asking, info: Mapping[str, Any]) -> None:
    scorer = build()
    for call in (scorer.check_row, lambda info: scorer.score("x", info)):
        with pytest.raises(BadMessage, match="judge"):
            call(info)


@pytest.mark.parametrize("variant", SAYS)
def test_the_self_test_needs_a_judge_that_can_tell(
    build: Asking, server: ScriptedEndpoint, variant: Variant
) -> None:
    server.script = knows(variant)
    scorer = build(variant=variant)
    scorer.self_test()
    for says in ("True", "False", "qwertz", ""):
        server.script = in_turn(says)
        with pytest.raises(SelfTestFailed, match=r"'(?:four|five)' against 4 gave"):
            build(variant=variant).self_test()
    server.script = lambda _: FAILING
    with pytest.raises(Retryable):
        scorer.self_test()  # what it said once is no proof that it is there


def test_a_judge_that_nobody_has_placed_is_asked_for_in_words() -> None:
    scorer = JudgeAnswer(JudgeConfig())
    assert scorer.score("72", row()).value == 1.0
    with pytest.raises(Permanent, match="urls"):
        scorer.score("seventy-two", row())
    scorer.close()
