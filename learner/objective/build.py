"""This module builds the objective that the configuration names."""

from __future__ import annotations

from typing import assert_never

from config.custom import CustomClassError, build
from config.learner import CustomObjectiveConfig, GrpoConfig, ObjectiveConfig
from learner.objective.objective import Objective


def build_objective(config: ObjectiveConfig) -> Objective:
    """Build the objective of a configuration's section.

    Raises:
        CustomClassError: a custom class can't be imported or built, or has no method `loss`.
    """
    match config:
        case GrpoConfig():
            from learner.objective.losses.grpo import Grpo

            return Grpo(config)
        case CustomObjectiveConfig():
            objective = build(config)
            if not callable(getattr(objective, "loss", None)):
                raise CustomClassError(
                    f"{config.import_path} is no objective: it lacks loss(); see learner/objective/objective.py"
                )
            custom: Objective = objective
            return custom
        case _:
            assert_never(config)
