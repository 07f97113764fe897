"""A chat template in the configuration: a file's name or a text, read once, and the text travels."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from broker.errors import RunFailed
from config.explanations import ConfigError
from config.loading import from_yaml, load_run, to_yaml
from config.run import Run
from learner.resume.config_changes import check_changes

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


def test_a_value_with_a_brace_is_the_template_itself(tmp_path: Path) -> None:
    text = f"{TEXT * 100}\n{{{{ '*?[' }}}}"  # longer than a file's name, and with the letters of a pattern
    template = load(tmp_path, text).model.chat_template
    assert template is not None
    assert (template.text, template.file) == (text, None)


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


def test_a_word_replaces_or_removes_the_template_of_a_file(tmp_path: Path) -> None:
    run = load(tmp_path, TEXT)
    (tmp_path / "stored.yaml").write_text(to_yaml(run))
    (tmp_path / "new.jinja").write_text("{{ 1 }}")
    words = ["--config", str(tmp_path / "stored.yaml")]
    assert load_run([*words, "model.chat_template=null"]).model.chat_template is None
    replaced = load_run([*words, f"model.chat_template={tmp_path / 'new.jinja'}"]).model.chat_template
    assert replaced is not None
    assert (replaced.text, replaced.file) == ("{{ 1 }}", tmp_path / "new.jinja")


def test_a_run_goes_on_with_the_same_text_wherever_it_was_read_and_with_no_other(tmp_path: Path) -> None:
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


def test_a_run_that_began_before_there_was_such_a_key_goes_on_without_one(tmp_path: Path) -> None:
    run = load(tmp_path, None)
    before = yaml.safe_load(to_yaml(run))
    del before["model"]["chat_template"]
    assert check_changes(yaml.safe_dump(before), run) == []
    with pytest.raises(RunFailed, match=r"model\.chat_template"):
        check_changes(yaml.safe_dump(before), load(tmp_path, TEXT))
