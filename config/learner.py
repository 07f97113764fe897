"""Sections of the learner: objective, optimizer, backend, weight publishing, loggers, checkpoints and the journal.

Four sections can be extended, each a union of types: `objective`, `backend`, `weights` and the elements of `loggers`.
A new type is one section here, one file under `learner/`, and one case in that folder's `build.py`. The type `custom`
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


class FiltersConfig(Section):
    """Choose which groups train."""

    zero_variance: Literal["replace", "keep"] = "replace"
    """`replace`: drop a group whose rewards are all equal, and give its slot to another prompt. `keep`: let it train,
    with a gradient of zero."""
    pass_rate: tuple[float, float] = (0.0, 1.0)
    """Drop a group whose mean score is outside this range (bounds included), and give its slot to another prompt.
    [0, 0.9] leaves out prompts that the policy has solved."""
    max_replaced: int | None = Field(None, ge=0)
    """Replace at most this many groups before a step. Later ones train, with a gradient of zero where their rewards are
    all equal. Unset: no limit."""
    max_empty_groups: int = Field(2000, ge=1)
    """End the run, with the reason, after this many groups in a row were dropped for their rewards."""
    truncated: Literal["mask", "keep"] | None = None
    """`mask`: count a completion that was cut at `max_tokens` in the baseline but not in the loss. `keep`: train on it
    like on others. Unset: `mask` for single-turn answers and `keep` for episodes. Episodes are cut by a turn's
    `max_tokens`, by turns, context and deadlines, and a policy that can bring a cut about must not escape its
    penalty."""

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
    """Limits on the divergence between learner and generators on tokens of lag 0, where only rounding may differ."""

    warn_above: float = Field(0.02, gt=0)
    """Warn in the log and in `millrace top` above this mean divergence per token (k3, nats) of one generator."""
    stop_above: float | None = Field(None, gt=0)
    """End the run, with the reason, above this mean divergence per token of one generator. Unset: never."""


class HackingConfig(Section):
    """Watch for reward hacking: a reward that rises while what it stands for does not (docs/running.md)."""

    action: Literal["warn", "pause", "none"] = "warn"
    """`warn`: report a finding in the log, in `millrace top`, in the report and with samples. `pause`: pause the run as
    well, until `millrace resume`. `none`: do not watch."""
    window: int = Field(5, ge=2)
    """Steps to average over."""
    reward_rose: float = Field(0.1, gt=0)
    """Look for a cause once the mean reward has risen by this much."""
    witness_share: float = Field(0.25, gt=0, lt=1)
    """Share of that rise that the mean held-out score, a shadow scorer, or the task's own scorer among several must
    show too."""
    longer: float = Field(1.15, gt=1)
    """Look at answers that have become this many times as long (per turn) as they were at the lowest reward."""
    length_paid: float = Field(0.4, gt=0, lt=1)
    """Report them where length and reward correlate at least this much within groups, at equal numbers of turns."""
    share_rose: float = Field(0.2, gt=0, lt=1)
    """Report a rise by this much of the share of cut, repeated or shared answers."""


class OptimizerConfig(Section):
    """AdamW with a linear warm-up and a schedule of the learning rate."""

    lr: float = Field(1e-6, gt=0)
    """Learning rate."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's decay rates."""
    eps: float = Field(1e-8, gt=0)
    """AdamW's epsilon."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's decoupled weight decay."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate after the warm-up: `constant`, or falling to `final_share` of it at `learner.steps`."""
    warmup_steps: int = Field(10, ge=0)
    """Steps over which the learning rate rises from 0."""
    warmup_share: float | None = Field(None, ge=0, lt=1)
    """Share of `learner.steps` to warm up over, instead of `warmup_steps`."""
    final_share: float = Field(0.0, ge=0, le=1)
    """Final learning rate as a share of `lr`, for `linear` and `cosine`."""
    grad_clip: float = Field(1.0, gt=0)
    """Clip the norm of the gradient to this."""


class LoraConfig(Section):
    """LoRA: train low-rank adapters instead of the model's weights."""

    rank: int = Field(32, ge=1)
    """Rank of each adapter."""
    alpha: int = Field(64, ge=1)
    """Scale adapters by alpha / rank."""
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Names of the layers that get adapters, such as `q_proj`. `all-linear`: every linear layer but the head."""
    publish: Literal["merged", "adapter"] = "merged"
    """`merged`: publish the merged weights. `adapter`: publish only the adapter, which each generator merges with the
    weights of `model.path` on its own machine."""
    adapter: Path | None = None
    """Folder of a PEFT adapter to start from. Unset: new adapters, which change nothing at first."""


class ZeroConfig(Section):
    """DeepSpeed ZeRO."""

    stage: Literal[0, 1, 2, 3] = 1
    """Partition over the ranks 0: nothing, 1: the optimizer state, 2: gradients too, 3: weights too."""
    offload_optimizer: bool = False
    """Keep the optimizer state in CPU memory."""
    offload_weights: bool = False
    """Keep the weights in CPU memory as well (stage 3 only)."""


class DeepSpeedConfig(Section):
    """DeepSpeed, configured by `learner.zero`."""

    type: Literal["deepspeed"] = "deepspeed"


class CustomBackendConfig(CustomSection):
    """Your own `learner.training.backend.TrainingBackend`. The class takes `run`, `rank` and `world_size`."""


BackendConfig = Annotated[
    DeepSpeedConfig | CustomBackendConfig, Field(discriminator="type"), default_type("deepspeed")
]


DIRECT_IS_GONE = (
    "direct is no longer there: its bytes passed through the memory of both machines as files do. On one machine set "
    "directory: /dev/shm, a folder in memory; between machines type: relay sends what has changed through Redis"
)


class WeightsSection(Section):
    """How often to publish weights, by any transport."""

    every: int = Field(1, ge=1)
    """Publish weights every `every` optimizer steps, and always at a checkpoint, an evaluation and the end. At most
    max_lag + 1: trained groups hold their slots until the next publication."""

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
    """Publish weights as safetensors files in a folder that learner and generators share."""

    type: Literal["filesystem"] = "filesystem"
    directory: Path | None = None
    """Write versions to DIRECTORY/NAME of the run. Unset: to `weights` in the run's folder."""
    redis_max_bytes: int = Field(256_000_000, ge=0)
    """Most bytes of weights in Redis at a time, besides the groups in flight, for generators on machines without that
    folder. Weights of any size pass through in parts. 0: send no weights through Redis."""
    anchor_every: int = Field(16, ge=1)
    """Send deltas to such a generator while it is at most this many versions behind and deltas take fewer bytes; else
    send full weights."""


class RelayTransportConfig(WeightsSection):
    """Publish weights in parts, as deltas where they take fewer bytes, to generators on any machine."""

    type: Literal["relay"] = "relay"
    directory: Path | None = None
    """Write the parts to DIRECTORY/NAME of the run, in a folder that learner and generators share. Unset: to Redis."""
    redis_max_bytes: int = Field(256_000_000, ge=1)
    """Most bytes of parts in Redis, besides the groups in flight, or in `directory`, at a time. Weights of any size
    pass through."""
    anchor_every: int = Field(16, ge=1)
    """Send deltas to a generator while it is at most this many versions behind; else send full weights."""


NO_RECEIVER = (
    "learner.weights.receiver is missing: the transport {} is of type custom, and generators need the class of its "
    "other end: receiver: {{import_path: package.module:Class}}"
)


class CustomReceiverConfig(CustomSection):
    """Your own `generators.weight_sync.receiver.WeightReceiver`. The class takes `run`."""


class CustomTransportConfig(CustomSection, WeightsSection):
    """Your own `learner.weight_sync.transport.WeightTransport`. The class takes `run`."""

    receiver: CustomReceiverConfig | None = None
    """The generators' side of this transport. Required."""

    redis_max_bytes: int = Field(0, ge=0)
    """Most bytes of weights that your classes keep in Redis at a time, besides the groups in flight. 0: none."""


WeightsConfig = Annotated[
    FilesystemTransportConfig | RelayTransportConfig | CustomTransportConfig,
    Field(discriminator="type"),
    default_type("filesystem"),
]


class MetricsFileConfig(Section):
    """Write `metrics.jsonl` and `samples.jsonl` to the run's folder. `millrace top` and the curves read them."""

    type: Literal["metrics_file"] = "metrics_file"


class TensorBoardConfig(Section):
    """Write TensorBoard's event files to `tensorboard` in the run's folder (`tensorboard --logdir runs`)."""

    type: Literal["tensorboard"] = "tensorboard"


class WandbConfig(Section):
    """Log to Weights & Biases, with the key of WANDB_API_KEY or of `wandb login`."""

    type: Literal["wandb"] = "wandb"
    project: str = "millrace"
    """Project of the run. Created if it does not exist."""
    entity: str | None = None
    """User or team. Unset: the one that the key belongs to."""
    mode: Literal["online", "offline"] = "online"
    """`offline`: write to the run's folder, for a later `wandb sync`, without a key."""
    tags: tuple[str, ...] = ()
    """Tags of the run."""


class TrackioConfig(Section):
    """Log to trackio, on this machine or in a space on the Hugging Face hub."""

    type: Literal["trackio"] = "trackio"
    project: str = "millrace"
    """Project of the run. Created if it does not exist."""
    space_id: str | None = None
    """Space on the hub, OWNER/NAME. Unset: this machine."""


class CustomLoggerConfig(CustomSection):
    """Your own `learner.reporting.logger.Logger`. The class takes `run`."""


LoggerConfig = Annotated[
    MetricsFileConfig | TensorBoardConfig | WandbConfig | TrackioConfig | CustomLoggerConfig,
    Field(discriminator="type"),
    default_type("metrics_file"),
]


class DumpsConfig(Section):
    """Write completions to files in the formats of verl and II-VERL. Existing files are never overwritten."""

    rollouts: Path | None = None
    """Write `STEP.jsonl` to this folder for each trained step, as verl's `trainer.rollout_data_dir`. Unset: no
    files."""
    held_out: Path | None = None
    """Write `VERSION.jsonl` to this folder for each held-out evaluation, as verl's `trainer.validation_data_dir`. It
    must differ from `rollouts`, since the files have the same names. Unset: no files."""
    parquet: Path | None = None
    """Write `train/STEP.parquet` and `val/VERSION.parquet` to this folder, as II-VERL's `reward_api.save_dir`. Unset:
    no files."""
    parquet_every: int = Field(1, ge=0)
    """Steps between two parquet files in `train`. 0: none. Every held-out evaluation has its file."""

    @field_validator("held_out")
    @classmethod
    def _is_another_folder(cls, folder: Path | None, info: ValidationInfo) -> Path | None:
        if folder is not None and folder == info.data.get("rollouts"):
            raise ValueError("is the folder of rollouts: both would write files of the same names")
        return folder


class CheckpointConfig(Section):
    """Checkpoints of the whole training state."""

    every: int = Field(50, ge=0)
    """Steps between two checkpoints. 0: only one, at the end."""
    keep: int = Field(2, ge=1)
    """Checkpoints to keep; older ones are deleted."""
    export: bool = False
    """Also write the weights of each checkpoint as a Hugging Face folder, `models/step-N` of the run. These are
    kept."""


class JournalConfig(Section):
    """How long to keep payloads, the data that steps trained on. The record of each group is kept for ever."""

    keep: Literal["all", "since_checkpoint"] = "all"
    """`since_checkpoint`: remove payloads that the oldest kept checkpoint covers, unless `keep_days` or `keep_mb` keeps
    them. `all`: remove only what those two keys say."""
    keep_days: float | None = Field(None, gt=0)
    """Days to keep a payload. Payloads that recovery needs are kept longer."""
    keep_mb: int | None = Field(None, ge=1)
    """MiB of payloads to keep, the newest first. Payloads that recovery needs are kept beyond it."""
    segment_mb: int = Field(64, ge=1)
    """Size of one payload file in MiB. Whole files are removed."""
    untrained_mb: int = Field(256, ge=0)
    """MiB of dropped groups and held-out evaluations to keep for people to read, the newest first. 0: none."""


class LearnerConfig(Section):
    """The learner: it issues prompts, trains, and owns the journal."""

    steps: int = Field(100, ge=1)
    """Optimizer steps of the run. Unset with `epochs` set: as many as the epochs make."""
    epochs: int | None = Field(None, ge=1)
    """Passes over the training data. The run ends after these passes or after `steps`, whichever comes first. Dropped
    groups make fewer steps."""
    groups_per_step: int = Field(64, ge=1)
    """Scored groups that one step trains on, over all ranks."""
    mini_batches: int = Field(1, ge=1)
    """Split the groups of a step into this many optimizer steps. Weights are published after the last."""
    max_lag: int = Field(4, ge=0)
    """Versions that the oldest token of a group may be behind the learner. 0: synchronous training."""
    late_groups: Literal["wait", "train", "drop"] = "wait"
    """What to do about a group that would train later than `max_lag` allows. `wait`: wait for older groups first, so
    that no token is ever older. `train`: train on it nevertheless. `drop`: drop and count it, which favours short
    answers."""
    groups_in_flight: int | None = Field(None, ge=1)
    """Groups in flight: those without an outcome, and trained ones whose weights are not announced yet. Unset, and at
    most: (max_lag + 1) x groups_per_step."""
    group_deadline_s: float = Field(300.0, gt=0)
    """Seconds after which a group that was issued and not scored is given up. A pause, an outage of Redis, full memory
    and the time while the run was stopped do not count."""
    ranks: int = Field(1, ge=1)
    """Training processes. Ignored where a launcher has set RANK."""
    sequence_ranks: int = Field(1, ge=1)
    """Ranks that share one packed row (DeepSpeed-Ulysses), for rows too long for one rank's memory. It must divide
    `ranks` and the model's heads. 1: each rank has its own rows."""
    gpus: tuple[GpuNumber, ...] = ()
    """GPUs that `millrace up` gives the learner. Empty: all."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on. `auto`: CUDA where there is one."""
    attention: Literal["auto", "flash", "varlen", "sdpa"] = "auto"
    """Attention kernels. `flash`: flash-attn's, for packed rows. `varlen`: torch's own, for packed rows. `sdpa`: padded
    rows, or a mask of the row's length squared. `auto`: on a GPU `flash` where it is installed, else `varlen`; on a CPU
    and in float32 `sdpa`. The log says which, and why."""
    tokens_per_micro_batch: int = Field(16384, ge=1)
    """Tokens in one packed micro-batch. A longer sequence gets a micro-batch of its own."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third more time."""
    offload_activations: bool = False
    """Keep activations in CPU memory until the backward pass. With `gradient_checkpointing` these are the layers'
    inputs."""
    torch_compile: bool = False
    """Compile the layers with torch.compile: about a minute at the start, then faster steps on a GPU. Not possible with
    `zero.stage: 3` or `sequence_ranks` above 1."""
    threads: int | None = Field(None, ge=1)
    """Threads of torch in each rank. Unset: torch's own choice."""
    shard_bytes: int = Field(5_000_000_000, ge=1)
    """Largest safetensors file in bytes, wherever weights are written: when they are published, in `models` and by
    `millrace export`. Larger weights are split into several files with an index. A run keeps the size that it started
    with."""
    backend: BackendConfig = DeepSpeedConfig()
    """Training engine that holds the model and its optimizer."""
    objective: ObjectiveConfig = GrpoConfig()
    """Loss."""
    advantage: AdvantageConfig = AdvantageConfig()
    """Advantages."""
    filters: FiltersConfig = FiltersConfig()
    """Choice of the groups that train."""
    mismatch: MismatchConfig = MismatchConfig()
    """Limits on the divergence between learner and generators."""
    hacking: HackingConfig = HackingConfig()
    """Watch for reward hacking."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer."""
    lora: LoraConfig | None = None
    """Train adapters instead of the model's weights. Unset: train all weights."""
    zero: ZeroConfig = ZeroConfig()
    """DeepSpeed ZeRO."""
    weights: WeightsConfig = FilesystemTransportConfig()
    """Transport of new weights to the generators."""
    loggers: tuple[LoggerConfig, ...] = (MetricsFileConfig(), TensorBoardConfig())
    """Loggers of each step's metrics. `millrace top`, the curves and the report need `metrics_file`."""
    max_skipped_steps: int = Field(5, ge=1)
    """End the run, with the reason, after this many steps in a row with a gradient that is not finite. Such a step
    leaves the weights unchanged."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Checkpoints."""
    dumps: DumpsConfig = DumpsConfig()
    """Completions in files, in the formats of verl and II-VERL."""
    samples_every: int = Field(10, ge=0)
    """Steps between two printed sample completions. 0: none."""
    journal: JournalConfig = JournalConfig()
    """Journal: how long to keep the data that was trained on."""
    resume: Literal["auto", "never"] | Path = "auto"
    """`auto`: resume the run of this name where it stopped, or start it. `never`: refuse a name that exists. A
    checkpoint's folder: start a new run from its weights."""

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
