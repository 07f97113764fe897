"""`data.train` and `data.held_out` as one source and as lists, and a chat template: what is read, and how a mistake is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.errors import RunFailed
from config.data import EnvironmentSource
from config.explanations import ConfigError
from config.loading import build_run, from_yaml, load_run, to_yaml
from config.run import Run
from learner.resume.config_changes import check_changes

A = {"type": "dataset", "path": "a.parquet"}
B = {"type": "dataset", "path": "b/*.jsonl"}


def run(train: Any, held_out: Any = None) -> Run:
    tree = {"name": "x", "model": {"path": "m"}, "data": {"train": train, "held_out": held_out}}
    return build_run([("run.yaml", tree)])


def test_sources_are_stored_as_written_and_seeds_never_shared() -> None:
    one = run(A)
    several = run([A | {"weight": 2.0}, B | {"epochs": 3}, {"type": "procedural"}], [B | {"name": "b"}])
    for each in (one, several):
        assert from_yaml(to_yaml(each)) == each
    assert list(one.data.keyed_sources()) == ["train"]
    assert list(several.data.keyed_sources()) == ["train.0", "train.1", "train.2", "held_out.0"]
    assert [source.type for source in several.data.train_sources] == ["dataset", "dataset", "procedural"]
    sources = [SEEDS | {"split": split, "size": 1_000_000_000} for split in ("train", "eval")]
    task = {"environment": LAKE, "scorer": {"type": "environment"}}
    train, held_out = (of_seeds(task, source).data.train_sources[0] for source in sources)
    assert isinstance(train, EnvironmentSource)
    assert isinstance(held_out, EnvironmentSource)
    assert train.first_seed + train.size == held_out.first_seed
    assert held_out.first_seed + held_out.size <= 2**32, "what numpy's generators take"


@pytest.mark.parametrize(
    ("train", "held_out", "message"),
    [
        ([A | {"wieght": 2}], None,
            r"unknown key data\.train\.0\.wieght in .*; did you mean data\.train\.weight"),
        ([A, {"path": "b"}], None,
            r"missing key data\.train\.1\.type in run\.yaml.*one of dataset, procedural"),
        ([A, B | {"weight": 0}], None, r"data\.train\.1\.weight in run\.yaml: .*greater than 0, got 0"),
        ([], None, r"data\.train in run\.yaml: a list of sources needs one"),
        (A | {"weight": 1}, None, r"unknown key data\.train\.weight"),
        (A, [B], r"missing key data\.held_out\.0\.name"),
        (A, [B | {"name": "b"}, A | {"name": "b"}], r"two sets are named 'b'"),
        (A, [B | {"name": "b", "temperature": -1}], r"held_out\.0\.temperature .*equal to 0, got -1"),
        (A, [B | {"name": "b", "top_p": 0}], r"held_out\.0\.top_p .*greater than 0, got 0"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_list_is_named_with_its_number(train: Any, held_out: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(train, held_out)


LAKE = {"type": "custom", "import_path": "lake:Lake"}
TOOLS = {"type": "tools", "functions": ["my_tools:search"]}
SEEDS: dict[str, Any] = {"type": "environment", "task": "lake"}


def of_seeds(task: dict[str, Any], source: dict[str, Any] = SEEDS) -> Run:
    tree = {"name": "x", "model": {"path": "m"}, "data": {"train": source, "held_out": [A | {"name": "a"}]}}
    return build_run([("run.yaml", {**tree, "scorers": {"tasks": {"lake": task}}})])


@pytest.mark.parametrize(
    ("task", "source", "message"),
    [
        ({}, {"task": "sea"}, r"data\.train is of type environment, and scorers\.tasks has no 'sea': it has lake"),
        ({}, {}, r"scorers\.tasks\.lake\.environment is none: rows without a prompt need"),
        ({"environment": TOOLS}, {}, r"scorers\.tasks\.lake\.environment is one of type tools"),
        ({"environment": LAKE}, {}, r"scorers\.tasks\.lake\.scorer is of type math, which compares"),
        ({"environment": LAKE}, {"size": 2_000_000_000}, r"data\.train\.size .*less than or equal to 1000000000"),
    ],
)  # fmt: skip
def test_seeds_are_for_a_task_whose_environment_makes_the_problem_and_gives_the_reward(
    task: dict[str, Any], source: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        of_seeds(task, SEEDS | source)


def test_files_of_a_list_are_found_beside_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b").mkdir()
    for name in ("a.parquet", "b/one.jsonl"):
        (tmp_path / name).touch()
    data = {"train": [A, B, A | {"path": "owner/name"}]}
    (tmp_path / "run.yaml").write_text(json.dumps({"name": "x", "model": {"path": "m"}, "data": data}))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    found = load_run(["--config", str(tmp_path / "run.yaml")]).data.train_sources
    paths = [source.path for source in found if source.type == "dataset"]
    assert paths == [str(tmp_path / "a.parquet"), str(tmp_path / "b/*.jsonl"), "owner/name"]


def test_a_number_names_an_entry_of_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept.parquet").touch()
    held_out = [A | {"name": "a", "samples": 4}, B | {"name": "b"}]
    data = {"train": [A, B | {"weight": 2}], "held_out": held_out}
    (tmp_path / "run.yaml").write_text(json.dumps({"name": "x", "model": {"path": "m"}, "data": data}))
    monkeypatch.chdir(tmp_path)
    file = ["--config", "run.yaml"]
    found = load_run([*file, "data.train.1.path=kept.parquet", "data.held_out.0.samples=8"]).data
    assert [getattr(source, "path", "") for source in found.train_sources] == ["a.parquet", "kept.parquet"]
    assert [getattr(source, "weight", None) for source in found.train_sources] == [None, 2]
    assert [each.samples for each in found.held_out_sets] == [8, None]
    words = ["data.train.0={type: procedural, size: 7}", "data.train.1.type=procedural"]
    assert [source.type for source in load_run([*file, *words]).data.train_sources] == ["procedural"] * 2
    for word, message in (
        (
            "data.train.2.path=c",
            r"data\.train is a list of 2 entries, 0 to 1: data\.train\.2 is none of them",
        ),
        ("data.train.path=c", r"missing key data\.train\.type in the command line"),
        ("data.train.0.wieght=2", r"unknown key data\.train\.0\.wieght in the command line"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_run([*file, word])


TEXT = "{% for turn in messages %}{{ turn.content }}{% endfor %}"


def load(folder: Path, template: object) -> Run:
    """Load a run whose file, in `folder`, says so of its template."""
    data = {"train": {"type": "dataset", "path": "rows"}}
    said = {"name": "t", "model": {"path": "m", "chat_template": template}, "data": data}
    (folder / "run.yaml").write_text(yaml.safe_dump(said))
    return load_run(["--config", str(folder / "run.yaml")])


@pytest.mark.parametrize("form", ["chat.jinja", {"file": "chat.jinja"}])
def test_a_file_is_found_beside_the_configuration_and_its_text_travels(
    form: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chat.jinja").write_text(TEXT)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run = load(tmp_path, form)
    assert run.model.chat_template is not None
    assert (run.model.chat_template.text, run.model.chat_template.file) == (TEXT, tmp_path / "chat.jinja")
    (tmp_path / "chat.jinja").unlink()  # as on another machine
    assert from_yaml(to_yaml(run)) == run


def test_a_value_with_a_brace_is_the_template_and_a_word_replaces_it(tmp_path: Path) -> None:
    text = f"{TEXT * 100}\n{{{{ '*?[' }}}}"  # longer than a file's name, and with the letters of a pattern
    template = load(tmp_path, text).model.chat_template
    assert template is not None
    assert (template.text, template.file) == (text, None)
    run = load(tmp_path, TEXT)
    (tmp_path / "stored.yaml").write_text(to_yaml(run))
    (tmp_path / "new.jinja").write_text("{{ 1 }}")
    words = ["--config", str(tmp_path / "stored.yaml")]
    assert load_run([*words, "model.chat_template=null"]).model.chat_template is None
    replaced = load_run([*words, f"model.chat_template={tmp_path / 'new.jinja'}"]).model.chat_template
    assert replaced is not None
    assert (replaced.text, replaced.file) == ("{{ 1 }}", tmp_path / "new.jinja")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("none.jinja",
            r"model\.chat_template in .*run\.yaml: the file none\.jinja can't be read: No such file"),
        ("latin.jinja", r"the file .*latin\.jinja is not UTF-8"),
        ("empty.jinja", r"model\.chat_template\.text.* at least 1 character"),
        ({"txt": TEXT},
            r"unknown key model\.chat_template\.txt.*; did you mean model\.chat_template\.text\?"),
    ],
)  # fmt: skip
def test_what_is_no_template_is_refused_by_its_key(template: object, message: str, tmp_path: Path) -> None:
    (tmp_path / "latin.jinja").write_bytes(b"{{ '\xe9' }}")
    (tmp_path / "empty.jinja").touch()
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, template)


def test_a_run_goes_on_with_the_same_template_alone_or_without_the_key(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "chat.jinja").write_text(TEXT)
    began = to_yaml(load(tmp_path / "old", "chat.jinja"))
    assert check_changes(began, load(tmp_path / "new", "chat.jinja")) == []
    assert check_changes(began, load(tmp_path, TEXT)) == []
    for other in (f"{TEXT}{{# edited #}}", None):
        with pytest.raises(RunFailed, match=r"can't go on with these changes: model\.chat_template"):
            check_changes(began, load(tmp_path, other))
    with pytest.raises(RunFailed, match=r"model\.chat_template\.text: .*\.\.\. \(30000 characters\) -> "):
        check_changes(to_yaml(load(tmp_path, "{{}}" + "x" * 29_996)), load(tmp_path, TEXT))
    run = load(tmp_path, None)
    before = yaml.safe_load(to_yaml(run))
    del before["model"]["chat_template"]
    assert check_changes(yaml.safe_dump(before), run) == []
    with pytest.raises(RunFailed, match=r"model\.chat_template"):
        check_changes(yaml.safe_dump(before), load(tmp_path, TEXT))
