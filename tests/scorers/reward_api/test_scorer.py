"""An old reward server as a scorer: what it says is the score, and what goes wrong with it never is one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from broker.errors import BadMessage, Permanent, Retryable
from broker.messages import Score, ScoreStatus
from config.scorer_kinds import RewardApiConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers.retries import FAILED_TRIES, score_together
from scorers.reward_api.scorer import RewardApi
from tasks.route import route
from tests.support.old_reward_server import OldRewardServer, old_reward_server

ROW = {"type": "math_verifiable", "answer": {"value": "42"}}
AWAY = "http://127.0.0.1:9"  # the port that nobody listens at


@pytest.fixture
def server() -> Iterator[OldRewardServer]:
    with old_reward_server() as found:
        yield found


def scorer_of(*urls: str, **settings: Any) -> RewardApi:
    return RewardApi(RewardApiConfig(urls=urls, **{"timeout_s": 0.3, **settings}))


def score(scorer: RewardApi, text: str, row: dict[str, Any] = ROW) -> Score:
    try:
        return scorer.score(text, row)
    finally:
        scorer.close()


@pytest.mark.parametrize("address", ["{}", "{}/", "{}/reward"])
def test_the_servers_score_is_the_score(server: OldRewardServer, address: str) -> None:
    found = score(scorer_of(address.format(server.url)), "42")
    assert (found.value, found.scorer) == (1.0, "reward_api")
    assert server.asked == [{"llm_output": "42", "verification_info": json.dumps(ROW, sort_keys=True)}]
    assert score(scorer_of(server.url), "41").value == 0.0


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ((500, {"detail": "KeyError"}), "HTTP 500"),
        ((400, {"detail": "Failed to initialize code_verifiable verifier"}), "HTTP 400"),
        ((503, {"detail": "starting"}), "HTTP 503"),
        ((429, {"detail": "slow down"}), "HTTP 429"),
        ((200, {"scores": [1.0]}), "without a score"),
        ((200, b"<html>"), "without a score"),
    ],
)
def test_a_server_in_trouble_is_no_zero(server: OldRewardServer, reply: tuple[int, Any], words: str) -> None:
    server.script = lambda _: reply
    with pytest.raises(Retryable, match=words):
        score(scorer_of(server.url), "42")


def test_a_server_that_is_away_is_waited_for_and_then_tried_again() -> None:
    with pytest.raises(Retryable, match="no connection"):
        score(scorer_of(AWAY), "42")


def test_after_all_tries_a_completion_is_unscorable_and_no_zero() -> None:
    scorer = scorer_of(AWAY, timeout_s=0.05)
    config = ScorersConfig(retries=1, retry_backoff_s=0.0)
    try:
        found = score_together(scorer, ["42"], ROW, config)["42"]
    finally:
        scorer.close()
    assert (found.status, found.value) == (ScoreStatus.UNSCORABLE, None)
    assert FAILED_TRIES in found.components


def test_a_server_that_comes_back_within_the_time_scores() -> None:
    with old_reward_server() as first:
        port = first.port
    scorer = scorer_of(f"http://127.0.0.1:{port}", timeout_s=10.0)
    scorer.prefetch("42", ROW)
    with old_reward_server(port):
        assert score(scorer, "42").value == 1.0


def test_of_two_servers_the_one_that_is_there_is_asked(server: OldRewardServer) -> None:
    scorer = scorer_of(AWAY, server.url)
    try:
        assert [scorer.score(text, ROW).value for text in ("42", "41", "40")] == [1.0, 0.0, 0.0]
    finally:
        scorer.close()


@pytest.mark.parametrize(
    "reply",
    [(422, {"detail": "code_verifiable is not supported."}), (200, {"score": 1.5}), (200, {"score": None})],
)
def test_a_row_that_the_server_refuses_is_unscorable(server: OldRewardServer, reply: tuple[int, Any]) -> None:
    server.script = lambda _: reply
    found = score(scorer_of(server.url), "42")
    assert (found.status, found.value) == (ScoreStatus.UNSCORABLE, None)


def test_a_wrong_address_needs_a_person(server: OldRewardServer) -> None:
    server.script = lambda _: (404, {"detail": "Not Found"})
    with pytest.raises(Permanent, match="HTTP 404"):
        score(scorer_of(server.url), "42")


def test_a_row_without_a_type_is_refused(server: OldRewardServer) -> None:
    with pytest.raises(BadMessage, match="needs a type"):
        score(scorer_of(server.url), "42", {"answer": {"value": "42"}})
    assert server.asked == []


def test_calls_run_side_by_side_up_to_the_number_of_workers(server: OldRewardServer) -> None:
    held = threading.Event()

    def hold(_: object) -> tuple[int, Any]:
        assert held.wait(10)
        return 200, {"score": 1.0}

    server.script = hold
    scorer = scorer_of(server.url, workers=3, timeout_s=20.0)
    try:
        for number in range(6):
            scorer.prefetch(str(number), ROW)
        until = time.monotonic() + 10
        while server.at_once < 3 and time.monotonic() < until:
            held.wait(0.01)
        held.set()
        assert [scorer.score(str(number), ROW).value for number in range(6)] == [1.0] * 6
    finally:
        scorer.close()
    assert (server.most_at_once, len(server.asked)) == (3, 6)


def test_rows_of_ii_thought_go_to_the_server_whatever_their_type() -> None:
    task = TaskConfig.model_validate({"scorer": {"type": "reward_api", "urls": ["http://h:8000"]}})
    row = {"type": "their_own", "answer": {"anything": 1}}
    for info in (ROW, row):
        assert route({"verification_info": info}, {"reward": task}) == ("reward", info)
    tasks = {"reward": task, "math": TaskConfig()}
    assert route({"verification_info": ROW}, tasks)[0] == "math", "a task of the row's own type comes first"


def test_the_self_test_waits_for_a_server(server: OldRewardServer) -> None:
    for url in (AWAY, server.url):
        scorer = scorer_of(url)
        try:
            if url == AWAY:
                with pytest.raises(Retryable):
                    scorer.self_test()
            else:
                scorer.self_test()
        finally:
            scorer.close()
