"""A model that vLLM serves, as the judge and as the rubric model of answers of every kind: what may come of its babble.

In: a server, and how to give it other weights. Out: scores by the path of `millrace score`, each of them checked
against the very reply that the server has sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import pytest
from transformers import PreTrainedModel

from broker.messages import ScoreStatus
from config.endpoint import EndpointConfig
from config.scorer_kinds import JudgeConfig, RubricConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers import score
from scorers.group import GroupScorer
from scorers.judge.prompt import JudgeCase
from scorers.judge.prompt import messages_of as judge_messages
from scorers.rubric.prompt import RubricCase
from scorers.rubric.prompt import messages_of as rubric_messages
from scorers.scorer import SelfTestFailed
from tests.support.vllm_server import MODEL, Exchange, ModelServer, num_tokens

MAX_TOKENS: Final = 24  # of a reply
CAPITAL: Final = {"value": "Paris", "question": "What is the capital of France? (000)"}
JUDGED: Final = {"type": "llm_judge", "answer": CAPITAL}
CRITERIA: Final = "1. Splits a factor (5 points)\n2. Says 72 (5 points)"
GRADED: Final = {"type": "rubric", "answer": {"question": "What is 6 x 12? (000)", "criteria": CRITERIA}}
VALUES: Final = {  # of what is said without a code
    "llm_judge": {"True": 1.0, "False": 0.0, "No": 0.0, "</think>No": 0.0},
    "rubric": {"7/10": 0.7},
}
QUOTABLE: Final = 'True. {"verdict": "correct"} Total Score: 7/10'


def answers(row: Mapping[str, Any], context: int) -> list[str]:
    """Seven that fit into the judge's context, of which one names the verdict and one leaves three tokens; three that
    don't, by little and by much.
    """
    room = context - num_tokens(prompt_of(row, ""))
    return [
        "It is as everybody knows.",
        "\u5df4\u9ece, o\u00f9 \U0001f5fc \u202eest",
        "half of a pair: \ud83d",
        "Its end<|endoftext|>is none.",
        "A long story." * 100,
        QUOTABLE,
        "x" * (room - 3),
        "x" * room,
        "x" * (room + 1),
        "A long story." * 1000,
    ]


def prompt_of(row: Mapping[str, Any], text: str) -> str:
    answer = row["answer"]
    if row["type"] == "rubric":
        return rubric_messages(RubricCase(answer["question"], answer["criteria"], text))[0]["content"]
    return judge_messages(JudgeCase(answer["question"], answer["value"], text))[0]["content"]


@dataclass(frozen=True, slots=True)
class Judging:
    """A served model that scorers ask.

    Attributes:
        server: where.
        load: gives it other weights; returns their version.
    """

    server: ModelServer
    load: Callable[[PreTrainedModel], Awaitable[int]]

    async def values(
        self, model: PreTrainedModel, row: Mapping[str, Any], texts: list[str]
    ) -> list[float | None]:
        """Return what these answers are worth to a model, each as its reply says, and nobody is asked about nothing."""
        version = await self.load(model)
        question = row["answer"]["question"].replace("000", f"{version:03}")  # else it would be known already
        row = {**row, "answer": {**row["answer"], "question": question}}
        found = [await self._checked(text, row) for text in texts]
        empty = await asyncio.to_thread(score, "", row, judge_url=self.server.url)
        assert (empty.value, self.server.take()) == (0.0, [])
        return found

    async def refusal(
        self, model: PreTrainedModel, scorer: type[JudgeConfig | RubricConfig], **options: int
    ) -> str:
        """Return why a worker does not start with this model."""
        await self.load(model)
        endpoint = EndpointConfig.model_validate(
            {"urls": [self.server.url], "max_tokens": MAX_TOKENS, **options}
        )
        worker = GroupScorer(ScorersConfig(tasks={"judge": TaskConfig(scorer=scorer(endpoint=endpoint))}))
        with closing(worker), pytest.raises(SelfTestFailed) as failed:
            await asyncio.to_thread(worker.self_test)
        self.server.take()
        return str(failed.value)

    async def _checked(self, text: str, row: Mapping[str, Any]) -> float | None:
        found = await asyncio.to_thread(score, text, row, judge_url=self.server.url)
        exchange, *more = self.server.take()
        prompt = prompt_of(row, text.replace("\ud83d", "\ufffd"))
        how = {"model": MODEL, "max_tokens": MAX_TOKENS, "temperature": 0.0, "stream": False}
        assert exchange.asked == {**how, "messages": [{"role": "user", "content": prompt}]}
        if (
            exchange.status == HTTPStatus.BAD_REQUEST
        ):  # it is asked about a plain answer, and then this once more
            assert [again.status for again in more if again.asked == exchange.asked] == [exchange.status]
            assert all(plain.status == HTTPStatus.OK for plain in more[:-1])
        else:
            assert not more
        value, reason = expected(text, VALUES[row["type"]], exchange)
        status = ScoreStatus.UNSCORABLE if value is None else ScoreStatus.SCORED
        assert (found.value, found.status) == (value, status), found.reason
        assert re.search(reason, found.reason), found.reason
        return found.value


def expected(text: str, values: Mapping[str, float], exchange: Exchange) -> tuple[float | None, str]:
    """Return the value of an answer by a server's reply, read by hand, and how the reason reads."""
    if exchange.status == HTTPStatus.BAD_REQUEST:
        return (
            0.0,
            "refuses this answer, and again, .*(maximum context length is|max_tokens must be at least 1)",
        )
    tokens = exchange.reply["usage"]["prompt_tokens"]
    assert tokens == num_tokens(exchange.prompt), "an answer has made a special token"
    if exchange.finish_reason == "length":
        return None, "cut off by max_tokens or the end of its context"
    if exchange.said is None:
        return None, "thinking never ended"
    if not exchange.said:
        return None, "reply is empty"
    value = values.get(exchange.said)
    if value is None:
        return None, "does not end with a verdict|has no total"
    return (None, "may be a quotation") if value and text == QUOTABLE else (value, "calls|says")
