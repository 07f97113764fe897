"""What a written model has of its base's files, whatever a library thinks of them."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from broker.errors import RunFailed
from broker.weight_files import FILE
from config.run import ChatTemplateConfig, ModelConfig
from learner.base_model import hub
from learner.base_model.base_files import what_is_odd, write_base_files
from learner.training.model_files import load_model, write_model
from tasks.model_chat import load_chat
from tests.support.tiny import write_tiny_model

pytestmark = pytest.mark.model

TEMPLATE = "{% for turn in messages %}<{{ turn.role }}>{{ turn.content }}{% endfor %}"
CHAT = [{"role": "user", "content": "1+1"}]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_tiny_model(tmp_path_factory.mktemp("base") / "tiny")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture
def base(tiny: Path, tmp_path: Path) -> Path:
    """Return a folder of a base model, to be made odd."""
    folder = tmp_path / "base"
    folder.mkdir()
    for file in tiny.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def change(file: Path, **changes: Any) -> None:
    content = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(content | changes))


def source(base: Path, **model: Any) -> ModelConfig:
    return ModelConfig(path=str(base), dtype="float32", **model)


def exported(base: Path, **model: Any) -> Path:
    """Export a base with its own weights, which are to be in the folder whatever else is not."""
    out = base.parent / "out"
    write_model(load_file(base / FILE), out, source=source(base, **model), shard_bytes=10**9)
    assert_has_weights(out, base)
    return out


def assert_has_weights(out: Path, base: Path) -> None:
    written, own = load_file(out / FILE), load_file(base / FILE)
    assert written.keys() == own.keys()
    assert all(torch.equal(written[name], own[name]) for name in own)


# transformers 5.19.0: loads each with a word in the log, and raises ValueError where it is to save one.
LOADED_AND_NOT_SAVED: Mapping[str, dict[str, Any]] = {
    "Llama-2-chat": {"temperature": 0.6, "top_p": 0.9, "max_length": 4096, "eos_token_id": 2},
    "temperature alone": {"temperature": 0.7},
    "top_p alone": {"top_p": 0.8},
    "top_k alone": {"top_k": 20},
    "min_p": {"min_p": 0.05},
    "typical_p": {"typical_p": 0.9},
    "do_sample is false": {"do_sample": False, "temperature": 0.6},
    "do_sample is null": {"do_sample": None, "top_p": 0.95},
    "epsilon_cutoff": {"epsilon_cutoff": 3e-4},
    "eta_cutoff": {"eta_cutoff": 2e-3},
    "a penalty of beams": {"length_penalty": 0.5},
    "early_stopping without beams": {"early_stopping": True},
    "a negative pad": {"pad_token_id": -1},
    "a temperature in quotation marks": {"temperature": "0.6"},
}


@pytest.mark.parametrize("content", LOADED_AND_NOT_SAVED.values(), ids=LOADED_AND_NOT_SAVED)
def test_an_unsavable_generation_config_is_copied_to_the_byte(base: Path, content: dict[str, Any]) -> None:
    (base / "generation_config.json").write_text(json.dumps(content, indent=3))
    out = exported(base)
    assert (out / "generation_config.json").read_bytes() == (base / "generation_config.json").read_bytes()
    (word,) = what_is_odd(source(base))
    assert "generation_config.json: transformers reads it, and refuses to save it" in word
    assert any(name in word for name in content)
    assert AutoModelForCausalLM.from_pretrained(out).num_parameters()


# transformers 5.19.0 raises ValueError, TypeError or OSError where it is to read one.
UNREAD = {
    "several of a greedy answer": '{"num_return_sequences": 4}',
    "an unknown cache": '{"cache_implementation": "no_such"}',
    "early_stopping": '{"early_stopping": "sometimes"}',
    "no new tokens": '{"max_new_tokens": 0}',
    "a list": "[1]",
    "cut": '{"temperature": 0.6',
    "empty": "",
}


@pytest.mark.parametrize("text", UNREAD.values(), ids=UNREAD)
def test_a_generation_config_that_cant_be_read_costs_a_word_and_no_weight(base: Path, text: str) -> None:
    (base / "generation_config.json").write_text(text)
    assert (exported(base) / "generation_config.json").read_text() == text
    (word,) = what_is_odd(source(base))
    assert "generation_config.json: transformers can't read it" in word
    if text[:1] in ("{", "[") and text[-1:] in ("}", "]"):  # both libraries do without what is no JSON at all
        with pytest.raises(RunFailed, match=r"generation_config\.json"):
            load_model(source(base), attention="sdpa", gradient_checkpointing=False)
        with pytest.raises(RunFailed, match=r"generation_config\.json"):
            load_chat(source(base))


@pytest.mark.parametrize("ids", ["x", [1, "2"], True, 7.5, {"a": 1}])
def test_what_is_no_id_of_a_stop_token_is_named(base: Path, ids: Any) -> None:
    change(base / "generation_config.json", eos_token_id=ids)
    with pytest.raises(RunFailed, match=r"eos_token_id of its generation_config\.json has .*no token's id"):
        load_chat(source(base))


def test_a_base_in_order_has_no_word_and_its_folder_is_whole(base: Path) -> None:
    change(base / "generation_config.json", do_sample=True, temperature=0.6)
    (base / "preprocessor_config.json").write_text('{"size": 3}')
    (base / "README.md").write_text("a card")
    assert what_is_odd(source(base)) == []
    out = exported(base)
    assert {path.name for path in out.iterdir()} == {path.name for path in base.iterdir()} - {"README.md"}


@pytest.mark.parametrize("name", ["../over", "tools/more"])
def test_templates_that_cant_be_saved_are_copied(base: Path, name: str) -> None:
    (base / "chat_template.jinja").unlink()
    templates = {"default": TEMPLATE, name: TEMPLATE}
    listed = [{"name": name, "template": template} for name, template in templates.items()]
    change(base / "tokenizer_config.json", chat_template=listed)
    assert AutoTokenizer.from_pretrained(exported(base)).chat_template == templates
    (word,) = what_is_odd(source(base))
    assert "the tokenizer: transformers refuses to save it (ValueError: Invalid chat template name" in word
    assert not list(base.parent.glob("*.jinja"))


LISTED = [{"name": "default", "template": "other"}, {"name": "tool_use", "template": "tools"}]


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("chat_template.jinja", "other"),
        ("tokenizer_config.json", "other"),
        ("tokenizer_config.json", LISTED),
        ("additional_chat_templates/tool_use.jinja", "tools"),
    ],
)
def test_the_runs_template_is_the_only_one_of_all(base: Path, name: str, template: Any) -> None:
    (base / name).parent.mkdir(exist_ok=True)
    if name.endswith(".json"):
        change(base / name, chat_template=template)
    else:
        (base / name).write_text(template)
    out = exported(base, chat_template=ChatTemplateConfig(text=TEMPLATE))
    assert AutoTokenizer.from_pretrained(out).chat_template == TEMPLATE
    tools: list[Any] = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    for given in (None, tools):
        tokenizer = AutoTokenizer.from_pretrained(out)
        assert tokenizer.apply_chat_template(CHAT, tools=given, tokenize=False) == "<user>1+1"


CODE = """
from transformers import PreTrainedTokenizer


class Odd(PreTrainedTokenizer):
    vocab_files_names = {"vocab_file": "odd.words"}

    def __init__(self, vocab_file, **kwargs):
        self.words = open(vocab_file, encoding="utf-8").read().split()
        super().__init__(**kwargs)

    @property
    def vocab_size(self):
        return len(self.words)

    def get_vocab(self):
        return {word: number for number, word in enumerate(self.words)}

    def _tokenize(self, text):
        return [letter if letter in self.words else "?" for letter in text]

    def _convert_token_to_id(self, token):
        return self.get_vocab().get(token, 0)

    def _convert_id_to_token(self, index):
        return self.words[index]

    def save_vocabulary(self, save_directory, filename_prefix=None):
        raise NotImplementedError("this tokenizer can't be saved")
"""


def make_tokenizer_of_code(base: Path) -> None:
    """Give a base a tokenizer whose class comes with it, and which can't be saved."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (base / name).unlink()
    (base / "tokenization_odd.py").write_text(CODE)
    (base / "odd.words").write_text(" ".join(["?", "</s>", *map(chr, range(33, 127))]))
    auto_map = {"AutoTokenizer": ["tokenization_odd.Odd", None]}
    change(base / "tokenizer_config.json", auto_map=auto_map, eos_token="</s>", unk_token="?")


def test_a_tokenizer_of_its_own_code_is_copied_with_it(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(base.parent / "modules"))
    make_tokenizer_of_code(base)
    (word,) = what_is_odd(source(base, trust_remote_code=True))
    assert "the tokenizer: transformers refuses to save it (NotImplementedError" in word
    out = exported(base, trust_remote_code=True)
    one, other = (AutoTokenizer.from_pretrained(each, trust_remote_code=True) for each in (base, out))
    assert one("1+1=2").input_ids == other("1+1=2").input_ids
    assert one.apply_chat_template(CHAT, tokenize=False) == other.apply_chat_template(CHAT, tokenize=False)


def test_a_config_that_can_not_be_saved_is_written_as_it_was_with_the_type_of_the_weights(
    base: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("Some generation parameters are set in the model config")

    change(base / "config.json", dtype="bfloat16", torch_dtype="bfloat16", notes="mine")
    monkeypatch.setattr("transformers.Qwen2Config.save_pretrained", refuse)
    with caplog.at_level(logging.WARNING):
        out = exported(base)
    written = json.loads((out / "config.json").read_text())
    assert (written["dtype"], written["notes"]) == ("float32", "mine")
    assert "torch_dtype" not in written
    assert "config.json: transformers refuses to save it (Some generation parameters" in caplog.text
    assert AutoModelForCausalLM.from_pretrained(out).num_parameters()


def test_a_base_that_is_gone_by_the_end_costs_no_weight(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    tensors = load_file(base / FILE)
    base.rename(base.with_name("moved"))
    with caplog.at_level(logging.WARNING):
        write_model(tensors, base.parent / "out", source=source(base), shard_bytes=10**9)
    assert load_file(base.parent / "out" / FILE).keys() == tensors.keys()
    assert "config.json is not there" in caplog.text


def test_a_file_that_can_not_be_read_is_named(
    base: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = Path.read_bytes

    def fail(file: Path) -> bytes:
        if file.name == "tokenizer.json":
            raise OSError(5, "Input/output error")
        return read(file)

    monkeypatch.setattr(Path, "read_bytes", fail)
    with caplog.at_level(logging.WARNING):
        out = exported(base)
    assert "tokenizer.json is not there: [Errno 5]" in caplog.text
    assert (out / "tokenizer_config.json").is_file()


def test_weights_come_first_and_a_processor_is_json(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "preprocessor_config.json").write_text("{")
    assert what_is_odd(source(base))[0].startswith("preprocessor_config.json is no JSON: ")
    assert (exported(base) / "preprocessor_config.json").read_text() == "{"

    def see(folder: Path, *_: Any, **__: Any) -> list[str]:
        assert {path.name for path in folder.iterdir()} == {FILE}
        return []

    monkeypatch.setattr("learner.training.model_files.write_base_files", see)
    shutil.rmtree(base.parent / "out")
    exported(base)


def test_a_hub_that_does_not_answer_costs_a_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hub, "file_of", lambda *_, **__: None)
    words = write_base_files(tmp_path, ModelConfig(path="nobody/nothing"), dtype=torch.float32, weights=())
    told = "the files beside its weights can't be had: FileNotFoundError: config.json of nobody"
    assert words[0].startswith(told)


def test_a_hubs_files_are_taken_from_its_cache_alone(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    commit = "0" * 40
    repo = base.parent / "hub" / "models--me--model"
    (repo / "snapshots").mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    tensors = load_file(base / FILE)
    (base / FILE).unlink()  # the cache of a machine that exports may have no weights
    base.rename(repo / "snapshots" / commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(base.parent / "hub"))

    def no_network(*_: Any, **__: Any) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("socket.socket.connect", no_network)
    of_hub = ModelConfig(path="me/model", dtype="float32")
    write_model(tensors, base.parent / "out", source=of_hub, shard_bytes=10**9)
    snapshot = {path.name for path in (repo / "snapshots" / commit).iterdir()}
    assert {path.name for path in (base.parent / "out").iterdir()} == snapshot | {FILE}
