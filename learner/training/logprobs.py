"""Log-probabilities of packed tokens, without ever holding tokens x vocabulary at once.

In: one packed row of a batch. Out: each trained token's log-probability under the policy at the sampling temperature,
with its gradient, and its entropy. Runs in every rank, inside DeepSpeed's engine. A model whose logits are more than a
linear map of its last hidden state is refused by name: its numbers would be silently wrong.
"""

# T tokens of a row, K of them trained, D hidden size, V vocabulary.

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from broker.errors import RunFailed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LOGITS_AT_ONCE = 2**26  # entries of one fp32 chunk of logits: 256 MiB, 442 tokens of a vocabulary of 151,936
# Attributes of transformers configs that change the logits after the head, with the value that changes nothing.
_NEUTRAL = {"final_logit_softcapping": None, "logits_scaling": 1.0, "logit_scale": 1.0}


def attention_implementation(
    choice: Literal["auto", "flash", "sdpa"], *, device: torch.device, dtype: torch.dtype
) -> Literal["flash_attention_2", "sdpa"]:
    """The name of transformers' attention for `learner.attention`.

    Both keep the sequences of a packed row apart by their restarting position ids: flash-attn's varlen kernels
    without a mask, SDPA with a block-diagonal one that transformers makes (and whose size is the row's length squared).

    Raises:
        RunFailed: flash was asked for and can't run here.
    """
    obstacles = []
    if device.type != "cuda":
        obstacles.append(f"the device is {device.type}")
    if dtype is torch.float32:
        obstacles.append("model.dtype is float32")
    if importlib.util.find_spec("flash_attn") is None:
        obstacles.append("flash-attn is not installed")
    if choice == "sdpa" or (choice == "auto" and obstacles):
        return "sdpa"
    if obstacles:
        raise RunFailed(
            f"learner.attention=flash can't run: {', '.join(obstacles)}; "
            "set learner.attention=auto to take SDPA there"
        )
    return "flash_attention_2"


class TokenLogprobs(nn.Module):
    """The output embedding as a module from hidden states to log-probabilities. Takes the place of `lm_head`.

    A module of its own so that ZeRO-3 gathers the weight once for all chunks of a row, before and behind. It holds the
    very parameters of the head that it replaces: names in checkpoints, and ties to the input embedding, stay.
    """

    def __init__(self, head: nn.Linear, *, temperature: float, logits_at_once: int = LOGITS_AT_ONCE) -> None:
        super().__init__()
        self.weight = head.weight  # [V, D]
        self.bias = head.bias  # [V] or None
        self.temperature = temperature
        self.tokens_at_once = max(1, logits_at_once // head.out_features)

    def forward(self, hidden_KD: Tensor, targets_K: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of each target, nats, float32, and the detached entropy of each distribution, nats."""
        weight_VD = self.weight.float()  # once a row: the chunks' gradients add up in float32
        bias_V = None if self.bias is None else self.bias.float()
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
        """The same for a few tokens. Its logits are made again in the backward pass instead of being kept."""
        logits_CV = functional.linear(hidden_CD.float(), weight_VD, bias_V) / self.temperature
        normalizer_C = logits_CV.logsumexp(-1)
        logprobs_C = logits_CV.gather(-1, targets_C[:, None]).squeeze(-1) - normalizer_C
        with torch.no_grad():
            entropy_C = normalizer_C - ((logits_CV - normalizer_C[:, None]).exp() * logits_CV).sum(-1)
        return logprobs_C, entropy_C


class LogprobModel(nn.Module):
    """A causal language model whose forward pass gives log-probabilities of packed tokens. What DeepSpeed wraps."""

    def __init__(
        self, model: PreTrainedModel, *, temperature: float, logits_at_once: int = LOGITS_AT_ONCE
    ) -> None:
        """Wrap a model and replace its head.

        Args:
            model: a causal LM of transformers, loaded with `attn_implementation` from above.
            temperature: the one that the tokens were sampled at.
            logits_at_once: entries of a chunk of logits.
        Raises:
            RunFailed: its logits are not a linear map of the hidden state.
        """
        super().__init__()
        head = model.get_output_embeddings()
        changed = [
            name
            for name, neutral in _NEUTRAL.items()
            if getattr(model.config, name, None) not in (None, neutral)
        ]
        if changed or not isinstance(head, nn.Linear):
            why = f"sets {', '.join(changed)}" if changed else f"has the head {type(head).__name__}"
            raise RunFailed(
                f"{type(model).__name__} {why}: its logits are not a plain linear map of the last hidden "
                "state, and the learner would compute other log-probabilities than the sampler"
            )
        model.set_output_embeddings(
            TokenLogprobs(head, temperature=temperature, logits_at_once=logits_at_once)
        )
        self.model = model

    def forward(self, token_ids_T: Tensor, position_ids_T: Tensor, mask_T: Tensor) -> tuple[Tensor, Tensor]:
        """One packed row.

        Args:
            token_ids_T: the row's tokens.
            position_ids_T: their places in their sequences; each restart begins a new sequence.
            mask_T: where a log-probability is wanted; never at the first token of a sequence.
        Returns:
            Log-probabilities with their gradient, and entropies without, nats, float32; 0 where the mask is False.
        """
        # No mask and no cache: in every other combination transformers does not look for restarts in position_ids,
        # and the sequences of a row attend to each other without a word.
        hidden_TD = self.model.base_model(
            input_ids=token_ids_T[None],
            position_ids=position_ids_T[None],
            attention_mask=None,
            use_cache=False,
        ).last_hidden_state[0]
        places_K = mask_T.nonzero().squeeze(-1)
        # None of them trains: the head still runs, over no token, so that all ranks take part in its collectives.
        logprobs_K, entropy_K = self.model.get_output_embeddings()(
            hidden_TD[places_K - 1], token_ids_T[places_K]
        )
        blank_T = torch.zeros(len(token_ids_T), dtype=torch.float32, device=token_ids_T.device)
        return blank_T.index_put((places_K,), logprobs_K), blank_T.index_put((places_K,), entropy_K)
