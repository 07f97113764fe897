"""A protocol of one's own: a class outside the packages reads rows, words a prompt and reads the replies to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.errors import BadMessage, Retryable
from broker.messages import ScoreStatus
from config.scorer_kinds import CustomConfig
from config.scorers import ScorersConfig
from scorers.build import build_scorer
from scorers.scorer import Counting, Prefetching, Scorer, SelfTestFailed
from tests.support.endpoint_server import FAILING, Call, Saying, ScriptedEndpoint, in_turn, scripted_endpoint

pytestmark = pytest.mark.process

ROW = {"type": "stars", "answer": {"reader": "a customer"}}
STARS = {"Thanks!": "*****", "Fine.": "***", "Go away.": "*", "Hm.": "none"}


def reader(call: Call) -> Saying:
    return Saying(next(stars for text, stars in STARS.items() if text in call.prompt), delay_s=0.2)


@pytest.fixture
def server() -> Iterator[ScriptedEndpoint]:
    with scripted_endpoint() as running:
        running.script = reader
        yield running


@pytest.fixture
def scorer(server: ScriptedEndpoint) -> Iterator[Scorer]:
    section = CustomConfig(
        import_path="tests.support.toy_protocol:StarsAnswer", options={"url": server.url}, queue="judge"
    )
    built = build_scorer(section, ScorersConfig())
    yield built
    built.close()


def test_a_protocol_outside_scores_with_all_that_a_scorer_owns(
    scorer: Scorer, server: ScriptedEndpoint
) -> None:
    assert isinstance(scorer, Prefetching)
    assert isinstance(scorer, Counting)
    for text in STARS:
        scorer.prefetch(text, ROW)
    scores = [scorer.score(text, ROW) for text in STARS]
    assert [score.value for score in scores] == [1.0, 0.5, 0.0, None]
    assert [dict(score.components) for score in scores] == [
        {"stars": 5.0},
        {"stars": 3.0},
        {"stars": 1.0},
        {},
    ]
    assert (scores[0].scorer, scores[0].version) == ("stars", "1 model as served")
    assert scores[0].reason == "5 stars for 'Thanks!'"
    assert scores[3].status is ScoreStatus.UNSCORABLE
    assert server.most_at_once == len(server.calls) == 4
    assert scorer.score("Thanks!", ROW).value == 1.0  # out of the cache
    assert scorer.score(" ", ROW).value == 0.0  # without a call
    assert len(server.calls) == 4
    assert scorer.take_counts() == {"cache_hits": 1, "cache_misses": 4}


def test_what_fails_is_no_score_of_the_protocol(scorer: Scorer, server: ScriptedEndpoint) -> None:
    with pytest.raises(BadMessage, match="without a reader"):
        scorer.check_row({"type": "stars"})
    server.script = lambda _: FAILING
    with pytest.raises(Retryable):
        scorer.score("Thanks!", ROW)
    server.script = in_turn(Saying(status=400))
    assert "the reader's server does not take the question" in scorer.score("Fine.", ROW).reason


def test_the_self_test_asks_the_protocols_questions(scorer: Scorer, server: ScriptedEndpoint) -> None:
    scorer.self_test()
    server.script = in_turn("***")
    with pytest.raises(
        SelfTestFailed, match=r"the stars scorer's self-test failed: 0\.5 and 0\.5; version: 1 "
    ):
        scorer.self_test()
