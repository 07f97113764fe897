"""Make the ledger's record of a group that never trains: its outcome, and facts for a person.

In: a scored group with the reason to drop it, or a dead letter. Out: a `GroupOutcome` whose facts take a few hundred
bytes. Prompt, answers and scores of a dropped group are kept for a while in `learner.journal.untrained`. Used by
`learner.groups.intake`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from broker import codec
from broker.errors import BadMessage
from broker.messages import Prompt, SampledGroup, ScoredGroup
from broker.protocol.streams import Entry
from learner.groups.facts.episodes import is_episode
from learner.journal.ledger import DEAD, DROPPED, GroupOutcome

Message = Prompt | SampledGroup | ScoredGroup


def dropped(group: ScoredGroup, reason: str) -> GroupOutcome:
    """Return the outcome of a returned group that has nothing to learn from or is too old."""
    return GroupOutcome(DROPPED, reason, group.rollout.num_tokens, facts=facts_of(group), group=group)


def given_up(entry: Entry) -> GroupOutcome:
    """Return the outcome of a group with the dead letter `entry` in `dead`. An unreadable payload adds no fact."""
    dead_letter = codec.decode_dead(entry.raw)
    facts: dict[str, Any] = {
        "died_at": int(entry.entry_id.partition("-")[0]) / 1000,
        "stage": dead_letter.stage,
        "attempts": dead_letter.attempts,
    }
    message = message_in(entry.raw)
    tokens = 0
    if message is not None:
        facts |= facts_of(message)
    if isinstance(message, SampledGroup | ScoredGroup):
        tokens = (message.rollout if isinstance(message, ScoredGroup) else message).num_tokens
    return GroupOutcome(DEAD, dead_letter.reason, tokens, facts=facts)


def message_in(raw: codec.Raw) -> Message | None:
    """Return the message in a dead letter's original bytes; None where it can't be read."""
    dead_letter = codec.decode_dead(raw)
    try:
        match dead_letter.stage:
            case "prompts" | "episodes":
                return codec.decode_prompt(raw)
            case "rollouts":
                return codec.unpack(dead_letter.original, SampledGroup)
            case "scored":
                return codec.unpack(dead_letter.original, ScoredGroup)
    except BadMessage:
        pass
    return None


def facts_of(message: Message) -> dict[str, Any]:
    """Return who worked on a group, when, and with which policy versions; times in Unix seconds, 0 where unknown."""
    match message:
        case ScoredGroup():
            return {
                **facts_of(message.rollout),
                "worker": message.worker,
                "scored_at": message.scored_at,
                "score_seconds": message.seconds,
                "score_attempts": message.attempts,
                "rewards": list(message.rewards),
            }
        case SampledGroup():
            return {
                **facts_of(message.prompt),
                "generator": message.generator,
                "sampled_at": message.sampled_at,
                "sample_seconds": message.seconds,
                "sample_attempts": message.attempts,
                "versions": _tokens_by_version(message),
                **({"is_played": True} if any(map(is_episode, message.completions)) else {}),
            }
        case _:
            return {
                "task": message.task,
                **({"source": message.data_source} if message.data_source else {}),
                **({"columns": dict(message.columns)} if message.columns else {}),
                "row": message.row,
                "epoch": message.epoch,
                "floor": message.floor,
                "n": message.n,
                "issued_at": message.issued_at,
            }


def _tokens_by_version(rollout: SampledGroup) -> list[list[int]]:
    """Return each policy version with its number of sampled tokens."""
    tokens: Counter[int] = Counter()
    for completion in rollout.completions:
        for span in completion.spans:
            tokens[span.version] += span.count
    return [[version, tokens[version]] for version in sorted(tokens)]
