"""Choose the model's attention, and give transformers one on torch's own varlen kernels.

In: `learner.attention`, the device, the weights' type. Out: a name for transformers' `attn_implementation`, and why it
was chosen. `varlen` attends within each sequence of a packed row, without a mask: transformers makes masks only for
names that it knows. The model's forward pass gets the sequences' bounds once, and transformers passes them to each
layer. Runs in every rank. A model that needs more than causal attention within each sequence is refused by name: its
numbers would be silently wrong.
"""

# T: tokens of a packed row. S: its sequences. B = S + 1: their bounds. H: heads. G: key heads. E: head dimension.

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from broker.errors import RunFailed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FLASH, SDPA = "flash_attention_2", "sdpa"  # transformers' own names
VARLEN = "millrace_varlen"  # of this attention in transformers
WIDEST_HEAD, HEAD_MULTIPLE = 256, 8  # of the kernels: largest head dimension, and its divisor
OLDEST_GPU = (8, 0)  # capability
_LAYERS = {"full_attention", "sliding_attention"}  # kinds of layers that these kernels support
_NOT_HERE = ("softcap", "s_aux", "position_bias", "cache")  # arguments of some models' attention


class Kernel(Protocol):
    """Causal attention within each sequence of a packed row."""

    def __call__(
        self,
        query_THE: Tensor,
        key_TGE: Tensor,
        value_TGE: Tensor,
        *,
        bounds_B: Tensor,
        longest: int,
        scale: float | None,
        window: tuple[int, int],
    ) -> Tensor:
        """Return [T, H, E].

        Args:
            query_THE: G divides H.
            key_TGE: of the same tokens.
            value_TGE: of the same tokens.
            bounds_B: the start of each sequence, and the end of the last, int32.
            longest: tokens of the longest sequence.
            scale: of the products; None: one over the root of E.
            window: how many tokens before itself a token sees, -1 for all, and how many after, always 0.
        """
        ...


def torch_kernel(
    query_THE: Tensor,
    key_TGE: Tensor,
    value_TGE: Tensor,
    *,
    bounds_B: Tensor,
    longest: int,
    scale: float | None,
    window: tuple[int, int],
) -> Tensor:
    """Run torch's own kernel, forward and backward; GPU only."""
    from torch.nn.attention.varlen import varlen_attn

    shares: dict[str, Any] = {"enable_gqa": True}
    if "enable_gqa" not in inspect.signature(varlen_attn).parameters:  # an older torch: one key per head
        shares, heads = {}, query_THE.shape[1] // key_TGE.shape[1]
        key_TGE, value_TGE = (part.repeat_interleave(heads, dim=1) for part in (key_TGE, value_TGE))
    attended: Tensor = varlen_attn(  # type: ignore[assignment]
        query_THE,
        key_TGE,
        value_TGE,
        bounds_B,
        bounds_B,
        longest,
        longest,
        scale=scale,
        window_size=window,
        **shares,
    )
    return attended


KERNELS: dict[str, Kernel] = {"cuda": torch_kernel}  # by device type; tests add one for the CPU


@dataclass(frozen=True)
class Attention:
    """A chosen attention.

    Args:
        name: for transformers.
        why: the reason, for people.
    """

    name: str
    why: str


def choose_attention(
    choice: Literal["auto", "flash", "varlen", "sdpa"], *, device: torch.device, dtype: torch.dtype
) -> Attention:
    """Return transformers' attention for `learner.attention`, and register it there.

    All separate the sequences of a micro-batch. The varlen kernels of flash-attn and of torch need no mask; for SDPA
    transformers makes a block-diagonal mask, whose size is the micro-batch's length squared.

    Raises:
        RunFailed: the requested attention can't run here.
    """
    flash, varlen = _obstacles_of_flash(device, dtype), _obstacles_of_varlen(device, dtype)
    if choice != "auto":
        obstacles = {"flash": flash, "varlen": varlen, "sdpa": []}[choice]
        if obstacles:
            raise RunFailed(
                f"learner.attention={choice} can't run: {', '.join(obstacles)}; "
                "set learner.attention=auto to take what can"
            )
        name = {"flash": FLASH, "varlen": VARLEN, "sdpa": SDPA}[choice]
        chosen = Attention(name, f"learner.attention={choice}")
    elif not flash:
        chosen = Attention(FLASH, "flash-attn is installed")
    elif device.type == "cuda" and not varlen:
        chosen = Attention(VARLEN, f"{', '.join(flash)}; torch has kernels of its own")
    else:
        chosen = Attention(SDPA, ", ".join(varlen or flash))
    if chosen.name == VARLEN:
        _register()
    return chosen


def _obstacles_of_flash(device: torch.device, dtype: torch.dtype) -> list[str]:
    obstacles = _obstacles_of_kernels(device, dtype)
    if importlib.util.find_spec("flash_attn") is None:
        obstacles.append("flash-attn is not installed")
    return obstacles


def _obstacles_of_varlen(device: torch.device, dtype: torch.dtype) -> list[str]:
    if device.type != "cuda" and device.type in KERNELS:
        return []
    obstacles = _obstacles_of_kernels(device, dtype)
    if device.type == "cuda" and not torch.backends.cuda.is_flash_attention_available():
        obstacles.append("this torch is built without the kernels")
    return obstacles


def _obstacles_of_kernels(device: torch.device, dtype: torch.dtype) -> list[str]:
    """Return what prevents flash-attn's kernels, torch's copy of them included, on a device."""
    obstacles = []
    if device.type != "cuda":
        obstacles.append(f"the device is {device.type}")
    elif (found := torch.cuda.get_device_capability(device)) < OLDEST_GPU:
        obstacles.append(f"the GPU has capability {found[0]}.{found[1]}, and 8.0 is needed")
    if dtype is torch.float32:
        obstacles.append("model.dtype is float32")
    return obstacles


def _register() -> None:
    """Register the attention with transformers by name. It makes no mask for unregistered mask names."""
    from transformers import AttentionInterface

    AttentionInterface.register(VARLEN, attend)


def takes_bounds(model: PreTrainedModel, attention: str) -> bool:
    """Return whether the model's forward pass needs the bounds of a packed row's sequences."""
    if attention == VARLEN:
        return True
    # Without them flash-attn derives them from the position ids, with a wait for the device in every layer.
    return attention == FLASH and _takes_more(model)


def bounds_for_model(bounds_B: Tensor, longest: int) -> dict[str, Any]:
    """Return the sequences of a packed row as arguments of transformers' forward pass.

    Args:
        bounds_B: the start of each sequence, and the end of the last, int32.
        longest: tokens of the longest sequence.
    """
    return {
        "cu_seq_lens_q": bounds_B,
        "cu_seq_lens_k": bounds_B,
        "max_length_q": longest,
        "max_length_k": longest,
    }


def check_model(model: PreTrainedModel) -> None:
    """Refuse a model whose attention these kernels don't support. Raises RunFailed."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    width = (
        getattr(config, "qk_head_dim", None)
        or getattr(config, "head_dim", None)
        or config.hidden_size // heads
    )
    kinds = set(getattr(config, "layer_types", None) or ()) - _LAYERS
    if not model._supports_attention_backend or not _takes_more(model):  # noqa: SLF001 - no public way to ask
        raise _refused(model, "its attention can't be replaced from outside")
    if kinds:
        raise _refused(model, f"it has layers of {', '.join(sorted(kinds))}")
    if getattr(config, "attn_logit_softcapping", None) is not None:
        raise _refused(model, "it caps its scores (attn_logit_softcapping)", instead="flash")
    if width > WIDEST_HEAD or width % HEAD_MULTIPLE:
        raise _refused(
            model,
            f"a head has {width} numbers, and at most {WIDEST_HEAD} and a multiple of {HEAD_MULTIPLE} fit",
        )


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    is_causal: bool | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend over one packed row, each token to those before it in its sequence; called by transformers' layers.

    Args:
        module: the layer's.
        query: [1, H, T, E].
        key: [1, G, T, E].
        value: [1, G, T, E]; a narrower one is padded, and the result has its width.
        attention_mask: never given.
        scaling: of the products.
        dropout: 0.
        sliding_window: tokens that a token sees, including itself; None: all before it.
        is_causal: None: as the module is configured.
        cu_seq_lens_q: [B], the row's bounds.
        max_length_q: tokens of its longest sequence.
        options: further arguments of the model.
    Returns:
        [1, T, H, E].
    Raises:
        RunFailed: the layer needs a feature that the kernels lack.
    """
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    asked = {
        f"dropout={dropout}": dropout,
        "a mask of its own": attention_mask is not None,
        "attention to later tokens": not causal,
        "several rows, or keys of other tokens": len(query) != 1 or query.shape[2] != key.shape[2],
    } | {name: options.get(name) is not None for name in _NOT_HERE}
    if any(asked.values()):
        raise _refused(module, f"it asks for {', '.join(filter(asked.get, asked))}")
    if cu_seq_lens_q is None or max_length_q is None:
        raise _refused(module, "it is not told where the row's sequences begin (cu_seq_lens_q)")
    width = value.shape[-1]
    if width < query.shape[-1]:
        value = functional.pad(value, (0, query.shape[-1] - width))
    # Rotary embeddings and norms in float32 may leave queries and keys in float32; the kernels need one type.
    attended_THE = KERNELS[query.device.type](
        query[0].transpose(0, 1).to(value.dtype),
        key[0].transpose(0, 1).to(value.dtype),
        value[0].transpose(0, 1),
        bounds_B=cu_seq_lens_q,
        longest=max_length_q,
        scale=scaling,
        window=(-1 if sliding_window is None else sliding_window - 1, 0),
    )
    return attended_THE[None, ..., :width], None


def _takes_more(model: PreTrainedModel) -> bool:
    """Return whether the model's forward pass accepts extra keyword arguments, which it passes on."""
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(model.base_model.forward).parameters
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _refused(model: Any, why: str, *, instead: str = "sdpa") -> RunFailed:
    return RunFailed(
        f"torch's varlen attention can't run {type(model).__name__}: {why}; set learner.attention={instead}"
    )
