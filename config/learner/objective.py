"""Sections of the loss: objectives with their KL penalty and correction, and how rewards become advantages.

A new objective is one section here, in `ObjectiveConfig`, one file in `learner/objective/losses/`, and one case in
`learner/objective/build.py`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from config.custom import CustomSection
from config.section import Section, default_type

KlEstimator = Literal["k1", "k2", "k3", "abs"]
VERL_ESTIMATORS = {"kl": "k1", "mse": "k2", "low_var_kl": "k3"}  # verl's name -> the estimator


class KlConfig(Section):
    """A KL penalty that keeps the policy near a reference model, which is loaded only where `coef` is above 0."""

    coef: float = Field(0.0, ge=0)
    """Weight of the KL penalty. 0: no penalty and no reference model."""
    estimator: Annotated[KlEstimator, BeforeValidator(lambda name: VERL_ESTIMATORS.get(name, name))] = "k3"
    """Estimator of a token's divergence: `k1`, `k2`, `k3`, or `abs` (the absolute value of k1). verl's names `kl`,
    `mse` and `low_var_kl` mean k1, k2 and k3."""
    place: Literal["loss", "reward"] = "loss"
    """`loss`: add the penalty to the loss, aggregated in the same way. `reward`: subtract each completion's summed
    divergence from its reward, before advantages are computed."""
    reference: str | None = None
    """Folder or hub name of the reference model. Unset: `model.path`."""
    offload: bool = False
    """Keep the reference model in CPU memory and copy it to the GPU for each pass."""
    target: float | None = Field(None, gt=0)
    """Divergence per token (nats) that an adaptive coefficient aims at. Unset: keep the coefficient constant."""
    horizon: int = Field(10_000, ge=1)
    """Completions over which an adaptive coefficient adapts. A smaller number adapts faster."""


class CorrectionConfig(Section):
    """Correct for the difference between sampler and learner, with the names of verl's rollout correction.

    A ratio here is the learner's probability at the start of the step over the sampler's. A rejected token counts
    neither in a sum nor in a denominator of the loss.
    """

    rollout_is: Literal["token", "sequence"] | None = None
    """Multiply the loss by each token's ratio, or by its segment's product of ratios, truncated at
    `rollout_is_threshold`. Only for `decoupled_ppo`: the ratio of the other losses is to the sampler already."""
    rollout_is_threshold: float = Field(2.0, gt=0)
    """Largest such weight."""
    rollout_rs: tuple[Literal["token_k1", "seq_sum_k1", "seq_mean_k1"], ...] = ()
    """Reject tokens by their ratio, or segments by the product or the geometric mean of their ratios."""
    token_k1: tuple[float, float] = (0.5, 5.0)
    """Keep tokens whose ratio is in this range (IcePop)."""
    seq_sum_k1: tuple[float, float] = (0.0, 3.0)
    """Keep segments whose product of ratios is in this range."""
    seq_mean_k1: tuple[float, float] = (0.99, 1.01)
    """Keep segments whose geometric mean of ratios is in this range."""

    @field_validator("token_k1", "seq_sum_k1", "seq_mean_k1")
    @classmethod
    def _is_band(cls, band: tuple[float, float]) -> tuple[float, float]:
        low, high = band
        if not 0 <= low < high:
            raise ValueError(f"a band [low, high] of ratios needs 0 <= low < high, got [{low}, {high}]")
        return band


Aggregate = Literal["token", "sequence", "prompt", "constant"]


class AnyObjectiveConfig(Section):
    """Keys that every objective has, besides those of its own loss."""

    aggregate: Aggregate = "token"
    """How to reduce the token losses of the global batch. `token`: the mean over tokens. `sequence`: the mean over
    completions of each one's mean. `prompt`: the mean over groups of each one's mean. `constant`: the sum divided by
    completions x `constant_length`."""
    constant_length: int | None = Field(None, ge=1)
    """Tokens that each completion counts as. Required by `aggregate: constant`."""
    entropy_coef: float = Field(0.0, ge=0)
    """Weight of an entropy bonus. 0: none."""
    kl: KlConfig = KlConfig()
    """KL penalty to a reference model."""
    correction: CorrectionConfig = CorrectionConfig()
    """Correction for mismatch and lag."""

    takes_weights: ClassVar[bool] = (
        False  # whether the loss multiplies by the weights of `correction.rollout_is`
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.constant_length is not None and self.aggregate != "constant":
            raise ValueError(
                f"constant_length is for aggregate: constant, not for aggregate: {self.aggregate}"
            )
        if self.kl.target is not None and not self.kl.coef:
            raise ValueError("kl.target adapts kl.coef, which is 0: set the coefficient to begin with")
        if self.correction.rollout_is is not None and not self.takes_weights:
            raise ValueError(
                f"correction.rollout_is: {self.correction.rollout_is} would correct twice: this loss takes its ratio "
                "to the sampler already. Leave it unset, or set learner.objective.type=decoupled_ppo"
            )
        return self


class GrpoConfig(AnyObjectiveConfig):
    """GRPO with clip-higher and a token mean over the global batch, without a KL penalty by default."""

    type: Literal["grpo"] = "grpo"
    clip_low: float = Field(0.2, gt=0, lt=1)
    """Clip ratios below 1 - clip_low."""
    clip_high: float = Field(0.28, gt=0)
    """Clip ratios above 1 + clip_high (DAPO's clip-higher)."""
    dual_clip: float | None = Field(3.0, gt=1)
    """Bound the loss of a token with a negative advantage to this multiple of the advantage. Unset: no bound."""


class DrGrpoConfig(AnyObjectiveConfig):
    """Dr. GRPO: GRPO's clip with a constant length for every completion. Use it with `advantage.scale: none`."""

    type: Literal["dr_grpo"] = "dr_grpo"
    aggregate: Aggregate = "constant"
    """As for every objective. The paper uses `constant`."""
    clip_low: float = Field(0.2, gt=0, lt=1)
    """Clip ratios below 1 - clip_low."""
    clip_high: float = Field(0.2, gt=0)
    """Clip ratios above 1 + clip_high."""


class GspoConfig(AnyObjectiveConfig):
    """GSPO: one ratio per segment, the geometric mean of its tokens' ratios."""

    type: Literal["gspo"] = "gspo"
    aggregate: Aggregate = "sequence"
    """As for every objective. The paper uses `sequence`."""
    clip_low: float = Field(3e-4, gt=0, lt=1)
    """Clip ratios below 1 - clip_low."""
    clip_high: float = Field(4e-4, gt=0)
    """Clip ratios above 1 + clip_high."""


class CispoConfig(AnyObjectiveConfig):
    """CISPO: a policy gradient on every token, with a clipped importance weight that carries no gradient."""

    type: Literal["cispo"] = "cispo"
    clip_low: float | None = Field(None, gt=0, le=1)
    """Smallest weight is 1 - clip_low. Unset: no lower bound."""
    clip_high: float = Field(4.0, gt=0)
    """Largest weight is 1 + clip_high."""


class DecoupledPpoConfig(AnyObjectiveConfig):
    """Decoupled PPO: clip around the learner at the start of the step, and weight by its ratio to the sampler."""

    type: Literal["decoupled_ppo"] = "decoupled_ppo"
    clip_low: float = Field(0.2, gt=0, lt=1)
    """Clip ratios (to the learner at the start of the step) below 1 - clip_low."""
    clip_high: float = Field(0.2, gt=0)
    """Clip ratios (to the learner at the start of the step) above 1 + clip_high."""
    dual_clip: float | None = Field(None, gt=1)
    """Bound the loss of a token with a negative advantage to this multiple of the advantage. Unset: no bound."""
    correction: CorrectionConfig = CorrectionConfig(rollout_is="token")
    """By default weight each token by the learner at the start of the step over the sampler, truncated."""

    takes_weights: ClassVar[bool] = True


class ReinforceConfig(AnyObjectiveConfig):
    """REINFORCE with an importance weight to the sampler, truncated from above, that carries no gradient."""

    type: Literal["reinforce"] = "reinforce"
    max_weight: float | None = Field(2.0, gt=0)
    """Largest importance weight of a token. Unset: no weight, as if the learner had sampled."""


class DppoConfig(AnyObjectiveConfig):
    """DPPO: mask tokens whose probability has moved too far, instead of clipping ratios."""

    type: Literal["dppo"] = "dppo"
    divergence: Literal["tv", "kl"] = "tv"
    """Measure of how far a token has moved: total variation or KL divergence, of this token against all others."""
    max_low: float = Field(0.2, gt=0)
    """Mask tokens with a negative advantage whose probability fell by more than this divergence."""
    max_high: float = Field(0.2, gt=0)
    """Mask tokens with a positive advantage whose probability rose by more than this divergence."""
    max_weight: float = Field(20.0, gt=0)
    """Weight each token by its ratio to the sampler, truncated at this."""


class CustomObjectiveConfig(CustomSection, AnyObjectiveConfig):
    """Your own subclass of `learner.objective.objective.Objective`, built with the options."""


ObjectiveConfig = Annotated[
    GrpoConfig
    | DrGrpoConfig
    | GspoConfig
    | CispoConfig
    | DecoupledPpoConfig
    | ReinforceConfig
    | DppoConfig
    | CustomObjectiveConfig,
    Field(discriminator="type"),
    default_type("grpo"),
]
AdvantageScale = Literal["none", "std", "batch_std"]
AdvantageBaseline = Literal["mean", "leave_one_out"]


class AdvantageConfig(Section):
    """How rewards become advantages."""

    baseline: AdvantageBaseline = "mean"
    """Subtract from each reward the `mean` of its group, or with `leave_one_out` the mean of the others in its group
    (RLOO)."""
    scale: AdvantageScale = "none"
    """`none`: use the difference (Dr. GRPO). `std`: divide it by the standard deviation of the group's rewards (GRPO).
    `batch_std`: divide it by the standard deviation of all rewards of the step."""
