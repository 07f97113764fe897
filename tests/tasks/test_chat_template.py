"""The template of the configuration renders the prompts and is exported with the model; a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import AutoTokenizer

from broker.errors import RunFailed
from config.data import DatasetSource
from config.run import ChatTemplateConfig, ModelConfig, Run
from learner.data.prompts import load_tokenizer, open_sources
from learner.data.row import RowError
from learner.training.model_files import write_model
from tests.support.chain import make_run
from tests.support.tiny import write_tiny_model
from tests.support.verl_runs import write_jsonl

pytestmark = pytest.mark.model

OURS = "{% for turn in messages %}<{{ turn.role }}>{{ turn.content }}{% endfor %}<assistant>"
INFO = {"type": "math", "answer": {"value": "2"}}
ROWS = [
    {"messages": [{"role": role, "content": "1+1"}], "verification_info": INFO} for role in ("user", "tool")
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny model's folder, whose tokenizer has a template."""
    folder = write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{{ messages[0].content }}"
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def run(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return make_run(tmp_path, model=ModelConfig(path=str(tiny), dtype="float32"))


def templated(run: Run, text: str, file: str | None = None) -> Run:
    template = ChatTemplateConfig(text=text, file=None if file is None else Path(file))
    return run.model_copy(update={"model": run.model.model_copy(update={"chat_template": template})})


def prompt_of(run: Run, folder: Path) -> str:
    """Return the text of the first row's prompt."""
    file = write_jsonl(folder / "rows.jsonl", ROWS)
    tokenizer = load_tokenizer(run)
    prompts = open_sources(run, [DatasetSource(path=str(file))], tokenizer, shuffle=False)
    return str(tokenizer.decode(prompts.training_prompt("0", first_row=0).token_ids))


@pytest.mark.prove
def test_prompts_and_the_exported_folder_are_rendered_by_it(run: Run, tiny: Path, tmp_path: Path) -> None:
    assert prompt_of(run, tmp_path) == "1+1"
    run = templated(run, OURS)
    assert prompt_of(run, tmp_path) == "<user>1+1<assistant>"  # though the rows are in the cache
    weights = load_file(tiny / "model.safetensors")
    write_model(weights, tmp_path / "out", source=run.model, shard_bytes=10**9)
    exported = AutoTokenizer.from_pretrained(tmp_path / "out")
    chat = [{"role": "user", "content": "1+1"}]
    assert exported.apply_chat_template(chat, tokenize=False) == "<user>1+1<assistant>"
    assert AutoTokenizer.from_pretrained(tiny).chat_template != OURS  # the model's own folder is as it was


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{% for turn in messages %}\n\n{{ turn.content }\n", r"chat\.jinja: line 3: TemplateSyntaxError"),
        ("a\n{% generate %}", r"chat\.jinja: line 2: TemplateSyntaxError: .*unknown tag 'generate'"),
    ],
)
def test_a_text_that_is_no_jinja_is_named_with_its_file_and_line(run: Run, text: str, message: str) -> None:
    with pytest.raises(RunFailed, match=rf"^model\.chat_template=of/{message}"):
        load_tokenizer(templated(run, text, "of/chat.jinja"))
    with pytest.raises(RunFailed, match=r"^model\.chat_template: line"):
        load_tokenizer(templated(run, text))


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        ("{{ raise_exception('no tools here') }}", "TemplateError: no tools here"),
        ("{{ turn.name.first }}", "UndefinedError: .* has no attribute 'name'"),
        ("{{ turn.__class__.mro() }}", "SecurityError"),  # transformers' sandbox
    ],
)
def test_a_row_that_it_fails_for_is_named_with_the_line(
    run: Run, failing: str, reason: str, tmp_path: Path
) -> None:
    text = f"{OURS}\n{{% if messages[0].role == 'tool' %}}\n{{% set turn = messages[0] %}}\n{failing}{{% endif %}}"
    where = r"rows\.jsonl row 1: model\.chat_template=of/chat\.jinja fails: line 4"
    with pytest.raises(RowError, match=f"{where}: {reason}"):
        prompt_of(templated(run, text, "of/chat.jinja"), tmp_path)


def test_a_tokenizer_without_a_template_needs_one_of_the_run(run: Run, tiny: Path, tmp_path: Path) -> None:
    bare = AutoTokenizer.from_pretrained(tiny)
    bare.chat_template = None
    bare.save_pretrained(tmp_path / "bare")
    run = run.model_copy(update={"model": ModelConfig(path=str(tmp_path / "bare"))})
    with pytest.raises(RunFailed, match=r"has no chat template: name one, model\.chat_template=FILE\.jinja"):
        load_tokenizer(run)
    assert load_tokenizer(templated(run, OURS)).chat_template == OURS
