"""Arguments of every `from_pretrained` of a base model, and access to its single files.

In: `run.model`, a folder or a name on the hub. Out: arguments, and paths on this machine. Files in the hub's cache are
used without contacting the hub, which may be unreachable hours after a run began.
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
    """Return those of them that apply to files that can't contain code."""
    return {
        "revision": model.revision or "main",
        "token": None if model.hf_token is None else model.hf_token.get_secret_value(),
    }


def file_of(model: ModelConfig, name: str, *, is_cached: bool = False) -> Path | None:
    """Return the path of one file of the model, downloaded if needed; None where it is missing or unreachable.

    Args:
        model: a folder, or a name on the hub.
        name: of the file.
        is_cached: use the hub's cache alone, without a request.
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
    """Return the model as a local folder: for one on the hub, the folder of its small files in the cache.

    Args:
        model: a folder, or a name on the hub.
        names: files to download where the cache does not know the model yet.
        fetch: request them from the hub in any case.
    Raises:
        FileNotFoundError: there is no such model, or it is unreachable.
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
