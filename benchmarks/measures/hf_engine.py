"""Tokens sampled a second by the demo's engine, beside transformers' own `generate`.

The same prompts, weights, group size, temperature and length, one thread each; different random numbers, so rates are
compared and not times. Ours reads a prompt once a group, drops rows that are done, and returns text and
log-probabilities; `generate` is measured without log-probabilities, and with them, which training needs.
"""

# B rows (one a completion), P tokens of the longest prompt, T tokens sampled.

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from benchmarks.comparison import Comparison, TimedWork, take_turns, timed
from benchmarks.rigs.groups import demo_engine, demo_prompts, demo_run
from broker.messages import Completion, Prompt
from tasks.model_chat import load_chat

PEERS = {"peer: generate, ids alone": False, "peer: generate with log-probabilities": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    groups: int = 16  # sampled side by side
    rounds: int = 5


FULL, SMOKE = Size(), Size(groups=2, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make one comparison for each way of asking `generate`."""
    with tempfile.TemporaryDirectory() as folder:
        run = demo_run(
            Path(folder), data={"train": {"type": "procedural", "split": "train", "size": size.groups}}
        )
        prompts = demo_prompts(run, size.groups)
        stops = sorted(load_chat(run.model).stop_token_ids)
        torch.set_num_threads(1)
        disable_progress_bar()
        model: Any = AutoModelForCausalLM.from_pretrained(run.model.path, dtype=torch.float32)
        model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        with demo_engine(run) as sample:

            def ours(number: int) -> TimedWork:
                batch = [replace(prompt, seed=prompt.seed + number) for prompt in prompts]
                return timed(lambda: _count(sample(batch)))

            rows = []
            for beside, with_logprobs in PEERS.items():

                def other(number: int, with_logprobs: bool = with_logprobs) -> TimedWork:
                    torch.manual_seed(number)
                    return timed(lambda: _generate(model, prompts, stops, with_logprobs=with_logprobs))

                mine, others = take_turns(ours, other, rounds=size.rounds)
                rows.append(
                    Comparison(
                        what=f"sample {size.groups} groups of {prompts[0].n}",
                        unit="tokens/s",
                        ours=[turn.rate for turn in mine],
                        beside=beside,
                        other=[turn.rate for turn in others],
                    )
                )
    return rows


def _count(groups: Sequence[Sequence[Completion]]) -> int:
    return sum(completion.num_sampled for group in groups for completion in group)


@torch.inference_mode()
def _generate(model: Any, prompts: Sequence[Prompt], stops: list[int], *, with_logprobs: bool) -> int:
    """Sample every prompt's group with transformers; returns the number of tokens, stop tokens included."""
    width = max(len(prompt.token_ids) for prompt in prompts)
    input_ids = torch.full((len(prompts), width), stops[0])
    keys = torch.zeros(len(prompts), width, dtype=torch.int64)
    for index, prompt in enumerate(prompts):
        start = width - len(prompt.token_ids)
        input_ids[index, start:] = torch.from_numpy(prompt.token_ids).long()
        keys[index, start:] = 1
    result = model.generate(
        input_ids=input_ids.to(model.device),
        attention_mask=keys.to(model.device),
        do_sample=True,
        temperature=prompts[0].temperature,
        top_k=0,
        top_p=1.0,
        num_return_sequences=prompts[0].n,
        max_new_tokens=prompts[0].max_tokens,
        eos_token_id=stops,
        pad_token_id=stops[0],
        return_dict_in_generate=True,
        output_logits=with_logprobs,
    )
    sampled_BT = result.sequences[:, width:]
    if with_logprobs:
        logits = torch.stack(result.logits, dim=1) / prompts[0].temperature  # [B, T, vocabulary]
        logits.log_softmax(-1).gather(-1, sampled_BT[..., None])
    return int(_lengths(sampled_BT, stops).sum())


def _lengths(sampled_BT: Tensor, stops: list[int]) -> Tensor:
    """Count the tokens of each row up to its first stop token, which counts."""
    is_stop_BT = torch.isin(sampled_BT, torch.tensor(stops, device=sampled_BT.device))
    return torch.where(is_stop_BT.any(-1), is_stop_BT.int().argmax(-1) + 1, sampled_BT.shape[1])
