"""This module reads the body of a request into questions, for `scorers.reward_server.service`.

In: bytes, and the tasks that are served. Out: for each response a question, or the result that is known without asking;
or the 422 that says what is wrong with the body. Nothing here waits. A body of 32 MiB takes seconds, so the service
reads large bodies in a thread, and answers other requests and `/ping` meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json
from starlette.responses import Response

from broker.errors import BadMessage
from config.scorers import TaskConfig
from scorers.reward_server.questions import (
    NotServed,
    RewardQuestion,
    RewardResult,
    bug,
    question_of,
    reference_of,
    response_of,
    unavailable,
)
from scorers.reward_server.wire import BatchRequest, LegacyRequest, RewardRequest
from web.server import faults, unprocessable

log = logging.getLogger(__name__)

Request = RewardRequest | BatchRequest | LegacyRequest


@dataclass(frozen=True, slots=True)
class RequestQuestions:
    """A request that was read asks these questions."""

    kind: type[Request]
    questions: Sequence[RewardQuestion | RewardResult]  # one for each response, in order


class Bodies:
    """This reader makes questions of requests' bodies.

    Args:
        tasks: the tasks that are served.
        has_prompts: whether a response may follow its prompt in one text, as II-Thought's trainer sends them.
    """

    def __init__(self, tasks: Mapping[str, TaskConfig], *, has_prompts: bool) -> None:
        self._tasks = tasks
        self._has_prompts = has_prompts

    def read(self, body: bytes, *, is_batch: bool) -> RequestQuestions | Response:
        """Read what is asked, or answer what is wrong with the body."""
        try:
            tree = from_json(body)
        except ValueError as failure:
            return unprocessable([{"type": "json_invalid", "loc": ["body"], "msg": f"not JSON: {failure}"}])
        kind = BatchRequest if is_batch else LegacyRequest if _is_legacy(tree) else RewardRequest
        try:
            request = kind.model_validate(tree)
        except ValidationError as found:
            return faults(found)
        return RequestQuestions(kind, [self._question(item) for item in _items(request)])

    def _question(self, item: RewardRequest) -> RewardQuestion | RewardResult:
        """Make a question of a response and its row; an error becomes the result of this question alone."""
        text = response_of(item.llm_output) if self._has_prompts else item.llm_output
        try:
            return question_of(text, item.verification_info, self._tasks)
        except BadMessage as failure:
            return RewardResult(status="unscorable", value=None, reason=str(failure))
        except NotServed as failure:
            return unavailable(str(failure))
        except Exception as failure:
            log.exception("not_read")
            return bug(failure)


def _items(request: Request) -> Sequence[RewardRequest]:
    match request:
        case RewardRequest():
            return [request]
        case BatchRequest():
            return request.items
        case LegacyRequest():
            return [
                RewardRequest(llm_output=text, verification_info=reference_of(truth))
                for text, truth in zip(request.solutions, request.ground_truths, strict=True)
            ]


def _is_legacy(tree: Any) -> bool:
    return (
        isinstance(tree, dict)
        and bool(tree.keys() & {"solutions", "ground_truths"})
        and "llm_output" not in tree
    )
