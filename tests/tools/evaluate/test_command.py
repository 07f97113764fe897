"""Which model and which sets `millrace evaluate` means by its words, and what the evaluation is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.checksums import weights_checksum
from config.explanations import ConfigError
from config.loading import load_run
from config.run_names import is_run_name
from tests.support.paths import ROOT
from tools.evaluate.command import model_path, name_of, words_of
from tools.main import main, parse

DEMO = str(ROOT / "config/recipes/demo_cpu.yaml")
REASONING360 = str(ROOT / "config/recipes/evaluation/reasoning360.yaml")


def a_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a finished run, a run without a model, and a model of its own."""
    monkeypatch.chdir(tmp_path)
    a_model(tmp_path / "runs/done/model")
    tree: dict[str, Any] = {
        "name": "done",
        "model": {"path": "base"},
        "data": {"train": {"type": "procedural"}},
    }
    tree["data"]["held_out"] = {"type": "procedural", "split": "eval"}
    (tmp_path / "runs/done/config.yaml").write_text(json.dumps(tree))
    (tmp_path / "runs/going").mkdir()
    a_model(tmp_path / "own")
    return tmp_path


def words(*typed: str) -> list[str]:
    _, options = parse("evaluate", typed)
    return words_of(options)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("own", "own"),
        ("runs/done", "runs/done/model"),
        ("runs/done/model", "runs/done/model"),
        ("done", "runs/done/model"),
        ("owner/name", "owner/name"),  # a hub's
        ("name", "name"),
    ],
)
def test_a_model_is_a_folder_a_run_or_a_name_on_the_hub(typed: str, path: str) -> None:
    assert model_path(typed, Path("runs")) == path
    assert load_run(words(DEMO, "--model", typed)).model.path.endswith(path)


@pytest.mark.usefixtures("here")
def test_a_run_without_a_model_says_how_to_get_one() -> None:
    for typed in ("going", "runs/going"):
        with pytest.raises(
            ConfigError, match=r"neither .*going nor a folder `model` in it .*millrace export RUN"
        ):
            model_path(typed, Path("runs"))


@pytest.mark.usefixtures("here")
def test_a_finished_runs_name_is_its_configuration_and_its_model() -> None:
    run = load_run(words("done"))
    assert (run.name, run.model.path) == ("done", "runs/done/model")
    assert load_run(words("done", "--model", "own", "evaluation.samples=2")).model.path == "own"
    with pytest.raises(
        ConfigError, match=r"none is neither a file nor a run: there is no runs/none/config\.yaml"
    ):
        words("none")


def test_only_the_named_sets_are_left() -> None:
    assert [each.name for each in load_run(words(DEMO, "--layer", REASONING360)).data.held_out_sets][:2] == [
        "aime",
        "math",
    ]
    found = load_run(
        words(DEMO, "--layer", REASONING360, "--sets", "zebra_puzzle_dataset,math")
    ).data.held_out_sets
    assert [(each.name, each.samples, each.top_p) for each in found] == [
        ("zebra_puzzle_dataset", 4, 0.7),
        ("math", 1, 0.7),
    ]
    with pytest.raises(ConfigError, match=r"--sets x: the named sets of data\.held_out are aime, math, "):
        words(DEMO, "--layer", REASONING360, "--sets", "x,math")
    with pytest.raises(ConfigError, match=r"are none: data\.held_out is one source, without a name"):
        words(DEMO, "--sets", "x")


@pytest.mark.usefixtures("here")
def test_a_file_of_sets_alone_and_a_model_are_enough() -> None:
    run = load_run(words("config/recipes/evaluation/reasoning360.yaml", "--model", "own", "--sets", "aime"))
    assert (run.name, run.model.path, run.data.train_sources[0].type) == ("held-out", "own", "procedural")
    with pytest.raises(ConfigError, match=r"missing key model\.path|missing key model"):
        words("config/recipes/evaluation/reasoning360.yaml")


@pytest.mark.usefixtures("here")
def test_a_configuration_without_sets_says_where_there_are_some(tmp_path: Path) -> None:
    (tmp_path / "bare.yaml").write_text(
        '{"name": "x", "model": {"path": "m"}, "data": {"train": {"type": "procedural"}}}'
    )
    with pytest.raises(
        ConfigError, match=r"data\.held_out names no set to evaluate on; .*evaluation/reasoning360\.yaml"
    ):
        words("bare.yaml")


def test_an_evaluation_is_named_by_all_that_decides_it() -> None:
    run = load_run(["--config", DEMO])
    name = name_of(run, "weights")
    assert name == name_of(
        load_run(
            ["--config", DEMO, "generators.count=3", "learner.steps=9", "evaluation.first_round=behind"]
        ),
        "weights",
    )
    assert is_run_name(name)
    others = {name_of(run, "other weights")} | {
        name_of(load_run(["--config", DEMO, word]), "weights")
        for word in (
            "seed=1",
            "model.dtype=bfloat16",
            "evaluation.samples=5",
            "evaluation.top_p=0.9",
            "sampling.max_tokens=9",
            "scorers.credit=fraction",
            "scorers.tasks.math.scorer={type: math, require_box: false}",
            "data.held_out.size=3",
        )
    }
    assert len(others) == 9
    assert name not in others


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ([], 2, "CONFIG is missing"),
        ([DEMO, "--out", "no/such.json"], 2, "no folder"),
        ([DEMO, "--model", "going"], 2, "millrace export RUN"),
        ([DEMO, "learner.stepz=1"], 2, "did you mean learner.steps"),
        ([DEMO, "--follow"], 2, "--follow wants a run"),
        (["none", "--follow"], 2, "there is no runs/none/config.yaml"),
        (["done", "--follow", "--every", "0"], 2, "--every 0: steps between two versions are at least 1"),
        (["done", "--follow", "--model", "own"], 2, "--follow goes without --model"),
        (["done", "--every", "3"], 2, "--every and --patience go with --follow"),
    ],
)
def test_what_can_not_be_used_is_answered_before_anything_starts(
    typed: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = main(["evaluate", *typed])
    except SystemExit as usage:
        found = int(str(usage.code))
    assert found == code
    assert said in capsys.readouterr().err


def test_a_dry_run_shows_the_commands_and_starts_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", DEMO, "--dry-run", "generators.count=2"]) == 0
    owner, *others = capsys.readouterr().out.splitlines()
    assert "-m learner.collect --of=held_out" in owner
    name = name_of(load_run(words(DEMO)), _weights())
    assert owner.endswith(f"name={name}")
    assert [name in line for line in others] == [True] * 3, "two generators, and the scorers"
    assert not (here / "runs" / name).exists()


def _weights() -> str:
    return weights_checksum([ROOT / "config/recipes/demo_model/model.safetensors"])
