"""These sections say how the policy is trained: objective, backend, the weights' way to the generators, what is kept.

Four of the sections are seams, each a union of types: `objective`, `backend`, `weights` and the elements of `loggers`.
A new type is one section here, one file under `learner/`, and one case in the seam's `build.py`. The type `custom`
takes a class of your own and needs no change here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from config.custom import CustomSection
from config.section import GpuNumber, Section, default_type

KlEstimator = Literal["k1", "k2", "k3", "abs"]
VERL_ESTIMATORS = {"kl": "k1", "mse": "k2", "low_var_kl": "k3"}  # verl's name -> the estimator


class KlConfig(Section):
    """A KL divergence to a reference model keeps the policy near it. No reference is loaded while `coef` is 0."""

    coef: float = Field(0.0, ge=0)
    """Weight of the divergence; 0: no term and no reference model."""
    estimator: Annotated[KlEstimator, BeforeValidator(lambda name: VERL_ESTIMATORS.get(name, name))] = "k3"
    """How a token's divergence is estimated: `k1`, `k2`, `k3`, or `abs`, the size of k1. verl's `kl`, `mse` and
    `low_var_kl` are k1, k2 and k3."""
    place: Literal["loss", "reward"] = "loss"
    """`loss`: a term beside the policy's loss, aggregated like it. `reward`: each completion's summed divergence is
    taken from its reward, before the advantages."""
    reference: str | None = None
    """Folder or name of the reference model; unset: `model.path`, where the run began."""
    offload: bool = False
    """Keep the reference's weights in the host's memory, and bring them to the GPU for each pass."""
    target: float | None = Field(None, gt=0)
    """Divergence a token, nats, that an adaptive coefficient aims at; unset: the coefficient is constant."""
    horizon: int = Field(10_000, ge=1)
    """Completions over which an adaptive coefficient follows; smaller is faster."""


class CorrectionConfig(Section):
    """What is done about tokens whose sampler and learner disagree, by the names of verl's rollout correction.

    The ratio here is that of the learner at the start of the step to the sampler. What is rejected is in no sum and in
    no denominator of the loss.
    """

    rollout_is: Literal["token", "sequence"] | None = None
    """Weights of the loss: each token's ratio, or its segment's product of ratios, truncated at
    `rollout_is_threshold`. Only for `decoupled_ppo`: the other losses take their ratio to the sampler already."""
    rollout_is_threshold: float = Field(2.0, gt=0)
    """Largest weight."""
    rollout_rs: tuple[Literal["token_k1", "seq_sum_k1", "seq_mean_k1"], ...] = ()
    """What is rejected: tokens by their ratio, or segments by the product or the geometric mean of their ratios."""
    token_k1: tuple[float, float] = (0.5, 5.0)
    """Ratios of a token that are kept: IcePop's band."""
    seq_sum_k1: tuple[float, float] = (0.0, 3.0)
    """Products of a segment's ratios that are kept."""
    seq_mean_k1: tuple[float, float] = (0.99, 1.01)
    """Geometric means of a segment's ratios that are kept."""

    @field_validator("token_k1", "seq_sum_k1", "seq_mean_k1")
    @classmethod
    def _is_band(cls, band: tuple[float, float]) -> tuple[float, float]:
        low, high = band
        if not 0 <= low < high:
            raise ValueError(f"a band [low, high] of ratios needs 0 <= low < high, got [{low}, {high}]")
        return band


Aggregate = Literal["token", "sequence", "prompt", "constant"]


class AnyObjectiveConfig(Section):
    """What every objective has beside its own loss."""

    aggregate: Aggregate = "token"
    """How the tokens' losses become one number, over the global batch. `token`: their mean. `sequence`: the mean over
    completions of each one's mean. `prompt`: the mean over groups of each one's mean. `constant`: the sum, divided by
    completions x `constant_length`."""
    constant_length: int | None = Field(None, ge=1)
    """Tokens that a completion counts as, for `aggregate: constant`; unset: `sampling.max_tokens`."""
    entropy_coef: float = Field(0.0, ge=0)
    """Weight of a bonus for the entropy of the tokens' distributions; 0: none."""
    kl: KlConfig = KlConfig()
    """The pull towards a reference model."""
    correction: CorrectionConfig = CorrectionConfig()
    """What is done about mismatch and lag."""

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
    """GRPO with clip-higher and a token mean over the global batch; its KL term is `kl`, off by default."""

    type: Literal["grpo"] = "grpo"
    clip_low: float = Field(0.2, gt=0, lt=1)
    """No gain below a ratio of 1 - clip_low."""
    clip_high: float = Field(0.28, gt=0)
    """No gain beyond a ratio of 1 + clip_high (DAPO's clip-higher)."""
    dual_clip: float | None = Field(3.0, gt=1)
    """Bound on the loss of a token with a negative advantage, as a multiple of it; unset: no bound."""


class DrGrpoConfig(AnyObjectiveConfig):
    """Dr. GRPO: GRPO's clip, and a constant in place of the completions' lengths; it wants `advantage.scale: none`."""

    type: Literal["dr_grpo"] = "dr_grpo"
    aggregate: Aggregate = "constant"
    """As for every objective; the paper's is `constant`."""
    clip_low: float = Field(0.2, gt=0, lt=1)
    """No gain below a ratio of 1 - clip_low."""
    clip_high: float = Field(0.2, gt=0)
    """No gain beyond a ratio of 1 + clip_high."""


class GspoConfig(AnyObjectiveConfig):
    """GSPO: one ratio for a segment, the geometric mean of its tokens' ratios."""

    type: Literal["gspo"] = "gspo"
    aggregate: Aggregate = "sequence"
    """As for every objective; the paper's is `sequence`."""
    clip_low: float = Field(3e-4, gt=0, lt=1)
    """No gain below a ratio of 1 - clip_low."""
    clip_high: float = Field(4e-4, gt=0)
    """No gain beyond a ratio of 1 + clip_high."""


class CispoConfig(AnyObjectiveConfig):
    """CISPO: a policy gradient on every token, whose importance weight is clipped and carries no gradient."""

    type: Literal["cispo"] = "cispo"
    clip_low: float | None = Field(None, gt=0, le=1)
    """Smallest weight is 1 - clip_low; unset: no lower bound."""
    clip_high: float = Field(4.0, gt=0)
    """Largest weight is 1 + clip_high."""


class DecoupledPpoConfig(AnyObjectiveConfig):
    """Decoupled PPO: the clip is around the learner at the start of the step, and a weight corrects for the sampler."""

    type: Literal["decoupled_ppo"] = "decoupled_ppo"
    clip_low: float = Field(0.2, gt=0, lt=1)
    """No gain below a ratio of 1 - clip_low, to the learner at the start of the step."""
    clip_high: float = Field(0.2, gt=0)
    """No gain beyond a ratio of 1 + clip_high, to the learner at the start of the step."""
    dual_clip: float | None = Field(None, gt=1)
    """Bound on the loss of a token with a negative advantage, as a multiple of it; unset: no bound."""
    correction: CorrectionConfig = CorrectionConfig(rollout_is="token")
    """The weight is the learner at the start of the step to the sampler, truncated at `rollout_is_threshold`."""

    takes_weights: ClassVar[bool] = True


class ReinforceConfig(AnyObjectiveConfig):
    """REINFORCE with an importance weight to the sampler, truncated from above and without a gradient."""

    type: Literal["reinforce"] = "reinforce"
    max_weight: float | None = Field(2.0, gt=0)
    """Largest importance weight of a token; unset: no weight, as if the learner had sampled."""


class DppoConfig(AnyObjectiveConfig):
    """DPPO: a token trains as long as the probability that it had has not moved too far, however large its ratio."""

    type: Literal["dppo"] = "dppo"
    divergence: Literal["tv", "kl"] = "tv"
    """How far a token has moved: the total variation or the KL divergence of the token against all others."""
    max_low: float = Field(0.2, gt=0)
    """Largest divergence downwards; a token beyond it with a negative advantage has no gradient."""
    max_high: float = Field(0.2, gt=0)
    """Largest divergence upwards; a token beyond it with a positive advantage has no gradient."""
    max_weight: float = Field(20.0, gt=0)
    """Largest importance weight of a token."""


class CustomObjectiveConfig(CustomSection, AnyObjectiveConfig):
    """A `learner.objective.objective.Objective` of your own; the class takes the options."""


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
    """From rewards to advantages."""

    baseline: AdvantageBaseline = "mean"
    """What is taken from a reward. `mean`: the mean of its group. `leave_one_out`: the mean of the group's others
    (RLOO)."""
    scale: AdvantageScale = "none"
    """`none`: the difference itself (Dr. GRPO). `std`: divided by the standard deviation of the group's rewards (GRPO).
    `batch_std`: divided by the standard deviation of all rewards of the step."""


class FiltersConfig(Section):
    """Which groups train."""

    zero_variance: Literal["replace", "keep"] = "replace"
    """`replace`: a group whose rewards are all equal is dropped and another prompt takes its slot.
    `keep`: it trains (on nothing)."""
    pass_rate: tuple[float, float] = (0.0, 1.0)
    """Mean scores of a group that trains, bounds included. A group outside is dropped, and another prompt takes its
    slot: what is solved is left alone with [0, 0.9]."""
    max_replaced: int | None = Field(None, ge=0)
    """So many groups are replaced for their rewards before a step; what comes beyond trains, on nothing where all its
    rewards are equal. Unset: no bound."""
    max_empty_groups: int = Field(2000, ge=1)
    """So many groups in a row that are dropped for their rewards end the run, with the reason."""
    truncated: Literal["mask", "keep"] | None = None
    """`mask`: a completion cut at `max_tokens` counts in the baseline and not in the loss. `keep`: it trains like
    others. Unset: `mask` for answers of one turn, and `keep` for episodes, which are cut by turns, context, a turn's
    `max_tokens` or their deadline: what a policy can bring about may not be free."""

    @field_validator("pass_rate")
    @classmethod
    def _is_range(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        low, high = bounds
        if not 0 <= low < high <= 1:
            raise ValueError(
                f"bounds [low, high] of a pass rate need 0 <= low < high <= 1, got [{low}, {high}]"
            )
        return bounds


class MismatchConfig(Section):
    """How far learner and generators may be apart on tokens of lag 0, where only rounding may differ."""

    warn_above: float = Field(0.02, gt=0)
    """Mean divergence a token (k3, nats) of one generator, above which the log and `millrace top` warn."""
    stop_above: float | None = Field(None, gt=0)
    """Mean divergence a token of one generator, above which the run ends with the reason; unset: never."""


class HackingConfig(Section):
    """The watch on a reward that rises while what it stands for does not: docs/running.md, "Reward hacking"."""

    action: Literal["warn", "pause", "none"] = "warn"
    """`warn`: the log, `millrace top` and the report say what was found, and samples show it. `pause`: the run is
    paused too, until `millrace resume`. `none`: nothing is looked for."""
    window: int = Field(5, ge=2)
    """Steps whose mean counts as one value."""
    reward_rose: float = Field(0.1, gt=0)
    """Rise of the mean reward from which on it is asked what rose with it."""
    witness_share: float = Field(0.25, gt=0, lt=1)
    """Share of that rise by which the mean held-out score, a shadow scorer, or the task's own scorer beside others has
    to rise too."""
    longer: float = Field(1.15, gt=1)
    """Answers so many times as long as at the lowest reward, for each turn of the policy, are looked at..."""
    length_paid: float = Field(0.4, gt=0, lt=1)
    """...and are a finding where length and reward correlate so much within the groups, at as many turns."""
    share_rose: float = Field(0.2, gt=0, lt=1)
    """Rise of the share of cut, repeated or shared answers that is a finding."""


class OptimizerConfig(Section):
    """AdamW with a linear warm-up, and a learning rate that then follows a schedule."""

    lr: float = Field(1e-6, gt=0)
    """Learning rate."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's decay rates."""
    eps: float = Field(1e-8, gt=0)
    """AdamW's epsilon."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's decoupled weight decay."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """The rate after the warm-up. `linear` and `cosine` fall to `final_share` of it at `learner.steps`."""
    warmup_steps: int = Field(10, ge=0)
    """Steps over which the rate rises from 0."""
    warmup_share: float | None = Field(None, ge=0, lt=1)
    """The same as a share of `learner.steps`; it then stands in place of `warmup_steps`."""
    final_share: float = Field(0.0, ge=0, le=1)
    """Rate in the end, as a share of `lr`; for `linear` and `cosine`."""
    grad_clip: float = Field(1.0, gt=0)
    """Largest norm of the gradient."""


class LoraConfig(Section):
    """LoRA: low-rank adapters train in place of the model's weights."""

    rank: int = Field(32, ge=1)
    """Rank of each adapter."""
    alpha: int = Field(64, ge=1)
    """An adapter's product is multiplied by alpha / rank."""
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Names of the layers that have adapters, as `q_proj`; `all-linear`: every linear layer but the head."""
    publish: Literal["merged", "adapter"] = "merged"
    """What generators are given. `merged`: all weights. `adapter`: the adapter alone, which each generator merges with
    the weights of `model.path` on its own machine."""
    adapter: Path | None = None
    """Folder of an adapter to begin with, as PEFT writes it; unset: new ones, which change nothing at first."""


class ZeroConfig(Section):
    """DeepSpeed's partitioning."""

    stage: Literal[0, 1, 2, 3] = 1
    """0: nothing is partitioned; 1: optimizer state; 2: gradients too; 3: weights too."""
    offload_optimizer: bool = False
    """Keep the optimizer's state in the host's memory."""
    offload_weights: bool = False
    """Keep the weights there as well; stage 3 only."""


class DeepSpeedConfig(Section):
    """DeepSpeed's engine, partitioned as `learner.zero` says."""

    type: Literal["deepspeed"] = "deepspeed"


class CustomBackendConfig(CustomSection):
    """A `learner.training.backend.TrainingBackend` of your own; the class takes `run`, `rank`, `world_size`."""


BackendConfig = Annotated[
    DeepSpeedConfig | CustomBackendConfig, Field(discriminator="type"), default_type("deepspeed")
]


DIRECT_IS_GONE = (
    "direct is no longer there: its bytes passed through the memory of both machines as files do. On one machine set "
    "directory: /dev/shm, a folder in memory; between machines type: relay sends what has changed through Redis"
)


class WeightsSection(Section):
    """How often new weights are published, whatever moves them."""

    every: int = Field(1, ge=1)
    """Each so many optimizer steps' weights are published; those of a checkpoint, of an evaluation and of the end are
    too. Groups that were trained on hold their slots until then: at most max_lag + 1."""

    @model_validator(mode="before")
    @classmethod
    def _goes_by_files(cls, given: Any) -> Any:
        """Answer `direct`, which configurations of earlier versions carry, mostly as null."""
        if not isinstance(given, Mapping) or "direct" not in given:
            return given
        if given["direct"] is not None:
            raise ValueError(DIRECT_IS_GONE)
        return {key: value for key, value in given.items() if key != "direct"}


class FilesystemTransportConfig(WeightsSection):
    """New weights as safetensors in a folder that learner and generators share."""

    type: Literal["filesystem"] = "filesystem"
    directory: Path | None = None
    """Versions lie in DIRECTORY/NAME of the run; unset: in `weights` of the run's folder."""
    redis_max_bytes: int = Field(256_000_000, ge=0)
    """Bytes of weights that lie in Redis at one time, beside the groups, for generators on machines without that
    folder; weights of any size pass through in parts. 0: none do."""
    anchor_every: int = Field(16, ge=1)
    """Versions behind, up to which such a generator is given deltas, where they take fewer bytes; beyond, full
    weights."""


class RelayTransportConfig(WeightsSection):
    """New weights in parts, as deltas where they take fewer bytes, also to generators beside the learner."""

    type: Literal["relay"] = "relay"
    directory: Path | None = None
    """The parts lie in DIRECTORY/NAME of the run, a folder that learner and generators share; unset: in Redis."""
    redis_max_bytes: int = Field(256_000_000, ge=1)
    """Bytes of parts that lie in Redis, or in `directory`, at one time. Weights of any size pass through."""
    anchor_every: int = Field(16, ge=1)
    """Versions behind, up to which a generator is given deltas; beyond, full weights."""


NO_RECEIVER = (
    "learner.weights.receiver is missing: the transport {} is of type custom, and generators need the class of its "
    "other end: receiver: {{import_path: package.module:Class}}"
)


class CustomReceiverConfig(CustomSection):
    """A `generators.weight_sync.receiver.WeightReceiver` of your own, for the generators; the class takes `run`."""


class CustomTransportConfig(CustomSection, WeightsSection):
    """A `learner.weight_sync.transport.WeightTransport` of your own; the class takes `run`."""

    receiver: CustomReceiverConfig | None = None
    """The generators' side of this transport. A run without it is refused at its start."""

    redis_max_bytes: int = Field(0, ge=0)
    """Bytes of weights that your classes keep in Redis at one time, if they use Redis. 0: none."""


WeightsConfig = Annotated[
    FilesystemTransportConfig | RelayTransportConfig | CustomTransportConfig,
    Field(discriminator="type"),
    default_type("filesystem"),
]


class MetricsFileConfig(Section):
    """`metrics.jsonl` and `samples.jsonl` in the run's folder, which `millrace top` and the curves read."""

    type: Literal["metrics_file"] = "metrics_file"


class TensorBoardConfig(Section):
    """TensorBoard's event files in `tensorboard` of the run's folder: `tensorboard --logdir runs` shows every run."""

    type: Literal["tensorboard"] = "tensorboard"


class WandbConfig(Section):
    """Weights & Biases. The key is WANDB_API_KEY, or what `wandb login` has left."""

    type: Literal["wandb"] = "wandb"
    project: str = "millrace"
    """Project of the run, made if it is not there."""
    entity: str | None = None
    """User or team; unset: the key's own."""
    mode: Literal["online", "offline"] = "online"
    """`offline` writes into the run's folder, for `wandb sync` later, and wants no key."""
    tags: tuple[str, ...] = ()
    """Tags of the run."""


class TrackioConfig(Section):
    """trackio, on this machine or in a space of the Hugging Face hub."""

    type: Literal["trackio"] = "trackio"
    project: str = "millrace"
    """Project of the run, made if it is not there."""
    space_id: str | None = None
    """Space on the hub, OWNER/NAME; unset: on this machine."""


class CustomLoggerConfig(CustomSection):
    """A `learner.reporting.logger.Logger` of your own; the class takes `run`."""


LoggerConfig = Annotated[
    MetricsFileConfig | TensorBoardConfig | WandbConfig | TrackioConfig | CustomLoggerConfig,
    Field(discriminator="type"),
    default_type("metrics_file"),
]


class DumpsConfig(Section):
    """Answers in files of verl's and II-VERL's shapes, written while the run goes on, and never over another file."""

    rollouts: Path | None = None
    """Folder of a file for each trained step, `STEP.jsonl`, as verl's `trainer.rollout_data_dir`; unset: none."""
    held_out: Path | None = None
    """Folder of a file for each held-out round, `VERSION.jsonl`, as verl's `trainer.validation_data_dir`; another
    folder than `rollouts`, since the files have the same names. Unset: none."""
    parquet: Path | None = None
    """Folder of `train/STEP.parquet` and `val/VERSION.parquet`, as II-VERL's `reward_api.save_dir`; unset: none."""
    parquet_every: int = Field(1, ge=0)
    """Steps between two of the parquet files in `train`; 0: none. Every held-out round has its file."""

    @field_validator("held_out")
    @classmethod
    def _is_another_folder(cls, folder: Path | None, info: ValidationInfo) -> Path | None:
        if folder is not None and folder == info.data.get("rollouts"):
            raise ValueError("is the folder of rollouts: both would write files of the same names")
        return folder


class CheckpointConfig(Section):
    """DeepSpeed's whole state on disk."""

    every: int = Field(50, ge=0)
    """Steps between two checkpoints; 0: only the last one."""
    keep: int = Field(2, ge=1)
    """The newest so many stay."""
    export: bool = False
    """Write the weights of each checkpoint as a Hugging Face folder too, `models/step-N` of the run; these stay."""


class JournalConfig(Section):
    """Which payloads stay on disk. A payload is what a step trained on; the records of every group stay for ever."""

    keep: Literal["all", "since_checkpoint"] = "all"
    """`since_checkpoint`: payloads that the oldest kept checkpoint covers are removed, as far as `keep_days` and
    `keep_mb` allow. `all`: only what those two say is removed."""
    keep_days: float | None = Field(None, gt=0)
    """Days that a payload stays. One that no kept checkpoint covers stays all the same: recovery needs it."""
    keep_mb: int | None = Field(None, ge=1)
    """MiB of payloads that stay, the newest; those that recovery needs stay all the same."""
    segment_mb: int = Field(64, ge=1)
    """MiB of one payload file: what is removed is whole files."""
    untrained_mb: int = Field(256, ge=0)
    """MiB of dropped groups and of held-out rounds that stay for people, the newest; 0: none is kept."""


class LearnerConfig(Section):
    """The one process (of `ranks`) that trains, feeds prompts and owns the journal."""

    steps: int = Field(100, ge=1)
    """Optimizer steps of the run; one with `epochs` and without `steps` has as many as its epochs make."""
    epochs: int | None = Field(None, ge=1)
    """Passes over the training data. The run ends once every row was issued so often and has its outcome, or at
    `steps`, whichever comes first. Groups that are dropped leave fewer steps."""
    groups_per_step: int = Field(64, ge=1)
    """Scored groups consumed by one optimizer step, over all ranks."""
    mini_batches: int = Field(1, ge=1)
    """Optimizer steps that one batch takes, each on its share of the groups; weights are published after the last."""
    max_lag: int = Field(4, ge=0)
    """Versions that the oldest token of a group may lie behind the learner. 0 is synchronous."""
    late_groups: Literal["wait", "train", "drop"] = "wait"
    """What becomes of a group that would be trained later than `max_lag` allows. `wait`: the learner waits for older
    groups first, and no token is ever older. `train`: it trains on it all the same. `drop`: it is dropped and counted,
    which favours short answers."""
    groups_in_flight: int | None = Field(None, ge=1)
    """Groups that hold a slot, which are those without an outcome and the trained ones whose weights are not announced
    yet; unset, and at most: (max_lag + 1) x groups_per_step."""
    group_deadline_s: float = Field(300.0, gt=0)
    """Seconds from a group's issue to its death, unless it is scored by then. A pause, an outage of Redis and full
    memory do not count."""
    ranks: int = Field(1, ge=1)
    """Processes that train. Ignored where a launcher has set RANK."""
    sequence_ranks: int = Field(1, ge=1)
    """Ranks over which one packed row lies (DeepSpeed-Ulysses), for rows that one rank has no memory for. It divides
    `ranks` and the model's heads; 1: each rank has rows of its own."""
    gpus: tuple[GpuNumber, ...] = ()
    """GPUs for `millrace up` to give the learner. Empty: all are visible."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train; auto: CUDA where there is one."""
    attention: Literal["auto", "flash", "varlen", "sdpa"] = "auto"
    """`flash`: flash-attn's kernels for packed rows; `varlen`: torch's own; `sdpa`: padded rows, or a mask as large as
    the row's length squared. auto: on a GPU flash where it is installed, else varlen; on a CPU and in float32 sdpa.
    The log says which, and why."""
    tokens_per_micro_batch: int = Field(16384, ge=1)
    """Tokens of one packed micro-batch. A longer sequence has a micro-batch to itself."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a third more time."""
    offload_activations: bool = False
    """Keep what the backward pass needs in the host's memory until then; with `gradient_checkpointing` that is each
    layer's input."""
    torch_compile: bool = False
    """Compile the model's layers with torch.compile: a minute or so at the start, and faster steps on a GPU. Not with
    `zero.stage` 3 or `sequence_ranks`."""
    threads: int | None = Field(None, ge=1)
    """Threads for torch in each rank; unset: torch's own choice."""
    shard_bytes: int = Field(5_000_000_000, ge=1)
    """Most bytes of one safetensors file: larger weights are several files and their index, wherever the learner writes
    weights."""
    backend: BackendConfig = DeepSpeedConfig()
    """What holds the model and its optimizer."""
    objective: ObjectiveConfig = GrpoConfig()
    """The loss."""
    advantage: AdvantageConfig = AdvantageConfig()
    """What the loss weighs tokens by."""
    filters: FiltersConfig = FiltersConfig()
    """Which groups train."""
    mismatch: MismatchConfig = MismatchConfig()
    """Bounds on the difference between learner and generators."""
    hacking: HackingConfig = HackingConfig()
    """What is said of a reward that rises alone."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """The optimizer."""
    lora: LoraConfig | None = None
    """Adapters that train in place of the model's weights; unset: all weights train."""
    zero: ZeroConfig = ZeroConfig()
    """DeepSpeed's partitioning."""
    weights: WeightsConfig = FilesystemTransportConfig()
    """How new weights reach the generators."""
    loggers: tuple[LoggerConfig, ...] = (MetricsFileConfig(), TensorBoardConfig())
    """Where the metrics of each step go. Without `metrics_file` the tools and the curves see no steps."""
    max_skipped_steps: int = Field(5, ge=1)
    """So many steps in a row whose gradient is not finite end the run, with the reason. Such a step leaves the weights
    as they are."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """What is kept to start from."""
    dumps: DumpsConfig = DumpsConfig()
    """Files of answers for programs that read verl's."""
    samples_every: int = Field(10, ge=0)
    """Steps between two printed sample answers; 0: none."""
    journal: JournalConfig = JournalConfig()
    """How long what was trained on is kept."""
    resume: Literal["auto", "never"] | Path = "auto"
    """`auto`: go on where this run stopped, if it has begun. `never`: refuse a name that is taken.
    A checkpoint's folder: a new run begins with its weights."""

    @model_validator(mode="after")
    def _ranks_fit(self) -> Self:
        if self.ranks > 1 and self.ranks % self.sequence_ranks:  # a launcher may set other ranks
            raise ValueError(f"sequence_ranks={self.sequence_ranks} does not divide ranks={self.ranks}")
        if self.gpus and self.ranks > len(set(self.gpus)):
            raise ValueError(
                f"ranks={self.ranks} is more than gpus={list(self.gpus)} has: each rank trains on a GPU of its own"
            )
        return self

    @model_validator(mode="after")
    def _layers_can_be_compiled(self) -> Self:
        if self.torch_compile and (self.zero.stage == 3 or self.sequence_ranks > 1):
            what = "zero.stage=3" if self.zero.stage == 3 else f"sequence_ranks={self.sequence_ranks}"
            raise ValueError(
                f"torch_compile does not go with {what}: ranks talk to each other inside a layer"
            )
        return self

    @property
    def steps_follow_epochs(self) -> bool:
        """Whether the number of steps is that of the epochs, which the data decide."""
        return self.epochs is not None and "steps" not in self.model_fields_set
