"""`millrace think-template`: a model of any family thinks, its files agree, and what can't be changed is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from broker.errors import RunFailed
from broker.messages import FinishReason
from config.run import ModelConfig
from scorers.text.extract import last_box, response_part
from tasks.model_chat import load_chat
from tests.support.chat_families import ASSISTANT, BEGIN, DEEPSEEK, END, FAMILIES, QWEN3, USER, write_family
from tests.support.told import Capsys, Patch
from tests.support.verbs import call
from tools.arguments import UsageError
from tools.think_template.chat import INSTRUCTION, CannotThink
from tools.think_template.ends import read_json

pytestmark = pytest.mark.model

CHAT = [{"role": "user", "content": "1+1?"}]
PROMPTS = {
    "qwen": f"<|im_start|>system\n{INSTRUCTION}<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n",
    "llama": (
        f"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{INSTRUCTION}<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n1+1?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "llama-3.1": (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nToday Date: 26 Jul 2024\n\n"
        f"{INSTRUCTION}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n1+1?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "gemma": f"<bos><start_of_turn>user\n{INSTRUCTION}\n\n1+1?<end_of_turn>\n<start_of_turn>model\n",
    "mistral": f"<s>[INST] {INSTRUCTION}\n\n1+1? [/INST]",
    "mistral-3": f"<s>[INST] {INSTRUCTION}\n\n1+1?[/INST]",
    "deepseek": f"{BEGIN}{INSTRUCTION}{USER}1+1?{ASSISTANT}",
}
ENDS = {  # the turn's first, then all that any file named
    "qwen": ["<|im_end|>", "<|endoftext|>"],
    "llama": ["<|eot_id|>", "<|end_of_text|>"],
    "llama-3.1": ["<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"],
    "gemma": ["<end_of_turn>", "<eos>"],
    "mistral": ["</s>"],
    "mistral-3": ["</s>"],
    "deepseek": [END],
}


Think = Callable[..., Path]


@pytest.fixture
def think(tmp_path: Path) -> Think:
    """Write a family's folder, call the verb with more words, and return what it wrote."""

    def think(name: str, *words: str) -> Path:
        source = write_family(tmp_path / name, FAMILIES[name])
        assert changed(source, tmp_path / "out", *words) == 0
        return tmp_path / "out"

    return think


def changed(source: Path | str, out: Path, *words: str) -> int:
    return call("think-template", str(source), "-o", str(out), *words)


def rendered(folder: Path, chat: list[dict[str, str]] = CHAT) -> str:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


@pytest.mark.prove(after=4)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_of_each_family_begins_with_a_thought(name: str, think: Think, capsys: Capsys) -> None:
    family = name.partition("-")[0]
    assert rendered(think(name, "--family", family)) == PROMPTS[name] + "<think>\n"
    shown = capsys.readouterr().out
    assert f"turns     end with {ENDS[name][0]}, as those of {family} do\n" in shown
    assert "What is 17 + 25?" in shown
    assert "is read as '\\n\\nIt is \\\\boxed{42}.'" in shown


@pytest.mark.prove(after=4)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_file_says_the_same_of_what_ends_an_answer(name: str, think: Think) -> None:
    out = think(name)
    tokenizer = AutoTokenizer.from_pretrained(out)
    ids = [tokenizer.convert_tokens_to_ids(token) for token in ENDS[name]]
    value = ids[0] if len(ids) == 1 else ids
    assert read_json(out / "tokenizer_config.json")["eos_token"] == ENDS[name][0]
    assert read_json(out / "config.json") == {"model_type": FAMILIES[name].model_type, "eos_token_id": value}
    had_file = FAMILIES[name].generation_ends is not None
    kept = {"temperature": 0.7} if had_file else {}
    assert read_json(out / "generation_config.json") == {**kept, "eos_token_id": value}
    assert load_chat(ModelConfig(path=str(out))).stop_token_ids == set(ids)


@pytest.mark.prove(after=4)
@pytest.mark.parametrize("name", FAMILIES)
def test_scorers_read_what_is_behind_the_thought_and_nothing_of_a_cut_one(name: str, think: Think) -> None:
    out = think(name)
    tokenizer: Any = AutoTokenizer.from_pretrained(out)
    chat = load_chat(ModelConfig(path=str(out)))
    prompt = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    spoken = "maybe \\boxed{3}</think>\n\\boxed{2}"
    ids = [*tokenizer.encode(spoken, add_special_tokens=False), tokenizer.eos_token_id]
    text = chat.text(prompt, ids, FinishReason.STOP)
    assert text == f"<think>\n{spoken}"
    assert last_box(response_part(text) or "") == "2"
    cut = tokenizer.encode("maybe \\boxed{2}", add_special_tokens=False)
    assert response_part(chat.text(prompt, cut, FinishReason.LENGTH)) is None


def test_a_chat_with_a_systems_turn_of_its_own_keeps_it(think: Think) -> None:
    own = [{"role": "system", "content": "Be brief."}, *CHAT]
    brief = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user"
    assert rendered(think("qwen"), own).startswith(brief)


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ("[THINK]", "has '[THINK]': the model thinks already, by marks of its own"),
        ("<seed:think>", "has '<seed:think>'"),
        ("<|channel|>analysis<|message|>", "has '<|channel|>'"),
    ],
)
def test_a_model_that_thinks_by_its_own_marks_is_an_error(tmp_path: Path, marks: str, message: str) -> None:
    family = FAMILIES["qwen"]
    thinking = f"{{% if messages[-1].thinking %}}{{{{ '{marks}' }}}}{{% endif %}}"
    source = write_family(tmp_path / "model", replace(family, template=thinking + family.template))
    with pytest.raises(CannotThink, match=re.escape(message)):
        changed(source, tmp_path / "out")


def test_the_words_are_ones_own_or_none(think: Think, tmp_path: Path) -> None:
    words = "Don't \\ guess:\n{{ 'ü' }} %} first"
    assert rendered(think("qwen", "--system", words)).startswith(f"<|im_start|>system\n{words}<|im_end|>\n")
    plain = rendered(tmp_path / "qwen")
    assert rendered(think("qwen", "--no-system", "--force")) == f"{plain}<think>\n"


def test_the_template_stays_in_the_files_that_had_it(think: Think, tmp_path: Path) -> None:
    out = think("gemma")
    assert "<think>" in (out / "chat_template.jinja").read_text()
    assert "chat_template" not in read_json(out / "tokenizer_config.json")
    out = think("qwen", "--force")
    assert "<think>" in read_json(out / "tokenizer_config.json")["chat_template"]
    assert not (out / "chat_template.jinja").exists()
    both = write_family(tmp_path / "both", FAMILIES["gemma"], chat_template="an older one")
    changed(both, tmp_path / "new")
    written = (tmp_path / "new" / "chat_template.jinja").read_text()
    assert written == read_json(tmp_path / "new" / "tokenizer_config.json")["chat_template"]
    assert read_json(both / "tokenizer_config.json")["chat_template"] == "an older one"


def test_of_several_templates_the_default_is_changed(tmp_path: Path) -> None:
    named = [
        {"name": "default", "template": FAMILIES["qwen"].template},
        {"name": "tool_use", "template": "{{ 1 }}"},
    ]
    source = write_family(tmp_path / "model", FAMILIES["qwen"], chat_template=named)
    changed(source, tmp_path / "out")
    templates = read_json(tmp_path / "out" / "tokenizer_config.json")["chat_template"]
    assert [each["name"] for each in templates if "<think>\\n" in each["template"]] == ["default"]
    assert rendered(tmp_path / "out") == PROMPTS["qwen"] + "<think>\n"


def test_weights_are_links_copies_or_left_out_and_no_more_is_shared(think: Think, tmp_path: Path) -> None:
    source = tmp_path / "qwen" / "model.safetensors"
    out = think("qwen")
    assert (out / "model.safetensors").samefile(source)
    assert not (out / "config.json").samefile(tmp_path / "qwen" / "config.json")
    copied = think("qwen", "--force", "--copy") / "model.safetensors"
    assert copied.read_bytes() == source.read_bytes()
    assert not copied.samefile(source)
    (tmp_path / "qwen" / "model.safetensors.index.json").write_text("{}")
    names = {path.name for path in think("qwen", "--force", "--tokenizer-only").iterdir()}
    assert names == {"tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json"}


def test_a_template_of_ones_own_stands_for_the_models(think: Think, tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text(
        "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}\n"
    )
    out = think("qwen", "--template", str(file))
    assert rendered(out) == f"system: {INSTRUCTION}<|im_end|>user: 1+1?<|im_end|>assistant: <think>\n"


def without_trace(folder: Path, out: Path) -> bool:
    """Tell whether nothing is at the place of the new folder, and nothing half-written beside it."""
    return not out.exists() and [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


UNCHANGEABLE: list[Any] = [
    ("qwen", QWEN3, "has enable_thinking: the model thinks already"),
    ("qwen", FAMILIES["qwen"].template + "{% if add_generation_prompt and thinking %}{{ 'Think:' }}{% endif %}",
        "has thinking: the model thinks already"),
    ("deepseek", DEEPSEEK.replace(f"{ASSISTANT}'}}}}{{% endif %}}", f"{ASSISTANT}<think>\\n'}}}}{{% endif %}}"),
        "opens a thought already"),
    ("qwen", "{{ messages[0].content }}", "nothing matched: the template's prompt is 'Quo-vadis-17'"),
    ("qwen", "{% for turn in messages %}{{ turn.content }}\n{% endfor %}",
        r"ends the model's turn with '\\n', which begins with no token of its own"),
    ("qwen", "{% for turn in messages %}", r"the chat template: line 1: TemplateSyntaxError"),
    ("qwen", "{{ nothing.at.all }}", r"the chat template fails for .*: line 1: UndefinedError"),
    # what this file names changes
    ("qwen", "{{- eos_token }}" + FAMILIES["qwen"].template, "the template can't be changed so"),
    ("qwen", "", "no chat template: give one, --template FILE"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "template", "message"), UNCHANGEABLE)
def test_what_cant_be_changed_leaves_nothing(name: str, template: str, message: str, tmp_path: Path) -> None:
    source = write_family(tmp_path / "model", replace(FAMILIES[name], template=template))
    with pytest.raises(CannotThink, match=message):
        changed(source, tmp_path / "out")
    assert without_trace(tmp_path, tmp_path / "out")


def test_a_model_that_was_changed_is_not_changed_again(think: Think, tmp_path: Path) -> None:
    out = think("llama")
    with pytest.raises(CannotThink, match="opens a thought already"):
        changed(out, tmp_path / "twice")


def test_another_family_than_the_one_that_was_named_is_an_error(tmp_path: Path) -> None:
    source = write_family(tmp_path / "model", FAMILIES["gemma"])
    said = r"turns end with <end_of_turn>; those of llama end with <\|eot_id\|>"
    with pytest.raises(CannotThink, match=said):
        changed(source, tmp_path / "out", "--family", "llama")


def test_the_template_of_a_processor_is_an_error(tmp_path: Path) -> None:
    source = write_family(tmp_path / "model", FAMILIES["qwen"])
    (source / "chat_template.json").write_text("{}")
    with pytest.raises(CannotThink, match=r"chat_template\.json: the template of a processor"):
        changed(source, tmp_path / "out")
    assert without_trace(tmp_path, tmp_path / "out")


def test_a_folder_that_is_there_stays_unless_force_replaces_it_whole(tmp_path: Path) -> None:
    source = write_family(tmp_path / "model", FAMILIES["qwen"])
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").touch()
    with pytest.raises(UsageError, match="exists; --force replaces a folder"):
        changed(source, out)
    bad = write_family(tmp_path / "bad", replace(FAMILIES["qwen"], template="{{ messages[0].content }}"))
    with pytest.raises(CannotThink):
        changed(bad, out, "--force")
    assert [path.name for path in out.iterdir()] == ["old"]
    assert changed(source, out, "--force") == 0
    assert not (out / "old").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    with pytest.raises(UsageError, match="lies in the model's own folder"):
        changed(source, source / "inner")


def test_a_name_on_the_hub_is_found_in_the_cache(tmp_path: Path, monkeypatch: Patch) -> None:
    from huggingface_hub import constants

    made = write_family(tmp_path / "made", FAMILIES["qwen"])
    kept = tmp_path / "hub" / "models--owner--name"
    snapshot = kept / "snapshots" / ("a" * 40)
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text("a" * 40)
    (kept / "blobs").mkdir()
    snapshot.mkdir(parents=True)
    for path in made.iterdir():  # as the cache has them: links to blobs
        path.rename(kept / "blobs" / path.name)
        (snapshot / path.name).symlink_to(kept / "blobs" / path.name)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert changed("owner/name", tmp_path / "out") == 0
    assert not any(path.is_symlink() for path in (tmp_path / "out").iterdir())
    assert rendered(tmp_path / "out") == PROMPTS["qwen"] + "<think>\n"
    with pytest.raises(RunFailed, match="owner/other: no folder here, and the hub does not give it"):
        changed("owner/other", tmp_path / "none")
    with pytest.raises(UsageError, match="there is no such folder"):
        changed("./other", tmp_path / "none")


def test_ends_of_a_text_model_inside_another_agree_too(tmp_path: Path) -> None:
    source = write_family(tmp_path / "model", FAMILIES["gemma"])
    config = read_json(source / "config.json")
    config["text_config"] = {"eos_token_id": config["eos_token_id"][0], "hidden_size": 8}
    (source / "config.json").write_text(json.dumps(config))
    changed(source, tmp_path / "out")
    written = read_json(tmp_path / "out" / "config.json")
    assert written["text_config"] == {"eos_token_id": written["eos_token_id"], "hidden_size": 8}
