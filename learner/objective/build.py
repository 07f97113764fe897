"""Build the configured objective."""

from __future__ import annotations

from typing import assert_never

from config.custom import CustomClassError, build
from config.learner.objective import (
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
from learner.objective.losses.cispo import Cispo
from learner.objective.losses.decoupled_ppo import DecoupledPpo
from learner.objective.losses.dppo import Dppo
from learner.objective.losses.dr_grpo import DrGrpo
from learner.objective.losses.grpo import Grpo
from learner.objective.losses.gspo import Gspo
from learner.objective.losses.reinforce import Reinforce
from learner.objective.objective import Objective
from learner.objective.regularized import Regularized


def build_objective(config: ObjectiveConfig) -> Objective:
    """Build the objective of a configuration's section: its loss, with the KL and entropy terms.

    Raises:
        CustomClassError: a custom class can't be imported or built, or has no method `loss`.
    """
    objective = _build_loss(config)
    if config.kl.coef or config.entropy_coef:
        return Regularized(objective, config)
    return objective


def _build_loss(config: ObjectiveConfig) -> Objective:
    objective: Objective
    match config:
        case GrpoConfig():
            objective = Grpo(config)
        case DrGrpoConfig():
            objective = DrGrpo(config)
        case GspoConfig():
            objective = Gspo(config)
        case CispoConfig():
            objective = Cispo(config)
        case DecoupledPpoConfig():
            objective = DecoupledPpo(config)
        case ReinforceConfig():
            objective = Reinforce(config)
        case DppoConfig():
            objective = Dppo(config)
        case CustomObjectiveConfig():
            objective = build(config)
            if not callable(getattr(objective, "loss", None)):
                raise CustomClassError(
                    f"{config.import_path} is no objective: it lacks loss(); see learner/objective/objective.py"
                )
        case _:
            assert_never(config)
    return objective
