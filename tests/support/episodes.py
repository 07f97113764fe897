"""An episode for tests of what shows one: a tool that fails once, a history that is rewritten once."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from broker.messages import (
    NO_IDS,
    Completion,
    End,
    EnvironmentReward,
    FinishReason,
    Prompt,
    ScoredGroup,
    Segment,
    Span,
    Turn,
)
from tests.support.chain import make_prompt, make_scored

ESCAPE = "\x1b[2J"  # empties a terminal


def call(number: int, **arguments: Any) -> Turn:
    """Return a turn of the policy that calls the tool `search`."""
    asked = "{" + ", ".join(f'"{name}": "{value}"' for name, value in arguments.items()) + "}"
    function = {"name": "search", "arguments": asked}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }


def answer_to(number: int, text: str, **more: Any) -> Turn:
    """Return what the tool answers to call `number`."""
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text, **more}


MESSAGES: tuple[Turn, ...] = (
    {**call(1, query="2 + 3"), "content": "I look."},
    answer_to(1, f"{ESCAPE}no such query", is_error=True),
    {**call(2, query="2+3"), "reasoning_content": "Without blanks."},
    answer_to(2, "five"),
    {"role": "assistant", "content": "<b>5</b>"},
)


def an_episode(messages: tuple[Turn, ...] = MESSAGES) -> Completion:
    """Return three turns of the policy: four tokens of versions 3 and 4, two of 4, and two of 5 behind a new history."""

    def segment(
        given: list[int], ids: list[int], spans: tuple[Span, ...], loss_mask: tuple[int, ...]
    ) -> Segment:
        sampled = np.zeros(len(ids), bool)
        for span in spans:
            sampled[span.first : span.first + span.count] = True
        return Segment(
            prompt_ids=np.array(given, np.int32) if given else NO_IDS,
            token_ids=np.array(ids, np.int32),
            logprobs=np.where(sampled, -0.5, 0).astype(np.float32),
            policy_spans=spans,
            loss_mask=loss_mask,
        )

    def span(version: int, first: int, count: int) -> Span:
        return Span(version=version, first=first, count=count)

    return Completion(
        segments=(
            segment([], [*range(10, 19)], (span(3, 0, 1), span(4, 1, 3), span(4, 7, 2)), (4, 3, 2)),
            segment([1, 2, 30], [53, 0], (span(5, 0, 2),), (2,)),
        ),
        finish_reason=FinishReason.STOP,
        text="<b>5</b>",
        messages=messages,
        ended_by=End.ENVIRONMENT,
        remark="solved",
        reward=EnvironmentReward(value=7.5, low=0.0, high=10.0, turns=(None, -0.5, 8.0)),
    )


def episodes(group_id: str = "0", prompt: Prompt | None = None) -> ScoredGroup:
    """Return a group of an episode and an answer of one turn."""
    scored = make_scored(prompt or make_prompt(group_id), [1.0, 0.0])
    completions = (an_episode(), scored.rollout.completions[1])
    return replace(scored, rollout=replace(scored.rollout, completions=completions))
