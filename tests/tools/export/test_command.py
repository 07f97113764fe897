"""`millrace export` of a version whose file is there, and what it refuses. Others: tests/compatibility."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from broker.weight_files import FILE
from learner.weight_sync.version_folder import folder_of, published
from tests.support.byte_model import in_parts
from tests.support.chain import make_run
from tests.support.hash_policy import HashPolicy
from tests.support.journaled import JournaledRun
from tests.support.tiny import write_tiny_model
from tools.main import main

pytestmark = pytest.mark.model


@pytest.fixture
def made(tmp_path: Path) -> JournaledRun:
    """Return a run of two steps, whose version 2 is a real model's weights."""
    run = make_run(tmp_path)
    model = run.model.model_copy(
        update={"path": str(write_tiny_model(tmp_path / "tiny")), "dtype": "float32"}
    )
    made = JournaledRun(run.model_copy(update={"model": model}), HashPolicy())
    made.live(2)
    other = write_tiny_model(tmp_path / "trained", seed=1)
    shutil.copy(other / "model.safetensors", folder_of(published(made.run), 2) / FILE)
    return made


def export(made: JournaledRun, out: Path, *words: str) -> int:
    return main(["export", made.run.name, "-o", str(out), "--runs-dir", str(made.run.runs_dir), *words])


def test_a_published_version_becomes_a_folder_that_transformers_loads(
    made: JournaledRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(made, tmp_path / "out") == 0  # the newest
    assert f"version 2 of {made.run.name}: {tmp_path / 'out'}" in capsys.readouterr().out
    weights = load_file(folder_of(published(made.run), 2) / FILE)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    for name, tensor in weights.items():
        assert torch.equal(model.state_dict()[name], tensor)
    text = "What is 12 + 30?"
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_a_base_whose_generation_config_can_not_be_saved_is_exported_with_it(
    made: JournaledRun, tmp_path: Path
) -> None:
    refused = '{"temperature": 0.6, "top_p": 0.9}'  # by transformers 5.19.0, which reads it
    (Path(made.run.model.path) / "generation_config.json").write_text(refused)
    assert export(made, tmp_path / "out") == 0
    assert (tmp_path / "out" / "generation_config.json").read_text() == refused
    weights = load_file(folder_of(published(made.run), 2) / FILE)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in weights.items())


def test_a_version_of_several_files_is_exported_too(made: JournaledRun, tmp_path: Path) -> None:
    folder = folder_of(published(made.run), 2)
    weights = load_file(folder / FILE)
    in_parts(folder / FILE, folder, 3)
    (folder / FILE).unlink()
    assert export(made, tmp_path / "out") == 0
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    for name, tensor in weights.items():
        assert torch.equal(model.state_dict()[name], tensor)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--version", "3"], "--version 3: the run has versions 0 to 2"),
        (["--version", "-1"], "versions 0 to 2"),
    ],
)
def test_a_version_that_never_was_is_refused(
    made: JournaledRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        export(made, tmp_path / "out", *words)
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_left_as_it_is(
    made: JournaledRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        export(made, tmp_path / "out")
    assert "exists and is not an empty folder" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]
