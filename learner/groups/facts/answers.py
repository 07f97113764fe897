"""Measure the form of answers: repetition, equal answers, length against reward.

In: completions and groups. Out: shares and correlations, plain numbers. Used for the metrics of a step and the watch on
reward hacking; needs no torch.
"""

# N tokens of a completion. G completions of a group that have a reward.

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from broker.messages import Completion, ScoredGroup
from learner.groups.facts.episodes import turns_of

NGRAM = 4  # tokens of an n-gram that counts as repeated
PRIME = 1_000_003


def repeated_shares(completions: Sequence[Completion]) -> list[float]:
    """Return, for each completion, the share of its n-grams of NGRAM sampled tokens that occurred earlier in it.

    The n-grams of all are digested at once: for a short answer a call of numpy costs more than its work.

    Args:
        completions: at least one.
    """
    sampled = [completion.sampled_ids for completion in completions]
    token_ids_N = np.concatenate(sampled, dtype=np.int64)  # of all completions
    digests = np.zeros(max(0, len(token_ids_N) - NGRAM + 1), np.int64)  # of the n-grams
    for place in range(NGRAM):
        digests = digests * PRIME + token_ids_N[place : place + len(digests)]
    known, first, shares = digests.tolist(), 0, []
    for own in sampled:
        count = len(own) - NGRAM + 1
        shares.append(1.0 - len(set(known[first : first + count])) / count if count > 0 else 0.0)
        first += len(own)
    return shares


def same_answer_share(groups: Iterable[ScoredGroup]) -> float:
    """Return the share of completions that equal another completion of their group, token for token."""
    same = total = 0
    for group in groups:
        total += len(group.rollout.completions)
        same += same_answers(one.sampled_ids.tobytes() for one in group.rollout.completions)
    return same / total if total else 0.0


def same_answers(answers: Iterable[bytes]) -> int:
    """Count the answers of a group, as the bytes of their token ids, that equal another of them."""
    return sum(count for count in Counter(answers).values() if count > 1)


def tokens_a_turn(completion: Completion) -> float:
    """Return the number of sampled tokens per turn of the policy; for an answer of one turn, all."""
    return completion.num_sampled / max(1, len(turns_of(completion)))


def length_correlation(group: ScoredGroup) -> float | None:
    """Return Pearson's correlation of length and reward within a group, among completions with equally many turns.

    So more turns are not mistaken for longer answers: a policy that looks something up in three turns samples more than
    one that guesses in one. None where either is constant among completions of as many turns.
    """
    if len(set(group.rewards) - {None}) < 2:
        return None
    known = [
        (completion.num_sampled, reward, len(turns_of(completion)))
        for completion, reward in zip(group.rollout.completions, group.rewards, strict=True)
        if reward is not None
    ]
    lengths_G, rewards_G, turns_G = np.asarray(known, np.float64).T
    lengths_G, rewards_G = _centred(lengths_G, turns_G), _centred(rewards_G, turns_G)
    if not lengths_G.any() or not rewards_G.any():
        return None
    # The squares of tiny differences would be 0.
    lengths_G, rewards_G = (values_G / np.abs(values_G).max() for values_G in (lengths_G, rewards_G))
    spread = math.sqrt((lengths_G @ lengths_G) * (rewards_G @ rewards_G))
    return max(-1.0, min(1.0, float(lengths_G @ rewards_G) / spread))


def _centred(values_G: NDArray[np.float64], turns_G: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each value's distance from the mean of values with as many turns; exactly 0 where those are all equal."""
    found_G = np.zeros_like(values_G)
    for turns in set(turns_G.tolist()):
        alike_G = turns_G == turns
        if np.ptp(values_G[alike_G]):
            found_G[alike_G] = values_G[alike_G] - values_G[alike_G].mean()
    return found_G
