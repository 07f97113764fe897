"""Split one packed row over several ranks: each has a slice of its tokens, and in attention a share of the heads.

In: the hidden states of a rank's slice. Out: attention over the whole row, and log-probabilities of the whole row on
every rank. Used by `learner.training.logprobs` where `learner.sequence_ranks` is above 1. The ranks of a mesh get the
same shard; each computes the loss of the whole row, and the gradient of its own slice. Every pass is a collective.

Source: DeepSpeed-Ulysses, arXiv:2309.14509, sec. 3.1.
"""

# P: ranks of a mesh. T: tokens of a row, a multiple of P. t = T / P: tokens of a slice. H: heads. E: head dimension.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributed

from broker.errors import RunFailed
from learner.training.process_group import TIMEOUT

NAME = "millrace_ulysses"  # of this attention in transformers


class SequenceMesh:
    """The ranks that share a row, `size` neighbours each.

    Args:
        size: ranks of a mesh.
        rank: this process among `world_size`.
        world_size: number of ranks.
        attention: transformers' name of the attention for the gathered rows.
    Raises:
        RunFailed: the ranks can't be divided like this.
    """

    def __init__(self, size: int, *, rank: int, world_size: int, attention: str) -> None:
        if world_size % size:
            raise RunFailed(
                f"learner.sequence_ranks={size} does not divide the {world_size} ranks of the learner"
            )
        self.size = size
        self.rank = rank % size
        self._group: Any = None
        for first in range(0, world_size, size):  # every rank must make every group, in the same order
            group = distributed.new_group(list(range(first, first + size)), timeout=TIMEOUT)
            if first <= rank < first + size:
                self._group = group
        self.attention = attention
        self._position_ids_T: Tensor | None = None
        self._bounds: dict[str, Any] = {}
        self._mask_11TT: Tensor | None = None
        self._register()

    def check(self, model: Any) -> None:
        """Refuse a model whose attention can't be divided like this. Raises RunFailed."""
        config = model.config.get_text_config()
        for name in ("num_attention_heads", "num_key_value_heads"):
            heads = getattr(config, name, None) or config.num_attention_heads
            if heads % self.size:
                raise RunFailed(
                    f"learner.sequence_ranks={self.size} does not divide {name}={heads} of {type(model).__name__}"
                )
        kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
        if kinds:
            raise RunFailed(
                f"learner.sequence_ranks={self.size} needs full attention in every layer, and "
                f"{type(model).__name__} has {', '.join(sorted(kinds))}"
            )

    def own_slice(self, position_ids_T: Tensor, bounds: dict[str, Any]) -> slice:
        """Begin a row, and return this rank's slice of its tokens.

        Args:
            position_ids_T: of the whole row; each 0 begins a sequence.
            bounds: the row's sequences for varlen kernels; empty: not given.
        """
        self._position_ids_T, self._bounds, self._mask_11TT = position_ids_T, bounds, None
        length = len(position_ids_T) // self.size
        return slice(self.rank * length, (self.rank + 1) * length)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over the mesh, whose gradient goes only to this rank's summand."""
        summed: Tensor = _SumOfSlices.apply(values, self._group)  # type: ignore[no-untyped-call]
        return summed

    def _register(self) -> None:
        """Register this attention with transformers by name, for the last mesh of a process."""
        from transformers import AttentionInterface

        AttentionInterface.register(NAME, self._attend)

    def _attend(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, _: Tensor | None, **options: Any
    ) -> tuple[Tensor, None]:
        """Attend over the whole row with a share of the heads.

        Args:
            module: the layer's.
            query: [1, H, t, E].
            key: [1, H', t, E].
            value: [1, H', t, E].
        Returns:
            [1, t, H, E].
        """
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        core: Callable[..., tuple[Tensor, Any]] = ALL_ATTENTION_FUNCTIONS[self.attention]
        options.pop("position_ids", None)  # the slice's
        if self.attention == "sdpa":
            mask = self._mask()
        else:  # varlen kernels get the bounds of the sequences, or derive them from restarts
            mask = None
            options |= self._bounds
            if self._position_ids_T is not None:
                options["position_ids"] = self._position_ids_T[None]
        rows = [self._whole_row(part) for part in (query, key, value)]
        attended, _ = core(module, *rows, mask, **options)
        return self._own_tokens(attended), None

    def _mask(self) -> Tensor:
        """Return [1, 1, T, T], True where a token may attend: backwards, within its sequence."""
        if self._mask_11TT is None:
            if self._position_ids_T is None:
                raise ValueError("no row has begun")
            sequence_T = (self._position_ids_T == 0).cumsum(0)
            same_TT = sequence_T[:, None] == sequence_T[None, :]
            self._mask_11TT = same_TT.tril()[None, None]
        return self._mask_11TT

    def _whole_row(self, part: Tensor) -> Tensor:
        """Convert [1, H, t, E], all heads of a slice, to [1, H / P, T, E], some heads of the row."""
        _, heads, length, width = part.shape
        by_rank = part.view(self.size, heads // self.size, length, width)  # by receiving rank
        slices = self._exchange(by_rank)  # by the rank of the slice
        return slices.transpose(0, 1).reshape(1, heads // self.size, self.size * length, width)

    def _own_tokens(self, attended: Tensor) -> Tensor:
        """Convert [1, T, H / P, E], some heads of the row, to [1, t, H, E], all heads of a slice."""
        _, length, heads, width = attended.shape
        by_rank = attended.reshape(self.size, length // self.size, heads, width)  # by receiving rank
        shares = self._exchange(by_rank)  # by the rank of the heads
        return shares.transpose(0, 1).reshape(1, length // self.size, self.size * heads, width)

    def _exchange(self, by_rank: Tensor) -> Tensor:
        exchanged: Tensor = _AllToAll.apply(by_rank.contiguous(), self._group)  # type: ignore[no-untyped-call]
        return exchanged


class _AllToAll(torch.autograd.Function):
    """Send entry p of the first dimension to rank p, and receive as many. The gradient goes the same way back."""

    @staticmethod
    def forward(ctx: Any, parts: Tensor, group: Any) -> Tensor:
        ctx.group = group
        received = torch.empty_like(parts)
        distributed.all_to_all_single(received, parts, group=group)
        return received

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = gradients[0].contiguous()
        returned = torch.empty_like(gradient)
        distributed.all_to_all_single(returned, gradient, group=ctx.group)
        return returned, None


class _SumOfSlices(torch.autograd.Function):
    """Sum over the ranks. All of them compute the same loss from it: each takes its own summand's gradient."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: Any) -> Tensor:  # noqa: ARG004
        summed = values.clone()
        distributed.all_reduce(summed, group=group)
        return summed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ARG004
        return gradients[0], None
