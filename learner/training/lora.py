"""Train LoRA adapters: small matrices next to a model's linear layers, whose own weights are frozen.

In: a loaded model and `learner.lora`. Out: the same model with adapters in its layers; its merged weights, for the
generators; the adapter alone, in PEFT's format. Used by the backend in every rank. PEFT makes the layers. The merge is
our own, since it runs on weights gathered from all ranks, and does not change the model.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from broker.errors import RunFailed
from config.learner.training import LoraConfig
from config.run import ModelConfig, Run
from learner.base_model.hub import hub_arguments
from learner.journal.disk import sync
from learner.training.model_files import write_safetensors

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"  # files of an adapter's folder
ADAPTER = "adapter"  # folder of the adapter in a model's folder
_BASE = ".base_layer."  # in the name of a weight with an adapter
_A, _B = ".lora_A.default.weight", ".lora_B.default.weight"
_PREFIX = "base_model.model."  # of names in an adapter's file
# Keys of an adapter's config, as written by PEFT up to 0.21.2, that do not affect what the adapter computes: its
# origin, the layers that have it (the file's tensors are compared with ours), its initialization.
_HARMLESS = frozenset(
    {
        "auto_mapping",
        "base_model_name_or_path",
        "corda_config",
        "eva_config",
        "exclude_modules",
        "fan_in_fan_out",
        "inference_mode",
        "layers_pattern",
        "layers_to_transform",
        "loftq_config",
        "lora_dropout",
        "lora_ga_config",
        "megatron_core",
        "peft_version",
        "qalora_group_size",
        "revision",
        "target_modules",
        "task_type",
    }
)
# Initializations that keep the model's own weights. With PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA and MiCA the adapter
# belongs to other weights than the model's, or to another layer.
_PLAIN_INITS = (True, False, "gaussian", "eva", "orthogonal")


def add_adapter(model: PreTrainedModel, lora: LoraConfig, *, seed: int) -> None:
    """Put adapters into a model's layers, and freeze everything else.

    A new adapter has no effect: its second matrix is 0. Its first one is random by the seed, equal on all ranks.

    Args:
        model: as it was loaded; changed in place.
        lora: rank, alpha, targets, and the initial adapter.
        seed: of the first matrices.
    Raises:
        RunFailed: the targets are no layers of this model, or the initial adapter does not fit.
    """
    _inject(model, lora, seed=seed)
    dtype = model.dtype
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(
                dtype
            )  # PEFT's are float32; the backend has its own master weights
    if lora.adapter is not None:
        found = _read(lora)
        own = _own(model)
        _check_fit(lora, found, {name: tuple(parameter.shape) for name, parameter in own.items()})
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(found[name])


def check_adapter(run: Run) -> None:
    """Check that the run's initial adapter, if any, belongs to this model. Loads no weights.

    Raises:
        RunFailed: there is no such adapter, or it is another model's, or of another rank.
    """
    lora = run.learner.lora
    if lora is None:
        return
    from transformers import AutoConfig, AutoModelForCausalLM

    arguments = hub_arguments(run.model)
    config = AutoConfig.from_pretrained(run.model.path, **arguments)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=run.model.trust_remote_code)
        _inject(model, lora, seed=0)
    if lora.adapter is not None:
        shapes = {name: tuple(parameter.shape) for name, parameter in _own(model).items()}
        _check_fit(lora, _read(lora), shapes)


def merged(weights: Mapping[str, Tensor], lora: LoraConfig) -> dict[str, Tensor]:
    """Return a model's weights with its adapters merged, by their names without adapters.

    Args:
        weights: every weight of the model with adapters, by parameter name, on one device.
        lora: of the adapters.
    """
    scale, found = lora.alpha / lora.rank, {}
    for name, weight in weights.items():
        if is_adapter(name):
            continue
        module, is_base, rest = name.rpartition(_BASE)
        if is_base and rest == "weight":
            low_rank = weights[module + _B].float() @ weights[module + _A].float()
            weight = (weight.float() + scale * low_rank).to(weight.dtype)  # noqa: PLW2901
        found[name.replace(_BASE, ".")] = weight
    return found


def adapters_of(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the adapters among weights, by their names in PEFT's files."""
    return {_saved_name(name): weight for name, weight in weights.items() if is_adapter(name)}


def is_adapter(name: str) -> bool:
    """Return whether the parameter of that name is part of an adapter."""
    return name.endswith((_A, _B))


def write_adapter(
    weights: Mapping[str, Tensor], folder: Path, *, lora: LoraConfig, source: ModelConfig
) -> None:
    """Write the adapter alone, for `peft.PeftModel.from_pretrained` and vLLM; fsynced.

    Args:
        weights: as for `merged`; only the adapters' are written.
        folder: made if missing.
        lora: of the adapters.
        source: of their model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = _peft_config(lora)
    config.base_model_name_or_path = source.path
    write_safetensors(adapters_of(weights), folder / WEIGHTS)
    config.save_pretrained(folder)
    for file in (*folder.iterdir(), folder):
        sync(file)


@contextmanager
def without_adapter(model: nn.Module) -> Iterator[None]:
    """Disable the model's adapters within the block, for passes without a gradient."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def _inject(model: PreTrainedModel, lora: LoraConfig, *, seed: int) -> None:
    from peft import inject_adapter_in_model

    torch.manual_seed(seed)
    try:
        inject_adapter_in_model(_peft_config(lora), model)
    except ValueError as error:
        raise RunFailed(f"learner.lora.targets={lora.targets}: {error}") from error
    _refuse_other_layers(model, lora)
    if any(
        ".base_layer.bias" in name and parameter.requires_grad for name, parameter in model.named_parameters()
    ):
        raise RuntimeError("PEFT trains biases, which the merge would lose")


def _refuse_other_layers(model: nn.Module, lora: LoraConfig) -> None:
    """Refuse adapters of layers that the merge does not support: GPT-2's have transposed weights.

    Raises:
        RunFailed: a target is no linear layer; the message names it.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, module in model.named_modules():
        if isinstance(module, BaseTunerLayer) and not isinstance(module.get_base_layer(), nn.Linear):
            kind = type(module.get_base_layer()).__name__
            raise RunFailed(
                f"learner.lora.targets={lora.targets}: {name} is a {kind}, and adapters are for linear layers alone"
            )


def _peft_config(lora: LoraConfig) -> Any:
    from peft import LoraConfig as PeftConfig
    from peft import TaskType

    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    return PeftConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=targets,
        lora_dropout=0.0,
        bias="none",
        task_type=TaskType.CAUSAL_LM,
    )


def _own(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the adapters' parameters, by their names in an adapter's file."""
    return {_saved_name(name): parameter for name, parameter in model.named_parameters() if is_adapter(name)}


def _saved_name(name: str) -> str:
    return _PREFIX + name.replace(".default.", ".")


def _read(lora: LoraConfig) -> dict[str, Tensor]:
    """Read the initial adapter. Raises RunFailed where there is none, or it has another rank or other weights."""
    folder = Path(str(lora.adapter))
    key = f"learner.lora.adapter={folder}"
    try:
        described = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        found = load_file(folder / WEIGHTS)
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        raise RunFailed(f"{key}: no adapter as PEFT writes it: {error}") from error
    if not isinstance(described, dict):
        raise RunFailed(f"{key}: no adapter as PEFT writes it: {CONFIG} holds no keys and values")
    wanted = {"peft_type": "LORA", "r": lora.rank, "lora_alpha": lora.alpha}
    for name, value in wanted.items():
        if described.get(name) != value:
            raise RunFailed(
                f"{key}: its {name} is {described.get(name)}, and the run's is {value}: "
                "set learner.lora.rank and learner.lora.alpha to those of the adapter"
            )
    if others := _not_plain(described, known=wanted.keys()):
        raise RunFailed(f"{key}: it was made with {', '.join(others)}, which this learner does not train")
    return found


def _not_plain(described: Mapping[str, Any], *, known: Collection[str]) -> list[str]:
    """Return the settings in an adapter's config that make it more than two matrices next to a layer, as `key=value`.

    An unknown key counts, unless its value is null: a newer PEFT has added it.
    """
    plain = {"bias": ("none", None), "init_lora_weights": _PLAIN_INITS}
    return [
        f"{name}={value}"
        for name, value in sorted(described.items())
        if name not in _HARMLESS
        and name not in known
        and not (value in plain[name] if name in plain else value in (None, False) or value in ({}, [], ""))
    ]


def _check_fit(lora: LoraConfig, found: Mapping[str, Tensor], shapes: Mapping[str, Iterable[int]]) -> None:
    """Check an adapter's tensors against the model's layers. Raises RunFailed with the first mismatch."""
    key = f"learner.lora.adapter={lora.adapter}"
    for name in sorted(found.keys() | shapes.keys()):
        there = tuple(found[name].shape) if name in found else None
        here = tuple(shapes[name]) if name in shapes else None
        if there != here:
            raise RunFailed(
                f"{key}: it is for another model or other layers: {name} has the shape {there} there, and {here} "
                "in this model with learner.lora.targets"
            )
