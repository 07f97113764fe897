"""Convert the turns of an episode to training sequences: each sampled token once, in the context of its sampling.

In: an episode's turns, each with its prompt ids and the record of its sampling. Out: segments of a completion. A turn
continues another if its prompt begins with exactly that one's prompt and sampled ids; the ids in between are a tool's
answer, which does not train. Where the history was rewritten, or two turns continue one, a new segment begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from broker.messages import NO_IDS, Ids, Logprobs, Segment, Span, TurnRecord


@dataclass(frozen=True, slots=True, eq=False)
class PolicyTurn:
    """One turn of the policy."""

    prompt_ids: Ids  # [P], its prompt
    record: TurnRecord

    @property
    def length(self) -> int:
        """Count the tokens of prompt and answer."""
        return len(self.prompt_ids) + len(self.record.token_ids)

    def goes_on(self, other: PolicyTurn) -> bool:
        """Return whether this turn's prompt begins with the prompt and the answer of `other`."""
        given, before = self.prompt_ids, len(other.prompt_ids)
        return (
            len(given) >= other.length
            and np.array_equal(given[:before], other.prompt_ids)
            and np.array_equal(given[before : other.length], other.record.token_ids)
        )


def segments_of(turns: Sequence[PolicyTurn], group_prompt_ids: Ids) -> tuple[Segment, ...]:
    """Return the segments of a completion, in the order of their first turns.

    Args:
        turns: in the order of asking; at least one.
        group_prompt_ids: of the group's prompt, which segments need not repeat.
    """
    chains: list[list[PolicyTurn]] = []
    for turn in turns:
        parents = [chain for chain in chains if turn.goes_on(chain[-1])]
        if parents:
            max(parents, key=lambda chain: chain[-1].length).append(turn)
        else:
            chains.append([turn])
    return tuple(_segment(chain, group_prompt_ids) for chain in chains)


def _segment(chain: Sequence[PolicyTurn], group_prompt_ids: Ids) -> Segment:
    first = chain[0].prompt_ids
    ids: list[Ids] = []
    logprobs: list[Logprobs] = []
    spans: list[Span] = []
    loss_mask = [0]  # alternating runs that train and runs that do not
    place, begin = 0, len(first)
    for turn in chain:
        read = turn.prompt_ids[begin:]
        place += len(read)
        ids += [read, turn.record.token_ids]
        logprobs += [np.zeros(len(read), np.float32), turn.record.logprobs]
        spans += [
            Span(version=span.version, first=place + span.first, count=span.count)
            for span in turn.record.policy_spans
        ]
        if len(read):
            loss_mask += [len(read), 0]
        loss_mask[-1] += len(turn.record.token_ids)
        place += len(turn.record.token_ids)
        begin = turn.length
    return Segment(
        prompt_ids=NO_IDS if np.array_equal(first, group_prompt_ids) else first,
        token_ids=np.concatenate(ids),
        logprobs=np.concatenate(logprobs),
        policy_spans=tuple(spans),
        loss_mask=tuple(loss_mask),
    )
