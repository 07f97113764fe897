"""`--verl`: Hydra composes verl's base; where there is none to be had, the tables are used and the import says so."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from config.explanations import ConfigError
from config.loading import cache_folder
from tests.support.told import Patch
from tools.imports.composer import hydra
from tools.imports.composer.hydra import NoHydra, Verl
from tools.imports.reading import OfVerl, read

# A small verl: its base is made of parts, as those since 0.5 are.
FILES = {
    "verl/trainer/config/ppo_trainer.yaml": """
defaults:
  - model_engine: dp
  - actor@actor_rollout_ref.actor: ${model_engine}_actor
  - _self_
actor_rollout_ref: {model: {path: base}, rollout: {name: vllm, n: 1, val_kwargs: {n: 1, temperature: 0}}}
algorithm: {adv_estimator: gae, use_kl_in_reward: false, kl_ctrl: {kl_coef: 0.001}}
data: {train_files: a.parquet, max_prompt_length: 512, max_response_length: 512, train_batch_size: 64}
trainer: {total_epochs: 3, mine: 7}
""",
    "verl/trainer/config/model_engine/dp.yaml": "# @package _global_\nmodel_engine: dp\n",
    "verl/trainer/config/model_engine/megatron.yaml": "# @package _global_\nmodel_engine: megatron\n",
    "verl/trainer/config/actor/dp_actor.yaml": "{strategy: fsdp, entropy_coeff: 0.5, grad_clip: 2.0, ppo_mini_batch_size: 16}",
    "verl/trainer/config/actor/megatron_actor.yaml": "{strategy: megatron, entropy_coeff: 0.25, ppo_mini_batch_size: 16}",
    "verl/trainer/main_ppo.py": '@hydra.main(config_path="config", config_name="ppo_trainer", version_base=None)\ndef main(config): ...\n',
    "recipe/dapo/main_dapo.py": '@hydra.main(config_path="config", config_name="dapo_trainer", version_base=None)\ndef main(config): ...\n',
    "recipe/dapo/config/dapo_trainer.yaml": """
hydra: {searchpath: ["file://verl/trainer/config"]}
defaults: [ppo_trainer, _self_]
algorithm: {adv_estimator: grpo}
data: {gen_batch_size: 128}
""",
}


@pytest.fixture
def verl(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "theirs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "theirs"


ACTOR = "actor_rollout_ref.actor"
VAL_KWARGS = "actor_rollout_ref.rollout.val_kwargs"
CACHE = os.environ.get("XDG_CACHE_HOME")  # the user's, which has the environment; a test's own has not
needs_hydra = pytest.mark.skipif(
    not (cache_folder() / f"hydra-{hydra.VERSION}" / hydra.MADE).is_file(),
    reason="no environment with hydra-core in the cache folder: an import with --verl makes it",
)


@pytest.fixture
def kept_hydra(monkeypatch: Patch) -> None:
    """Use the environment that is there."""
    if CACHE is None:
        monkeypatch.delenv("XDG_CACHE_HOME")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", CACHE)


# Each call starts a Python with Hydra, so that its words are those that say nothing of each other.
@needs_hydra
@pytest.mark.usefixtures("kept_hydra")
@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([], {f"{ACTOR}.entropy_coeff": 0.5, "trainer.mine": 7}),
        (["model_engine=megatron", "++trainer.mine=8", "+trainer.more=1e-3", f"{VAL_KWARGS}={{n:4,temperature:0.6}}"],
         {f"{ACTOR}.entropy_coeff": 0.25, "trainer.mine": 8, "trainer.more": 0.001, f"{VAL_KWARGS}.n": 4}),
        ([f"actor@{ACTOR}=megatron_actor", f"{ACTOR}.entropy_coeff=0.125", "~trainer.mine",
          "data.train_files=['b c.parquet','d.parquet']", "data.max_prompt_length=${data.max_response_length}"],
         {f"{ACTOR}.strategy": "megatron", f"{ACTOR}.entropy_coeff": 0.125, "trainer.mine": None,
          "data.train_files": ["b c.parquet", "d.parquet"], "data.max_prompt_length": 512}),
    ],
)  # fmt: skip
def test_the_values_are_hydras(words: list[str], values: dict[str, object], verl: Path) -> None:
    theirs = read([*words, "trainer.total_epochs=3"], verl=OfVerl(folder=verl))
    assert {key: theirs.get(key) for key in values} == values
    assert "composed by Hydra" in theirs.notes[0]


@needs_hydra
@pytest.mark.usefixtures("kept_hydra")
def test_a_recipes_own_base_is_found_by_its_module(verl: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("python3 -m recipe.dapo.main_dapo trainer.total_epochs=1\n")
    theirs = read([str(script)], verl=OfVerl(folder=verl))
    assert theirs.get("data.gen_batch_size") == 128
    assert theirs.get("algorithm.adv_estimator") == "grpo"
    assert theirs.said["trainer.total_epochs"].where == "train.sh:1"


@needs_hydra
@pytest.mark.usefixtures("kept_hydra")
@pytest.mark.parametrize("word", ["trainer.absent=1", "model_engine=mine"])
def test_what_hydra_refuses_is_refused_in_its_words(word: str, verl: Path) -> None:
    with pytest.raises(ConfigError, match=r"Hydra: .*(absent|mine)"):
        read([word, "trainer.total_epochs=1"], verl=OfVerl(folder=verl))


@needs_hydra
@pytest.mark.prove
def test_the_first_import_makes_the_environment(verl: Path) -> None:
    """Fetches hydra-core."""
    theirs = read(["trainer.total_epochs=3"], verl=OfVerl(folder=verl))
    assert "composed by Hydra" in theirs.notes[0]
    assert (cache_folder() / f"hydra-{hydra.VERSION}" / hydra.MADE).is_file()


def test_an_installed_verl_is_found_by_its_package(verl: Path) -> None:
    assert Verl.at(verl / "verl").folder == verl.resolve()
    assert Verl.at(verl).base == (verl / "verl" / "trainer" / "config").resolve()
    with pytest.raises(ConfigError, match="no verl in it"):
        Verl.at(verl / "recipe")


def test_without_an_environment_the_tables_are_used_and_it_is_said(verl: Path, monkeypatch: Patch) -> None:
    def none() -> str:
        raise NoHydra("hydra-core could not be installed")

    monkeypatch.setattr(hydra, "environment", none)
    theirs = read(["trainer.total_epochs=3"], verl=OfVerl(folder=verl))
    assert theirs.get("actor_rollout_ref.actor.entropy_coeff") == 0.0
    assert any("tables of verl's defaults are used" in note for note in theirs.notes)


def test_an_environment_that_can_not_be_made_says_why(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "millrace").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NoHydra, match="no environment for Hydra"):
        hydra.environment()


def test_imports_at_the_same_time_make_one_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def create(folder: Path, **_: object) -> None:
        made.append(folder.name)
        (folder / "bin").mkdir(parents=True)  # fails where another one is at it
        time.sleep(0.2)
        (folder / "bin" / "python").touch()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("venv.create", create)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: None)
    with ThreadPoolExecutor() as pool:
        found = {ask.result() for ask in [pool.submit(hydra.environment) for _ in range(3)]}
    assert found == {str(tmp_path / "millrace" / f"hydra-{hydra.VERSION}" / "bin" / "python")}
    assert len(made) == 1


def test_a_python_without_hydra_is_named(verl: Path) -> None:
    with pytest.raises(ConfigError, match="Hydra could not be asked by /usr/bin/false"):
        read(["trainer.total_epochs=3"], verl=OfVerl(folder=verl, python="/usr/bin/false"))
