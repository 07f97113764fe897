"""This module measures what answers look like, whatever they say: repetition, equal answers, length against reward.

In: completions and groups. Out: shares and correlations, plain numbers. Used for the metrics of a step and for the
watch on reward hacking; needs no torch.
"""

# N tokens of a completion.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from broker.messages import Completion, ScoredGroup

NGRAM = 4  # tokens of what counts as repeated
PRIME = 1_000_003


def repeated_share(completion: Completion) -> float:
    """Return the share of a completion's stretches of NGRAM sampled tokens that came before in the same completion."""
    token_ids_N: NDArray[np.int64] = np.asarray(completion.sampled_ids, np.int64)
    count = len(token_ids_N) - NGRAM + 1
    if count < 1:
        return 0.0
    digests = np.zeros(count, np.int64)  # of the stretches: integers sort fast
    for place in range(NGRAM):
        digests = digests * PRIME + token_ids_N[place : place + count]
    return 1.0 - len(np.unique(digests)) / count


def same_answer_share(groups: Iterable[ScoredGroup]) -> float:
    """Return the share of completions that are, token for token, another completion of their group."""
    same = total = 0
    for group in groups:
        counts = Counter(one.sampled_ids.tobytes() for one in group.rollout.completions)
        total += len(group.rollout.completions)
        same += sum(count for count in counts.values() if count > 1)
    return same / total if total else 0.0


def length_correlation(group: ScoredGroup) -> float | None:
    """Return Pearson's correlation of length and reward within a group; None where either is the same for all."""
    pairs = [
        (completion.num_sampled, reward)
        for completion, reward in zip(group.rollout.completions, group.rewards, strict=True)
        if reward is not None
    ]
    if len(pairs) < 2:
        return None
    lengths, rewards = np.asarray(pairs, np.float64).T
    if np.ptp(lengths) == 0 or np.ptp(rewards) == 0:
        return None
    return float(np.corrcoef(lengths, rewards)[0, 1])
