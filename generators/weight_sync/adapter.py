"""Receive versions that are adapters alone, and merge each with the model's own weights.

In: an adapter's verified files from another receiver, and the weights of `model.path` on this machine. Out: a file of
merged weights for the engine, removed once it is loaded. Used where `learner.lora.publish` is `adapter`: only the
adapter travels. Every tensor of an adapter must match a weight. An adapter that would be ignored in part is refused by
name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from broker.errors import RunFailed
from broker.messages import Announcement
from broker.own_folder import OwnFolder
from config.learner.training import LoraConfig
from config.run import ModelConfig
from generators.weight_sync.receiver import Received, WeightReceiver

log = logging.getLogger(__name__)

FOLDER = "millrace-merged-"  # prefix of its name
PREFIX, LOW, HIGH = "base_model.model.", ".lora_A.weight", ".lora_B.weight"  # of names in PEFT's files


class MergingReceiver:
    """A `WeightReceiver` that merges the adapters of another receiver.

    Args:
        receiver: receives adapters.
        model: the model of the adapters.
        lora: their rank and alpha.
    """

    def __init__(self, receiver: WeightReceiver, model: ModelConfig, lora: LoraConfig) -> None:
        self._receiver = receiver
        self._model = model
        self._scale = lora.alpha / lora.rank
        self._folder = OwnFolder(FOLDER)
        self._base: dict[str, Path] | None = None  # file of each weight
        self._adapter: Received | None = None

    @property
    def is_slow(self) -> bool:
        """Return whether the adapters are slow to arrive."""
        return self._receiver.is_slow

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        """Return the newest version, merged. Raises as the other receiver does.

        Raises:
            RunFailed: the adapter does not belong to this model, or the model's weights can't be read.
        """
        started = time.monotonic()
        adapter = self._receiver.receive(announced, held=held)
        merged = self._folder.path / f"v{adapter.version:06d}.safetensors"
        tensors: dict[str, Tensor] = {}
        for file in adapter.files:
            try:
                tensors |= load_file(file)
            except SafetensorError as error:
                raise RunFailed(f"the adapter {file} can't be read: {error}") from error
        self._write(tensors, merged)
        self._adapter = adapter
        log.info(
            "adapter_merged version=%d tensors=%d took_s=%.3f",
            adapter.version,
            len(tensors),
            time.monotonic() - started,
        )
        return Received(version=adapter.version, files=(merged,))

    def loaded(self, received: Received) -> None:
        """Remove the merged file; the other receiver may remove its own."""
        for file in received.files:
            file.unlink(missing_ok=True)
        if self._adapter is not None:
            self._receiver.loaded(self._adapter)

    def close(self) -> None:
        """Close the other receiver, and remove all files."""
        self._receiver.close()
        self._folder.close()

    def _write(self, adapter: Mapping[str, Tensor], file: Path) -> None:
        if self._base is None:
            self._base = base_files(self._model)
        pairs = pairs_of(adapter)
        if strangers := sorted(pairs.keys() - self._base.keys()):
            raise RunFailed(
                f"the adapter of the learner is for {strangers[0]} and {len(strangers) - 1} more weights that "
                f"model.path={self._model.path} does not have here. Is it the learner's model?"
            )
        dtype = getattr(torch, self._model.dtype)
        found: dict[str, Tensor] = {}
        for path in dict.fromkeys(self._base.values()):
            with safe_open(str(path), framework="pt") as stored:
                for name in stored.keys():  # noqa: SIM118
                    weight = stored.get_tensor(name).to(dtype)
                    found[name] = self._merged(weight, *pairs[name]) if name in pairs else weight
        save_file(found, file)

    def _merged(self, weight: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Add an adapter's product to a weight, as the learner's own merge does."""
        if weight.shape != (high.shape[0], low.shape[1]):
            raise RunFailed(
                f"the adapter of the learner is for a weight of {high.shape[0]} x {low.shape[1]}, and that of "
                f"model.path={self._model.path} is {tuple(weight.shape)}. Is it the learner's model?"
            )
        product = high.float() @ low.float()
        return (weight.float() + self._scale * product).to(weight.dtype)


def pairs_of(adapter: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """Return an adapter's matrices by the name of their weight.

    Args:
        adapter: by PEFT's names.
    Raises:
        RunFailed: a name is not PEFT's, or a matrix lacks its partner.
    """
    found: dict[str, tuple[Tensor, Tensor]] = {}
    for name, tensor in adapter.items():
        module = name.removeprefix(PREFIX).removesuffix(LOW).removesuffix(HIGH)
        if not name.startswith(PREFIX) or not name.endswith((LOW, HIGH)):
            raise RunFailed(f"the learner sent {name}, which is no tensor of an adapter")
        if name.endswith(LOW):
            other = f"{PREFIX}{module}{HIGH}"
            if other not in adapter:
                raise RunFailed(f"the learner sent {name} without {other}")
            found[f"{module}.weight"] = tensor, adapter[other]
    if 2 * len(found) != len(adapter):
        raise RunFailed(
            f"the learner sent {len(adapter)} tensors of an adapter, of which {2 * len(found)} are pairs"
        )
    return found


def base_files(model: ModelConfig) -> dict[str, Path]:
    """Return the safetensors file of each of the model's own weights, by name; downloaded for a model on the hub.

    Raises:
        RunFailed: there are none, or they can't be read.
    """
    folder = Path(model.path)
    try:
        if not folder.is_dir():
            from huggingface_hub import snapshot_download

            token = model.hf_token.get_secret_value() if model.hf_token else None
            folder = Path(
                snapshot_download(
                    model.path, revision=model.revision, token=token, allow_patterns=["*.safetensors"]
                )
            )
        found: dict[str, Path] = {}
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(str(file), framework="pt") as stored:
                found |= dict.fromkeys(stored.keys(), file)
    except (OSError, ValueError, SafetensorError) as error:
        raise RunFailed(f"model.path={model.path}: its weights can't be read: {error}") from error
    if not found:
        raise RunFailed(
            f"model.path={model.path} has no safetensors here: learner.lora.publish=adapter merges on the "
            "generators' machines. Set learner.lora.publish=merged"
        )
    return found
