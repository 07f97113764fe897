"""Which model and which sets `millrace evaluate` means by its words, and what the evaluation is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.checksums import weights_checksum
from config.explanations import ConfigError
from config.loading import load_run
from config.run_names import is_run_name
from tests.support.paths import ROOT
from tests.support.told import Millrace, Patch
from tools.evaluate.command import model_path, name_of, words_of
from tools.main import parse

DEMO = str(ROOT / "config/recipes/demo_cpu.yaml")
AGENTS = str(ROOT / "config/recipes/demo_agents.yaml")
REASONING360 = str(ROOT / "config/recipes/evaluation/reasoning360.yaml")


def a_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Return a folder with a finished run, a run without a model, and a model of its own."""
    monkeypatch.chdir(tmp_path)
    a_model(tmp_path / "runs/done/model")
    data = {"train": {"type": "procedural"}, "held_out": {"type": "procedural", "split": "eval"}}
    tree = {"name": "done", "model": {"path": "base"}, "data": data}
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
    said = r"neither .*going nor a folder `model` in it .*millrace export RUN"
    for typed in ("going", "runs/going"):
        with pytest.raises(ConfigError, match=said):
            model_path(typed, Path("runs"))


@pytest.mark.usefixtures("here")
def test_a_finished_runs_name_is_its_configuration_and_its_model() -> None:
    run = load_run(words("done"))
    assert (run.name, run.model.path) == ("done", "runs/done/model")
    assert load_run(words("done", "--model", "own", "evaluation.samples=2")).model.path == "own"
    said = r"none is neither a file nor a run: there is no runs/none/config\.yaml"
    with pytest.raises(ConfigError, match=said):
        words("none")


def test_only_the_named_sets_are_left() -> None:
    layered = (DEMO, "--layer", REASONING360)
    names = [each.name for each in load_run(words(*layered)).data.held_out_sets]
    assert names[:2] == ["aime", "math"]
    found = load_run(words(*layered, "--sets", "zebra_puzzle_dataset,math")).data.held_out_sets
    sampled = [(each.name, each.samples, each.top_p) for each in found]
    assert sampled == [("zebra_puzzle_dataset", 4, 0.7), ("math", 1, 0.7)]
    with pytest.raises(ConfigError, match=r"--sets x: the named sets of data\.held_out are aime, math, "):
        words(*layered, "--sets", "x,math")
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
    (tmp_path / "bare.yaml").write_text("{name: x, model: {path: m}, data: {train: {type: procedural}}}")
    said = r"data\.held_out names no set to evaluate on; .*evaluation/reasoning360\.yaml"
    with pytest.raises(ConfigError, match=said):
        words("bare.yaml")


def test_an_evaluation_is_named_by_all_that_decides_it() -> None:
    def named(*settings: str, weights: str = "weights") -> str:
        return name_of(load_run(["--config", DEMO, *settings]), weights)

    name = named()
    assert is_run_name(name)
    assert name == named("generators.count=3", "learner.steps=9", "evaluation.first_round=behind")
    deciding = (
        *("seed=1", "model.dtype=bfloat16", "evaluation.samples=5", "evaluation.top_p=0.9"),
        *("sampling.max_tokens=9", "scorers.credit=fraction", "data.held_out.size=3"),
        "scorers.tasks.math.scorer={type: math, require_box: false}",
    )
    others = {named(weights="other weights"), *map(named, deciding)}
    assert (len(others), name in others) == (9, False)
    crash = "agents.on_repeated_crash=unscorable"
    assert named(crash) == name, "no episode is played"
    played = [
        name_of(load_run(["--config", AGENTS, *more]), "w") for more in ((), (crash,), ("agents.count=2",))
    ]
    assert (played[0] != played[1], played[0] == played[2]) == (True, True)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ([], "CONFIG is missing"),
        ([DEMO, "--out", "no/such.json"], "no folder"),
        ([DEMO, "--model", "going"], "millrace export RUN"),
        ([DEMO, "learner.stepz=1"], "did you mean learner.steps"),
        ([DEMO, "--follow"], "--follow wants a run"),
        (["none", "--follow"], "there is no runs/none/config.yaml"),
        (["done", "--follow", "--every", "0"], "--every 0: steps between two versions are at least 1"),
        (["done", "--follow", "--model", "own"], "--follow goes without --model"),
        (["done", "--every", "3"], "--every and --patience go with --follow"),
        ([DEMO, "--key-variable", "A_API_KEY"], "goes with --endpoint"),
        ([DEMO, "--endpoint", "http://h:1/v1", "--dry-run"], "--endpoint goes without --follow"),
        (["done", "--endpoint", "http://h:1/v1", "--follow"], "--endpoint goes without --follow"),
        ([DEMO, "--endpoint", "h:1"], "expected http://HOST:PORT"),
    ],
)
def test_what_can_not_be_used_is_answered_at_once(typed: list[str], said: str, millrace: Millrace) -> None:
    told = millrace("evaluate", *typed)
    assert (told.code, said in told.err) == (2, True)


def test_a_dry_run_shows_the_commands_and_starts_nothing(here: Path, millrace: Millrace) -> None:
    told = millrace("evaluate", DEMO, "--dry-run", "generators.count=2")
    owner, *others = told.lines
    assert (told.code, "-m learner.collect --of=held_out" in owner) == (0, True)
    weights = weights_checksum([ROOT / "config/recipes/demo_model/model.safetensors"])
    name = name_of(load_run(words(DEMO)), weights)
    assert owner.endswith(f"name={name}")
    assert [name in line for line in others] == [True] * 3, "two generators, and the scorers"
    assert not (here / "runs" / name).exists()


def test_agents_are_among_the_commands_where_a_task_has_an_environment(millrace: Millrace) -> None:
    lake = "scorers.tasks.lake={environment: {type: custom, import_path: 'lake:Lake'}, scorer: {type: environment}}"
    seeds = "data.held_out={type: environment, task: lake, split: eval}"
    told = millrace("evaluate", DEMO, "--dry-run", lake, seeds, "agents.count=2")
    assert [line.split(" -m ")[1].split()[0] for line in told.lines] == [
        "learner.collect",
        "generators",
        "agents",
        "agents",
        "scorers",
    ]
