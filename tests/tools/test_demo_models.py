"""The models of both demos: what is shipped is small, whole and loadable, and is what tools.make_demo_model makes.

Making one whole takes minutes, so the beginning of its warm start is repeated here and the result's behaviour checked;
`python -m tools.make_demo_model [--demo boxes] --out DIR` and `cmp` do the rest. Numbers of the warm start are compared
within 0.1 %: CPUs sum in different orders, which moves the last of 24 bits, and a few steps do not amplify that to 1 in
1,000.
"""

from __future__ import annotations

import json
import math
import random
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2ForCausalLM, Qwen2Tokenizer

from agents.rendering.templated import load_rendering
from broker.messages import FinishReason, Ids
from broker.messages import Turn as Message
from config.run import ModelConfig
from generators.engine import SamplingParams
from generators.engines.hf.sampling import SampleRequest, sample_groups
from learner.data.digits import problems
from tasks.boxes import QUESTION, box_problems, boxes, look, path
from tests.support.paths import RECIPES
from tools.box_demonstrations import GOES_ON, TOOL, call
from tools.make_demo_model import (
    IM_END,
    LESSONS,
    NO_LABEL,
    RIGHT_SHARE,
    TOLD,
    WORDINGS,
    batches,
    build_model,
    build_tokenizer,
    warm_start,
)

pytestmark = pytest.mark.model

SHIPPED = {"digits": RECIPES / "demo_model", "boxes": RECIPES / "demo_agents_model"}
STOP = FinishReason.STOP
both = pytest.mark.parametrize("demo", SHIPPED)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@cache
def tokenizer_of(demo: str) -> Any:
    return AutoTokenizer.from_pretrained(SHIPPED[demo], padding_side="left")


@cache
def model_of(demo: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(SHIPPED[demo]).eval()


@pytest.fixture(scope="module")
def rendering() -> Any:
    return load_rendering(ModelConfig(path=str(SHIPPED["boxes"]), dtype="float32"), is_offline=True)


def ids_of(text: str) -> Ids:
    return np.array(tokenizer_of("boxes")(text)["input_ids"], np.int32)


@pytest.mark.parametrize(("demo", "most"), [("digits", 4_000_000), ("boxes", 2_000_000)])
def test_the_shipped_folder_is_small(demo: str, most: int) -> None:
    files = {file.name: file.stat().st_size for file in SHIPPED[demo].iterdir()}
    tokenizer = {"chat_template.jinja", "tokenizer.json", "tokenizer_config.json"}
    assert set(files) == tokenizer | {"config.json", "generation_config.json", "model.safetensors"}
    assert sum(files.values()) < most


def test_transformers_loads_it_as_a_small_float32_qwen2() -> None:
    model, tokenizer = model_of("digits"), tokenizer_of("digits")
    assert type(model) is Qwen2ForCausalLM
    assert model.num_parameters() <= 3_000_000
    tensors = load_file(SHIPPED["digits"] / "model.safetensors").values()
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    assert model.lm_head.weight.data_ptr() != model.model.embed_tokens.weight.data_ptr()
    assert len(model.lm_head.weight) == len(model.model.embed_tokens.weight) == len(tokenizer)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id


def test_auto_tokenizer_gives_the_class_that_was_saved() -> None:
    tokenizer, made = tokenizer_of("digits"), build_tokenizer(LESSONS["digits"])
    assert type(tokenizer) is Qwen2Tokenizer
    assert tokenizer.backend_tokenizer.to_str() == made.backend_tokenizer.to_str()


@given(text=st.text())
def test_any_text_survives_the_round_trip(text: str) -> None:
    tokenizer = tokenizer_of("digits")
    # The family's normalizer composes accents.
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == unicodedata.normalize("NFC", text)


@given(number=st.integers(min_value=0))
def test_a_number_is_one_token_a_digit(number: int) -> None:
    tokenizer = tokenizer_of("digits")
    assert tokenizer.convert_ids_to_tokens(tokenizer(str(number))["input_ids"]) == list(str(number))


def test_the_chat_template_is_the_familys() -> None:
    tokenizer = tokenizer_of("digits")
    chat = [{"role": "system", "content": "Hi"}, {"role": "user", "content": "Reverse 12."}]
    turns = "<|im_start|>system\nHi<|im_end|>\n<|im_start|>user\nReverse 12.<|im_end|>\n"
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    assert tokenizer.decode(ids) == f"{turns}<|im_start|>assistant\n"
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert (ids.count(start), ids.count(end)) == (3, 2)
    assert end == tokenizer.eos_token_id
    assert tokenizer.pad_token_id not in {start, end}


def test_prompts_and_answers_are_short() -> None:
    ids_BT, labels_BT = next(batches(tokenizer_of("digits"), LESSONS["digits"]))
    assert ids_BT.shape[1] <= 48
    assert (labels_BT != NO_LABEL).sum(dim=1).max() <= 14  # the longest wording, five digits, the end


@both
def test_the_script_writes_the_shipped_tokenizer_and_configs(demo: str, tmp_path: Any) -> None:
    tokenizer = build_tokenizer(LESSONS[demo])
    tokenizer.save_pretrained(tmp_path)
    build_model(tokenizer).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / name).read_text() == (SHIPPED[demo] / name).read_text(), name
    for name in ("config.json", "generation_config.json"):
        made, shipped = (json.loads((folder / name).read_text()) for folder in (tmp_path, SHIPPED[demo]))
        assert {**made, "transformers_version": None} == {**shipped, "transformers_version": None}, name


@pytest.mark.prove
@pytest.mark.parametrize(
    ("demo", "losses"), [("digits", [5.84165, 5.81315, 5.73414, 5.65011]), ("boxes", [5.84530, 5.81126])]
)
def test_the_warm_start_begins_as_it_did_for_the_shipped_weights(demo: str, losses: list[float]) -> None:
    tokenizer = build_tokenizer(LESSONS[demo])
    models = [build_model(tokenizer) for _ in range(2)]
    first, second = [warm_start(model, tokenizer, LESSONS[demo], steps=len(losses)) for model in models]
    assert first == second == pytest.approx(losses, rel=1e-3)
    parameters = zip(*(model.parameters() for model in models), strict=True)
    assert all(torch.equal(one, other) for one, other in parameters)


def loss_of(demo: str) -> tuple[float, int]:
    """Return the sum of the nats of four batches of demonstrations, and how many chats they are."""
    nats, chats = 0.0, 0
    for ids_BT, labels_BT in islice(batches(tokenizer_of(demo), LESSONS[demo]), 4):
        with torch.no_grad():
            logits = model_of(demo)(input_ids=ids_BT, use_cache=False).logits[:, :-1].flatten(0, 1)
        labels = labels_BT[:, 1:].flatten()
        found = torch.nn.functional.cross_entropy(logits, labels, ignore_index=NO_LABEL, reduction="sum")
        nats, chats = nats + float(found), chats + len(ids_BT)
    return nats, chats


def test_the_shipped_weights_know_all_that_the_demonstrations_of_digits_tell() -> None:
    """What nobody can know of an answer is its way and its wording: so many nats, spread over its tokens."""
    way = -RIGHT_SHARE * math.log(RIGHT_SHARE) - (1 - RIGHT_SHARE) * math.log(1 - RIGHT_SHARE)
    nats, chats = loss_of("digits")
    assert nats / chats == pytest.approx(way + math.log(len(WORDINGS)), rel=0.1)


def test_the_shipped_weights_know_all_that_the_demonstrations_of_boxes_tell() -> None:
    """What nobody can know of a chat is whether its policy goes on, at each box that it might open."""
    draw, lesson = random.Random(0), LESSONS["boxes"]
    unknown = 0.0
    for _, turns in [chat for _ in range(4) for chat in lesson.chats(draw, lesson.chats_per_step)]:
        looks = len(turns) - 1
        stopped_early = not looks or not turns[-2][1].startswith("The number")
        unknown -= looks * math.log(GOES_ON) + stopped_early * math.log(1 - GOES_ON)
    assert loss_of("boxes")[0] == pytest.approx(unknown, rel=0.1)


def test_the_shipped_weights_leave_something_to_learn_and_always_stop() -> None:
    asked, tokenizer = problems("eval", 128), tokenizer_of("digits")
    chats = [[{"role": "user", "content": problem.question}] for problem in asked]
    inputs = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    torch.manual_seed(0)
    options: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_k": 0, "num_return_sequences": 4}
    ids_BT = model_of("digits").generate(**inputs, **options, max_new_tokens=24)
    answers_BT = ids_BT[:, inputs["input_ids"].shape[1] :]
    texts = tokenizer.batch_decode(answers_BT, skip_special_tokens=True)
    wanted = [f"\\boxed{{{problem.answer}}}" for problem in asked for _ in range(4)]
    right = [answer in text for answer, text in zip(wanted, texts, strict=True)]
    assert 0.1 <= sum(right) / len(right) <= 0.4
    assert (answers_BT == tokenizer.eos_token_id).any(dim=1).float().mean() >= 0.98


def test_a_call_is_few_tokens_and_each_mark_is_one() -> None:
    tokenizer = tokenizer_of("boxes")
    ids = tokenizer(call("4719"))["input_ids"]
    words = tokenizer.convert_ids_to_tokens(ids)
    assert (words[0], words[-1], len(words)) == ("<tool_call>", "</tool_call>", 20)
    assert words[14:18] == list("4719")
    assert tokenizer.decode(ids, skip_special_tokens=True) == call("4719")  # calls are read of text


def test_agents_make_the_very_tokens_of_the_warm_start(rendering: Any) -> None:
    box = next(box for box in boxes("train", 100) if len(path(box)) == 3)
    history: list[Message] = [{"role": "user", "content": QUESTION.format(box=box)}]
    assert rendering.objection([TOOL]) == ""
    ids = rendering.first(history, [TOOL])
    for said, told in [(call(each), look(each)) for each in path(box)]:
        sampled = ids_of(said + IM_END)
        spoken = rendering.message(ids, sampled, STOP, tools=[TOOL])
        [asked] = spoken.message["tool_calls"]
        assert asked["function"]["name"] == "look"
        assert look(**json.loads(asked["function"]["arguments"])) == told
        answer = {"role": "tool", "tool_call_id": asked["id"], "content": told}
        history.append(spoken.message)
        following = rendering.following(ids, sampled, STOP, history=history, said=[answer], tools=[TOOL])
        assert following.tolist() == [*ids, *sampled, *ids_of(TOLD.format(told))]
        history.append(answer)
        ids = following
    answer = rendering.message(ids, ids_of("\\boxed{4719}" + IM_END), STOP, tools=[TOOL]).message
    assert answer == {"role": "assistant", "content": "\\boxed{4719}"}


def test_the_shipped_weights_answer_some_held_out_questions_and_leave_most_to_learn(rendering: Any) -> None:
    model, tokenizer = model_of("boxes"), tokenizer_of("boxes")
    asked = [row for row in box_problems("eval", 64) for _ in range(4)]
    prompts = [rendering.first(row["messages"], [TOOL]) for row in asked]
    texts = [""] * len(asked)
    playing = list(range(len(asked)))
    ends = frozenset([tokenizer.eos_token_id])
    for turn in range(1, 6):
        if not playing:
            break
        params = [
            SamplingParams(
                max_tokens=32, stop_token_ids=ends, temperature=1.0, top_p=1.0, seed=1000 * turn + i
            )
            for i in playing
        ]
        requests = [SampleRequest(prompts[i], one, 1) for i, one in zip(playing, params, strict=True)]
        going_on = []
        for i, [sampled] in zip(playing, sample_groups(model, requests, lambda: False), strict=True):
            texts[i] = tokenizer.decode(sampled.token_ids[:-1])
            spoken = rendering.message(prompts[i], sampled.token_ids, STOP, tools=[TOOL])
            for one in spoken.message.get("tool_calls", ()):
                told = ids_of(TOLD.format(_look(one["function"]["arguments"])))
                prompts[i] = np.concatenate([prompts[i], sampled.token_ids, told])
                going_on.append(i)
        playing = going_on
    answers: list[Any] = [row["verification_info"] for row in asked]
    wanted = [f"\\boxed{{{info['answer']['value']}}}" for info in answers]
    right = [answer == text for answer, text in zip(wanted, texts, strict=True)]
    assert 0.1 <= sum(right) / len(right) <= 0.3


def _look(arguments: str) -> str:
    try:
        return look(**json.loads(arguments))
    except ValueError as error:
        return str(error)
