"""The agents' demo's model: what is shipped is small, is what tools.make_demo_model makes, and talks as agents do.

`python -m tools.make_demo_model --demo boxes --out DIR` and `cmp` do the rest, as for the first demo's model.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agents.rendering.templated import load_rendering
from broker.messages import FinishReason, Ids
from broker.messages import Turn as Message
from config.run import ModelConfig
from generators.engine import SamplingParams
from generators.engines.hf.sampling import Request, sample_groups
from tasks.boxes import QUESTION, box_problems, boxes, look, path
from tests.support.paths import ROOT
from tools.box_demonstrations import GOES_ON, TOOL, call
from tools.make_demo_model import (
    IM_END,
    LESSONS,
    NO_LABEL,
    TOLD,
    batches,
    build_model,
    build_tokenizer,
    warm_start,
)

pytestmark = pytest.mark.model

SHIPPED = ROOT / "config" / "recipes" / "demo_agents_model"
LESSON = LESSONS["boxes"]
STOP = FinishReason.STOP


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(SHIPPED)


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(SHIPPED).eval()


@pytest.fixture(scope="module")
def rendering() -> Any:
    return load_rendering(ModelConfig(path=str(SHIPPED), dtype="float32"), is_offline=True)


def ids_of(tokenizer: Any, text: str) -> Ids:
    return np.array(tokenizer(text)["input_ids"], np.int32)


def test_the_shipped_folder_is_small() -> None:
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 2_000_000


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
    losses = warm_start(build_model(tokenizer), tokenizer, LESSON, steps=2)
    assert losses == pytest.approx([5.84530, 5.81126], rel=1e-3)


def test_a_call_is_few_tokens_and_each_mark_is_one(tokenizer: Any) -> None:
    ids = tokenizer(call("4719"))["input_ids"]
    words = tokenizer.convert_ids_to_tokens(ids)
    assert (words[0], words[-1], len(words)) == ("<tool_call>", "</tool_call>", 20)
    assert words[14:18] == list("4719")
    assert tokenizer.decode(ids, skip_special_tokens=True) == call("4719")  # calls are read of text


def test_agents_make_the_very_tokens_of_the_warm_start(tokenizer: Any, rendering: Any) -> None:
    box = next(box for box in boxes("train", 100) if len(path(box)) == 3)
    turns = [(call(each), look(each)) for each in path(box)]
    history: list[Message] = [{"role": "user", "content": QUESTION.format(box=box)}]
    assert rendering.objection([TOOL]) == ""
    ids = rendering.first(history, [TOOL])
    for said, told in turns:
        sampled = ids_of(tokenizer, said + IM_END)
        spoken = rendering.message(ids, sampled, STOP, tools=[TOOL])
        [asked] = spoken.message["tool_calls"]
        assert asked["function"]["name"] == "look"
        assert look(**json.loads(asked["function"]["arguments"])) == told
        answer = {"role": "tool", "tool_call_id": asked["id"], "content": told}
        history.append(spoken.message)
        following = rendering.following(ids, sampled, STOP, history=history, said=[answer], tools=[TOOL])
        assert following.tolist() == [*ids, *sampled, *ids_of(tokenizer, TOLD.format(told))]
        history.append(answer)
        ids = following
    answer = rendering.message(ids, ids_of(tokenizer, "\\boxed{4719}" + IM_END), STOP, tools=[TOOL]).message
    assert answer == {"role": "assistant", "content": "\\boxed{4719}"}


def test_the_shipped_weights_know_all_that_the_demonstrations_tell(model: Any, tokenizer: Any) -> None:
    """What nobody can know of a chat is whether its policy goes on, at each box that it might open."""
    draw = random.Random(0)
    unknown = 0.0
    chats = [chat for _ in range(4) for chat in LESSON.chats(draw, LESSON.chats_per_step)]
    for _, turns in chats:
        looks = len(turns) - 1
        stopped_early = not looks or not turns[-2][1].startswith("The number")
        unknown -= looks * math.log(GOES_ON) + stopped_early * math.log(1 - GOES_ON)
    loss = 0.0
    for ids_BT, labels_BT in islice(batches(tokenizer, LESSON), 4):
        with torch.no_grad():
            logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
        loss += float(
            torch.nn.functional.cross_entropy(
                logits_BTV[:, :-1].flatten(0, 1),
                labels_BT[:, 1:].flatten(),
                ignore_index=NO_LABEL,
                reduction="sum",
            )
        )
    assert loss == pytest.approx(unknown, rel=0.1)


def test_the_shipped_weights_answer_some_held_out_questions_and_leave_most_to_learn(
    model: Any, tokenizer: Any, rendering: Any
) -> None:
    asked = [row for row in box_problems("eval", 64) for _ in range(4)]
    prompts = [rendering.first(row["messages"], [TOOL]) for row in asked]
    texts = [""] * len(asked)
    playing = list(range(len(asked)))
    turn = 0
    while playing and turn < 5:
        turn += 1
        params = [
            SamplingParams(
                max_tokens=32,
                stop_token_ids=frozenset([tokenizer.eos_token_id]),
                temperature=1.0,
                top_p=1.0,
                seed=1000 * turn + i,
            )
            for i in playing
        ]
        requests = [Request(prompts[i], one, 1) for i, one in zip(playing, params, strict=True)]
        going_on = []
        for i, [sampled] in zip(playing, sample_groups(model, requests, lambda: False), strict=True):
            texts[i] = tokenizer.decode(sampled.token_ids[:-1])
            spoken = rendering.message(prompts[i], sampled.token_ids, STOP, tools=[TOOL])
            for one in spoken.message.get("tool_calls", ()):
                told = ids_of(tokenizer, TOLD.format(_look(one["function"]["arguments"])))
                prompts[i] = np.concatenate([prompts[i], sampled.token_ids, told])
                going_on.append(i)
        playing = going_on
    right = [
        f"\\boxed{{{row['verification_info']['answer']['value']}}}" == text  # type: ignore[index]
        for row, text in zip(asked, texts, strict=True)
    ]
    assert 0.1 <= sum(right) / len(right) <= 0.3


def _look(arguments: str) -> str:
    try:
        return look(**json.loads(arguments))
    except ValueError as error:
        return str(error)
