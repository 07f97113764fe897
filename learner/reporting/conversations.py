"""Render an episode as text, for the report and the verbs that show completions: `journal show`, `trace`, `dead show`.

In: the result of `learner.groups.facts.episodes.as_tree`. Out: plain text, some of it a model's: print it through
`tools.printable`, and escape it in pages. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.turns import POLICY, Spoken, spoken

OBSERVED_CHARS = 2000  # of a tool's or environment's message: its beginning and its end
Episode = Mapping[str, Any]


def summary(episode: Episode) -> Iterator[str]:
    """Yield an episode's facts and why it ended, then the environment's rewards."""
    remark = f": {episode['remark']}" if episode["remark"] else ""
    yield (
        f"{_count(episode['turns'], 'turn')}, {_count(episode['tool_calls'], 'tool call')}, "
        f"{_count(episode['tool_errors'], 'error')}; {episode['sampled_tokens']} tokens sampled and "
        f"{episode['observed_tokens']} observed in {_count(episode['segments'], 'segment')}; ended by "
        f"{episode['ended_by'] or 'nobody knows what'}{remark}"
    )
    if (reward := episode["environment_reward"]) is not None:
        by_turn = ", ".join("none" if one is None else f"{one:g}" for one in reward["turns"])
        yield (
            f"the environment gave {reward['value']:g} of {reward['low']:g} to {reward['high']:g}"
            f"{f'; turn by turn {by_turn}' if by_turn else ''}"
        )


def told(episode: Episode) -> Iterator[tuple[str, Spoken]]:
    """Yield the messages with their speakers; a turn of the policy with its tokens by version, and its reward."""
    rewards = iter((episode["environment_reward"] or {}).get("turns", ()))
    for one, versions in zip(spoken(episode["messages"]), episode["message_versions"], strict=True):
        facts = [f"version {span['version']}: {_count(span['count'], 'token')}" for span in versions]
        if one.role == POLICY and (reward := next(rewards, None)) is not None:
            facts.append(f"reward {reward:g}")
        yield f"{one.speaker} ({', '.join(facts)})" if facts else one.speaker, one


def told_as_text(episode: Episode) -> Iterator[tuple[str, str]]:
    """Yield each message's speaker and text: the policy's complete, others' without a long middle."""
    for who, one in told(episode):
        said = "\n".join(one.parts)
        yield who, said if one.role == POLICY else cut_middle(said, OBSERVED_CHARS)


def cut_middle(text: str, most: int) -> str:
    """Return a text of at most that many characters, three quarters from its beginning, the rest from its end."""
    if len(text) <= most:
        return text
    head, tail = most - most // 4, most // 4
    return f"{text[:head]} … ({len(text) - most:,} characters more) … {text[len(text) - tail :]}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
