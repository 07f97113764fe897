"""What of a completion a scorer is asked of: the text of an answer, and of an episode its last message or all of it.

In: a completion and a scorer. Out: what the scorer reads, and its score. An episode that nobody could play to its end
is unscorable whatever scores it, and no scorer is asked. Used by `scorers.group` and, for single rows, by
`scorers.child.row_worker`. Pure, but for the scorer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.scores import End, Score
from scorers.scorer import (
    Asked,
    Conversation,
    Conversing,
    Named,
    Prefetching,
    PrefetchingConversations,
    Scorer,
    make_score,
)

if TYPE_CHECKING:  # the module brings numpy, which a process that scores single rows does without
    from broker.messages import Completion


def asked_of(completion: Completion) -> Asked:
    """Return all of a completion that scorers may read."""
    if completion.ended_by is None:
        return completion.text
    return Conversation(
        text=completion.text,
        messages=completion.messages,
        ended_by=completion.ended_by,
        remark=completion.remark,
        reward=completion.reward,
    )


def read_by(scorer: Scorer, asked: Asked) -> Asked:
    """Return what of it this scorer reads."""
    return asked if isinstance(asked, str) or isinstance(scorer, Conversing) else asked.text


def ask(scorer: Scorer, asked: Asked, verification_info: Mapping[str, Any]) -> Score:
    """Ask a scorer of what it reads. Raises what `score` raises."""
    if isinstance(asked, str):
        return scorer.score(asked, verification_info)
    if not isinstance(scorer, Conversing):
        raise TypeError(f"the scorer {scorer.name} reads no conversations")
    return scorer.score_conversation(asked, verification_info)


def begin(scorer: Scorer, asked: Asked, verification_info: Mapping[str, Any]) -> None:
    """Tell a scorer that waits for a service what it will be asked of; any other is told nothing."""
    if isinstance(asked, str):
        if isinstance(scorer, Prefetching):
            scorer.prefetch(asked, verification_info)
    elif isinstance(scorer, PrefetchingConversations):
        scorer.prefetch_conversation(asked, verification_info)


def unplayed(scorer: Named, asked: Asked) -> Score | None:
    """Return the score of an episode that nobody could play to its end, with its remark; None for any other answer."""
    if isinstance(asked, str) or asked.ended_by is not End.FAILED:
        return None
    return make_score(scorer, None, asked.remark or "the episode could not be played to its end")
