"""Speak OpenAI's completions API: `/v1/completions`, a text that the policy continues, without a chat template.

In and out: see `agents.gateway.dialects.dialect.Dialect`. Fields by OpenAI's API reference, read 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agents.gateway.dialects.chat import DONE, error_of, usage_of, wants_usage
from agents.gateway.dialects.dialect import COMMENT, ApiRequest, Begun, CallRefused, PolicyAnswer, event
from agents.gateway.dialects.fields import a_limit, model_in, refuse_what_biases, stops_in
from tasks.turns import text_of


class Completions:
    """The dialect of completions."""

    path = "/v1/completions"

    def read(self, body: Mapping[str, Any]) -> ApiRequest:
        """Read a request. Raises CallRefused."""
        overridden = refuse_what_biases(body)
        prompt = body.get("prompt")
        text = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else prompt
        if not isinstance(text, str) or not text:
            raise CallRefused("prompt is one text: ids, and several prompts, can't be had", where="prompt")
        return ApiRequest(
            model=model_in(body),
            messages=({"role": "user", "content": text},),
            is_plain=True,
            most_tokens=a_limit(body, "max_tokens"),
            stop=stops_in(body.get("stop"), "stop"),
            is_streamed=body.get("stream") is True,
            streams_usage=wants_usage(body),
            overridden=overridden,
        )

    def answer(self, asked: ApiRequest, answer: PolicyAnswer) -> dict[str, Any]:
        """Return the body of an answer."""
        del asked
        return {**_body(answer, text_of(answer.message), _finish(answer)), "usage": usage_of(answer.usage)}

    def alive(self, asked: ApiRequest, begun: Begun, number: int) -> str:
        """Return a comment."""
        del asked, begun, number
        return COMMENT

    def events(self, asked: ApiRequest, answer: PolicyAnswer, signs: int) -> Iterator[str]:
        """Yield the events of a stream: the text, the finish reason, the usage."""
        del signs
        more = {"usage": None} if asked.streams_usage else {}
        yield event({**_body(answer, text_of(answer.message), None), **more})
        yield event({**_body(answer, "", _finish(answer)), **more})
        if asked.streams_usage:
            yield event({**_body(answer, "", None), "choices": [], "usage": usage_of(answer.usage)})
        yield DONE

    def error(self, refused: CallRefused) -> dict[str, Any]:
        """Return the body of an error."""
        return error_of(refused)

    def error_event(self, refused: CallRefused) -> str:
        """Return an error as an event: OpenAI's client raises it."""
        return event(error_of(refused))


def _finish(answer: PolicyAnswer) -> str:
    return "length" if answer.is_cut else "stop"


def _body(answer: PolicyAnswer, text: str, finish: str | None) -> dict[str, Any]:
    return {
        "id": f"cmpl-{answer.id}",
        "object": "text_completion",
        "created": answer.created,
        "model": answer.model,
        "system_fingerprint": None,
        "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": finish}],
    }
