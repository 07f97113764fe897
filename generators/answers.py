"""Answer prompts and calls: request tokens from an engine, and make completions and records of them.

In: a `Prompt`, or a `TurnPrompt` of an episode. Out: its completions with their texts, or the record of the turn.
Engines only know tokens (`generators.engine`); a `Chat` decodes them.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Sequence

from broker.errors import BadMessage
from broker.messages import Completion, FinishReason, Prompt, Span, TurnPrompt, TurnRecord
from generators.chat import Chat
from generators.engine import Engine, Sample, SamplingParams
from tasks.thoughts import parted


async def answer(prompt: Prompt, engine: Engine, chat: Chat) -> tuple[Completion, ...]:
    """Sample the completions of a group, with one computation of their prompt. Raises as `generate` does."""
    if not len(prompt.token_ids):  # of an episode, whose prompt agents make
        raise BadMessage("a prompt has at least one token")
    samples = await engine.generate(prompt.token_ids, params_of(prompt, chat), prompt.n)
    # In a thread: decoding is slow, and the event loop drives the engine meanwhile.
    return await asyncio.to_thread(completions_of, prompt, samples, chat)


async def answer_turn(prompt: TurnPrompt, engine: Engine, chat: Chat, generator: str) -> TurnRecord:
    """Sample one turn of an episode, up to a stop sequence. Raises as `generate` does."""
    started = time.monotonic()
    (sample,) = await engine.generate(prompt.token_ids, params_of(prompt, chat), 1)
    if prompt.stop:
        sample = await asyncio.to_thread(stopped, prompt, sample, chat)
    return TurnRecord(
        token_ids=sample.token_ids,
        logprobs=sample.logprobs,
        policy_spans=sample.spans,
        finish_reason=sample.finish_reason,
        generator=generator,
        seconds=time.monotonic() - started,
    )


def stopped(prompt: TurnPrompt, sample: Sample, chat: Chat) -> Sample:
    """Return a sample up to the token that completes its answer's first stop sequence; all of it for none.

    The remaining tokens have the same probability as if sampling had ended there. Stop sequences in thoughts do not
    count: the caller means the visible answer.
    """
    prompt_ids, ids = prompt.token_ids.tolist(), sample.token_ids.tolist()

    def is_said(count: int) -> bool:
        parts = parted(chat.text(prompt_ids, ids[:count], FinishReason.LENGTH))
        answer = parts.answer or ""
        answer = answer if parts.thought is None else answer.lstrip("\n")
        return any(stop in answer for stop in prompt.stop)

    if not is_said(len(ids)):
        return sample
    count = 1 + bisect_left(range(1, len(ids) + 1), True, key=is_said)
    if count == len(ids):
        return sample
    return Sample(
        token_ids=sample.token_ids[:count],
        logprobs=sample.logprobs[:count],
        spans=tuple(
            Span(version=span.version, first=span.first, count=min(span.count, count - span.first))
            for span in sample.spans
            if span.first < count
        ),
        finish_reason=FinishReason.LENGTH,  # no token of its own ends it
    )


def params_of(prompt: Prompt | TurnPrompt, chat: Chat) -> SamplingParams:
    """Return the sampling parameters of a prompt."""
    return SamplingParams(
        max_tokens=prompt.max_tokens,
        stop_token_ids=chat.stop_token_ids,
        temperature=prompt.temperature,
        top_p=prompt.top_p,
        seed=prompt.seed,
    )


def completions_of(prompt: Prompt, samples: Sequence[Sample], chat: Chat) -> tuple[Completion, ...]:
    """Return a completion of one turn for each sample."""
    prompt_ids = prompt.token_ids.tolist()
    return tuple(
        Completion.of_one_segment(
            token_ids=sample.token_ids,
            logprobs=sample.logprobs,
            policy_spans=sample.spans,
            finish_reason=sample.finish_reason,
            text=chat.text(prompt_ids, sample.token_ids.tolist(), sample.finish_reason),
        )
        for sample in samples
    )
