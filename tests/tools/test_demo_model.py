"""The first demo's model: what is shipped is small, whole and loadable, and is what tools.make_demo_model makes.

Making it whole takes minutes, so the beginning of its warm start is repeated here and the result's behaviour checked;
`python -m tools.make_demo_model --out DIR` and `cmp` do the rest. Numbers of the warm start are compared within 0.1 %:
CPUs sum in different orders, which moves the last of 24 bits, and a few steps do not amplify that to 1 in 1,000.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2ForCausalLM, Qwen2Tokenizer

from learner.data.digits import problems
from tests.support.paths import ROOT
from tools.make_demo_model import (
    LESSONS,
    NO_LABEL,
    RIGHT_SHARE,
    WORDINGS,
    batches,
    build_model,
    build_tokenizer,
    warm_start,
)

pytestmark = pytest.mark.model

SHIPPED = ROOT / "config" / "recipes" / "demo_model"
LESSON = LESSONS["digits"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)  # warm_start sets it to one


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(SHIPPED, padding_side="left")


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(SHIPPED)


def test_the_shipped_folder_is_small() -> None:
    files = {file.name: file.stat().st_size for file in SHIPPED.iterdir()}
    tokenizer = {"chat_template.jinja", "tokenizer.json", "tokenizer_config.json"}
    assert set(files) == tokenizer | {"config.json", "generation_config.json", "model.safetensors"}
    assert sum(files.values()) < 4_000_000


def test_transformers_loads_it_as_a_small_float32_qwen2(model: Any, tokenizer: Any) -> None:
    assert type(model) is Qwen2ForCausalLM
    assert model.num_parameters() <= 3_000_000
    assert {tensor.dtype for tensor in load_file(SHIPPED / "model.safetensors").values()} == {torch.float32}
    assert model.lm_head.weight.data_ptr() != model.model.embed_tokens.weight.data_ptr()
    assert len(model.lm_head.weight) == len(model.model.embed_tokens.weight) == len(tokenizer)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id


def test_auto_tokenizer_gives_the_class_that_was_saved(tokenizer: Any) -> None:
    assert type(tokenizer) is Qwen2Tokenizer
    assert tokenizer.backend_tokenizer.to_str() == build_tokenizer(LESSON).backend_tokenizer.to_str()


@given(text=st.text())
def test_any_text_survives_the_round_trip(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == unicodedata.normalize(
        "NFC", text
    )  # the family's normalizer composes accents


@given(number=st.integers(min_value=0))
def test_a_number_is_one_token_a_digit(tokenizer: Any, number: int) -> None:
    assert tokenizer.convert_ids_to_tokens(tokenizer(str(number))["input_ids"]) == list(str(number))


def test_the_chat_template_is_the_familys(tokenizer: Any) -> None:
    chat = [{"role": "system", "content": "Hi"}, {"role": "user", "content": "Reverse 12."}]
    text = (
        "<|im_start|>system\nHi<|im_end|>\n<|im_start|>user\nReverse 12.<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    assert tokenizer.decode(ids) == text
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert (ids.count(start), ids.count(end)) == (3, 2)
    assert end == tokenizer.eos_token_id
    assert tokenizer.pad_token_id not in {start, end}


def test_prompts_and_answers_are_short(tokenizer: Any) -> None:
    ids_BT, labels_BT = next(batches(tokenizer, LESSON))
    assert ids_BT.shape[1] <= 48
    assert (labels_BT != NO_LABEL).sum(dim=1).max() <= 14  # the longest wording, five digits, the end


def test_the_script_writes_the_shipped_tokenizer_and_configs(tmp_path: Path) -> None:
    tokenizer = build_tokenizer(LESSON)
    tokenizer.save_pretrained(tmp_path)
    build_model(tokenizer).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / name).read_text() == (SHIPPED / name).read_text(), name
    for name in ("config.json", "generation_config.json"):
        made, shipped = (json.loads((folder / name).read_text()) for folder in (tmp_path, SHIPPED))
        assert {**made, "transformers_version": None} == {**shipped, "transformers_version": None}, name


@pytest.mark.prove
def test_the_warm_start_begins_as_it_did_for_the_shipped_weights() -> None:
    tokenizer = build_tokenizer(LESSON)
    models = [build_model(tokenizer) for _ in range(2)]
    losses = [warm_start(model, tokenizer, LESSON, steps=4) for model in models]
    assert losses[0] == losses[1]
    assert all(
        torch.equal(one, other) for one, other in zip(*(model.parameters() for model in models), strict=True)
    )
    assert losses[0] == pytest.approx([5.84165, 5.81315, 5.73414, 5.65011], rel=1e-3)


def test_the_shipped_weights_know_all_that_the_demonstrations_tell(model: Any, tokenizer: Any) -> None:
    """What nobody can know of an answer is its way and its wording: so many nats, spread over its tokens."""
    way = -RIGHT_SHARE * math.log(RIGHT_SHARE) - (1 - RIGHT_SHARE) * math.log(1 - RIGHT_SHARE)
    ids_BT, labels_BT = (
        torch.cat(parts) for parts in zip(*map(_padded, islice(batches(tokenizer, LESSON), 4)), strict=True)
    )
    with torch.no_grad():
        logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(
        logits_BTV[:, :-1].flatten(0, 1), labels_BT[:, 1:].flatten(), ignore_index=NO_LABEL, reduction="sum"
    )
    assert float(loss) / len(ids_BT) == pytest.approx(way + math.log(len(WORDINGS)), rel=0.1)


def test_the_shipped_weights_leave_something_to_learn_and_always_stop(model: Any, tokenizer: Any) -> None:
    asked = problems("eval", 128)
    chats = [[{"role": "user", "content": problem.question}] for problem in asked]
    inputs = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    torch.manual_seed(0)
    ids_BT = model.generate(
        **inputs, do_sample=True, temperature=1.0, top_k=0, num_return_sequences=4, max_new_tokens=24
    )
    answers_BT = ids_BT[:, inputs["input_ids"].shape[1] :]
    texts = tokenizer.batch_decode(answers_BT, skip_special_tokens=True)
    right = [
        f"\\boxed{{{problem.answer}}}" in text
        for problem, text in zip((problem for problem in asked for _ in range(4)), texts, strict=True)
    ]
    assert 0.1 <= sum(right) / len(right) <= 0.4
    assert (answers_BT == tokenizer.eos_token_id).any(dim=1).float().mean() >= 0.98


def _padded(batch: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of 64 tokens, so that batches can be put together."""
    ids_BT, labels_BT = batch
    right = (0, 64 - ids_BT.shape[1])
    return torch.nn.functional.pad(ids_BT, right), torch.nn.functional.pad(labels_BT, right, value=NO_LABEL)
