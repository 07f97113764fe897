"""Read the policy's model from Hugging Face files, and write such files.

In: `run.model`, a name or a folder. Out: a transformers model to train, safetensors for the generators, and a folder
that transformers and vLLM load. Used by the backend: every rank reads, rank 0 writes. A file is on disk when a function
here returns; the caller renames it into place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from broker.checksums import Digest, weights_digest
from broker.errors import RunFailed
from broker.weight_files import INDEX
from config.run import ModelConfig
from learner.base_model.base_files import check_generation, report, write_base_files
from learner.base_model.hub import hub_arguments
from learner.journal.disk import sync, write_all
from learner.weight_sync.transport import SavedWeights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Bytes hashed and written at a time. Blocks of 4 MiB cost the page cache up to six times as much (Linux 6.18).
BLOCK_BYTES = 1 << 20
# The types of safetensors with their names, in the format's order: a file stores the last of them first.
_TYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.int16: "I16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
}
_RANKS = {dtype: rank for rank, dtype in enumerate(_TYPES)}


def load_model(
    model: ModelConfig, *, attention: str, gradient_checkpointing: bool, own_head: bool = False
) -> PreTrainedModel:
    """Load a causal LM for training, in the type of `model.dtype`.

    Dropout is set to 0, since the sampler has none; otherwise the importance ratio would include dropout noise.

    Args:
        model: where it is.
        attention: one of transformers' implementations.
        gradient_checkpointing: recompute activations in the backward pass.
        own_head: the result of `has_own_head`, asked before transformers splits models among ranks. Such a head is kept
            as in the files; otherwise transformers would compare it with the embedding, of which a rank may have a
            part.
    Raises:
        OSError: there is no such model, or its weights are no safetensors; with the message of transformers.
        RunFailed: as `check_generation`, or a weight is in none of the files.
    """
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    arguments = hub_arguments(model)
    check_generation(model)
    config = AutoConfig.from_pretrained(model.path, **arguments)
    if own_head:
        config.tie_word_embeddings = False
    for name in [name for name in vars(config) if name.endswith(("dropout", "_pdrop"))]:
        setattr(config, name, 0.0)
    loaded: PreTrainedModel
    found: dict[str, Any]
    loaded, found = AutoModelForCausalLM.from_pretrained(  # type: ignore[misc]  # with loading info it is a pair
        model.path,
        config=config,
        dtype=getattr(torch, model.dtype),
        attn_implementation=attention,
        use_safetensors=True,  # any other file of weights is a pickle, which may run code
        output_loading_info=True,
        **arguments,
    )
    if missing := sorted(found["missing_keys"]):
        raise RunFailed(
            f"model.path={model.path}: its files have no {missing[0]} ({len(missing)} of its weights are missing): "
            "they would be random numbers. Is the config of this model, and are all files there?"
        )
    if gradient_checkpointing:
        loaded.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    loaded.train()  # activation checkpointing works in training mode alone
    return loaded


def names_on_disk(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights by their Hugging Face names.

    Args:
        model: the owner of these weights; it maps names in memory to names on disk (fused experts).
        weights: by parameter name, on the CPU, each once, a tied weight by its first name.
    """
    from transformers.core_model_loading import revert_weight_conversion

    return dict(revert_weight_conversion(model, dict(weights)))


def write_weights(tensors: Mapping[str, Tensor], folder: Path, *, shard_bytes: int) -> SavedWeights:
    """Write weights into a folder, fsynced, and hash them meanwhile: one file, or several and their index.

    Args:
        tensors: by Hugging Face name, on the CPU, each once.
        folder: exists, without weights.
        shard_bytes: most bytes of one file; a larger tensor gets its own file.
    """
    from huggingface_hub import split_state_dict_into_shards_factory

    # Not huggingface_hub's split for torch: it keeps tensors of one storage together, and DeepSpeed has all in one flat
    # buffer.
    plan = split_state_dict_into_shards_factory(
        dict(tensors),
        get_storage_size=lambda tensor: tensor.numel() * tensor.element_size(),
        filename_pattern="model{suffix}.safetensors",
        max_shard_size=shard_bytes,
    )
    digest = weights_digest()
    size_bytes = 0
    for name, names in sorted(plan.filename_to_tensors.items()):
        size_bytes += write_safetensors({tensor: tensors[tensor] for tensor in names}, folder / name, digest)
    if plan.is_sharded:
        index = {"metadata": plan.metadata, "weight_map": plan.tensor_to_filename}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        sync(folder / INDEX)
    return SavedWeights(checksum=digest.hexdigest(), size_bytes=size_bytes)


def write_safetensors(tensors: Mapping[str, Tensor], file: Path, digest: Digest | None = None) -> int:
    """Write tensors as `safetensors.torch.save_file` does, byte for byte, and hash the bytes meanwhile.

    A file by `save_file` would have to be read again for its checksum.

    Args:
        tensors: by name, on the CPU; contiguous or not.
        file: written in place, fsynced.
        digest: receives the file's bytes.
    Returns:
        The file's size in bytes.
    Raises:
        KeyError: a tensor has a type that the format lacks.
    """
    ordered = sorted(tensors.items(), key=lambda item: (-_RANKS[item[1].dtype], item[0]))
    digest = digest or weights_digest()
    with file.open("wb", buffering=0) as stream:
        for block in _blocks(ordered):
            digest.update(block)  # the write then finds the block in the processor's cache
            write_all(stream, block)
        os.fsync(stream.fileno())
        return stream.tell()


def _blocks(ordered: list[tuple[str, Tensor]]) -> Iterator[memoryview]:
    """Yield the bytes of a safetensors file: the header's length, the header, each tensor's bytes in order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in ordered:
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield memoryview(len(text).to_bytes(8, "little") + text)
    for _, tensor in ordered:
        data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data
        for start in range(0, len(data), BLOCK_BYTES):
            yield data[start : start + BLOCK_BYTES]


def write_model(
    tensors: Mapping[str, Tensor], folder: Path, *, source: ModelConfig, shard_bytes: int
) -> None:
    """Write a folder that transformers and vLLM load: the weights, then the base model's other files.

    Missing or altered files of the base model cost a log line and no weight.

    Args:
        tensors: as in `write_weights`.
        folder: made if missing.
        source: the base model, with its chat template or a replacement.
        shard_bytes: as in `write_weights`.
    Raises:
        OSError: the folder can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(tensors, folder, shard_bytes=shard_bytes)
    report(write_base_files(folder, source, dtype=getattr(torch, source.dtype), weights=tensors), source)
    for file in (*folder.rglob("*"), folder):
        sync(file)


def elements(parameter: Tensor) -> int:
    """Count a parameter's elements on all ranks: ZeRO-3 leaves empty tensors where they are elsewhere."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def in_parts(parameters: Mapping[str, Tensor], limit: int) -> Iterator[dict[str, Tensor]]:
    """Yield the parameters in order, in parts of at most `limit` elements; a larger parameter is a part by itself."""
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
