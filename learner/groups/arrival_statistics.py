"""Sum up all groups that return between two steps: rewards, score parts, lengths, drop reasons.

In: scored training groups, whether or not they will train, and outcomes. Out: `Arrivals`, statistics that need all of
them: groups that train were selected by their rewards, so their mean is biased. Filled by `learner.groups.intake`;
needs no torch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Any

from broker.messages import FinishReason, ScoredGroup
from learner.groups.facts.answers import length_correlation, repeated_shares, same_answers, tokens_a_turn
from learner.groups.facts.crashes import Crash, crash_metrics, crash_of
from learner.groups.facts.episodes import EpisodeFacts, episode_metrics, facts_of, is_episode
from learner.journal.ledger import DROPPED, GroupOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The groups that returned since the last step.

    Attributes:
        reward_mean: over all their scored completions; None for none.
        facts: statistics of their answers, by key, see `learner.reporting.keys`; empty for none.
        dropped: groups by reason.
        dropped_by_source: number of groups by data source (the task's name where a row has none) and reason.
    """

    reward_mean: float | None
    facts: Mapping[str, Any]
    dropped: Mapping[str, int]
    dropped_by_source: Mapping[str, Mapping[str, int]]


@dataclass(slots=True)
class _Sums:
    """The sums since the last `take`."""

    rewards: list[float] = field(default_factory=list)
    values: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    components: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    episodes: list[EpisodeFacts] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)
    by_version: defaultdict[int, list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )  # mean rewards of the groups that each generator sampled
    answered: Counter[bytes] = field(default_factory=Counter)  # completions by their token ids
    rows: defaultdict[bytes, set[tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(set)
    )  # the rows with each answer
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)  # by data source and reason


class ArrivalCounter:
    """Sums up groups as they come."""

    def __init__(self) -> None:
        self._sums = _Sums()

    def add(self, group: ScoredGroup) -> None:
        """Add a group that returned with scores."""
        sums = self._sums
        row = (group.rollout.prompt.fingerprint, group.rollout.prompt.row)
        rewards = [reward for reward in group.rewards if reward is not None]
        sums.rewards += rewards
        if rewards:
            version = (group.rollout.min_version + group.rollout.max_version) // 2
            sums.by_version[version].append(fmean(rewards))
        completions, values = group.rollout.completions, sums.values
        values["response_tokens_mean"] += (one.num_sampled for one in completions)
        values["turn_tokens_mean"] += map(tokens_a_turn, completions)
        values["truncated_share"] += (one.finish_reason is FinishReason.LENGTH for one in completions)
        values["repeated_share"] += repeated_shares(completions)
        values["score_mean"] += (score.value for score in group.scores if score.value is not None)
        for score in group.scores:
            for name, value in score.components.items():
                sums.components[name].append(value)
        for completion in filter(is_episode, completions):
            sums.episodes.append(facts_of(completion))
            if (crash := crash_of(completion)) is not None:
                sums.crashes.append(crash)
        answers = [one.sampled_ids.tobytes() for one in completions]
        for answer in answers:
            sums.rows[answer].add(row)
        sums.answered.update(answers)
        values["same_answer_share"].append(same_answers(answers) / len(answers))
        if (correlation := length_correlation(group)) is not None:
            values["length_correlation"].append(correlation)

    def end(self, outcome: GroupOutcome) -> None:
        """Add the outcome of a group that does not train."""
        reason = outcome.detail.split(":")[0] if outcome.kind == DROPPED else outcome.kind
        facts = outcome.facts or {}
        self._sums.dropped[facts.get("source") or facts.get("task") or "unknown", reason] += 1

    def take(self) -> Arrivals:
        """Return the sums since the last call, and reset them."""
        sums, self._sums = self._sums, _Sums()
        by_source: dict[str, dict[str, int]] = {}
        by_reason: Counter[str] = Counter()
        for (source, reason), count in sorted(sums.dropped.items()):
            by_source.setdefault(source, {})[reason] = count
            by_reason[reason] += count
        return Arrivals(
            reward_mean=fmean(sums.rewards) if sums.rewards else None,
            facts=_facts(sums),
            dropped=dict(by_reason),
            dropped_by_source=by_source,
        )


def _facts(sums: _Sums) -> dict[str, Any]:
    if not sums.answered:
        return {}
    shared = sum(count for answer, count in sums.answered.items() if len(sums.rows[answer]) > 1)
    return {
        "completions": sums.answered.total(),
        **{name: fmean(values) for name, values in sums.values.items() if values},
        "shared_answer_share": shared / sums.answered.total(),
        "components": {name: fmean(values) for name, values in sorted(sums.components.items())},
        **episode_metrics(sums.episodes),
        **crash_metrics(sums.crashes, len(sums.episodes)),
        "by_version": {str(version): _of_groups(means) for version, means in sorted(sums.by_version.items())},
    }


def _of_groups(means: Sequence[float]) -> dict[str, float]:
    """Return the number of groups, and the mean and the deviation of their mean rewards."""
    return {"groups": len(means), "reward_mean": fmean(means), "reward_std": pstdev(means)}
