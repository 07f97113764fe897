"""This module measures the latency of a step's groups: sampling, scoring, and the waits between them.

In: the groups of a step, with the times of their issue, sampling and scoring. Out: sums of seconds, for the learner's
`WorkMeter` and the step's metrics. Used by `learner.trainer`. Each time is by the clock of the machine that wrote it:
where two clocks differ by more than a wait, that wait counts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.messages import ScoredGroup


def ages_of(groups: Sequence[ScoredGroup], *, now: float) -> dict[str, float]:
    """Add up the seconds of all groups, up to `now` in Unix seconds.

    Returns:
        `age_prompts_s`, waiting for a generator; `age_sampling_s`; `age_rollouts_s`, waiting for a scorer;
        `age_scoring_s`; `age_scored_s`, waiting for the learner. Groups of an older version of this program, which
        hold no times, count as 0.
    """
    ages = dict.fromkeys(
        ("age_prompts_s", "age_sampling_s", "age_rollouts_s", "age_scoring_s", "age_scored_s"), 0.0
    )
    for group in groups:
        rollout = group.rollout
        if not (rollout.sampled_at and group.scored_at):
            continue
        ages["age_prompts_s"] += max(0.0, rollout.sampled_at - rollout.seconds - rollout.prompt.issued_at)
        ages["age_sampling_s"] += rollout.seconds
        ages["age_rollouts_s"] += max(0.0, group.scored_at - group.seconds - rollout.sampled_at)
        ages["age_scoring_s"] += group.seconds
        ages["age_scored_s"] += max(0.0, now - group.scored_at)
    return ages
