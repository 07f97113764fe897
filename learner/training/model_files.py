"""The policy's model from and to Hugging Face files.

In: `run.model`, a name or a folder. Out: a transformers model to train, a safetensors file for the generators, and a
folder that transformers and vLLM load. Used by `learner.training.deepspeed` alone: every rank reads, rank 0 writes. A
file is on the disk when a function here returns; renaming it into place is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from config.run import ModelConfig
from learner.journal.disk import sync

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_model(
    model: ModelConfig, *, attention: Literal["flash_attention_2", "sdpa"], gradient_checkpointing: bool
) -> PreTrainedModel:
    """Load a causal LM, ready to train, in the type of `model.dtype`.

    Dropout is set to 0, since the sampler has none: the ratio of the two would measure the dropout's noise.

    Raises:
        OSError: no such model; the message is transformers'.
    """
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    arguments = _hub_arguments(model)
    config = AutoConfig.from_pretrained(model.path, **arguments)
    for name in [name for name in vars(config) if name.endswith(("dropout", "_pdrop"))]:
        setattr(config, name, 0.0)
    loaded: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        model.path,
        config=config,
        dtype=getattr(torch, model.dtype),
        attn_implementation=attention,
        **arguments,
    )
    if gradient_checkpointing:
        loaded.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    loaded.train()  # activations are checkpointed in training mode alone
    return loaded


def write_weights(model: PreTrainedModel, weights: Mapping[str, Tensor], file: Path) -> None:
    """Write weights under their Hugging Face names to one safetensors file, fsynced.

    Args:
        model: whose weights these are; it knows how its names on disk differ from those in memory (fused experts).
        weights: by parameter name, on the CPU, each once, ties by their first name.
        file: written in place; the caller renames it.
    """
    from safetensors.torch import save_file
    from transformers.core_model_loading import revert_weight_conversion

    on_disk = revert_weight_conversion(model, dict(weights))
    save_file(
        {name: weight.contiguous() for name, weight in on_disk.items()}, file, metadata={"format": "pt"}
    )
    sync(file)


def write_model_folder(
    model: PreTrainedModel, weights: Mapping[str, Tensor], folder: Path, *, source: ModelConfig
) -> None:
    """Write a folder that transformers and vLLM load: config, generation config, tokenizer and weights, fsynced.

    Args:
        model: whose weights these are.
        weights: as in `write_weights`.
        folder: made if it is not there.
        source: where config and tokenizer come from; the tokenizer by the class that the generators use too.
    """
    from transformers import AutoConfig, AutoTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    config = AutoConfig.from_pretrained(
        source.path, **_hub_arguments(source)
    )  # the model's own: with its dropout
    config.dtype = getattr(torch, source.dtype)
    config.save_pretrained(folder)
    if model.generation_config is not None:
        model.generation_config.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.path, **_hub_arguments(source)).save_pretrained(folder)
    write_weights(model, weights, folder / "model.safetensors")
    for file in (*folder.iterdir(), folder):
        sync(file)


def elements(parameter: Tensor) -> int:
    """Its size, whole: ZeRO-3 leaves an empty tensor where a part of it lies elsewhere."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def in_parts(parameters: Mapping[str, Tensor], limit: int) -> Iterator[dict[str, Tensor]]:
    """The parameters in order, in parts of at most `limit` elements; a larger one is a part of its own."""
    part: dict[str, Tensor] = {}
    size = 0
    for name, parameter in parameters.items():
        if part and size + elements(parameter) > limit:
            yield part
            part, size = {}, 0
        part[name] = parameter
        size += elements(parameter)
    if part:
        yield part


def _hub_arguments(model: ModelConfig) -> dict[str, Any]:
    """What every `from_pretrained` of this model is given."""
    return {
        "revision": model.revision or "main",
        "trust_remote_code": model.trust_remote_code,
        "token": None if model.hf_token is None else model.hf_token.get_secret_value(),
    }
