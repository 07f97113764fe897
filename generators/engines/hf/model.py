"""Build the policy in transformers, and load weights from safetensors: all of them or none.

In: the run's model section; a version's files with Hugging Face names. Called by the hf engine between two batches, and
by the vLLM engine to check them first: vLLM would only warn about a missing tensor. Weights that do not fit are refused
by name before anything changes, so that a model never holds parts of two versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.initialization import no_init_weights

from broker.errors import RunFailed
from config.run import ModelConfig

NAMES_SHOWN = 5  # of a list of wrong names


def build_model(section: ModelConfig) -> PreTrainedModel:
    """Build the architecture in `section.dtype` on torch's default device, with uninitialized parameters.

    Raises:
        RunFailed: the model's folder or name has no usable config.
    """
    token = section.hf_token.get_secret_value() if section.hf_token else None
    try:
        config = AutoConfig.from_pretrained(
            section.path, revision=section.revision, token=token, trust_remote_code=section.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise RunFailed(f"model.path={section.path}: its config can't be loaded: {error}") from error
    if section.tie_word_embeddings is False:
        config.tie_word_embeddings = False
    with no_init_weights():
        model: PreTrainedModel = AutoModelForCausalLM.from_config(
            config, dtype=getattr(torch, section.dtype), trust_remote_code=section.trust_remote_code
        )
    model.tie_weights()  # uninitialized models come untied
    if section.head_dtype == "float32" and section.dtype != "float32":
        head = model.get_output_embeddings()
        if not isinstance(head, torch.nn.Linear):
            raise RunFailed(
                f"model.path={section.path}: the engine hf can't compute the logits of a {type(head).__name__} in "
                "float32; set model.head_dtype=model, for the learner too"
            )
        model.set_output_embeddings(Float32Head(head))
    model.eval().requires_grad_(False)
    return model


class Float32Head(torch.nn.Module):
    """Compute logits in float32, as the learner does, from a head of another type.

    It holds the same parameters as the head that it replaces: names in files, and ties to the input embedding, are
    kept.
    """

    def __init__(self, head: torch.nn.Linear) -> None:
        super().__init__()
        self.weight = head.weight  # [V, D]
        self.bias = head.bias  # [V] or None
        self._copy_VD: torch.Tensor | None
        self.register_buffer("_copy_VD", None, persistent=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits in float32."""
        if self._copy_VD is None:
            self._copy_VD = self.weight.float()
        bias_V = None if self.bias is None else self.bias.float()
        return torch.nn.functional.linear(hidden.float(), self._copy_VD, bias_V)

    def discard_copy(self) -> None:
        """Copy the weight again at the next token, since it has changed."""
        self._copy_VD = None


def build_skeleton(section: ModelConfig) -> PreTrainedModel:
    """Build the architecture without storage: names and shapes only, to check files with."""
    with torch.device("meta"):
        return build_model(section)


def check_weights(model: PreTrainedModel, files: Sequence[Path]) -> dict[str, torch.Tensor]:
    """Compare the names and shapes in `files` with the model's, which may be on the meta device.

    Returns:
        The model's tensors by their names in the files. A parameter tied to another (`lm_head.weight` to the embedding)
        is not among them and may be missing in the files; it gets the other's values.
    Raises:
        RunFailed: a name is missing, unexpected or duplicated, a shape differs, or a file is no safetensors file.
        FileNotFoundError: a file does not exist (any more).
    """
    expected: dict[str, torch.Tensor] = model.state_dict()
    tied: set[str] = set(model.all_tied_weights_keys)
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        found = _shapes(file)
        if again := shapes.keys() & found.keys():
            raise RunFailed(f"weights {shown(files)}: {_listed(again)} in more than one file")
        shapes |= found
    missing, unexpected = expected.keys() - tied - shapes.keys(), shapes.keys() - expected.keys()
    if missing or unexpected:
        raise RunFailed(
            f"weights {shown(files)} are not of this model: missing {_listed(missing)}; unexpected "
            f"{_listed(unexpected)}. Does model.path name the learner's model?"
        )
    for name, shape in shapes.items():
        if shape != tuple(expected[name].shape):
            raise RunFailed(
                f"weights {shown(files)}: {name} has shape {shape}, the model's is {tuple(expected[name].shape)}"
            )
    return {name: expected[name] for name in expected.keys() - tied}


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file's tensors by name. Raises as `check_weights`."""
    try:
        with safe_open(str(file), framework="pt") as stored:
            return {name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise RunFailed(f"weights {file} can't be read: {error}") from error


def shown(files: Sequence[Path]) -> str:
    """Describe a version's files for people."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} to {files[-1].name}"


def replace_weights(model: PreTrainedModel, files: Sequence[Path]) -> None:
    """Copy every tensor of `files` into `model`, converting to the model's type and device.

    Raises:
        RunFailed, FileNotFoundError: as `check_weights`; the model is unchanged.
    """
    targets = check_weights(model, files)
    with ExitStack() as opened:  # all before the first copy: a file may be removed meanwhile
        stored = [opened.enter_context(safe_open(str(file), framework="pt")) for file in files]
        with torch.inference_mode():
            for one in stored:
                for name in one.keys() & targets.keys():
                    targets[name].copy_(one.get_tensor(name))
    head = model.get_output_embeddings()
    if isinstance(head, Float32Head):
        head.discard_copy()


def _listed(names: set[str]) -> str:
    shown = ", ".join(sorted(names)[:NAMES_SHOWN]) or "none"
    return shown + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")
