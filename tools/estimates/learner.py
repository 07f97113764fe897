"""Estimate the memory of a learner's rank, by term, from the configuration and the model's shape.

In: a run, the shape of its model, and the GPU's memory if known. Out: bytes. The memory of DeepSpeed and autograd does
not depend on the device: the factors were measured in steps on CPU ranks with the GPU's configuration
(`tests/tools/estimates/test_learner.py` measures again), by counting tensors. CUDA's own memory is a guess. None of
it has been measured on a GPU. Used by `tools.doctor` and `tools.plan`: a rank's terms on a GPU, and the sum of all
ranks' where they have the host's memory.
"""

# P: parameters. P': trained ones. N: ranks. T: tokens of a micro-batch. L: layers. D: hidden size. I: intermediate
# size.

from __future__ import annotations

from dataclasses import asdict, dataclass

from config.run import Run
from learner.training.head.chunks import LARGE_CHUNK, logits_at_once
from tools.estimates.model import BYTES_OF, DecoderShape, size_of

GIB = 1 << 30
BUCKET = (
    500_000_000  # elements that ZeRO 2 and 3 reduce at a time, the size of a buffer (DeepSpeed's default)
)
LIVE = 1_000_000_000  # parameters that ZeRO-3 holds gathered at once (DeepSpeed's default)
MASTER_AND_MOMENTS = 12  # bytes per parameter, in float32: the master weight and AdamW's two moments
MOMENTS = 8  # where there is no master weight
SUM = 4  # bytes per parameter: the gradient of all micro-batches, in float32
# Bytes per token: of a layer, by its intermediate size and its hidden size, kept for the backward pass...
KEPT_INTERMEDIATE, KEPT_HIDDEN, KEPT_INPUT = 8, 21, 2  # ... the last: of a recomputed layer
WORK_INTERMEDIATE, WORK_HIDDEN = 4, 20  # additional in a layer's backward pass
AGAIN_INTERMEDIATE, AGAIN_HIDDEN = 12, 22  # the same for a recomputed layer, with what it keeps
COPIES_OF_LOGITS = 20  # bytes per entry of a chunk: five float32 copies in its backward pass
FUSED_COPIES_OF_LOGITS = 8  # by the fused head, two
HEAD_COPY, HEAD_SUM = 4, 4  # bytes per weight of the head: its float32 copy, and its gradient in float32
RUNTIME_BYTES = GIB  # CUDA context, NCCL, workspaces, and fragmentation. A guess


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """The GPU memory of one rank; bytes.

    The sum is slightly above the peak: the head's chunk and a layer's work do not coexist.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    head: int
    runtime: int = RUNTIME_BYTES

    @property
    def terms(self) -> dict[str, int]:
        """The terms by their names for people."""
        return {name if name != "runtime" else "CUDA": count for name, count in asdict(self).items()}

    @property
    def total(self) -> int:
        """The sum."""
        return sum(asdict(self).values())


def rank_memory(
    run: Run, shape: DecoderShape, *, card_bytes: int | None, is_fused: bool = False
) -> RankMemory:
    """Return the memory of one rank of the learner.

    Args:
        run: the resolved run.
        shape: of its model.
        card_bytes: memory of the GPU, which decides how many logits are computed at once; None: unknown, large.
        is_fused: whether `learner.training.head.fused` computes the head, which the GPU decides.
    """
    is_beside = not run.learner.objective.kl.offload
    reference = reference_bytes(run, shape.parameters) // run.learner.ranks if is_beside else 0
    return RankMemory(
        weights=weights(run, shape) + reference,
        gradients=gradients(run, shape),
        optimizer=optimizer(run, shape),
        activations=activations(run, shape),
        head=head(run, shape, card_bytes=card_bytes, is_fused=is_fused),
    )


def weights(run: Run, shape: DecoderShape) -> int:
    """Return the bytes of the weights.

    P x 2 (4 in float32). Under ZeRO-3 P / N x 2, and the gathered parameters: at most `LIVE`. With `offload_weights`
    only the latter.
    """
    zero, width = run.learner.zero, BYTES_OF[run.model.dtype]
    if zero.stage < 3:
        return shape.parameters * width
    own = 0 if zero.offload_weights else shape.parameters * width // run.learner.ranks
    is_whole = run.learner.ranks == 1 and not zero.offload_weights
    return own + (0 if is_whole else min(shape.parameters, LIVE) * width)


def gradients(run: Run, shape: DecoderShape) -> int:
    """Return the bytes of the gradients.

    ZeRO 0 and 1: P' x 4 for their sum over micro-batches, and P' x 2 for those of one micro-batch. ZeRO 2 and 3: the
    sum is split, P' / N x 4, and those of one micro-batch use one bucket of `BUCKET` x 2. With `offload_optimizer` the
    sum is on the host.
    """
    zero, width = run.learner.zero, BYTES_OF[run.model.dtype]
    trained = trained_parameters(run, shape)
    ranks = run.learner.ranks if zero.stage >= 2 else 1
    total = 0 if zero.offload_optimizer else trained * SUM // ranks
    if zero.stage >= 2:
        return total + BUCKET * width
    return total + (trained * width if width < SUM or zero.offload_optimizer else 0)


def optimizer(run: Run, shape: DecoderShape) -> int:
    """Return the bytes of the optimizer's state: P' / N x 12, on the host with `offload_optimizer`; ZeRO 0: P' x 8."""
    zero = run.learner.zero
    if zero.offload_optimizer:
        return 0
    if zero.stage == 0:
        return trained_parameters(run, shape) * MOMENTS
    return trained_parameters(run, shape) * MASTER_AND_MOMENTS // run.learner.ranks


def activations(run: Run, shape: DecoderShape) -> int:
    """Return the bytes that the backward pass of one micro-batch needs.

    With `gradient_checkpointing` T x (2 L D + 12 I + 22 D): the input of each layer, and one layer with its gradients.
    Without T x (L (8 I + 21 D) + 4 I + 20 D). The mask of SDPA's attention is not counted.
    """
    learner, width = run.learner, BYTES_OF[run.model.dtype] / 2
    longest = run.data.max_prompt_tokens + run.sampling.max_tokens
    tokens = max(learner.tokens_per_micro_batch, longest) / learner.sequence_ranks
    if learner.gradient_checkpointing:
        kept = 0 if learner.offload_activations else KEPT_INPUT * shape.layers * shape.hidden
        work = AGAIN_INTERMEDIATE * shape.intermediate + AGAIN_HIDDEN * shape.hidden
    else:
        layer = KEPT_INTERMEDIATE * shape.intermediate + KEPT_HIDDEN * shape.hidden
        kept = layer if learner.offload_activations else shape.layers * layer
        work = WORK_INTERMEDIATE * shape.intermediate + WORK_HIDDEN * shape.hidden
    return int(tokens * (kept + work) * width)


def head(run: Run, shape: DecoderShape, *, card_bytes: int | None, is_fused: bool = False) -> int:
    """Return the bytes of the output head: copies of one chunk of logits, and of its weight.

    Entries of a chunk x 20 (8 with the fused head), and weights of the head x 8: their float32 copy, and their
    gradient.
    """
    at_once = LARGE_CHUNK if card_bytes is None else logits_at_once(card_bytes)
    longest = run.data.max_prompt_tokens + run.sampling.max_tokens
    tokens = max(run.learner.tokens_per_micro_batch, longest)
    entries = min(at_once, tokens * shape.vocabulary)
    copy = HEAD_COPY if run.model.head_dtype == "float32" and run.model.dtype != "float32" else 0
    total = HEAD_SUM if run.learner.lora is None else 0
    return entries * (FUSED_COPIES_OF_LOGITS if is_fused else COPIES_OF_LOGITS) + shape.head * (copy + total)


def training_bytes(run: Run, shape: DecoderShape) -> int:
    """Return the memory of all ranks for the model, where nothing is offloaded: weights, gradients and optimizer.

    Without activations, the head's copies, and a reference model.
    """
    zero = run.learner.zero.model_copy(update={"offload_optimizer": False, "offload_weights": False})
    whole = run.model_copy(update={"learner": run.learner.model_copy(update={"zero": zero})})
    return run.learner.ranks * sum(term(whole, shape) for term in (weights, gradients, optimizer))


def trained_parameters(run: Run, shape: DecoderShape) -> int:
    """Return the number of trained parameters: all, or the adapters' on all matrices but embeddings and head."""
    lora = run.learner.lora
    return shape.parameters if lora is None else lora.rank * shape.matrix_edges


def reference_bytes(run: Run, parameters: int) -> int:
    """Return the memory of the KL term's reference model, summed over ranks; 0 where none is loaded.

    Args:
        run: the resolved run.
        parameters: of the policy; a reference of another size is looked up.
    """
    kl = run.learner.objective.kl
    if not kl.coef or (
        run.learner.lora is not None and kl.reference is None
    ):  # then the policy without its adapter
        return 0
    found = None if kl.reference is None else size_of(run.model.model_copy(update={"path": kl.reference}))
    copies = 1 if run.learner.zero.stage == 3 else run.learner.ranks
    return (parameters if found is None else found.parameters) * BYTES_OF[run.model.dtype] * copies
