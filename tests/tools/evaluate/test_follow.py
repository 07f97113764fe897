"""Which versions of a run `millrace evaluate --follow` takes, and what is left of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file

from broker.weight_files import FILE
from config.explanations import ConfigError
from config.learner.training import LoraConfig
from config.run import Run
from learner.weight_sync.version_folder import folder_of, published
from tests.support.chain import make_run
from tests.support.tiny import write_tiny_model
from tests.support.told import Patch
from tools.evaluate import follow
from tools.evaluate.follow import Followed, StandsStill, versions
from tools.export.command import copy_published

pytestmark = pytest.mark.model


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run that has published nothing yet, of a model that transformers loads."""
    run = make_run(tmp_path)
    path = str(write_tiny_model(tmp_path / "tiny"))
    return run.model_copy(update={"model": run.model.model_copy(update={"path": path, "dtype": "float32"})})


def publish(run: Run, version: int) -> Path:
    """Put a version where the learner does, with weights of its own."""
    made = write_tiny_model(run.folder / f"made-{version}", seed=version)
    folder = folder_of(published(run), version)
    folder.mkdir(parents=True)
    return Path(shutil.copy(made / FILE, folder / FILE))


def end(run: Run, *, at: float) -> None:
    """Save the last model at a time in seconds since the epoch."""
    (run.folder / "model").mkdir(exist_ok=True)
    (run.folder / "model/config.json").write_text("{}")
    os.utime(run.folder / "model/config.json", (at, at))


def evaluate(each: Followed) -> int:
    """Write what an evaluation leaves."""
    assert (each.model / "config.json").is_file(), "a model that can be loaded"
    each.result.write_text("{}")
    return each.version


def test_the_newest_version_is_taken_each_time_and_the_last_one_always(run: Run) -> None:
    file = publish(run, 3)
    following = versions(run, every=4, patience_s=5.0)
    first = next(following)
    for name, tensor in load_file(file).items():
        assert load_file(first.model / FILE)[name].equal(tensor)
    publish(run, 4)
    publish(run, 8)
    publish(run, 7)  # older than the newest
    assert evaluate(first) == 3
    second = next(following)
    assert not first.model.exists()
    assert evaluate(second) == 8
    last = publish(run, 9)  # less than four steps behind, and the run ends with it
    end(run, at=last.parent.stat().st_mtime + 1)
    assert evaluate(next(following)) == 9
    assert list(following) == []
    results = sorted(file.name for file in (run.folder / "evaluations").iterdir())
    assert results == [f"v00000{version}.json" for version in (3, 8, 9)]


def test_a_base_whose_generation_config_can_not_be_saved_is_followed_all_the_same(run: Run) -> None:
    refused = '{"temperature": 0.6, "top_p": 0.9}'  # by transformers 5.19.0, which reads it
    (Path(run.model.path) / "generation_config.json").write_text(refused)
    publish(run, 1)
    followed = next(versions(run, every=1, patience_s=5.0))
    assert (followed.model / "generation_config.json").read_text() == refused
    assert evaluate(followed) == 1


def test_an_evaluation_that_was_cut_off_is_the_first_of_the_next_call(run: Run) -> None:
    publish(run, 2)
    cut_off = next(versions(run, every=1, patience_s=5.0))
    killed = cut_off.model.with_name("v000005.tmp")  # while it copied
    shutil.copytree(cut_off.model, killed)
    last = publish(run, 6)
    end(run, at=last.parent.stat().st_mtime + 1)
    taken = [evaluate(each) for each in versions(run, every=1, patience_s=5.0)]
    assert taken == [2, 6]
    assert list(versions(run, every=1, patience_s=5.0)) == []
    assert not [each for each in (run.folder / "evaluations").iterdir() if each.is_dir()]


def test_a_version_that_the_learner_removes_meanwhile_is_passed_over(run: Run, monkeypatch: Patch) -> None:
    publish(run, 1)
    copy = copy_published

    def slow(followed: Run, version: int, out: Path) -> None:
        if version == 1:
            shutil.rmtree(folder_of(published(followed), 1))
            publish(followed, 2)
        copy(followed, version, out)

    monkeypatch.setattr(follow, "copy_published", slow)
    assert next(versions(run, every=1, patience_s=5.0)).version == 2


def test_a_run_that_goes_on_after_its_end_is_followed_again(run: Run) -> None:
    older = publish(run, 1)
    end(run, at=older.parent.stat().st_mtime - 1)  # a model of before
    following = versions(run, every=1, patience_s=0.1)
    evaluate(next(following))
    said = r"waited 0 s for run .* to publish a version after 1 .*millrace status"
    with pytest.raises(StandsStill, match=said):
        next(following)


def test_a_run_of_adapters_is_refused_with_what_to_do(run: Run) -> None:
    lora = run.learner.model_copy(update={"lora": LoraConfig()})
    with pytest.raises(ConfigError, match=r"trains an adapter.*millrace export"):
        next(versions(run.model_copy(update={"learner": lora}), every=1, patience_s=1.0))
