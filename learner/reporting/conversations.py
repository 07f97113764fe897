"""An episode in words, for the report and for the verbs that show completions: `journal show`, `trace`, `dead show`.

In: what `learner.groups.episodes.as_tree` says of a completion. Out: plain text, some of it a model's: a terminal gets
it through `tools.printable`, and a page escapes it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.turns import POLICY, Spoken, spoken

OBSERVED_CHARS = 2000  # of what a tool or an environment said: its beginning and its end
Episode = Mapping[str, Any]


def summary(episode: Episode) -> Iterator[str]:
    """Yield what an episode was like and why it ended, and behind that what its environment gave."""
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
    """Yield the messages, each with who speaks; of a turn of the policy with its tokens by version, and its reward."""
    rewards = iter((episode["environment_reward"] or {}).get("turns", ()))
    for one, versions in zip(spoken(episode["messages"]), episode["message_versions"], strict=True):
        facts = [f"version {span['version']}: {_count(span['count'], 'token')}" for span in versions]
        if one.role == POLICY and (reward := next(rewards, None)) is not None:
            facts.append(f"reward {reward:g}")
        yield f"{one.speaker} ({', '.join(facts)})" if facts else one.speaker, one


def told_as_text(episode: Episode) -> Iterator[tuple[str, str]]:
    """Yield for each message who speaks, and what is said: by the policy whole, by others without a long middle."""
    for who, one in told(episode):
        said = "\n".join(one.parts)
        yield who, said if one.role == POLICY else cut_middle(said, OBSERVED_CHARS)


def cut_middle(text: str, most: int) -> str:
    """Return a text of so many characters at most, three quarters of them its beginning, the others its end."""
    if len(text) <= most:
        return text
    head, tail = most - most // 4, most // 4
    return f"{text[:head]} … ({len(text) - most:,} characters more) … {text[len(text) - tail :]}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
