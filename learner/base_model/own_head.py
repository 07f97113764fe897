"""Detect a checkpoint with its own output head although its config ties the head to the embedding.

In: `run.model`; the names in its safetensors, and two of its tensors where both exist. Out: whether the head in the
files is trained and sampled from. transformers 5 keeps such a head, and vLLM replaces it by the embedding: two
different models from one folder. The learner checks before it loads, on every rank alike, since the shards of a split
model can't be compared; generators get the answer as `model.tie_word_embeddings`; a written model's config has it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from broker.errors import RunFailed
from broker.weight_files import FILE, INDEX
from config.run import ModelConfig, Run
from learner.base_model.hub import file_of, hub_arguments

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 8192  # rows of two tensors compared at once


def tied_names(source: ModelConfig) -> dict[str, str]:
    """Return the weights that the model's config ties, each with the weight it is tied to; {} for none.

    Raises:
        OSError, ValueError: there is no such model, or its config can't be used.
    """
    # A model that needs its own code has no class here unless that code may run.
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(source.path, **hub_arguments(source))
    if not _ties(config):
        return {}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=source.trust_remote_code)
    return dict(model.all_tied_weights_keys)


def has_own_head(source: ModelConfig) -> bool:
    """Return whether the checkpoint has a weight that its config ties to another one with other values.

    Raises:
        RunFailed: `model.tie_word_embeddings=false`, and there is no such weight: it would be random.
        OSError, ValueError: as `tied_names`.
    """
    tied = tied_names(source)
    found = [target for target, twin in tied.items() if _differ(source, target, twin)]
    if tied and not found and source.tie_word_embeddings is False:
        raise RunFailed(
            f"model.tie_word_embeddings=false, and {source.path} has no {', '.join(tied)} of its own beside the "
            "embedding: leave the key out"
        )
    return bool(found)


def settled(run: Run) -> Run:
    """Return the run as generators need it, with the checkpoint's answer about its head, and log it.

    An unusable config changes nothing here: the loader reports it.
    """
    try:
        if not has_own_head(run.model):
            return run
    except (OSError, ValueError) as error:
        log.debug("head_not_looked_at error=%s", error)
        return run
    log.warning(
        "own_head model=%s: its config ties the output head to the embedding, and its files have a head with other "
        "values. That head is trained and sampled from, and exported models say tie_word_embeddings: false. To train "
        "the tied model, take lm_head.weight out of the files",
        run.model.path,
    )
    return run.model_copy(update={"model": run.model.model_copy(update={"tie_word_embeddings": False})})


def _ties(config: Any) -> bool:
    return bool(getattr(config, "tie_word_embeddings", False)) or bool(
        getattr(config.get_text_config(), "tie_word_embeddings", False)
    )


def _differ(source: ModelConfig, name: str, twin: str) -> bool:
    """Return whether the files have both tensors, with different values."""
    places = _places(source, (name, twin))
    if len(places) < 2:
        return False
    from safetensors import safe_open

    with safe_open(str(places[name]), "pt") as one, safe_open(str(places[twin]), "pt") as other:
        ours, theirs = one.get_slice(name), other.get_slice(twin)
        if ours.get_shape() != theirs.get_shape():
            return True
        return any(
            not torch.equal(
                ours[start : start + ROWS_AT_ONCE].float(), theirs[start : start + ROWS_AT_ONCE].float()
            )
            for start in range(0, ours.get_shape()[0], ROWS_AT_ONCE)
        )


def _places(source: ModelConfig, names: tuple[str, ...]) -> Mapping[str, Path]:
    """Return the file of each of `names` in the checkpoint; downloads only those from a hub."""
    from safetensors import safe_open

    file, index = (file_of(source, name, is_cached=True) for name in (FILE, INDEX))
    if file is None and index is None:
        file, index = file_of(source, FILE), file_of(source, INDEX)
    if file is None:
        if index is None:
            return {}  # no safetensors: the loader reports it
        of_name = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = {name: file_of(source, of_name[name]) for name in names if name in of_name}
        return {name: found for name, found in files.items() if found is not None}
    with safe_open(str(file), "pt") as stored:
        there = set(stored.keys())
    return {name: file for name in names if name in there}
