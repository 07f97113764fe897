"""Torch's varlen attention, with a reference in place of the GPU's kernel: the same numbers as SDPA's, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import (
    AttentionInterface,
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    Llama4TextConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.masking_utils import AttentionMaskInterface

from benchmarks.rigs.reference_attention import reference_kernel
from broker.errors import RunFailed
from config.run import ModelConfig
from learner.training.attention import VARLEN, attend, check_model, choose_attention, torch_kernel
from learner.training.logprobs import LogprobModel
from learner.training.micro_batch import on_device
from learner.training.model_files import load_model
from tests.support.policy_driver import make_batch
from tests.support.policy_workshop import SMALL, Workshop, assert_same_steps, two_steps_of, zero
from tests.support.reference_attention import use_on_cpu
from tests.support.tiny import VOCABULARY_SIZE, write_tiny_model

pytestmark = [
    pytest.mark.model,
    pytest.mark.together("training"),
    pytest.mark.prove(after=3),
    pytest.mark.timeout(300),
]

Patch = pytest.MonkeyPatch
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
HALF = (CUDA, torch.bfloat16)
LENGTHS = (12, 1, 6, 23)
SIZES: dict[str, Any] = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
WINDOW = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
NO_KERNELS = {"flash_attn": False, "kernels": False}
OLD_GPU = {"capability": (7, 5)}


@pytest.fixture(autouse=True)
def reference(monkeypatch: pytest.MonkeyPatch) -> None:
    use_on_cpu(monkeypatch)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a GPU, flash-attn and torch's kernels, or not."""

    def there(flash_attn: bool = True, kernels: bool = True, capability: tuple[int, int] = (9, 0)) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda _name: object() if flash_attn else None)
        monkeypatch.setattr("torch.backends.cuda.is_flash_attention_available", lambda: kernels)
        monkeypatch.setattr("torch.cuda.get_device_capability", lambda _device: capability)

    return there


@pytest.mark.parametrize(
    ("choice", "where", "has", "name", "why"),
    [
        ("auto", HALF, {}, "flash_attention_2", "flash-attn is installed"),
        ("auto", HALF, {"flash_attn": False}, VARLEN, "flash-attn is not installed; torch has kernels of its own"),
        ("auto", (CPU, torch.bfloat16), {}, "sdpa", "the device is cpu"),  # though there is a kernel
        ("flash", (CUDA, torch.float16), {}, "flash_attention_2", "learner.attention=flash"),
        ("sdpa", HALF, {}, "sdpa", "learner.attention=sdpa"),
        ("varlen", HALF, {}, VARLEN, "learner.attention=varlen"),
        ("auto", (CUDA, torch.float32), {}, "sdpa", "model.dtype is float32"),
        ("auto", (CUDA, torch.float16), OLD_GPU, "sdpa", "the GPU has capability 7.5, and 8.0 is needed"),
        ("auto", HALF, NO_KERNELS, "sdpa", "this torch is built without the kernels"),
    ],
)  # fmt: skip
def test_a_gpu_takes_kernels_without_a_mask_where_they_can_run_and_says_why(
    gpu: Callable[..., None], *, choice: Any, where: tuple[Any, Any], has: dict[str, Any], name: str, why: str
) -> None:
    gpu(**has)
    chosen = choose_attention(choice, device=where[0], dtype=where[1])
    assert (chosen.name, chosen.why) == (name, why)


@pytest.mark.parametrize(
    ("choice", "where", "has", "reason"),
    [
        ("flash", (CPU, torch.bfloat16), {}, "flash can't run: the device is cpu; set learner.attention=auto"),
        ("flash", (CUDA, torch.float32), {"flash_attn": False}, "is float32, flash-attn is not installed; set"),
        ("varlen", (CPU, torch.bfloat16), {}, "varlen can't run: the device is cpu; set"),
        ("varlen", (CUDA, torch.float32), {}, "varlen can't run: model.dtype is float32; set"),
        ("varlen", HALF, OLD_GPU | {"kernels": False}, r"7\.5, and 8\.0 is needed, this torch is built without"),
    ],
)  # fmt: skip
def test_attention_that_cannot_run_is_refused_with_every_reason(
    gpu: Callable[..., None], monkeypatch: Patch, *, choice: Any, where: Any, has: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr("learner.training.attention.KERNELS", {"cuda": torch_kernel})
    gpu(**has)
    with pytest.raises(RunFailed, match=reason):
        choose_attention(choice, device=where[0], dtype=where[1])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two heads of queries share one of keys in each; the second of the two layers of `window` looks back five tokens."""
    whole = write_tiny_model(tmp_path_factory.mktemp("whole"))
    window = tmp_path_factory.mktemp("window")
    config = Qwen2Config.from_pretrained(whole)
    torch.manual_seed(1)
    Qwen2ForCausalLM(Qwen2Config(**config.to_dict() | WINDOW | {"layer_types": None})).save_pretrained(window)
    return {"whole": whole, "window": window}


def sequences() -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(5)
    for length in LENGTHS:
        yield torch.randint(0, VOCABULARY_SIZE, (length,), generator=generator)


def loaded(folder: Path, attention: Any, *, dtype: Any = "float32", **options: bool) -> LogprobModel:
    name = choose_attention(attention, device=CPU, dtype=getattr(torch, dtype)).name
    options = {"gradient_checkpointing": False} | options
    model = load_model(ModelConfig(path=str(folder), dtype=dtype), attention=name, **options)
    return LogprobModel(model, temperature=0.7)


def packed_row() -> dict[str, Any]:
    positions_T = torch.cat([torch.arange(length) for length in LENGTHS])
    return {
        "token_ids_T": torch.cat(list(sequences())),
        "position_ids_T": positions_T,
        "places_K": positions_T.nonzero()[:, 0],
        "grid": (len(LENGTHS), max(LENGTHS)),
        "bounds_B": functional.pad(torch.tensor(LENGTHS).cumsum(0), (1, 0)).int(),
    }


def padded_rows() -> dict[str, Any]:
    rows_T = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS))
    row = packed_row()
    return row | {"cells_T": rows_T * max(LENGTHS) + row["position_ids_T"]}


def values_and_gradients(model: LogprobModel, *rows: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return all log-probabilities, and the gradients of a sum that weighs each token differently."""
    logprobs = torch.cat([model(**row)[0] for row in rows])
    (logprobs * torch.linspace(-1, 1, len(logprobs))).sum().backward()
    gradients = {name: weight.grad for name, weight in model.model.named_parameters()}
    return logprobs.detach(), {name: grad for name, grad in gradients.items() if grad is not None}


def one_by_one() -> Iterator[dict[str, Any]]:
    for token_ids_T in sequences():
        positions_T = torch.arange(len(token_ids_T))
        yield {"token_ids_T": token_ids_T, "position_ids_T": positions_T, "places_K": positions_T[1:]}


@pytest.mark.parametrize("name", ["whole", "window"])
@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_a_packed_row_has_the_values_and_gradients_of_single_sequences_and_of_padded_rows(
    models: dict[str, Path], name: str, gradient_checkpointing: bool
) -> None:
    model = loaded(models[name], "varlen", gradient_checkpointing=gradient_checkpointing)
    measured, gradients = values_and_gradients(model, packed_row())
    for rows in (list(one_by_one()), [padded_rows()], [packed_row()]):
        expected, expected_gradients = values_and_gradients(loaded(models[name], "sdpa"), *rows)
        torch.testing.assert_close(measured, expected, atol=1e-5, rtol=0)
        assert len(gradients) > 20
        assert gradients.keys() == expected_gradients.keys()
        for weight, gradient in expected_gradients.items():
            torch.testing.assert_close(gradients[weight], gradient, atol=1e-5, rtol=1e-4, msg=weight)


def test_the_comparison_sees_wrong_bounds_and_bfloat16_is_near(models: dict[str, Path]) -> None:
    right = loaded(models["window"], "varlen")(**packed_row())[0]
    length = sum(LENGTHS)
    one = {"bounds_B": torch.tensor([0, length], dtype=torch.int32), "grid": (1, length)}
    assert (loaded(models["window"], "varlen")(**packed_row() | one)[0] - right).abs().max() > 1e-2
    wider = loaded(models["window"], "varlen")
    wider.model.model.layers[1].self_attn.sliding_window = 6
    assert (wider(**packed_row())[0] - right).abs().max() > 1e-3
    expected = loaded(models["whole"], "varlen")(**packed_row())[0]
    measured = loaded(models["whole"], "varlen", dtype="bfloat16")(**packed_row())[0]
    torch.testing.assert_close(measured, expected, atol=5e-2, rtol=0)


def test_each_layer_gets_bounds_and_no_mask(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []

    def spying(*parts: Tensor, **options: Any) -> Tensor:
        seen.append((id(options["bounds_B"]), options["longest"], options["window"]))
        return reference_kernel(*parts, **options)

    monkeypatch.setattr("learner.training.attention.KERNELS", {"cpu": spying})
    for name in list(AttentionMaskInterface._global_mapping):  # whoever makes a mask, fails
        monkeypatch.setitem(AttentionMaskInterface._global_mapping, name, None)
    row = packed_row()
    loaded(models["window"], "varlen")(**row)
    assert seen == [(id(row["bounds_B"]), 23, (-1, 0)), (id(row["bounds_B"]), 23, (4, 0))]


def test_flash_attn_is_told_the_same_bounds(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The library itself is not here: its function in transformers is replaced."""
    seen: list[Any] = []

    def flash(module: Any, *parts: Tensor, **options: Any) -> Any:
        seen.append((options["cu_seq_lens_q"] is options["cu_seq_lens_k"], options["max_length_k"]))
        return attend(module, *parts, **options)

    monkeypatch.setitem(AttentionInterface._global_mapping, "flash_attention_2", flash)
    config = ModelConfig(path=str(models["window"]), dtype="float32")
    model = load_model(config, attention="sdpa", gradient_checkpointing=False)
    model.config._attn_implementation = "flash_attention_2"
    measured = LogprobModel(model, temperature=0.7)(**packed_row())[0]
    assert seen == [(True, 23)] * 2
    expected = loaded(models["window"], "sdpa")(**packed_row())[0]
    torch.testing.assert_close(measured, expected, atol=1e-5, rtol=0)


def test_values_narrower_than_queries_come_out_as_narrow_and_queries_in_float32_are_cast() -> None:
    torch.manual_seed(3)
    query, key, value = (torch.randn(1, heads, 9, width) for heads, width in ((4, 24), (2, 24), (2, 16)))
    expected = functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=True, scale=0.3
    ).transpose(1, 2)
    bounds: dict[str, Any] = {"cu_seq_lens_q": torch.tensor([0, 9], dtype=torch.int32), "max_length_q": 9}
    found, _ = attend(SimpleNamespace(), query, key, value, None, scaling=0.3, **bounds)
    torch.testing.assert_close(found, expected)
    half, _ = attend(SimpleNamespace(), query, key, value.bfloat16(), None, scaling=0.3, **bounds)
    assert half.dtype is torch.bfloat16
    torch.testing.assert_close(half.float(), expected, atol=5e-2, rtol=0)


@pytest.mark.parametrize(
    ("module", "changes", "why"),
    [
        ({}, {"dropout": 0.1}, "asks for dropout=0.1"),
        ({}, {"softcap": 50.0}, "asks for softcap"),
        ({}, {"s_aux": torch.zeros(2)}, "asks for s_aux"),
        ({}, {"attention_mask": torch.zeros(1, 1, 4, 4)}, "asks for a mask of its own"),
        ({"is_causal": False}, {}, "attention to later tokens"),
        ({}, {"is_causal": False}, "attention to later tokens"),
        ({}, {"query": torch.zeros(2, 2, 4, 8)}, "several rows"),
        ({}, {"cu_seq_lens_q": None}, "not told where the row's sequences begin"),
    ],
)
def test_a_layer_that_asks_more_is_refused(module: dict[str, Any], changes: dict[str, Any], why: str) -> None:
    bounds: dict[str, Any] = {"cu_seq_lens_q": torch.tensor([0, 4], dtype=torch.int32), "max_length_q": 4}
    parts = dict.fromkeys(("query", "key", "value"), torch.zeros(1, 2, 4, 8))
    arguments: dict[str, Any] = {**parts, "attention_mask": None, **bounds, **changes}
    with pytest.raises(RunFailed, match=f"can't run SimpleNamespace: .*{why}.*; set learner.attention=sdpa"):
        attend(SimpleNamespace(**module), **arguments)


HEADS: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (Gemma2Config(**SIZES, **HEADS), r"Gemma2ForCausalLM: it caps its scores \(attn_logit_softcapping\); se"),
        (Llama4TextConfig(**SIZES, **HEADS, num_local_experts=1), "layers of chunked_attention; set learner"),
        (Qwen2Config(**SIZES, num_attention_heads=8, num_key_value_heads=8), "a head has 4 numbers"),
        (BloomConfig(vocab_size=32, hidden_size=32, n_layer=1, n_head=2), "its attention can't be replaced"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)  # fmt: skip
def test_a_model_whose_attention_is_more_is_refused_at_load(config: Any, why: str) -> None:
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    with pytest.raises(RunFailed, match=why):
        check_model(model)


def test_torchs_own_kernel_takes_what_it_is_given_forward_and_backward() -> None:
    """Shapes and types alone, without a GPU: tensors that hold nothing."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        query_THE, key_TGE, value_TGE = (
            torch.empty(42, heads, 64, dtype=torch.bfloat16, requires_grad=True) for heads in (14, 2, 2)
        )
        bounds_B = torch.empty(5, dtype=torch.int32)
        attended = torch_kernel(
            query_THE, key_TGE, value_TGE, bounds_B=bounds_B, longest=23, scale=None, window=(-1, 0)
        )
        assert attended.shape == query_THE.shape
        gradients = torch.autograd.grad(attended.sum(), (query_THE, key_TGE, value_TGE))
    assert [gradient.shape for gradient in gradients] == [(42, 14, 64), (42, 2, 64), (42, 2, 64)]


def test_an_older_kernel_gets_the_keys_of_each_head(monkeypatch: pytest.MonkeyPatch) -> None:
    def older(
        query: Tensor, key: Tensor, value: Tensor, *_: Any, scale: float | None, window_size: Any
    ) -> Tensor:
        assert key.shape == value.shape == query.shape
        return key

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", older)
    key_TGE = torch.arange(6.0).view(3, 2, 1)
    keys_THE = torch_kernel(
        torch.empty(3, 4, 1), key_TGE, key_TGE, bounds_B=torch.tensor([0, 3]), longest=3, scale=None, window=(-1, 0)
    )  # fmt: skip
    assert keys_THE[0, :, 0].tolist() == [0.0, 0.0, 1.0, 1.0]


def test_a_micro_batch_knows_the_bounds_of_its_sequences() -> None:
    batch = make_batch(0, SMALL)
    parts = on_device(batch, CPU)
    assert len(parts) > 1
    for part, tokens in zip(parts, batch.micro_batches(), strict=True):
        starts = np.flatnonzero(batch.position_ids[tokens] == 0).tolist()
        assert part.bounds_B.dtype is torch.int32
        assert part.bounds_B.tolist() == [*starts, tokens.stop - tokens.start]
        assert part.grid == (len(starts), int(part.bounds_B.diff().max()))


KL = {"type": "grpo", "kl": {"coef": 0.3}}
POLICIES: dict[str, Any] = {
    "split": zero(3, objective=KL, gradient_checkpointing=True, offload_activations=True),
    "reference": zero(1, objective=KL),
    "adapter": zero(2, objective=KL, lora={"rank": 4}),
}


@pytest.mark.prove
def test_policies_train_as_under_sdpa_with_a_reference_and_over_two_ranks(workshop: Workshop) -> None:
    def trained(attention: str, name: str, ranks: int = 1, **more: Any) -> dict[str, list[Any]]:
        policies = list(POLICIES)[: 3 if ranks == 1 else 2]
        plan = {
            each: two_steps_of(workshop, f"{each}-{name}", POLICIES[each] | more | {"attention": attention})
            for each in policies
        }
        return workshop.do(name, plan, ranks=ranks)

    expected = trained("sdpa", "sdpa")
    for name, found in {
        "one": trained("varlen", "one"),
        "two": trained("varlen", "two", ranks=2, sequence_ranks=2),
    }.items():
        for policy, steps in found.items():
            names = (f"{policy}-{name}", f"{policy}-sdpa")
            assert_same_steps(workshop, steps, expected[policy], names=names)
    for process, name, choice in (("sdpa", "sdpa", "sdpa"), ("one", VARLEN, "varlen")):
        log = (workshop.folder / f"{process}.0.log").read_text()
        assert f"attention chosen name={name} why='learner.attention={choice}'" in log
