"""This module holds the questions that clients of the reward server ask, and the results that they get.

In: what a client sent, and later a result from the run `api`. Out: a question that a pool can score, or what is wrong
with it; and a result for the client. A result has a value exactly when the response was scored. A result without one
says whether it would help to ask again: `unscorable` is the fault of what was sent, now and later; `unavailable` is the
server's. Zero means wrong and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from broker.errors import BadMessage, Retryable
from broker.messages import DeadLetter
from config.logs import mask
from config.scorers import TaskConfig
from scorers.retries import was_given_up
from scorers.reward_server.redis_messages import Result
from tasks.route import route
from tasks.values import UnknownType

# Where the prompt ends in the template of DeepSeek's models; II-Thought's trainer sends prompt and response as one.
ASSISTANT: Final = "<\uff5cAssistant\uff5c>"


class NotServed(Retryable):
    """This error says that the version can score such a row, and this server is not configured to."""


@dataclass(frozen=True, slots=True)
class RewardQuestion:
    """A question is one response and its row."""

    text: str
    task: str  # key of scorers.tasks
    info: Mapping[str, Any]  # canonical verification_info
    key: bytes  # equal questions have equal keys


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardResult:
    """A result says what became of a question."""

    status: Literal["scored", "unscorable", "unavailable"]
    value: float | None  # exactly when scored
    reason: str
    scorer: str = ""
    version: str = ""
    seconds: float = 0.0  # that the scoring took
    components: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that clients get."""
        return {
            "score": self.value,
            "status": self.status,
            "reason": self.reason,
            "components": dict(self.components),
            "seconds": round(self.seconds, 6),
            "scorer": self.scorer,
            "version": self.version,
        }


def unavailable(reason: str) -> RewardResult:
    """Return the result of a question that can't be scored now."""
    return RewardResult(status="unavailable", value=None, reason=reason)


def bug(error: Exception) -> RewardResult:
    """Return the result where this version has a bug, for which nothing that was sent is to blame."""
    return unavailable(f"the server has a bug: {mask(repr(error))}")


def question_of(
    text: str, verification_info: str | Mapping[str, Any], tasks: Mapping[str, TaskConfig]
) -> RewardQuestion:
    """Make a question that one of `tasks` scores.

    Raises:
        BadMessage: no version of this server could score such a row; the message says what is wrong with it.
        NotServed: this version could, and none of `tasks` does.
    """
    record = {"verification_info": verification_info}
    try:
        task, info = route(record, tasks)
    except BadMessage as error:
        try:
            known, _ = route(record)
        except UnknownType:  # but maybe to the tasks
            raise error from None
        if known in tasks:
            raise
        raise NotServed(
            f"this server has no scorer for rows of task {known!r}; it has {', '.join(tasks)}"
        ) from None
    digest = hashlib.blake2b(json.dumps([text, task, info]).encode(), digest_size=16).digest()
    return RewardQuestion(text, task, info, digest)


def reference_of(ground_truth: str | float | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Read an entry of `ground_truths`: a verification_info or its JSON text; anything else is a math answer."""
    if isinstance(ground_truth, str):
        try:
            parsed = json.loads(ground_truth)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            return ground_truth
    if isinstance(ground_truth, Mapping):
        return ground_truth
    return {"type": "math_verifiable", "answer": {"value": ground_truth}}


def response_of(text: str) -> str:
    """Find the response in a text that may begin with its prompt, as II-Thought's trainer sends it.

    The response follows the first mark, which is the prompt's. So a policy can't erase what it has said by writing the
    mark again.
    """
    _, mark, response = text.partition(ASSISTANT)
    return response if mark else text


def reward_result_of(result: Result) -> RewardResult:
    """Make a client's result of what came out of the pool."""
    if isinstance(result, DeadLetter):
        return unavailable(result.reason)
    score, reward = result.scores[0], result.rewards[0]
    if reward is None and was_given_up(score.components):
        return unavailable(score.reason)
    return RewardResult(
        status="unscorable" if reward is None else "scored",
        value=reward,
        reason=score.reason,
        scorer=score.scorer,
        version=score.version,
        seconds=result.seconds,
        components=score.components,
    )
