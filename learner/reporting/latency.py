"""Where the time of a step's groups went, from their issue to the step: sampling, scoring, and the waits between them.

In: the groups of a step, which say when they were issued, sampled and scored. Out: sums of seconds, for the learner's
`WorkMeter` and the step's line. Used by `learner.trainer`. Each time is of the clock of whoever wrote it: where two
machines disagree by more than a wait, that wait counts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.messages import ScoredGroup


def ages_of(groups: Sequence[ScoredGroup], *, now: float) -> dict[str, float]:
    """Seconds of all groups together, up to `now` in Unix seconds.

    Returns:
        `age_prompts_s`, waiting for a generator; `age_sampling_s`; `age_rollouts_s`, waiting for a scorer;
        `age_scoring_s`; `age_scored_s`, waiting for the learner. Groups that do not say when, as those of an older
        version of this program do, count nowhere.
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
