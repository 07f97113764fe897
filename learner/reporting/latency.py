"""Measure the latency of a step's groups: sampling, scoring, and the waits between them.

In: the groups of a step, with the times of their issue, sampling and scoring. Out: sums of seconds, for the learner's
`WorkMeter` and the step's metrics; the lag that each part causes; and the expected lag, before the first step. Used by
`learner.trainer` and `learner.session`. Each time is by the clock of the machine that wrote it: where two clocks differ
by more than a wait, that wait counts as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.messages import ScoredGroup
from config.run import Run


def ages_of(groups: Sequence[ScoredGroup], *, now: float) -> dict[str, float]:
    """Sum the seconds of all groups, up to `now` in Unix seconds.

    Returns:
        `age_prompts_s`, waiting for a generator; `age_sampling_s`; `age_rollouts_s`, waiting for a scorer;
        `age_scoring_s`; `age_scored_s`, waiting for the learner. Groups of an older version of this program, without
        times, count as 0.
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


def latency_facts(ages: Mapping[str, float], *, groups: int, lag_mean: float) -> dict[str, float]:
    """Return a step's mean ages, and its mean lag divided by cause, by key of the step's record.

    A token's lag grows from its sampling on: its group's wait in `prompts` is part of the group's age and of no lag.
    The rest of the age is sampling, queue (in `rollouts` and in `scored`) and scoring, and the lag is divided in their
    proportion.

    Args:
        ages: from `ages_of`, summed over the step's groups.
        lag_mean: of the trained tokens, versions.
    Returns:
        The means of `ages`, `age_queue_s` (in all three streams), and `lag_sampling`, `lag_queue` and `lag_scoring` in
        versions, whose sum is `lag_mean`.
    """
    mean = {name: total / max(1, groups) for name, total in ages.items()}
    waited = mean["age_rollouts_s"] + mean["age_scored_s"]
    parts = {"sampling": mean["age_sampling_s"], "queue": waited, "scoring": mean["age_scoring_s"]}
    whole = sum(parts.values())
    shares = {name: seconds / whole if whole else 0.0 for name, seconds in parts.items()}
    return {
        **{name: round(seconds, 3) for name, seconds in mean.items()},
        "age_queue_s": round(mean["age_prompts_s"] + waited, 3),
        **{f"lag_{name}": round(lag_mean * share, 3) for name, share in shares.items()},
    }


def expected_lag(run: Run) -> float:
    """Return the mean lag that `run` tends to, in versions, while no group is dropped and no prompt waits.

    Little's law: with N groups in flight and S groups trained per step, a group takes N / S steps from its issue to the
    announcement of the version that trained on it. The last of these steps is the training itself, which begins before
    its own version exists: N / S - 1 versions lie between the version of the issue and the one that trains.

    Both conditions lower it. A group that waits P steps in `prompts` is sampled P versions later. A dropped group
    leaves as soon as it is scored, after T steps, and D of them per step take D x T slots from the groups that wait for
    a step. So the lag of a running run is near (N - D x T) / S - 1 - P.
    """
    return run.budget / run.learner.groups_per_step - 1


def lag_outlook(run: Run) -> str:
    """Return the expected lag before a run begins, as `key=value` pairs for a log and for people."""
    return (
        f"groups_in_flight={run.budget} groups_per_step={run.learner.groups_per_step} "
        f"max_lag={run.learner.max_lag} expected_lag_mean={expected_lag(run):.1f}"
    )
