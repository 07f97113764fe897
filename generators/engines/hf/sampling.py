"""Sample several groups in a batch with a transformers model: one prefill, then one forward pass per token.

In: a model and requests. Out: ids and log-probabilities of each completion. Called by generators.engines.hf.engine in
its worker thread; knows nothing of versions, text or the event loop. Keeps no state between batches.
"""

# G: groups of a batch. B: active completions. P: tokens of the longest prompt. T: tokens of the longest completion. V:
# vocabulary.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

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
    # Of any completion; on the host, so that nothing waits for the device.
    has_nucleus: bool
    has_greedy: bool
    has_temperature: bool  # other than 1

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
            has_greedy=any(params.is_greedy for params in every),
            has_temperature=bool((temperature_G != 1).any()),
        )

    def select(self, kept: Tensor) -> _How:
        """Return the parameters of the selected completions."""
        return replace(
            self,
            temperature_B1=self.temperature_B1[kept],
            top_p_B1=self.top_p_B1[kept],
            is_greedy_B=self.is_greedy_B[kept],
            stops_BS=self.stops_BS[kept],
        )


@dataclass(slots=True)
class _Active:
    """The unfinished completions; finished ones are dropped from time to time."""

    index_B: Tensor  # index in the batch's results
    mask_BK: Tensor | None  # [B, P + T], True where a key is real and not left padding; None: all are
    may_lack_mask: bool  # whether mask_BK may be None: the model is one of transformers' own
    position_B: Tensor  # of the next token
    how: _How
    limit_B: Tensor  # max_tokens
    uniform_BT: Tensor  # the random numbers of all tokens, drawn in advance
    alive_B: Tensor

    def select(self, kept: Tensor) -> _Active:
        """Return the selected completions."""
        mask_BK = None if self.mask_BK is None else self.mask_BK[kept]
        return _Active(
            self.index_B[kept],
            None if mask_BK is None or (self.may_lack_mask and bool(mask_BK.all())) else mask_BK,
            self.may_lack_mask,
            self.position_B[kept],
            self.how.select(kept),
            self.limit_B[kept],
            self.uniform_BT[kept],
            self.alive_B[kept],
        )


@dataclass(slots=True)
class _Sampled:
    """What was sampled: tokens of all completions, and those since rows were last dropped."""

    ids_BT: Tensor
    logprobs_BT: Tensor
    stops_BS: Tensor
    limit_B: Tensor
    tokens: list[
        tuple[Tensor, Tensor]
    ]  # of the active completions, with their log-probabilities; not stored yet
    stored: int = 0  # tokens of a completion

    @classmethod
    def of(cls, active: _Active) -> _Sampled:
        """Make room for the tokens of all completions."""
        size, longest = active.uniform_BT.shape
        device = active.uniform_BT.device
        return cls(
            ids_BT=torch.zeros(size, longest, dtype=torch.int64, device=device),
            logprobs_BT=torch.zeros(size, longest, device=device),
            stops_BS=active.how.stops_BS,
            limit_B=active.limit_B,
            tokens=[],
        )

    def add(self, token_B: Tensor, logprob_B: Tensor) -> None:
        """Add a token of each active completion. What comes behind a completion's end does not count."""
        self.tokens.append((token_B, logprob_B))

    def store(self, index_B: Tensor) -> None:
        """Store the added tokens in the rows `index_B`, before other rows are active."""
        if not self.tokens:
            return
        token_TB, logprob_TB = (torch.stack(part) for part in zip(*self.tokens, strict=True))
        end = self.stored + len(self.tokens)
        self.ids_BT[index_B, self.stored : end] = token_TB.T
        self.logprobs_BT[index_B, self.stored : end] = logprob_TB.T
        self.stored, self.tokens = end, []

    def by_group(self, requests: Sequence[SampleRequest]) -> list[list[SampledCompletion]]:
        """Cut each completion behind its first stop token, or at its limit, and return them by request."""
        is_stop_BT = (self.ids_BT[:, :, None] == self.stops_BS[:, None, :]).any(-1)
        upto_stop_B = is_stop_BT.int().argmax(-1) + 1
        stopped_B = is_stop_BT.any(-1) & (upto_stop_B <= self.limit_B)
        lengths = torch.where(stopped_B, upto_stop_B, self.limit_B).tolist()
        stopped = stopped_B.tolist()
        ids, logprobs = self.ids_BT.int().cpu().numpy(), self.logprobs_BT.cpu().numpy()
        rows = iter(range(len(ids)))
        return [
            [
                SampledCompletion(ids[b, : lengths[b]].copy(), logprobs[b, : lengths[b]].copy(), stopped[b])
                for b in islice(rows, request.n)
            ]
            for request in requests
        ]


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
    active, input_GP, keys_GP = _lay_out(requests, model)
    longest, width = active.uniform_BT.shape[1], input_GP.shape[1]
    shortest = min(request.params.max_tokens for request in requests)
    sampled = _Sampled.of(active)
    cache = DynamicCache(config=model.config)
    logits_BV = _prefill(model, requests, input_GP, keys_GP, cache)
    for t in range(longest):
        token_B, logprob_B = _draw(logits_BV, active.how, active.uniform_BT[:, t])
        sampled.add(token_B, logprob_B)
        active.alive_B = active.alive_B & (token_B[:, None] != active.how.stops_BS).all(-1)
        if t + 1 >= shortest:
            active.alive_B = active.alive_B & (active.limit_B > t + 1)
        alive = int(active.alive_B.sum())  # the step's one synchronization with the device
        if alive == 0:
            break
        if should_stop():
            raise SamplingStopped
        if 2 * alive <= len(token_B):  # copying the cache pays once half of the completions are done
            kept = active.alive_B.nonzero()[:, 0]
            sampled.store(active.index_B)
            active, token_B = active.select(kept), token_B[kept]
            cache.batch_select_indices(kept)
        logits_BV = model(
            input_ids=token_B[:, None],
            attention_mask=None if active.mask_BK is None else active.mask_BK[:, : width + t + 1],
            position_ids=active.position_B[:, None],
            past_key_values=cache,
            use_cache=True,
        ).logits[:, -1]
        active.position_B = active.position_B + 1
    sampled.store(active.index_B)
    return sampled.by_group(requests)


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


def _lay_out(requests: Sequence[SampleRequest], model: PreTrainedModel) -> tuple[_Active, Tensor, Tensor]:
    """Make a batch: completions without tokens, left-padded prompts [G, P], and True where tokens are real [G, P]."""
    device = model.device
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
    mask_BK = torch.nn.functional.pad(keys_GP, (0, longest), value=True)[group_B]
    # A model's own code may read the mask.
    may_lack_mask = type(model).__module__.startswith("transformers.")
    active = _Active(
        index_B=torch.arange(size, device=device),
        mask_BK=None if may_lack_mask and bool(keys_GP.all()) else mask_BK.to(device),
        may_lack_mask=may_lack_mask,
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
    logits_BV = logits_BV.float()
    if how.has_temperature:
        logits_BV = logits_BV / how.temperature_B1
    logprobs_BV = torch.log_softmax(logits_BV, dim=-1)
    if how.has_nucleus:
        logprobs_BV = torch.where(
            (how.top_p_B1 < 1) & ~how.is_greedy_B[:, None], nucleus(logprobs_BV, how.top_p_B1), logprobs_BV
        )
    cumulative_BV = logprobs_BV.double().exp_().cumsum_(-1)
    threshold_B1 = uniform_B[:, None] * cumulative_BV[:, -1:]
    token_B1 = torch.searchsorted(cumulative_BV, threshold_B1, right=True).clamp_(max=logits_BV.shape[-1] - 1)
    if how.has_greedy:
        token_B1 = torch.where(how.is_greedy_B[:, None], logprobs_BV.argmax(-1, keepdim=True), token_B1)
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
