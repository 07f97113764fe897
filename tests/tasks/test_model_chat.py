"""Text is what was sampled, less the stop token; the stop tokens are all that the model names."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from broker.errors import RunFailed
from broker.messages import FinishReason
from config.run import ModelConfig
from scorers.text.extract import response_part
from tasks.model_chat import load_chat
from tests.support.byte_model import STOP, STOP_ID, VOCABULARY, save_folder
from tests.support.chat_families import Family, write_family

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny model's folder."""
    return save_folder(tmp_path_factory.mktemp("tiny_model"), tied=True)


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """Return the tiny model's tokenizer and configs, to be changed."""
    copy = tmp_path / "model"
    shutil.copytree(tiny_model, copy, ignore=shutil.ignore_patterns("*.safetensors"))
    return copy


@pytest.mark.parametrize(
    ("ids", "reason", "text"),
    [
        (["7", STOP], FinishReason.STOP, "7"),
        ([STOP], FinishReason.STOP, ""),
        (["7", "8"], FinishReason.LENGTH, "78"),
        (["7", STOP, "8"], FinishReason.LENGTH, f"7{STOP}8"),  # a special token inside was said
        (["Ã", "©"], FinishReason.LENGTH, "é"),  # two bytes of one character
    ],
)
def test_text_is_said_before_the_stop(folder: Path, ids: list[str], reason: FinishReason, text: str) -> None:
    chat = load_chat(ModelConfig(path=str(folder)))
    assert chat.text([VOCABULARY["5"]], [VOCABULARY[token] for token in ids], reason) == text


@pytest.mark.parametrize(
    ("ending", "opened"),
    [
        ("assistant\n", ""),
        ("assistant\n<think>", "<think>"),
        ("assistant\n<think>\n", "<think>\n"),
        ("assistant\n<think>\n\n</think>\n\n", ""),  # thinking is switched off
        ("think", ""),
    ],
)
def test_a_thought_that_the_template_opens_is_in_the_text(folder: Path, ending: str, opened: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    template = "{% for turn in messages %}{{ turn.content }}{% endfor %}" + ending.replace(
        "\n", "{{ '\\n' }}"
    )
    messages = [{"role": "user", "content": "say <think>"}]
    rendered = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False)
    assert rendered == f"say <think>{ending}"
    prompt_ids = tokenizer.encode(str(rendered))
    chat = load_chat(ModelConfig(path=str(folder)))
    assert chat.text(prompt_ids, [VOCABULARY["7"], STOP_ID], FinishReason.STOP) == f"{opened}7"
    assert chat.text(prompt_ids, [STOP_ID], FinishReason.STOP) == opened


@pytest.mark.parametrize(
    ("eos_token_id", "expected"),
    [(5, {5, STOP_ID}), ([5, 6], {5, 6, STOP_ID}), (None, {STOP_ID}), ("no file", {STOP_ID})],
)
def test_stop_tokens_are_of_config_and_tokenizer(
    folder: Path, eos_token_id: object, expected: set[int]
) -> None:
    file = folder / "generation_config.json"
    file.write_text(json.dumps({"eos_token_id": eos_token_id}))
    if eos_token_id == "no file":
        file.unlink()
    assert load_chat(ModelConfig(path=str(folder))).stop_token_ids == expected


def test_a_folder_without_a_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=f"{tmp_path}.*tokenizer"):
        load_chat(ModelConfig(path=str(tmp_path)))


def test_a_model_that_could_never_stop_is_refused(folder: Path) -> None:
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "eos_token": None}))
    (folder / "generation_config.json").unlink()
    with pytest.raises(RunFailed, match="eos_token"):
        load_chat(ModelConfig(path=str(folder)))


THOUGHT, RIGHT = "maybe \\boxed{3}", "\\boxed{2}"
SAID, ENDS = "<|start|>assistant", "<|END_THINKING|><|START_RESPONSE|>"
# Templates of the published shape: what a turn begins and ends with, what opens a thought, and what ends it.
THINKING = {
    "gpt-oss": (
        *(SAID, "<|return|>", "<|channel|>analysis<|message|>"),
        f"<|end|>{SAID}<|channel|>final<|message|>",
    ),
    "seed-oss": ("<seed:bos>assistant\n", "<seed:eos>", "<seed:think>", "</seed:think>"),
    "magistral": ("[/INST]", "</s>", "[THINK]", "[/THINK]"),
    "command-a": ("<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|START_THINKING|>", ENDS),
    "gemma-4": ("<|turn>model\n", "<turn|>", "<|channel>thought\n", "<channel|>"),
    "exaone-deep": ("[|assistant|]", "[|endofturn|]", "<thought>\n", "\n</thought>\n"),
}


@pytest.mark.parametrize("name", THINKING)
@pytest.mark.parametrize("is_opened", [False, True])
def test_a_thought_in_own_marks_is_told_from_the_answer(name: str, tmp_path: Path, is_opened: bool) -> None:
    begin, end, opening, closing = THINKING[name]
    template = (
        "{% for m in messages %}{{ m.content }}{% endfor %}"
        f"{{% if messages[-1].thinking %}}{{{{ {opening + closing!r} }}}}{{% endif %}}"
        f"{{% if add_generation_prompt %}}{{{{ {begin + opening * is_opened!r} }}}}{{% endif %}}"
    )
    mark = r"<\|?[A-Za-z_]\w*\|?>|<\|\w+>|\[/?THINK\]|</?seed:think>"
    marks = sorted(set(re.findall(mark, opening + closing)))
    family = Family(template=template, end=end, tokenizer_end=end, marks=marks, model_type="llama")
    folder = write_family(tmp_path / "model", family)
    chat, tokenizer = load_chat(ModelConfig(path=str(folder))), AutoTokenizer.from_pretrained(folder)
    asked = [{"role": "user", "content": "1+1?"}]
    prompt: Any = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=False)

    def said(text: str, reason: FinishReason = FinishReason.STOP) -> str:
        ids = tokenizer.encode(text, add_special_tokens=False)
        return chat.text(prompt, [*ids, tokenizer.eos_token_id], reason)

    own = "" if is_opened else opening
    whole = said(f"{own}{THOUGHT}{closing}{RIGHT}")
    assert whole.endswith(f"{opening}{THOUGHT}{closing}{RIGHT}")
    assert (response_part(whole) or "").strip() == RIGHT
    assert response_part(said(f"{own}{THOUGHT}", FinishReason.LENGTH)) is None
    for _, _, others, ends in THINKING.values():
        if others != opening:  # what another model thinks by is text, wherever it stands
            answer = f"it thinks by {others} and {ends}, {RIGHT}"
            assert (response_part(said(f"{own}{THOUGHT}{closing}{answer}")) or "").strip() == answer
            away = f"{others}a{ends}so {opening}{THOUGHT}" if not is_opened else f"{others}a{ends}{THOUGHT}"
            assert response_part(said(away)) is None
