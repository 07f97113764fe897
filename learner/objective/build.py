"""This module builds the objective that the configuration names."""

from __future__ import annotations

from typing import assert_never

from config.custom import CustomClassError, build
from config.learner import (
    CispoConfig,
    CustomObjectiveConfig,
    DecoupledPpoConfig,
    DppoConfig,
    DrGrpoConfig,
    GrpoConfig,
    GspoConfig,
    ObjectiveConfig,
    ReinforceConfig,
)
from learner.objective.objective import Objective
from learner.objective.regularized import Regularized


def build_objective(config: ObjectiveConfig) -> Objective:
    """Build the objective of a configuration's section: its loss, with the terms beside it.

    Raises:
        CustomClassError: a custom class can't be imported or built, or has no method `loss`.
    """
    objective = _build_loss(config)
    if config.kl.coef or config.entropy_coef:
        return Regularized(objective, config)
    return objective


def _build_loss(config: ObjectiveConfig) -> Objective:
    match config:
        case GrpoConfig():
            from learner.objective.losses.grpo import Grpo

            return Grpo(config)
        case DrGrpoConfig():
            from learner.objective.losses.dr_grpo import DrGrpo

            return DrGrpo(config)
        case GspoConfig():
            from learner.objective.losses.gspo import Gspo

            return Gspo(config)
        case CispoConfig():
            from learner.objective.losses.cispo import Cispo

            return Cispo(config)
        case DecoupledPpoConfig():
            from learner.objective.losses.decoupled_ppo import DecoupledPpo

            return DecoupledPpo(config)
        case ReinforceConfig():
            from learner.objective.losses.reinforce import Reinforce

            return Reinforce(config)
        case DppoConfig():
            from learner.objective.losses.dppo import Dppo

            return Dppo(config)
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
