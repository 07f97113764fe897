"""Derive the configuration of a collected run from a training run's.

In: a run's configuration, as for training. Out: the configuration of a run without training, which the collector gives
to the other roles. Pure; needs no torch.
"""

from __future__ import annotations

from typing import Final, Literal

from broker.errors import RunFailed
from config.learner import LearnerConfig
from config.run import Run
from learner.resume.config_changes import check_changes

Of = Literal["train", "held_out"]  # the rows of `data.train`, or of `data.held_out`

# Changing these keys would give some rows of a set other samples or other scores than the rest.
SAMPLED: Final = ("sampling.", "evaluation.")
SCORED: Final = ("scorers.tasks.", "scorers.credit:")
# Seconds in which a row must be sampled and scored. A shorter deadline would first lose the rows with long answers, and
# those that wait while no generator runs.
PATIENCE_S: Final = 7 * 24 * 3600.0


def collecting(run: Run) -> Run:
    """Return the configuration of a run that samples from the model of `run` and never trains.

    Generators load the model's own weights as version 0, so adapters are removed. No group is too late, and a group
    counts however few of its completions have scores.
    """
    return run.model_copy(
        update={
            "evaluation": run.evaluation.model_copy(update={"every": 0}),
            "scorers": run.scorers.model_copy(update={"min_scored": 0.0}),
            "learner": _learner(run.learner),
        }
    )


def of_rows(run: Run, rows: int) -> Run:
    """Return the configuration with room for `rows` groups: the feeder issues as many as the steps could train."""
    return run.model_copy(update={"learner": run.learner.model_copy(update={"steps": rows})})


def _learner(learner: LearnerConfig) -> LearnerConfig:
    return learner.model_copy(
        update={
            "lora": None,
            "epochs": 1,
            "late_groups": "train",
            "resume": "auto",
            "group_deadline_s": max(PATIENCE_S, learner.group_deadline_s),
        }
    )


def told_changes(before: str, run: Run, *, scores_again: bool = False) -> list[str]:
    """Return a line for each change of a collected run's configuration, as `check_changes` does.

    Args:
        before: the configuration of the previous incarnation, in YAML.
        run: from `collecting`.
        scores_again: every stored sample is scored again, so the scorers may change.
    Raises:
        RunFailed: some rows would be sampled or scored differently from those that the run has.
    """
    changes = [line for line in check_changes(before, run) if not line.startswith("learner.steps:")]
    fixed = SAMPLED if scores_again else (*SAMPLED, *SCORED)
    if refused := [line for line in changes if line.startswith(fixed)]:
        raise RunFailed(
            f"run {run.name} has rows that were sampled and scored as it began: {'; '.join(refused)}. Set that back, "
            f"or give another name: name=..., or remove the run: millrace rm {run.name}. Another scorer can score what "
            "was sampled: --rescore"
        )
    return changes
