"""Answers that a judge's server refuses: whose doing it is, the answer's, the row's or the server's, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from broker.errors import Permanent, Retryable
from broker.messages import Score, ScoreStatus
from scorers.scorer import OVER_LIMIT, SelfTestFailed
from tests.scorers.conftest import Asking
from tests.support.endpoint_server import (
    FAILING,
    Call,
    Saying,
    Script,
    ScriptedEndpoint,
    in_turn,
    scripted_endpoint,
)
from tests.support.toy_protocol import StarsAnswer

pytestmark = pytest.mark.process

ODD = " ".join(
    f"\u0d9a\u0dc3{number}" for number in range(1000)
)  # long, and of letters that few servers know
QUESTION = "6 x 12?"
TOO_LONG = json.dumps({"error": {"message": "maximum context length is 4096", "code": 400}}).encode()
FILTERED = json.dumps({"choices": [{"index": 0, "finish_reason": "content_filter"}]}).encode()
REFUSALS = {
    "too long": Saying(status=400, body=TOO_LONG),
    "a bad request": Saying(status=400),
    "too large": Saying(status=413),
    "no request for this program": Saying(status=422),
    "the provider's filter": Saying(
        status=400, body=b'{"error": {"code": "content_filter", "message": "filtered"}}'
    ),
    "the reply was filtered": Saying(None, finish_reason="content_filter"),
    "half of the reply was filtered": Saying("True", finish_reason="content_filter"),
    "no message at all, for the filter": Saying(body=FILTERED),
    "moderation": Saying(status=403),
    "a firewall": Saying(status=406),
    "for legal reasons": Saying(status=451),
    "a header that is too large": Saying(status=431),
}


def refusing(what: str, refusal: Saying = REFUSALS["too long"], says: str = "True") -> Script:
    return lambda call: refusal if what in call.prompt else Saying(says)


@pytest.fixture
def build(asking: Asking) -> Asking:
    def make(kind: str = "judge", *more: ScriptedEndpoint, cache: bool = False, **options: Any) -> Any:
        return asking(kind, {"timeout_s": 1.0, "cache": cache, "model": "judge"}, *more, **options)

    return make


def row(kind: str = "judge", question: str = QUESTION) -> Mapping[str, Any]:
    answer = {"value": "72", "question": question} | ({"criteria": "1. So"} if kind == "rubric" else {})
    return {"type": "llm_judge" if kind == "judge" else kind, "answer": answer}


def is_refused(score: Score) -> bool:
    return score.value == 0.0 and score.components.get(OVER_LIMIT) == 1.0 and "refuses" in score.reason


@pytest.mark.parametrize("refusal", REFUSALS)
def test_an_answer_that_is_refused_twice_is_0_where_the_same_row_is_taken(
    server: ScriptedEndpoint, build: Asking, refusal: str
) -> None:
    server.script = refusing(ODD, REFUSALS[refusal])
    assert is_refused(build().score(ODD, row()))
    assert [ODD in call.prompt for call in server.calls] == [True, False, True]
    assert all(QUESTION in call.prompt for call in server.calls)


def test_each_scorer_knows_an_answer_that_is_refused(
    server: ScriptedEndpoint, build: Asking, subtests: pytest.Subtests
) -> None:
    cases: list[tuple[str, Mapping[str, Any], float]] = [
        ("judge", {"variant": "stem"}, 0.0),
        ("judge", {"variant": "tinyv"}, 0.0),
        ("tinyv", {"mode": "tinyv_only"}, 0.0),
        ("rubric", {"mode": "tinyv_only"}, 0.0),
        ("rubric", {"mode": "mixed", "weight": 0.75}, 0.25),  # the rule's share
    ]
    for kind, options, value in cases:
        with subtests.test(kind=kind, options=options):
            text = f"{ODD} \\boxed{{72}}" if kind == "rubric" else f"\\boxed{{{ODD}}}"
            server.script = refusing(ODD, says="Total Score: 10/10" if kind == "rubric" else "True")
            score = build(kind, **options).score(text, row(kind))
            assert score.value == value, score.reason
            assert "refuses" in score.reason


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_server_that_refuses_everything_makes_no_answer_wrong(
    server: ScriptedEndpoint, build: Asking, refusal: str
) -> None:
    server.script = in_turn(REFUSALS[refusal])
    scorer = build()
    if (REFUSALS[refusal].status or 200) in {403, 406, 431, 451}:
        with pytest.raises(Permanent, match=f"HTTP {REFUSALS[refusal].status}"):
            scorer.score("seventy-two", row())
    else:
        score = scorer.score("seventy-two", row())
        assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None)
        assert "does not take the question" in score.reason
    assert len(server.calls) == 2
    with pytest.raises((SelfTestFailed, Permanent)):
        scorer.self_test()


def test_a_row_that_is_too_long_by_itself_is_unscorable(server: ScriptedEndpoint, build: Asking) -> None:
    server.script = refusing("a long story")
    for text in ("seventy-two", ODD):
        assert build().score(text, row(question="a long story: 6 x 12?")).value is None
    assert build().score("seventy-two", row()).value == 1.0


@pytest.mark.parametrize(
    ("plain", "second", "value"),
    [
        ("True", "True", 1.0), ("True", "False", 0.0), ("True", "qwertz", None),
        (REFUSALS["too long"], "True", None),
        ("", REFUSALS["too long"], 0.0),  # whatever it says, it took the row
    ],
)  # fmt: skip
def test_what_the_server_takes_at_the_second_try_is_judged(
    server: ScriptedEndpoint, build: Asking, plain: Saying | str, second: Saying | str, value: float | None
) -> None:
    server.script = in_turn(REFUSALS["too large"], plain, second)
    score = build().score("seventy-two", row())
    assert score.value == value
    assert is_refused(score) is isinstance(second, Saying)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_server_that_breaks_meanwhile_gives_no_score(
    server: ScriptedEndpoint, build: Asking, after: int
) -> None:
    """It refuses, and then fails: a key that is taken back, a restart."""
    refused = REFUSALS["too long"]
    for broken, error in ((FAILING, Retryable), (Saying(status=401), Permanent)):
        turns = [refused, Saying("True"), refused]
        server.script = in_turn(*turns[:after], broken)
        with pytest.raises(error):
            build().score(ODD, row())


def test_a_refused_group_costs_a_second_try_each_and_one_question(
    server: ScriptedEndpoint, build: Asking
) -> None:
    server.script = refusing(ODD)
    scorer = build()
    texts = [f"{number} {ODD}" for number in range(16)]
    for text in texts:
        scorer.prefetch(text, row())
    for text in texts:
        scorer._begun.start(*scorer._plan(text, scorer._protocol.read_row(row())), is_aside=False).result()
    assert all(is_refused(scorer.score(text, row())) for text in texts)
    assert len(server.calls) <= 16 + 16 + 3
    before = len(server.calls)
    assert is_refused(scorer.score(f"once more {ODD}", row()))  # later, so that the row is asked about anew
    assert len(server.calls) == before + 3


@pytest.mark.parametrize("cache", [True, False])
def test_an_earlier_reply_proves_nothing_of_a_server_that_refuses_everything_now(
    server: ScriptedEndpoint, build: Asking, *, cache: bool
) -> None:
    server.script = refusing(ODD)
    scorer = build(cache=cache)
    assert is_refused(scorer.score(ODD, row()))
    server.script = in_turn(REFUSALS["too long"])
    assert scorer.score("seventy-two", row()).value is None
    server.script = in_turn("True")
    assert scorer.score("seventy-two", row()).value == 1.0


def test_of_several_servers_each_is_asked_before_an_answer_counts_as_refused(
    server: ScriptedEndpoint, build: Asking
) -> None:
    server.script = in_turn(REFUSALS["a bad request"])  # whatever it is asked
    with scripted_endpoint() as other:
        assert {build("judge", other).score(f"about {n}", row()).value for n in range(8)} == {1.0}
        other.script = refusing(ODD)
        assert is_refused(build("judge", other).score(ODD, row()))
    assert build("judge", other).score(ODD, row()).value is None  # what is left refuses everything


def test_a_protocol_that_can_not_ask_plainly_leaves_the_answer_unscorable(server: ScriptedEndpoint) -> None:
    server.script = refusing(ODD, says="***")
    scorer = StarsAnswer(server.url)
    score = scorer.score(ODD, {"type": "stars", "answer": {"reader": "a customer"}})
    scorer.close()
    assert score.value is None
    assert "does not take the question" in score.reason


def test_a_call_is_refused_once_by_each_server(server: ScriptedEndpoint, build: Asking) -> None:
    def tally(call: Call) -> Saying:
        return REFUSALS["too long"] if ODD in call.prompt else Saying("True")

    server.script = tally
    with scripted_endpoint() as other:
        other.script = tally
        assert is_refused(build("judge", other).score(ODD, row()))
        asked = [ODD in call.prompt for one in (server, other) for call in one.calls]
        assert (asked.count(True), asked.count(False)) == (4, 1)
