"""Compute log-probabilities of packed tokens without materializing tokens x vocabulary.

In: one micro-batch of packed sequences. Out: each trained token's log-probability under the policy at the sampling
temperature, with its gradient, and its entropy. Runs in every rank, inside the backend's engine. A model whose logits
are not a linear map of its last hidden state is refused by name: its numbers would be silently wrong.
"""

# T: tokens of a micro-batch. K: trained ones. C: those in one chunk. D: hidden size. V: vocabulary. S: rows of L padded
# tokens. B = S + 1: bounds of the sequences of a packed row.

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from broker.errors import RunFailed
from learner.training.attention import VARLEN, bounds_for_model, check_model, takes_bounds
from learner.training.head.chunks import SMALL_CHUNK
from learner.training.head.fused import FusedLogprobs, Product

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from learner.training.sequence_parallel import SequenceMesh

log = logging.getLogger(__name__)

PROBED_TOKENS, PROBED_SCALE = 3, 40.0  # the artificial logits are large enough to reveal a soft cap
# Attributes of transformers configs that change the logits after the head, with the neutral value.
_NEUTRAL = {"final_logit_softcapping": None, "logits_scaling": 1.0, "logit_scale": 1.0}


class TokenLogprobs(nn.Module):
    """Map hidden states to log-probabilities with the output embedding, in place of `lm_head`.

    It is one module so that ZeRO-3 gathers the weight once for all chunks of a micro-batch, forward and backward. It
    holds the same parameters as the head that it replaces: names in checkpoints, and ties to the input embedding, are
    kept.
    """

    def __init__(
        self,
        head: nn.Linear,
        *,
        temperature: float,
        is_float32: bool = True,
        logits_at_once: int = SMALL_CHUNK,
        product: Product | None = None,
    ) -> None:
        super().__init__()
        self.weight = head.weight  # [V, D]
        self.bias = head.bias  # [V] or None
        self.temperature = temperature
        self.is_float32 = is_float32  # otherwise the logits have the type of the weight
        self._product = product if is_float32 else None
        self.trains_entropy = False  # whether the entropy has a gradient
        self.tokens_at_once = max(1, logits_at_once // head.out_features)

    def forward(self, hidden_KD: Tensor, targets_K: Tensor) -> tuple[Tensor, Tensor]:
        """Return each target's log-probability and each distribution's entropy, nats, float32.

        The entropy has a gradient only where `trains_entropy` is set: it costs memory and time.
        """
        if self._product is not None and not self.trains_entropy:
            hidden_KD = hidden_KD.to(self.weight.dtype)
            fused: tuple[Tensor, Tensor] = FusedLogprobs.apply(  # type: ignore[no-untyped-call]
                hidden_KD,
                self.weight,
                self.bias,
                targets_K,
                self._product,
                self.temperature,
                self.tokens_at_once,
            )
            return fused
        # A float32 copy for each micro-batch: the chunks' gradients add up in float32. The copy is not kept for the
        # next: the backward pass frees it with the graph. For a head of 151,936 x 1,024 a kept copy would take 0.6 GB,
        # and would be stale after each optimizer step. Under ZeRO-3 it would be the whole head.
        weight_VD = self.weight.float() if self.is_float32 else self.weight
        bias_V = self.bias.float() if self.is_float32 and self.bias is not None else self.bias
        if len(targets_K) <= self.tokens_at_once:
            return self._chunk(hidden_KD, weight_VD, bias_V, targets_K)
        chunks = [
            checkpoint(self._chunk, hidden_CD, weight_VD, bias_V, targets_C, use_reentrant=False)
            for hidden_CD, targets_C in zip(
                torch.split(hidden_KD, self.tokens_at_once),
                torch.split(targets_K, self.tokens_at_once),
                strict=True,
            )
        ]
        logprobs, entropies = zip(*chunks, strict=True)
        return torch.cat(logprobs), torch.cat(entropies)

    def _chunk(
        self, hidden_CD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, targets_C: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the log-probabilities and entropies of one chunk. The backward pass recomputes their logits."""
        logits_CV = (
            functional.linear(hidden_CD.to(weight_VD.dtype), weight_VD, bias_V).float() / self.temperature
        )
        normalizer_C = logits_CV.logsumexp(-1)
        logprobs_C = logits_CV.gather(-1, targets_C[:, None]).squeeze(-1) - normalizer_C
        with torch.set_grad_enabled(self.trains_entropy and torch.is_grad_enabled()):
            entropy_C = normalizer_C - ((logits_CV - normalizer_C[:, None]).exp() * logits_CV).sum(-1)
        return logprobs_C, entropy_C


class LogprobModel(nn.Module):
    """A causal language model whose forward pass returns log-probabilities of packed tokens. DeepSpeed wraps it."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        temperature: float,
        head_dtype: Literal["float32", "model"] = "float32",
        logits_at_once: int = SMALL_CHUNK,
        product: Product | None = None,
        mesh: SequenceMesh | None = None,
    ) -> None:
        """Wrap a model and replace its head.

        Args:
            model: a causal LM of transformers, loaded with the attention of `learner.training.attention`.
            temperature: of the sampling.
            head_dtype: type in which the logits are computed; `model`: that of the head's weight.
            logits_at_once: entries of a chunk of logits.
            product: of a 16-bit head into float32 logits, from `learner.training.head.fused`; None: the head's weight
                is converted to float32 first.
            mesh: the ranks that share a row; None: each rank has its own rows.
        Raises:
            RunFailed: its logits are not a linear map of the hidden state, or the chosen attention does not support the
                model.
        """
        super().__init__()
        attention = mesh.attention if mesh is not None else model.config._attn_implementation  # noqa: SLF001
        if mesh is not None:
            mesh.check(model)
        if attention == VARLEN:
            check_model(model)
        self._mesh = mesh
        self._takes_bounds = takes_bounds(model, attention)
        head = model.get_output_embeddings()
        changed = [
            name
            for name, neutral in _NEUTRAL.items()
            if getattr(model.config, name, None) not in (None, neutral)
        ]
        if changed or not isinstance(head, nn.Linear):
            why = f"sets {', '.join(changed)}" if changed else f"has the head {type(head).__name__}"
            raise _refused(model, why)
        if why := what_changes_logits(model):
            raise _refused(model, why)
        model.set_output_embeddings(
            TokenLogprobs(
                head,
                temperature=temperature,
                is_float32=head_dtype == "float32",
                logits_at_once=logits_at_once,
                product=product,
            )
        )
        self.model = model

    @property
    def trains_entropy(self) -> bool:
        """Whether the entropies have a gradient."""
        trains: bool = self.model.get_output_embeddings().trains_entropy
        return trains

    @trains_entropy.setter
    def trains_entropy(self, trains: bool) -> None:
        self.model.get_output_embeddings().trains_entropy = trains

    def forward(
        self,
        token_ids_T: Tensor,
        position_ids_T: Tensor,
        places_K: Tensor,
        cells_T: Tensor | None = None,
        grid: tuple[int, int] = (1, 0),
        *,
        bounds_B: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies of one micro-batch.

        Args:
            token_ids_T: the micro-batch's tokens, int64.
            position_ids_T: their positions in their sequences, int64; each 0 begins a new sequence.
            places_K: indices of the tokens whose log-probability to compute, int64; never a sequence's first token.
            cells_T: the position of each token in a grid with a row for each sequence, int64; the model then runs on
                the padded grid. None: the model runs on the packed row.
            grid: rows and columns of that grid: sequences, and tokens of the longest.
            bounds_B: the start of each sequence, and the end of the last, int32. Varlen attention needs them; without
                them flash-attn waits for the device in every layer; others ignore them.
        Returns:
            [T] log-probabilities with their gradient and [T] entropies, nats, float32; 0 at other tokens. The entropies
            have a gradient where `trains_entropy` is set.
        """
        if self._mesh is not None:
            return self._spread(
                self._mesh, token_ids_T, position_ids_T, places_K, bounds_B=bounds_B, longest=grid[1]
            )
        if cells_T is None:
            bounds = self._bounds(bounds_B, grid[1])
            hidden_KD = self._packed(token_ids_T, position_ids_T, bounds)[places_K - 1]
        else:
            hidden_KD = self._padded(token_ids_T, cells_T, grid)[cells_T[places_K - 1]]
        # Where no token trains, the head still runs on an empty input, so that all ranks join its collectives.
        logprobs_K, entropy_K = self.model.get_output_embeddings()(hidden_KD, token_ids_T[places_K])
        blank_T = logprobs_K.new_zeros(len(token_ids_T))
        return blank_T.index_put((places_K,), logprobs_K), blank_T.index_put((places_K,), entropy_K)

    def _bounds(self, bounds_B: Tensor | None, longest: int) -> dict[str, Any]:
        """Return the sequence bounds for the layers, if the attention uses them."""
        return bounds_for_model(bounds_B, longest) if self._takes_bounds and bounds_B is not None else {}

    def _spread(
        self,
        mesh: SequenceMesh,
        token_ids_T: Tensor,
        position_ids_T: Tensor,
        places_K: Tensor,
        *,
        bounds_B: Tensor | None,
        longest: int,
    ) -> tuple[Tensor, Tensor]:
        """Return the same for a row that the ranks of a mesh share, with the whole row's results on each."""
        length = len(token_ids_T)
        # Sequences of one token pad the slices to equal length. No other token attends to them.
        padding = (0, -length % mesh.size)
        ids_T = functional.pad(token_ids_T, padding)
        positions_T = functional.pad(position_ids_T, padding)
        if bounds_B is not None:
            ends = torch.arange(length + 1, len(ids_T) + 1, dtype=bounds_B.dtype, device=bounds_B.device)
            bounds_B = torch.cat((bounds_B, ends))
        own = mesh.own_slice(positions_T, self._bounds(bounds_B, longest))
        hidden_tD = self._packed(ids_T[own], positions_T[own], {})
        # The tokens that this slice's positions predict.
        places_k = places_K[(places_K > own.start) & (places_K <= own.stop)]
        found = self.model.get_output_embeddings()(hidden_tD[places_k - 1 - own.start], token_ids_T[places_k])
        blank_T = found[0].new_zeros(length)
        logprobs_T, entropy_T = (blank_T.index_put((places_k,), own_k) for own_k in found)
        return mesh.sum(logprobs_T), mesh.sum(entropy_T)

    def _packed(self, token_ids_T: Tensor, position_ids_T: Tensor, bounds: dict[str, Any]) -> Tensor:
        """Return [T, D], the last hidden states of one row."""
        # No mask and no cache: in every other combination transformers ignores restarts in position_ids, and the
        # sequences of a micro-batch would silently attend to each other.
        hidden_1TD: Tensor = self.model.base_model(
            input_ids=token_ids_T[None],
            position_ids=position_ids_T[None],
            attention_mask=None,
            use_cache=False,
            **bounds,
        ).last_hidden_state
        return hidden_1TD[0]

    def _padded(self, token_ids_T: Tensor, cells_T: Tensor, grid: tuple[int, int]) -> Tensor:
        """Return [S x L, D], the last hidden states of a padded grid."""
        # Padding follows its sequence, and attention is causal: no mask is needed.
        num_rows, longest = grid
        ids_SL = token_ids_T.new_zeros(num_rows * longest).index_put((cells_T,), token_ids_T)
        position_ids_L = torch.arange(longest, device=token_ids_T.device)
        hidden_SLD: Tensor = self.model.base_model(
            input_ids=ids_SL.view(num_rows, longest),
            position_ids=position_ids_L.expand(num_rows, longest),
            attention_mask=None,
            use_cache=False,
        ).last_hidden_state
        return hidden_SLD.flatten(0, 1)


def what_changes_logits(model: PreTrainedModel) -> str:
    """Return how a model changes the logits of its head; "" where it does not.

    The model's own `forward` runs once, around its head alone. The base model returns an artificial hidden state, and
    the head returns artificial logits, so that no weight is needed: under ZeRO-3 this rank has none at this moment.
    This detects every change to the hidden state before the head, or to the logits after it, however it is configured.

    Returns:
        The change, for people.
    """
    base, head = model.base_model, model.get_output_embeddings()
    generator = torch.Generator().manual_seed(0)
    hidden_1TD = torch.randn(1, PROBED_TOKENS, head.in_features, generator=generator)
    logits_1TV = PROBED_SCALE * torch.randn(1, PROBED_TOKENS, head.out_features, generator=generator)
    probe = _Probe(head, logits_1TV)
    model.set_output_embeddings(probe)
    base.forward = lambda *_, **__: _MadeUp(hidden_1TD)
    try:
        with torch.no_grad():
            found = model(input_ids=torch.zeros(1, PROBED_TOKENS, dtype=torch.int64), use_cache=False).logits
    except Exception as error:  # noqa: BLE001 - a model's own code may raise anything for an artificial state
        log.warning("logits_not_compared model=%s error=%r", type(model).__name__, error)
        return ""
    finally:
        del base.forward
        model.set_output_embeddings(head)
    if probe.seen is None or not _agree(probe.seen, hidden_1TD):
        return "changes the hidden state before its head"
    return "" if _agree(found, logits_1TV) else "changes the logits behind its head"


class _Probe(nn.Module):
    """Replace a head: store the input, and return fixed logits."""

    def __init__(self, head: nn.Linear, logits_1TV: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = head.weight, head.bias  # a model may read their type
        self.in_features, self.out_features = head.in_features, head.out_features
        self.seen: Tensor | None = None
        self._logits_1TV = logits_1TV

    def forward(self, hidden_1TD: Tensor) -> Tensor:
        self.seen = hidden_1TD
        return self._logits_1TV.clone()


class _MadeUp(tuple[Tensor]):
    """The output of a base model: the hidden state by name and as the first element, and None for every other name."""

    __slots__ = ()

    def __new__(cls, hidden_1TD: Tensor) -> Self:
        return super().__new__(cls, (hidden_1TD,))

    @property
    def last_hidden_state(self) -> Tensor:
        return self[0]

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def _agree(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are equal, up to a cast to bfloat16."""
    return one.shape == other.shape and torch.allclose(one.float(), other, rtol=1e-2, atol=1e-3)


def _refused(model: PreTrainedModel, why: str) -> RunFailed:
    return RunFailed(
        f"{type(model).__name__} {why}: its logits are not a plain linear map of the last hidden state, and the "
        "learner would compute other log-probabilities than the sampler"
    )
