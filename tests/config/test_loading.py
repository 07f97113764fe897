"""From files, environment and command line to one run: who wins, what an error says, and what a run's name is."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.data import DatasetSource, ProceduralSource
from config.explanations import ConfigError
from config.generators import HfEngineConfig, VllmEngineConfig
from config.loading import from_yaml, load_run, to_yaml
from config.run import Run
from config.run_names import run_name
from generators.__main__ import main as generators
from scorers.__main__ import main as scorers
from tests.support.paths import ROOT
from tools.main import main as millrace

RECIPES = sorted((ROOT / "config" / "recipes").glob("*.yaml"))
each_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)

BASE = """\
name: base
model: {path: tiny}
data:
  train: {type: procedural, size: 8}
generators:
  engine: {type: hf, batch_groups: 2}
learner:
  steps: 1
"""

Load = Callable[..., Run]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load the text of a file with environment variables and words of a command line."""

    def load(*words: str, text: str = BASE, **environment: str) -> Run:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        file = tmp_path / "run.yaml"
        file.write_text(text)
        return load_run(["--config", str(file), *words])

    return load


def message_of(load: Load, *words: str, **kwargs: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*words, **kwargs)
    return str(caught.value)


@each_recipe
def test_every_recipe_loads_and_survives_the_journey_to_another_process(recipe: Path) -> None:
    run = load_run(["--config", str(recipe)])
    assert from_yaml(to_yaml(run)) == run
    assert run.scorers.credit == "all"  # no reward for half of the tests, in what we recommend


def test_the_environment_is_stronger_than_the_file_and_the_command_line_than_both(load: Load) -> None:
    assert load().learner.steps == 1
    assert load(MILLRACE_LEARNER__STEPS="2").learner.steps == 2
    assert load("learner.steps=3", MILLRACE_LEARNER__STEPS="2").learner.steps == 3


def test_a_section_keeps_what_a_later_layer_does_not_mention(load: Load, tmp_path: Path) -> None:
    text = BASE + "  optimizer: {lr: 0.5}\n"
    variables = {"MILLRACE_LEARNER__OPTIMIZER__WARMUP_STEPS": "4"}
    found = load("learner.optimizer.eps=1e-7", text=text, **variables).learner.optimizer
    assert (found.lr, found.warmup_steps, found.eps) == (0.5, 4, 1e-7)
    (tmp_path / "b.yaml").write_text("name: other")
    run = load_run(["--config", str(tmp_path / "run.yaml"), f"--config={tmp_path / 'b.yaml'}"])
    assert (run.name, run.learner.steps) == ("other", 1), "of two files the later one wins"


@pytest.mark.parametrize(
    ("environment", "urls"),
    [
        ({"FUSION_SANDBOX_URL": "http://one:8080"}, ("http://one:8080",)),
        (
            {"SANDBOX_FUSION_SERVERS": "one,two, b:81  http://four:82"},
            ("one", "two", "b:81", "http://four:82"),
        ),
        ({"SANDBOX_FUSION_SERVERS": "one,two", "FUSION_SANDBOX_URL": "http://three"}, ("one", "two")),
        ({"SANDBOX_FUSION_SERVERS": " , ", "FUSION_SANDBOX_URL": "one"}, ("one",)),
        ({"SANDBOX_FUSION_SERVERS": "", "FUSION_SANDBOX_URL": ""}, ("file",)),
        ({"FUSION_SANDBOX_URL": "one", "MILLRACE_SCORERS__SANDBOX_URLS": "[two]"}, ("two",)),
        ({}, ("file",)),
    ],
)
def test_other_systems_names_of_the_sandbox_are_the_weakest_of_the_environment(
    load: Load, environment: dict[str, str], urls: tuple[str, ...]
) -> None:
    text = BASE + "scorers: {sandbox_urls: [file]}\n"
    assert load(text=text, **environment).scorers.sandbox_urls == urls
    assert load("scorers.sandbox_urls=[word]", text=text, **environment).scorers.sandbox_urls == ("word",)


@pytest.mark.parametrize("variable", ["SANDBOX_FUSION_SERVERS", "FUSION_SANDBOX_URL", ""])
def test_a_password_in_the_address_of_a_sandbox_is_refused_and_not_shown(load: Load, variable: str) -> None:
    address = "http://user:planted@one:8080"
    words = () if variable else (f"scorers.sandbox_urls=[{address}]",)
    said = message_of(load, *words, **({variable: address} if variable else {}))
    assert (variable or "no password in a sandbox's address") in said
    assert "planted" not in said


@pytest.mark.parametrize(("single", "said"), [("three", True), ("two", False)])
def test_two_names_of_the_sandbox_that_disagree_are_told(
    load: Load, caplog: pytest.LogCaptureFixture, single: str, said: bool
) -> None:
    load(SANDBOX_FUSION_SERVERS="one,two", FUSION_SANDBOX_URL=single)
    assert ("used=SANDBOX_FUSION_SERVERS ignored=FUSION_SANDBOX_URL" in caplog.text) is said


@pytest.mark.parametrize(
    ("words", "text", "environment"),
    [
        ([], BASE + "  optimizer: {lr: 1e-6}\n", {}),
        ([], BASE, {"MILLRACE_LEARNER__OPTIMIZER__LR": "1e-6"}),
        (["learner.optimizer.lr=1e-6"], BASE, {}),
    ],
)
def test_1e_minus_6_is_a_number(load: Load, words: list[str], text: str, environment: dict[str, str]) -> None:
    assert load(*words, text=text, **environment).learner.optimizer.lr == 1e-6


def test_lists_sections_and_nothing_are_written_in_environment_and_command_line(load: Load) -> None:
    assert load("learner.gpus=[0, 1]").learner.gpus == (0, 1)
    assert load("learner.groups_in_flight=").learner.groups_in_flight is None
    assert load("learner.zero={stage: 3, offload_weights: true}").learner.zero.stage == 3
    run = load(
        MILLRACE_LEARNER__GPUS="[2]",
        MILLRACE_LEARNER__GROUPS_IN_FLIGHT="null",
        MILLRACE_LEARNER__THREADS="",  # empty is as good as unset
        MILLRACE_LEARNER__GRADIENT_CHECKPOINTING="true",
        MILLRACE_DATA__TRAIN='{"size": 4}',
    )
    learner = run.learner
    assert (learner.gpus, learner.groups_in_flight, learner.threads) == ((2,), None, None)
    assert learner.gradient_checkpointing
    assert run.data.train == ProceduralSource(type="procedural", size=4)


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["generators.engine.type=vllm", "generators.engine.max_num_seqs=4"], {}),
        (["generators.engine.max_num_seqs=4", "generators.engine.type=vllm"], {}),
        (["generators.engine.max_num_seqs=4", "generators={count: 1, engine: {type: vllm}}"], {}),
        (["generators.engine={max_num_seqs: 4, type: vllm}"], {}),
        ([], {"MILLRACE_GENERATORS__ENGINE__MAX_NUM_SEQS": "4", "MILLRACE_GENERATORS__ENGINE__TYPE": "vllm"}),
        (["generators.engine.max_num_seqs=4"], {"MILLRACE_GENERATORS__ENGINE__TYPE": "vllm"}),
        (["generators.engine.type=hf"], {}),  # the same type said again
    ],
)
def test_a_type_chosen_later_drops_the_other_kinds_keys_whatever_the_order(
    load: Load, words: list[str], environment: dict[str, str]
) -> None:
    is_same = words == ["generators.engine.type=hf"]
    expected = HfEngineConfig(batch_groups=2) if is_same else VllmEngineConfig(max_num_seqs=4)
    assert load(*words, **environment).generators.engine == expected


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("learner.stepz", "; did you mean learner.steps?"),
        ("learnr.steps", ""),
        ("lr", "; did you mean learner.optimizer.lr?"),
        ("learner.optimizer.learning_rat", ""),
        ("learner.zero.stag", "; did you mean learner.zero.stage?"),
        ("generators.engine.batch_group", "; did you mean generators.engine.batch_groups?"),
        ("generators.engine.max_num_seqs", "; generators.engine.type is 'hf', and that kind has no such key"),
        ("generators.engine.hf.batch_groups", ""),
        ("scorers.groups_per_jobs", "; did you mean scorers.groups_per_job?"),
        ("reward_model.tinyv_setup",
            "; here tinyv_setup is `mode` of the scorer of `scorers.tasks.tinyv` or "),
        ("reward_model.tinyv_weight",
            "; here tinyv_weight is `weight` of the scorer of `scorers.tasks.tinyv` "),
        ("reward_model.enable", ""),
        ("zzzzzz", ""),
    ],
)  # fmt: skip
def test_an_unknown_key_is_named_with_place_and_the_nearest_one(load: Load, key: str, hint: str) -> None:
    """At every level, and from every place; of a key in an unknown section, the section is what is unknown."""
    for where, said in refusals(load, key, 1).items():
        unknown = said.removeprefix("unknown key ").split(" ")[0]
        assert said.startswith("unknown key ")
        assert key == unknown or key.startswith(unknown + ".")
        assert where in said
        assert hint in said


def refusals(load: Load, key: str, value: object) -> dict[str, str]:
    """Return what is said of a value that is written in each place, by what an error says of the place."""
    *sections, leaf = key.split(".")
    tree = yaml.safe_load(BASE)
    place: Any = tree
    for section in sections:
        place = place.setdefault(section, {})
    place[leaf] = value
    return {
        "the command line": message_of(load, f"{key}={value}"),
        "run.yaml": message_of(load, text=yaml.safe_dump(tree)),
        "the environment (MILLRACE_": message_of(
            load, **{f"MILLRACE_{key}".upper().replace(".", "__"): str(value)}
        ),
    }


@pytest.mark.parametrize(
    ("word", "key", "expected"),
    [
        ("learner.steps=0", "learner.steps", "Input should be greater than or equal to 1, got 0"),
        ("learner.steps=ten", "learner.steps", "Input should be a valid integer"),
        ("learner=5", "learner", "Input should be a valid dictionary"),
        ("learner.steps.x=5", "learner.steps", "Input should be a valid integer"),
        ("learner.zero.stage=7", "learner.zero.stage", "Input should be 0, 1, 2 or 3, got 7"),
        ("learner.gpus=[0, a]", "learner.gpus.1", "Input should be a valid integer"),
        ("generators.engine.type=vlm", "generators.engine", "Input tag 'vlm' found using 'type'"),
        ("name=a b", "name", "String should match pattern '^[A-Za-z0-9_-]+$', got 'a b'"),
        ("name=api", "name", "'api' is reserved"),
        ("sampling.top_p=0.9", "sampling", "top_p must be 1 and top_k -1 in training"),
        ("sampling.top_k=50", "sampling", "top_p must be 1 and top_k -1 in training"),
        ("evaluation.every=5", "", "evaluation.every is set, but data.held_out names no prompts"),
        ("learner.groups_in_flight=3", "",
            "learner.groups_in_flight=3 is less than one step of groups_per_step=64"),
        ("learner.weights.every=6", "",
            "learner.weights.every=6 is more than max_lag=4 allows: groups hold their "),
    ],
)  # fmt: skip
def test_a_wrong_value_says_what_was_expected(load: Load, word: str, key: str, expected: str) -> None:
    place = f"{key} in the command line: " if key else ""  # of two keys that don't go together there is none
    assert message_of(load, word).startswith(place + expected)


def test_a_wrong_value_of_the_environment_names_the_variable(load: Load, subtests: pytest.Subtests) -> None:
    for key, value, expected in (
        ("learner", "x", "Input should be a valid dictionary"),
        ("learner.gpus", "0,1", "Input should be a valid tuple, got '0,1'"),
        ("learner.gpus", "[0", "Input should be a valid tuple, got '[0'"),
    ):
        variable = f"MILLRACE_{key}".upper().replace(".", "__")
        with subtests.test(key, value=value), pytest.MonkeyPatch.context() as patch:
            patch.setenv(variable, value)
            assert message_of(load).startswith(f"{key} in the environment ({variable}): {expected}")


def test_errors_are_told_together_with_the_types_there_are_and_quotes_wanted(load: Load) -> None:
    said = message_of(load, "learner.steps=0", "learner.ranks=0", text=BASE.replace("name: base\n", ""))
    named = [line.split(":")[0].split(" in ")[0] for line in said.splitlines()]
    assert named == ["missing key name", "learner.steps", "learner.ranks"]
    said = message_of(load, text=BASE.replace("type: hf, ", ""))
    assert said.startswith("missing key generators.engine.type in ")
    assert said.endswith("one of hf, vllm, fake")
    text = OF_ROWS.replace("path: rows.jsonl", "path: rows.jsonl, prompt_template: {question}")
    said = message_of(load, text=text)
    assert ("data.train.prompt_template" in said, "stands in quotes" in said) == (True, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BASE + "name: again\n", "run.yaml:9: 'name' is written twice"),
        (BASE + "  steps: 2\n", "run.yaml:9: 'steps' is written twice"),
        (BASE + "? [1]\n: 2\n", "run.yaml:9: [1] can't be a key"),
        ("- a\n- b\n", "run.yaml: expected keys and values, got list"),
        ("", "run.yaml: expected keys and values, got NoneType"),
        ("a: [", "run.yaml: not YAML: "),
        ("a: !!python/object:os.system {}\n", "run.yaml: not YAML: "),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(load: Load, text: str, expected: str) -> None:
    assert expected in message_of(load, text=text)


def test_yaml_anchors_merge_and_may_be_overridden(load: Load) -> None:
    run = load(
        text=BASE.replace(
            "train: {type: procedural, size: 8}",
            "train: &train {type: procedural, size: 8}\n  held_out: {<<: *train, split: eval}",
        )
    )
    (train,) = run.data.train_sources
    assert run.data.held_out == train.model_copy(update={"split": "eval"})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "no configuration: give --config FILE"),
        (["--config"], "--config needs a file"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["--confg", "x"], "'--confg' is neither --config FILE nor key=value"),
        (["--steps=3"], "'--steps=3' is neither --config FILE nor key=value"),
    ],
)
def test_a_wrong_command_line_says_what_it_takes(words: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_run(words)


@pytest.mark.parametrize(("key", "variable"), [("broker.url", "REDIS_URL"), ("model.hf_token", "HF_TOKEN")])
def test_a_secret_is_taken_from_its_variable_and_never_repeated(load: Load, key: str, variable: str) -> None:
    for said in refusals(load, key, "planted-secret").values():
        assert key in said
        assert variable in said
        assert "planted-secret" not in said


def test_secrets_stay_in_their_process(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(REDIS_URL="redis://:planted-secret@h:1", HF_TOKEN="planted-token")
    assert run.broker.url is not None
    assert run.broker.url.get_secret_value() == "redis://:planted-secret@h:1"
    shown = to_yaml(run, mask=True)
    assert (
        yaml.safe_load(shown)["broker"]["url"] == yaml.safe_load(shown)["model"]["hf_token"] == "**********"
    )
    assert "url" not in yaml.safe_load(to_yaml(run))["broker"]
    for text in (shown, to_yaml(run), repr(run), run.model_dump_json()):
        assert "planted" not in text
    assert from_yaml(to_yaml(run)) == run  # each process has its own
    monkeypatch.delenv("HF_TOKEN")
    assert from_yaml(to_yaml(run)).model.hf_token is None
    without = yaml.safe_load(to_yaml(from_yaml(to_yaml(run)), mask=True))["model"]
    assert without.get("hf_token") is None, "nothing is masked where nothing is set"


def test_a_run_of_redis_is_frozen_and_knows_no_variables(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    text = to_yaml(load())
    monkeypatch.setenv("MILLRACE_LEARNER__STEPS", "99")
    run = from_yaml(text)
    assert run.learner.steps == 1
    with pytest.raises(ValueError, match="frozen"):
        run.seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("max_lag", "in_flight", "budget"), [(0, "", 4), (4, "", 20), (4, "6", 6), (1, "99", 8)]
)
def test_the_budget_is_max_lag_plus_one_steps(load: Load, max_lag: int, in_flight: str, budget: int) -> None:
    words = (
        "learner.groups_per_step=4",
        f"learner.max_lag={max_lag}",
        f"learner.groups_in_flight={in_flight}",
    )
    assert load(*words).budget == budget


PLACES = """
name: own
model: {path: model}
data: {train: {type: dataset, path: rows.jsonl}, held_out: {type: dataset, path: openai/gsm8k}}
"""


@pytest.mark.parametrize("start", ["beside", "above", "elsewhere"])
def test_a_recipes_paths_hold_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    beside, elsewhere = tmp_path / "a" / "beside", tmp_path / "b"
    for folder in (beside / "model", elsewhere):
        folder.mkdir(parents=True)
    (beside / "run.yaml").write_text(PLACES)
    (beside / "rows.jsonl").touch()
    monkeypatch.chdir({"beside": beside, "above": tmp_path / "a", "elsewhere": elsewhere}[start])
    run = load_run(["--config", os.path.relpath(beside / "run.yaml")])
    assert isinstance(run.data.train, DatasetSource)
    assert isinstance(run.data.held_out, DatasetSource)
    assert Path(run.model.path).resolve() == beside / "model"
    assert Path(run.data.train.path).resolve() == beside / "rows.jsonl"
    assert run.data.held_out.path == "openai/gsm8k", "a name on the hub stays one"
    assert start == "elsewhere" or not Path(run.model.path).is_absolute()


def test_the_starts_folder_comes_first_for_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside" / "model").mkdir(parents=True)
    (tmp_path / "model").mkdir()
    (tmp_path / "beside" / "run.yaml").write_text(PLACES)
    monkeypatch.chdir(tmp_path)
    run = load_run(["--config", "beside/run.yaml"])
    assert isinstance(run.data.train, DatasetSource)
    assert (run.model.path, run.data.train.path) == ("model", "rows.jsonl")
    set_here = load_run(["--config", "beside/run.yaml", "model.path=./gone"])
    assert set_here.model.path == "./gone"


@each_recipe
def test_a_recipe_and_the_demos_model_are_found_by_their_names_from_any_folder(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--config", f"config/recipes/{recipe.name}"]
    run = load_run(words)
    if "demo" in run.model.path:
        assert (Path(run.model.path) / "model.safetensors").is_file()
    mine = load_run([*words, "model.path=config/recipes/demo_model"])
    assert Path(mine.model.path) == ROOT / "config" / "recipes" / "demo_model"


def values_of(found: Any, like: Any) -> Any:
    """Return of a configuration the keys that a tree of expected values has."""
    if not isinstance(like, dict):
        return found
    return {key: values_of(getattr(found, key), inner) for key, inner in like.items()}


# What verl printed of both runs in their logs of 2025-06-13 and -14, under the keys that these values have here.
VERLS_RUN: dict[str, Any] = {
    "data": {"max_prompt_tokens": 512, "shuffle": False},
    "sampling": {"group_size": 5, "temperature": 1.0, "max_tokens": 1024},
    "learner": {
        "groups_per_step": 64,
        "mini_batches": 1,
        "epochs": 1,
        "max_lag": 0,  # it samples and trains in turn
        "lora": {"rank": 32, "alpha": 32, "targets": "all-linear"},
        "gradient_checkpointing": True,
        "optimizer": {"lr": 3e-5, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "grad_clip": 1.0}
        | {"schedule": "constant", "warmup_steps": 0},
        "advantage": {"baseline": "mean", "scale": "std"},
        "filters": {"zero_variance": "keep", "truncated": "keep"},
        "objective": {
            "type": "grpo",
            "aggregate": "token",
            "clip_low": 0.2,
            "clip_high": 0.2,
            "dual_clip": 3.0,
        }
        | {"entropy_coef": 0.001, "kl": {"coef": 0.001, "estimator": "k3", "place": "loss"}},  # low_var_kl
        "checkpoint": {"every": 20},
    },
    "evaluation": {"every": 5, "prompts": 1319, "samples": 1, "temperature": 0.0},
}


@pytest.mark.parametrize("recipe", ["gsm8k_qwen2.5-0.5b_1gpu", "gsm8k_qwen2.5-1.5b_2gpu"])
def test_the_words_in_a_recipes_head_leave_no_value_of_verls_run_aside(recipe: str) -> None:
    file = ROOT / "config" / "recipes" / f"{recipe}.yaml"
    lines = [line[4:] for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("#   ")]
    run = load_run(["--config", str(file), *" ".join(lines).split()])
    assert values_of(run, VERLS_RUN) == VERLS_RUN


OF_ROWS = BASE.replace("train: {type: procedural, size: 8}", "train: {type: dataset, path: rows.jsonl}")


PLAIN_TEXTS = ["{question}", "{question} {answer}", "Q: {question}", "Question #1: {question} # think"]
PLAIN_TEXTS += ["[INST] {question} [/INST]", "- {question}", "{a}: {b}", "? {question}", "&{question}"]
PLAIN_TEXTS += ["*{question}*", "!{question}", "%{question}", "@{question}", "`{question}`", "| {question}"]
PLAIN_TEXTS += ["> {question}", "007", "1e5", "true", "no", "2026-01-01", "a 'quoted' {question}"]
PLAIN_TEXTS += ["{question}\nline", "12:30", "x=1", "---"]


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_a_text_is_taken_as_it_stands(load: Load, text: str) -> None:
    """As a word, and in the environment."""
    run = load(f"data.train.prompt_template={text}", text=OF_ROWS, MILLRACE_DATA__TRAIN__SYSTEM_PROMPT=text)
    assert isinstance(run.data.train, DatasetSource)
    assert (run.data.train.prompt_template, run.data.train.system_prompt) == (text, text)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("#### (.+)", "#### (.+)"),
        ("[A-D]", "[A-D]"),
        ("'#### (.+)'", "#### (.+)"),  # quoted for YAML, too
        ('"a\\tb"', "a\tb"),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_quotes_and_null_are_yamls_where_a_text_is_wanted(load: Load, word: str, value: str | None) -> None:
    run = load(f"data.train.answer_pattern={word}", text=OF_ROWS)
    assert isinstance(run.data.train, DatasetSource)
    assert run.data.train.answer_pattern == value


@pytest.mark.parametrize(
    ("word", "key", "value"),
    [
        ("name=007", "name", "007"),
        ("model.path={m}", "model.path", "{m}"),
        ("data.source_types.math=prime_math", "data.source_types", {"math": "prime_math"}),
        ("data.source_types={a: b}", "data.source_types", {"a": "b"}),
        ("data.columns=[a, b]", "data.columns", ("a", "b")),
        ("learner.steps=2", "learner.steps", 2),
        ("generators.gpus=[]", "generators.gpus", ()),
        ("learner.journal={keep_mb: 5}", "learner.journal.keep_mb", 5),
    ],
)
def test_other_values_are_yaml_as_before(load: Load, word: str, key: str, value: object) -> None:
    assert attrgetter(key)(load(word, text=OF_ROWS)) == value


PATH = "/far/runs/demo"


@pytest.mark.parametrize(
    "text", ["demo-2", "demo-2/"]
)  # a shell's tab completes a folder's name with a slash
def test_a_name_is_taken(text: str) -> None:
    assert run_name(text) == "demo-2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("runs/demo", "is it demo with --runs-dir runs"),
        ("/far/runs/demo/", "is it demo with --runs-dir /far/runs"),
        ("/demo", "is it demo with --runs-dir /"),
        ("demo//", "letters, digits, _ and - alone"),
        ("*", "no run's name"),
        ("..", "no run's name"),
        ("", "no run's name"),
        ("/", "no run's name"),
        ("demo\n", "no run's name"),
    ],
)
def test_what_is_no_name_is_refused_and_says_what_may_be_meant(text: str, says: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=says):
        run_name(text)


@pytest.mark.parametrize(
    ("main", "words"),
    [
        *((millrace, [verb, PATH]) for verb in ("audit", "replay", "drain", "pause", "resume", "rm")),
        (millrace, ["dead", "list", PATH]),
        (millrace, ["journal", "ls", PATH]),
        (millrace, ["rescore", PATH, "--scorer", "math"]),
        (millrace, ["redis-cli", PATH, "ping"]),
        (generators, ["--run", PATH]),
        (scorers, ["--run", PATH]),
    ],
)
def test_every_command_that_takes_a_run_refuses_a_path(
    main: Callable[[Sequence[str] | None], int], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "is it demo with --runs-dir /far/runs" in capsys.readouterr().err
