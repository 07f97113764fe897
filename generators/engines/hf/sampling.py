"""Sample several groups in a batch with a transformers model: one prefill, then one forward pass per token.

In: a model and requests. Out: ids and log-probabilities of each completion. Called by generators.engines.hf.engine in
its worker thread; knows nothing of versions, text or the event loop. Keeps no state between batches.
"""

# G: groups of a batch. B: active completions. P: tokens of the longest prompt. T: tokens of the longest completion. V:
# vocabulary.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from generators.engine import SamplingParams


@dataclass(frozen=True, slots=True, eq=False)
class SampleRequest:
    """A request for n samples after some ids."""

    token_ids: NDArray[np.int32]  # [P]
    params: SamplingParams
    n: int


@dataclass(frozen=True, slots=True)
class SampledCompletion:
    """A sampled completion."""

    token_ids: NDArray[np.int32]  # [T], the stop token included
    logprobs: NDArray[np.float32]  # [T], nats, as `broker.messages.Segment` says
    stopped: bool  # by a stop token, not by max_tokens


class SamplingStopped(Exception):
    """`should_stop` ended the sampling between two tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    """Sampling parameters of each completion."""

    temperature_B1: Tensor  # 1 where a completion is greedy
    top_p_B1: Tensor
    is_greedy_B: Tensor
    stops_BS: Tensor  # the tokens that end it
    has_nucleus: bool  # of any completion; on the host, so that nothing waits for the device

    @classmethod
    def of(cls, requests: Sequence[SampleRequest], group_B: Tensor, device: torch.device) -> _How:
        """Return the parameters of the completions of `requests`; `group_B` has the request of each."""
        every = [request.params for request in requests]
        temperature_G = torch.tensor([params.temperature or 1.0 for params in every], dtype=torch.float32)
        top_p_G = torch.tensor([params.top_p for params in every], dtype=torch.float64)
        is_greedy_G = torch.tensor([params.is_greedy for params in every])
        stops_GS = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(sorted(params.stop_token_ids), dtype=torch.int64) for params in every],
            batch_first=True,
            padding_value=-1,  # not a token id
        )
        return cls(
            temperature_B1=temperature_G[group_B, None].to(device),
            top_p_B1=top_p_G[group_B, None].to(device),
            is_greedy_B=is_greedy_G[group_B].to(device),
            stops_BS=stops_GS[group_B].to(device),
            has_nucleus=any(params.top_p < 1 and not params.is_greedy for params in every),
        )

    def select(self, kept: Tensor) -> _How:
        """Return the parameters of the selected completions."""
        return _How(
            temperature_B1=self.temperature_B1[kept],
            top_p_B1=self.top_p_B1[kept],
            is_greedy_B=self.is_greedy_B[kept],
            stops_BS=self.stops_BS[kept],
            has_nucleus=self.has_nucleus,
        )


@dataclass(slots=True)
class _Active:
    """The unfinished completions; finished ones are dropped from time to time."""

    index_B: Tensor  # index in the batch's results
    mask_BK: Tensor  # [B, P + T], True where a key is real and not left padding
    position_B: Tensor  # of the next token
    how: _How
    limit_B: Tensor  # max_tokens
    uniform_BT: Tensor  # the random numbers of all tokens, drawn in advance
    alive_B: Tensor

    def select(self, kept: Tensor) -> _Active:
        """Return the selected completions."""
        return _Active(
            self.index_B[kept],
            self.mask_BK[kept],
            self.position_B[kept],
            self.how.select(kept),
            self.limit_B[kept],
            self.uniform_BT[kept],
            self.alive_B[kept],
        )


@torch.inference_mode()
def sample_groups(
    model: PreTrainedModel, requests: Sequence[SampleRequest], should_stop: Callable[[], bool]
) -> list[list[SampledCompletion]]:
    """Sample the completions of every request.

    A completion's random numbers depend on its request's seed alone. So the same weights, request and seed give the
    same completions in any batch (up to rounding).

    Args:
        model: in eval mode, on its device.
        requests: of any lengths, temperatures, nuclei and numbers of completions.
        should_stop: called between two tokens.
    Returns:
        The completions of every request.
    Raises:
        SamplingStopped: `should_stop()` was true.
    """
    device = model.device
    active, input_GP, keys_GP = _lay_out(requests, device)
    longest, width = active.uniform_BT.shape[1], input_GP.shape[1]
    ids_BT = torch.zeros(len(active.index_B), longest, dtype=torch.int32, device=device)
    logprobs_BT = torch.zeros(len(active.index_B), longest, device=device)
    length_B = torch.zeros(len(active.index_B), dtype=torch.int64, device=device)
    stopped_B = torch.zeros(len(active.index_B), dtype=torch.bool, device=device)

    cache = DynamicCache(config=model.config)
    logits_BV = _prefill(model, requests, input_GP, keys_GP, cache)
    for t in range(longest):
        token_B, logprob_B = _draw(logits_BV, active.how, active.uniform_BT[:, t])
        ids_BT[active.index_B, t] = token_B.int()
        logprobs_BT[active.index_B, t] = logprob_B
        is_stop_B = (token_B[:, None] == active.how.stops_BS).any(-1)
        ends_B = active.alive_B & (is_stop_B | (active.limit_B == t + 1))
        length_B[active.index_B[ends_B]] = t + 1
        stopped_B[active.index_B[ends_B & is_stop_B]] = True
        active.alive_B = active.alive_B & ~ends_B
        alive = int(active.alive_B.sum())  # the step's one synchronization with the device
        if alive == 0:
            break
        if should_stop():
            raise SamplingStopped
        if 2 * alive <= len(token_B):  # copying the cache pays once half of the completions are done
            kept = active.alive_B.nonzero()[:, 0]
            active, token_B = active.select(kept), token_B[kept]
            cache.batch_select_indices(kept)
        logits_BV = model(
            input_ids=token_B[:, None],
            attention_mask=active.mask_BK[:, : width + t + 1],
            position_ids=active.position_B[:, None],
            past_key_values=cache,
            use_cache=True,
        ).logits[:, -1]
        active.position_B = active.position_B + 1
    return _by_group(requests, ids_BT, logprobs_BT, length_B, stopped_B)


def _prefill(
    model: PreTrainedModel,
    requests: Sequence[SampleRequest],
    input_GP: Tensor,
    keys_GP: Tensor,
    cache: DynamicCache,
) -> Tensor:
    """Prefill every prompt once, whatever its group's size; return each completion's first logits [B, V]."""
    sizes = torch.tensor([request.n for request in requests], device=model.device)
    group_B = torch.repeat_interleave(torch.arange(len(requests), device=model.device), sizes)
    logits_GV: Tensor = model(
        input_ids=input_GP,
        attention_mask=keys_GP,
        position_ids=_positions(keys_GP),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits[:, -1]
    cache.batch_select_indices(group_B)
    return logits_GV[group_B]


def _lay_out(requests: Sequence[SampleRequest], device: torch.device) -> tuple[_Active, Tensor, Tensor]:
    """Make a batch: completions without tokens, left-padded prompts [G, P], and True where tokens are real [G, P]."""
    width = max(len(request.token_ids) for request in requests)
    limits = [request.params.max_tokens for request in requests]
    longest = max(limits)
    input_GP = torch.zeros(len(requests), width, dtype=torch.int64)
    keys_GP = torch.zeros(len(requests), width, dtype=torch.bool)
    uniform = []
    for g, (request, limit) in enumerate(zip(requests, limits, strict=True)):
        start = width - len(request.token_ids)
        input_GP[g, start:] = torch.from_numpy(request.token_ids.astype(np.int64))
        keys_GP[g, start:] = True
        generator = torch.Generator().manual_seed(request.params.seed)
        drawn = torch.rand(request.n, limit, dtype=torch.float64, generator=generator)
        uniform.append(torch.nn.functional.pad(drawn, (0, longest - limit)))
    group_B = torch.repeat_interleave(
        torch.arange(len(requests)), torch.tensor([request.n for request in requests])
    )
    prompt_tokens_G = torch.tensor([len(request.token_ids) for request in requests])
    limit_G = torch.tensor(limits)
    size = len(group_B)
    active = _Active(
        index_B=torch.arange(size, device=device),
        mask_BK=torch.nn.functional.pad(keys_GP, (0, longest), value=True)[group_B].to(device),
        position_B=prompt_tokens_G[group_B].to(device),
        how=_How.of(requests, group_B, device),
        limit_B=limit_G[group_B].to(device),
        uniform_BT=torch.cat(uniform).to(device),
        alive_B=torch.ones(size, dtype=torch.bool, device=device),
    )
    return active, input_GP.to(device), keys_GP.to(device)


def _positions(keys_GP: Tensor) -> Tensor:
    """Count positions by real tokens only; padding has position 0 and is masked."""
    return (keys_GP.long().cumsum(-1) - 1).clamp(min=0)


def _draw(logits_BV: Tensor, how: _How, uniform_B: Tensor) -> tuple[Tensor, Tensor]:
    """Sample a token for each completion by inverting the cumulative distribution; log-probabilities are float32.

    The sum is in float64: in float32 its rounding, over a vocabulary of 150,000, exceeds rare tokens.
    """
    logprobs_BV = torch.log_softmax(logits_BV.float() / how.temperature_B1, dim=-1)
    if how.has_nucleus:
        logprobs_BV = torch.where(
            (how.top_p_B1 < 1) & ~how.is_greedy_B[:, None], nucleus(logprobs_BV, how.top_p_B1), logprobs_BV
        )
    cumulative_BV = logprobs_BV.double().exp().cumsum(-1)
    threshold_B1 = uniform_B[:, None] * cumulative_BV[:, -1:]
    drawn_B1 = torch.searchsorted(cumulative_BV, threshold_B1, right=True).clamp(max=logits_BV.shape[-1] - 1)
    token_B1 = torch.where(how.is_greedy_B[:, None], logprobs_BV.argmax(-1, keepdim=True), drawn_B1)
    return token_B1[:, 0], logprobs_BV.gather(-1, token_B1)[:, 0]


def nucleus(logprobs_BV: Tensor, top_p_B1: Tensor) -> Tensor:
    """Return log-probabilities within the smallest set of likeliest tokens with at least `top_p`; others -inf.

    Holtzman et al., The Curious Case of Neural Text Degeneration, ICLR 2020, section 3.1. Of equally likely tokens the
    one with the smaller id comes first.

    Args:
        logprobs_BV: [B, V], nats, each row a distribution.
        top_p_B1: [B, 1], in (0, 1].
    """
    sorted_BV, token_BV = logprobs_BV.sort(dim=-1, descending=True, stable=True)
    probability_BV = sorted_BV.double().exp()
    likelier_BV = probability_BV.cumsum(-1) - probability_BV  # total of the tokens before
    is_out_BV = torch.zeros_like(likelier_BV, dtype=torch.bool).scatter(-1, token_BV, likelier_BV >= top_p_B1)
    return logprobs_BV.masked_fill(is_out_BV, -torch.inf).log_softmax(-1)


def _by_group(
    requests: Sequence[SampleRequest],
    ids_BT: Tensor,
    logprobs_BT: Tensor,
    length_B: Tensor,
    stopped_B: Tensor,
) -> list[list[SampledCompletion]]:
    """Cut the batch's arrays to each completion's length, and return them by request."""
    ids, logprobs = ids_BT.cpu().numpy(), logprobs_BT.cpu().numpy()
    lengths, stopped = length_B.tolist(), stopped_B.tolist()
    groups, first = [], 0
    for request in requests:
        groups.append(
            [
                SampledCompletion(ids[b, : lengths[b]].copy(), logprobs[b, : lengths[b]].copy(), stopped[b])
                for b in range(first, first + request.n)
            ]
        )
        first += request.n
    return groups
