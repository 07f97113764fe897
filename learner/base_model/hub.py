"""How a base model is asked for: the arguments of every `from_pretrained`, and its files one by one.

In: `run.model`, a folder or a name on the hub. Out: arguments, and places on this machine's disk. What the hub's cache
has is taken from there without asking the hub, which may be away hours after a run began.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from config.run import ModelConfig

CONFIG: Final = "config.json"


def hub_arguments(model: ModelConfig) -> dict[str, Any]:
    """Return the arguments of every `from_pretrained` of this model."""
    return file_arguments(model) | {"trust_remote_code": model.trust_remote_code}


def file_arguments(model: ModelConfig) -> dict[str, Any]:
    """Return those of them that a file takes which can hold no code."""
    return {
        "revision": model.revision or "main",
        "token": None if model.hf_token is None else model.hf_token.get_secret_value(),
    }


def file_of(model: ModelConfig, name: str, *, is_cached: bool = False) -> Path | None:
    """Return a file of the model, fetched where a hub has it; None where there is none, or no way to it.

    Args:
        model: a folder, or a name on the hub.
        name: of the file.
        is_cached: take what the hub's cache has, and ask nobody.
    """
    if Path(model.path).is_dir():
        file = Path(model.path) / name
        return file if file.is_file() else None
    from transformers.utils.hub import cached_file

    for local in (True,) if is_cached else (True, False):
        found = cached_file(
            model.path,
            name,
            **file_arguments(model),
            local_files_only=local,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        if found is not None:
            return Path(found)
    return None


def at_hand(model: ModelConfig, names: Sequence[str], *, fetch: bool = False) -> ModelConfig:
    """Return the model as a folder of this machine: for a hub's, the one in which its cache has its small files.

    Args:
        model: a folder, or a name on the hub.
        names: files that are fetched where the cache knows nothing of the model yet.
        fetch: ask the hub for them in any case.
    Raises:
        FileNotFoundError: there is no such model, or no way to it.
    """
    if Path(model.path).is_dir():
        return model
    if fetch or file_of(model, CONFIG, is_cached=True) is None:
        for name in names:
            file_of(model, name)
    found = file_of(model, CONFIG)
    if found is None:
        raise FileNotFoundError(
            f"{CONFIG} of {model.path}: neither in a folder, nor in the cache, nor from the hub"
        )
    return model.model_copy(update={"path": str(found.parent), "revision": None})
