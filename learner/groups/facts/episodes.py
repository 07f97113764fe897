"""Count an episode's turns, tool calls and tokens, and how it ended.

In: completions. Out: numbers and plain values, for the metrics of a step and for displaying a completion. An answer of
one turn is no episode. Pure; needs no torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from msgspec import to_builtins

from broker.messages import Completion, End, Span
from tasks.turns import POLICY, spoken


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFacts:
    """Counts of an episode."""

    turns: int  # of the policy
    tool_calls: int
    tool_errors: int  # tools' answers that report a failed call
    sampled_tokens: int
    observed_tokens: int  # tokens between turns: of tools, the environment, and the template's markers
    segments: int
    ended_by: End | None


def is_episode(completion: Completion) -> bool:
    """Return whether a completion has several turns."""
    return bool(completion.messages) or completion.ended_by is not None


def turns_of(completion: Completion) -> list[tuple[Span, ...]]:
    """Return the spans of each turn of the policy, segment after segment: each contiguous run of sampled tokens."""
    turns: list[tuple[Span, ...]] = []
    for segment in completion.segments:
        end = -1
        for span in segment.policy_spans:
            if span.first == end:
                turns[-1] += (span,)
            else:
                turns.append((span,))
            end = span.first + span.count
    return turns


def spans_by_message(completion: Completion) -> list[tuple[Span, ...]]:
    """Return for each message the spans of its tokens; none for messages that were not sampled.

    All are empty where the numbers of the policy's messages and turns differ: then the tokens can't be assigned.
    """
    turns = turns_of(completion)
    is_sampled = [bool(message.get("role") == POLICY) for message in completion.messages]
    if sum(is_sampled) != len(turns):
        return [() for _ in is_sampled]
    own = iter(turns)
    return [next(own) if sampled else () for sampled in is_sampled]


def facts_of(completion: Completion) -> EpisodeFacts:
    """Count the contents of an episode."""
    said = spoken(completion.messages)
    sampled = completion.num_sampled
    return EpisodeFacts(
        turns=len(turns_of(completion)),
        tool_calls=sum(len(one.calls) for one in said),
        tool_errors=sum(one.is_error for one in said),
        sampled_tokens=sampled,
        observed_tokens=sum(len(segment.token_ids) for segment in completion.segments) - sampled,
        segments=len(completion.segments),
        ended_by=completion.ended_by,
    )


def num_turns(completion: Completion) -> int:
    """Count turns as verl does: the prompt, each turn of the policy, and each answer to one."""
    is_sampled = [bool(message.get("role") == POLICY) for message in completion.messages]
    return 1 + sum(is_sampled) + sum(before and not now for before, now in pairwise(is_sampled))


def as_tree(completion: Completion) -> dict[str, Any]:
    """Return the facts of an episode as JSON; {} for an answer of one turn.

    `messages` is everything after the prompt; `message_versions` has the sampling versions of each message.
    """
    if not is_episode(completion):
        return {}
    return {
        "messages": [dict(message) for message in completion.messages],
        "message_versions": [
            [{"version": span.version, "count": span.count} for span in spans]
            for spans in spans_by_message(completion)
        ],
        **asdict(facts_of(completion)),
        "ended_by": None if completion.ended_by is None else str(completion.ended_by),
        "remark": completion.remark,
        "environment_reward": to_builtins(completion.reward),
    }


def episode_metrics(episodes: Sequence[EpisodeFacts]) -> dict[str, Any]:
    """Return statistics of episodes, by key of a step's object; empty for none."""
    if not episodes:
        return {}
    ends = Counter(one.ended_by for one in episodes)
    return {
        "episodes": {
            "count": len(episodes),
            "turns_mean": fmean(one.turns for one in episodes),
            "turns_max": max(one.turns for one in episodes),
            "tool_calls_mean": fmean(one.tool_calls for one in episodes),
            "tool_errors_mean": fmean(one.tool_errors for one in episodes),
            "sampled_tokens_mean": fmean(one.sampled_tokens for one in episodes),
            "observed_tokens_mean": fmean(one.observed_tokens for one in episodes),
            "segments_mean": fmean(one.segments for one in episodes),
            "ended_by": {str(end): ends[end] / len(episodes) for end in End},
        }
    }
