"""`millrace export` of a version whose file is there, and what it refuses. Others: tests/compatibility."""

from __future__ import annotations

import shutil
from collections.abc import Callable
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
from tests.support.told import Millrace, Told

pytestmark = pytest.mark.model


@pytest.fixture
def made(tmp_path: Path) -> JournaledRun:
    """Return a run of two steps, whose version 2 is a real model's weights."""
    run = make_run(tmp_path)
    tiny = str(write_tiny_model(tmp_path / "tiny"))
    model = run.model.model_copy(update={"path": tiny, "dtype": "float32"})
    made = JournaledRun(run.model_copy(update={"model": model}), HashPolicy())
    made.live(2)
    other = write_tiny_model(tmp_path / "trained", seed=1)
    shutil.copy(other / "model.safetensors", folder_of(published(made.run), 2) / FILE)
    return made


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


Export = Callable[..., Told]


@pytest.fixture
def export(made: JournaledRun, out: Path, millrace: Millrace) -> Export:
    """`millrace export` of that run."""
    words = ("export", made.run.name, "-o", out, "--runs-dir", made.run.runs_dir)
    return lambda *more: millrace(*words, *more)


def is_loaded(out: Path, weights: dict[str, torch.Tensor]) -> bool:
    model = AutoModelForCausalLM.from_pretrained(out)
    return all(torch.equal(model.state_dict()[name], tensor) for name, tensor in weights.items())


def test_a_published_version_is_one_for_transformers(made: JournaledRun, out: Path, export: Export) -> None:
    told = export()  # the newest
    assert (told.code, f"version 2 of {made.run.name}: {out}" in told.out) == (0, True)
    assert is_loaded(out, load_file(folder_of(published(made.run), 2) / FILE))
    text = "What is 12 + 30?"
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_a_base_with_an_unsavable_generation_config_is_exported(
    made: JournaledRun, out: Path, export: Export
) -> None:
    refused = '{"temperature": 0.6, "top_p": 0.9}'  # by transformers 5.19.0, which reads it
    (Path(made.run.model.path) / "generation_config.json").write_text(refused)
    assert export().code == 0
    assert (out / "generation_config.json").read_text() == refused
    assert is_loaded(out, load_file(folder_of(published(made.run), 2) / FILE))


def test_a_version_of_several_files_is_exported_too(made: JournaledRun, out: Path, export: Export) -> None:
    folder = folder_of(published(made.run), 2)
    weights = load_file(folder / FILE)
    in_parts(folder / FILE, folder, 3)
    (folder / FILE).unlink()
    assert export().code == 0
    assert is_loaded(out, weights)


def test_a_version_that_never_was_is_refused(out: Path, export: Export) -> None:
    for version in ("3", "-1"):
        told = export("--version", version)
        assert (told.code, f"--version {version}: the run has versions 0 to 2" in told.err) == (2, True)
    assert not out.exists()


def test_a_folder_with_something_in_it_is_left(out: Path, export: Export) -> None:
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    told = export()
    assert (told.code, "exists and is not an empty folder" in told.err) == (2, True)
    assert [path.name for path in out.iterdir()] == ["notes.txt"]
