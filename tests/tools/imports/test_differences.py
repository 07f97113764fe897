"""What differed in silence, crashed or was refused without need: each with the value that verl has, by version.

Values are those of verl's own code: `verl/trainer/ppo/core_algos.py` and `ray_trainer.py` of the tags v0.3.0.post1,
v0.6.1 and v0.9.0, and of 0.10.0.dev at 1dda039b (2026-08-22).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from config.explanations import ConfigError
from tools.imports.reading import read
from tools.imports.rows_at_hand import found_tasks
from tools.imports.run_file import checked
from tools.imports.translation import Translation, translate

BASE = (
    "algorithm.adv_estimator=grpo algorithm.use_kl_in_reward=False model.path=org/model sampler.n=4 "
    "data.train_files=a.parquet data.train_batch_size=8 actor.ppo_mini_batch_size=8"
)
LONG = {
    "actor.": "actor_rollout_ref.actor.",
    "sampler.": "actor_rollout_ref.rollout.",
    "model.": "actor_rollout_ref.model.",
    "correction.": "algorithm.rollout_correction.",
    "turns.": "actor_rollout_ref.rollout.multi_turn.",
}
OURS = {"objective.": "learner.objective.", "correction.": "learner.objective.correction."}
OLD = "-algorithm.use_kl_in_reward"  # verl 0.3 and older do not have it
TOOLS = "/t.yaml"
OVERLONG = "reward_model.overlong_buffer.enable=True reward_model.overlong_buffer.len=64"


def full(key: str, names: dict[str, str]) -> str:
    """Write the first section of a key out."""
    plain = key.lstrip("+-")
    section = next((short for short in names if plain.startswith(short)), "")
    return key.replace(section, names[section], 1) if section else key


def translated(words: str) -> Translation:
    """Translate a call's words behind a base's, but for those with a `-`, and check the run."""
    typed = [full(word, LONG) for word in words.split()]
    left_out = {word[1:] for word in typed if word.startswith("-")}
    base = [full(word, LONG) for word in BASE.split()]
    kept = [word for word in base if word.partition("=")[0] not in left_out]
    theirs = read([*kept, *(word for word in typed if not word.startswith("-"))])
    found = translate(theirs, found_tasks(theirs))
    checked(found)
    return found


def ours(words: str) -> dict[str, Any]:
    return {one.path: one.value for one in translated(words).settings}


# A call's words, and what they become: `objective.` is learner.objective, `correction.` is within it.
VALUES = [
    # verl 0.3 and older: no use_kl_in_reward, an entropy bonus of 0.001, no dual clip
    (f"{OLD} algorithm.kl_ctrl.kl_coef=0.002",
        ("objective.kl.coef: 0.002, objective.kl.estimator: k1, objective.kl.place: reward, "
        "objective.entropy_coef: 0.001, objective.dual_clip: null")),
    (f"{OLD} actor.ppo_micro_batch_size=8", "objective.kl.coef: 0.001, objective.kl.place: reward"),
    (f"{OLD} data.val_batch_size=1312", "objective.dual_clip: null"),
    (f"{OLD} actor.fsdp_config.grad_offload=False", "objective.entropy_coef: 0.001"),
    (f"{OLD} sampler.log_prob_micro_batch_size=8", "objective.entropy_coef: 0.001"),
    (f"{OLD} algorithm.kl_ctrl.kl_coef=0.001 actor.use_kl_loss=False", "objective.kl.coef: 0.001"),
    (f"{OLD} algorithm.kl_ctrl.kl_coef=0.001 actor.use_kl_loss=True actor.kl_loss_coef=0.01",
        "objective.kl.coef: 0.01, objective.kl.place: loss"),
    (f"{OLD} reward_api.enable=False", "objective.kl.coef: 0.001"),  # II-VERL
    (f"{OLD} data.train_split=train", "objective.entropy_coef: 0.001"),
    (f"{OLD} actor.ppo_micro_batch_size=8 actor.entropy_coeff=0", "objective.entropy_coef: 0.0"),
    # and since: none of it
    ("", "objective.entropy_coef: 0.0, objective.dual_clip: 3.0"),
    ("actor.clip_ratio_c=10.0", "objective.dual_clip: 10.0"),
    # a version of its own for Megatron's base
    ("model_engine=megatron", "learner.gradient_checkpointing: true"),
    ("model_engine=veomni", "learner.optimizer.schedule: cosine"),
    ("model_engine=torchtitan", "learner.optimizer.schedule: linear"),
    # rollout correction: 0.10's names
    ("correction.rollout_is=token correction.rollout_is_threshold=3.0",
        "objective.type: decoupled_ppo, correction.rollout_is: token, correction.rollout_is_threshold: 3.0"),
    ("correction.rollout_is=sequence", "correction.rollout_is: sequence"),
    ("correction.rollout_is=token correction.bypass_mode=True", "objective.type: grpo"),
    ("correction.bypass_mode=True correction.loss_type=reinforce",
        "objective.type: reinforce, objective.max_weight: null"),
    (("correction.bypass_mode=True correction.loss_type=reinforce "
        "correction.rollout_is=token correction.rollout_is_threshold=5"),
        "objective.type: reinforce, objective.max_weight: 5.0"),
    # verl bounds the inverse ratio
    ("correction.rollout_rs=token_k1 +correction.rollout_rs_threshold=0.5_4.0",
        "correction.rollout_rs: [token_k1], correction.token_k1: [0.25, 2.0]"),
    ("correction.rollout_rs=seq_mean_k1 correction.rollout_rs_threshold=1.25",
        "correction.seq_mean_k1: [0.8, 1.25]"),
    # 0.6's names bound the ratio itself
    ("correction.rollout_rs=geometric correction.rollout_rs_threshold=1.001 correction.rollout_rs_threshold_lower=0.999",
        "correction.seq_mean_k1: [0.999, 1.001]"),
    ("correction.use_policy_gradient=True correction.rollout_is=token", "objective.type: reinforce"),
    ("algorithm.rollout_is=True algorithm.rollout_is_threshold=2.0", "objective.type: decoupled_ppo"),
    ("actor.tis_imp_ratio_cap=2.0", "correction.rollout_is_threshold: 2.0"),
    ("actor.tis_imp_ratio_cap=-1", "objective.type: grpo"),
    # losses
    ("actor.policy_loss.loss_mode=dppo_tv actor.clip_ratio_low=0.15 actor.clip_ratio_high=0.3",
        "objective.type: dppo, objective.divergence: tv, objective.max_low: 0.15, objective.max_high: 0.3"),
    ("actor.policy_loss.loss_mode=dppo_kl", "objective.divergence: kl"),
    ("actor.policy_loss.loss_mode=dppo_kl actor.clip_ratio_c=20.0", "objective.max_weight: 20.0"),
    ("actor.policy_loss.loss_mode=cispo actor.clip_ratio_low=10 actor.clip_ratio_high=0.2",
        "objective.clip_low: null, objective.clip_high: 0.2"),
    ("actor.policy_loss.loss_mode=gspo", "objective.aggregate: sequence"),
    ("actor.policy_loss.loss_mode=gspo actor.loss_agg_mode=token-mean", "objective.aggregate: sequence"),
    ("actor.loss_agg_mode=seq-mean-token-sum-norm actor.loss_scale_factor=1024 data.max_response_length=8192",
        "objective.aggregate: constant, objective.constant_length: 1024"),
    # the filter judges scores, and not penalties
    (f"algorithm.filter_groups.enable=True algorithm.filter_groups.metric=acc {OVERLONG}",
        "learner.filters.zero_variance: replace, learner.filters.pass_rate: [0.0001, 0.9999]"),
    (f"algorithm.filter_groups.enable=True algorithm.filter_groups.metric=seq_reward {OVERLONG}",
        "learner.filters.zero_variance: replace, learner.filters.pass_rate: null"),
    # switches that are null, unset or one word
    ("actor.use_kl_loss=null", "objective.kl.coef: null"),
    ("actor.use_kl_loss=", "objective.kl.coef: null"),
    ("actor.use_kl_loss=${algorithm.use_kl_in_reward}", "objective.kl.coef: null"),
    ("sampler.val_kwargs={temperature:0.6,n:4} trainer.test_freq=5 data.val_files=b.parquet",
        "evaluation.samples: 4, evaluation.temperature: 0.6"),
    ("sampler.val_kwargs={do_sample:true,temperature:0.6,top_p:0.95,n:4} trainer.test_freq=5 data.val_files=b.parquet",
        "evaluation.samples: 4, evaluation.temperature: 0.6, evaluation.top_p: 0.95"),
    # agent loops, the default since 0.7, read no do_sample
    ("sampler.val_kwargs.temperature=1.0 trainer.test_freq=5 sampler.mode=async",
        "evaluation.temperature: 1.0"),
    ("sampler.val_kwargs.temperature=1.0 trainer.test_freq=5 sampler.mode=sync",
        "evaluation.temperature: 0.0"),
    ("trainer.test_freq=10", "evaluation.every: 10"),  # with verl's own file
    ("trainer.test_freq=False", "evaluation.every: null"),
    ("actor.optim.optimizer=adam", "learner.optimizer.lr: 1.0e-6"),
    # both terms of the divergence, as TinyV's own script has them
    ("actor.use_kl_loss=True actor.kl_loss_coef=0.001 algorithm.use_kl_in_reward=True algorithm.kl_ctrl.kl_coef=0.001",
        "objective.kl.place: loss, objective.kl.coef: 0.001"),
    ("actor.use_kl_loss=True actor.kl_loss_coef=0 algorithm.use_kl_in_reward=True algorithm.kl_ctrl.kl_coef=0.002",
        "objective.kl.place: reward, objective.kl.coef: 0.002"),
    # GPUs as they are split
    ("trainer.n_gpus_per_node=6 rollout.nnodes=1 rollout.n_gpus_per_node=2",
        "generators.gpus: [0, 1], learner.gpus: [2, 3, 4, 5, 6, 7], learner.ranks: 6, generators.count: 1"),
    ("trainer.n_gpus_per_node=8 trainer.nnodes=2 rollout.nnodes=2 rollout.n_gpus_per_node=8",
        "learner.ranks: 16, generators.count: 8, generators.gpus: null"),
    # fully asynchronous: mini-batches make the step, samples the budget
    (("async_training.staleness_threshold=0.5 async_training.trigger_parameter_sync_step=4 "
        "async_training.require_batches=2 rollout.total_rollout_steps=1600 data.gen_batch_size=1"),
        "learner.max_lag: 6, learner.groups_per_step: 16, learner.mini_batches: 2, learner.steps: 100"),
    # which counts versions of the weights, of four steps each; up to verl 0.7 in a key of its own
    (("async_training.trigger_parameter_sync_step=4 async_training.use_rollout_log_probs=True rollout.total_epochs=2 "
        "rollout.test_freq=5 trainer.save_freq=10"),
        "evaluation.every: 20, learner.checkpoint.every: 40"),
    ("async_training.trigger_parameter_sync_step=3 trainer.test_freq=5 trainer.save_freq=-1",
        "evaluation.every: 15, learner.checkpoint.every: 0"),
    ("async_training.partial_rollout=True trainer.test_freq=2", "evaluation.every: 2"),  # of another trainer
    ("async_training.require_batches=1 rollout.total_rollout_steps=128", "learner.steps: 16, learner.epochs: 30"),
    ("reward_model.enable=False reward_model.model.type=discriminative", "learner.max_lag: 1"),
    ("trainer.v1.trainer_mode=colocate_async", "learner.max_lag: 1"),
    ("trainer.v1.trainer_mode=separate_async trainer.v1.separate_async.parameter_sync_step=3",
        "learner.max_lag: 3"),
    ("reward.reward_manager.name=dapo", "scorers.tasks.math: {scorer: {type: math}}"),
    ("reward.custom_reward_function.path=r.py reward.custom_reward_function.name=f",
        "data.train: {type: dataset, path: a.parquet, split: train, prompt_column: prompt}"),
    # tools: one instance a call since agent loops play, of which an answer of 256 characters stays by default
    (f"turns.enable=True turns.tool_config_path={TOOLS} turns.max_assistant_turns=5 data.tool_config_path={TOOLS}",
        ("scorers.tasks.math: {scorer: {type: math}, environment: {type: verl_tools, tool_config_path: /t.yaml, "
        "max_turns: 5, instances: call, result_characters: 256, result_kept: both}}")),
    (("turns.enable=True turns.function_tool_path=/t.py turns.max_user_turns=3 turns.max_assistant_turns=9 "
        "turns.max_tool_response_length=99 turns.tool_response_truncate_side=right"),
        ("scorers.tasks.math: {scorer: {type: math}, environment: {type: verl_tools, function_tool_path: /t.py, "
        "max_turns: 4, instances: call, result_characters: 99, result_kept: end}}")),
    # verl 0.5 with SGLang: one for the episode
    ((f"turns.enable=True turns.tool_config_path={TOOLS} turns.completion_callback=null sampler.name=sglang "
        "trainer.val_generations_to_log_to_wandb=0"),
        ("scorers.tasks.math: {scorer: {type: math}, environment: {type: verl_tools, tool_config_path: /t.yaml, "
        "max_turns: 1000, instances: episode, result_characters: 256, result_kept: both}}")),
    (f"turns.enable=False turns.tool_config_path={TOOLS}", "scorers.tasks.math: {scorer: {type: math}}"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), VALUES)
def test_a_value_becomes_what_verl_of_that_version_does(words: str, expected: str) -> None:
    wanted = {full(key, OURS): value for key, value in yaml.safe_load(f"{{{expected}}}").items()}
    found = ours(words)
    assert {key: found.get(key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("words", "version"),
    [
        (f"{OLD} algorithm.kl_ctrl.kl_coef=0.001", "verl 0.3"),
        (f"{OLD} actor.ppo_micro_batch_size=8", "verl 0.3"),
        (f"{OLD} reward_api.enable=False", "II-VERL"),
        ("trainer.v1.trainer_mode=sync", "verl 0.10"),
        ("reward.num_workers=8", "verl 0.10"),
        ("", "verl 0.10"),
    ],
)
def test_an_import_says_which_version_it_took(words: str, version: str) -> None:
    assert version in translated(words).notes[0]


@pytest.mark.parametrize(
    ("file", "factor"),
    [
        ("dapo-math-17k.parquet", 0.5),
        ("aime-2024.parquet", 0.5),
        ("gsm8k/train.parquet", 1.0),
        ("math__deepscaler_preview_54.4k.parquet", 1.0),  # Reasoning360's pay 1 and 0
    ],
)
@pytest.mark.parametrize(
    "section", ["reward_model.overlong_buffer", "reward.reward_kwargs.overlong_buffer_cfg"]
)
def test_the_overlong_penalty_is_half_where_verl_pays_minus_one(
    file: str, factor: float, section: str
) -> None:
    switches = f"+{section}.enable=True +{section}.len=64 +{section}.penalty_factor=1.0"
    found = ours(f"data.train_files={file} {switches}")
    tasks = [value for key, value in found.items() if key.startswith("scorers.tasks.")]
    assert tasks
    assert {one["penalties"]["overlong"]["weight"] for one in tasks} == {factor}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.jsonl", '{"data_source": "openai/gsm8k"}\nnope\n{"data_source": "math_dapo"}\n'),
        ("train.json", '[{"data_source": "openai/gsm8k"},\n {"data_source": "math_dapo"}]'),
        ("train.csv", "data_source\nopenai/gsm8k\nmath_dapo\n"),
    ],
)
def test_the_rows_themselves_say_what_verl_pays(tmp_path: Path, name: str, text: str) -> None:
    rows = tmp_path / name
    rows.write_text(text)
    assert read([f"data.train_files={rows}"]).paid == "math_dapo"
    found = ours(f"data.train_files={rows} {OVERLONG}")
    weights = {value["penalties"]["overlong"]["weight"] for key, value in found.items() if "tasks" in key}
    assert weights == {0.5}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # a coefficient that would do nothing is asked about
        (f"{OLD} algorithm.kl_ctrl.kl_coef=0.001 trainer.v1.trainer_mode=sync", "use_kl_in_reward=True or"),
        ("actor.kl_loss_coef=0.01", "actor_rollout_ref.actor.use_kl_loss=True or"),
        ("reward_model.overlong_buffer.penalty_factor=1.0", "overlong_buffer.enable=True or"),
        # models of images
        ("data.image_key=images model.path=Qwen/Qwen2.5-VL-7B-Instruct", "reads images"),
        ("data.image_key=images model.path=zai-org/GLM-4.1V-9B-Thinking", "reads images"),
        ("data.video_key=videos model.path=OpenGVLab/InternVL3-8B", "reads images"),
        ("data.image_key=images model.path=llava-hf/llava-1.5-7b-hf", "reads images"),
        ("actor.freeze_vision_tower=True", "a tower for images"),
        # another model than the folder's
        ("model.override_config.max_position_embeddings=32768", "config.json"),
        ("+model.override_config.rope_scaling={type:yarn,factor:4.0}", "config.json"),
        ("+model.override_config.model_config.max_position_embeddings=1", "config.json"),
        # what only somebody else's code does
        ("reward_model.reward_manager=ttrl", "another manager pays"),
        ("reward.reward_manager.name=wizard", "another manager pays"),
        ("actor._target_=mine.Actor", "not verl's own"),
        ("distillation.enabled=True", "teacher"),
        ("sampler.qat.enable=True", "own weights"),
        ("data.train_files=", "no file"),
        ("data.val_files= trainer.test_freq=5", "no"),
        ("correction.rollout_rs=seq_max_k2 correction.rollout_rs_threshold=2", "seq_max_k2"),
        ("correction.rollout_is=token correction.rollout_is_threshold=0.5_2.0", "two bounds"),
        ("correction.rollout_is_batch_normalize=True", "not normalized"),
        ("correction.rollout_is=token actor.policy_loss.loss_mode=gspo", "correct twice"),
        ("actor.loss_agg_mode=token-sum", "none of token-mean"),
        ("actor@actor_rollout_ref.actor=mine", "--verl FOLDER"),
    ],
)
def test_what_can_not_be_the_same_is_refused_or_asked_about(words: str, said: str) -> None:
    with pytest.raises(ConfigError, match="the command line") as caught:
        translated(words)
    assert said in str(caught.value)


@pytest.mark.parametrize(("words", "note"), [
    ("sampler.n=1", "nothing trains"),
    (f"turns.enable=True turns.tool_config_path={TOOLS}", "a Python that has verl"),
    ("data.train_files=dapo.parquet algorithm.norm_adv_by_std_in_grpo=False", "half as much"),
    (f"{OLD} data.train_files=aime.parquet algorithm.use_kl_in_reward=True algorithm.kl_ctrl.kl_coef=0.1",
        "half as much"),
    ("algorithm.adv_estimator=rloo sampler.n=1", "nothing trains"),
    ("-sampler.n", "nothing trains"),
    ("algorithm.kl_ctrl.kl_coef=0.001", "use_kl_in_reward is off"),
    ("actor.kl_loss_coef=0.001 actor.use_kl_loss=False", "use_kl_loss is off"),
    ("actor.use_kl_loss=True algorithm.use_kl_in_reward=True", "left out"),
    (f"{OLD} actor.use_kl_loss=True algorithm.kl_ctrl.kl_coef=0.001", "use_kl_loss is on"),
])  # fmt: skip
def test_what_does_nothing_is_told_before_the_account(words: str, note: str) -> None:
    assert any(note in one for one in translated(words).notes)


@pytest.mark.parametrize(
    ("words", "key", "said"),
    [
        ("algorithm.adv_estimator=reinforce_plus_plus_baseline", "algorithm.adv_estimator", "off their mean"),
        ("actor.use_kl_loss=True actor.kl_loss_type=k3+", "actor.use_kl_loss", "gradient of k2"),
        ("model_engine=megatron", "model_engine", "DeepSpeed's"),
    ],
)
def test_what_differs_is_said_beside_its_key(words: str, key: str, said: str) -> None:
    (account,) = [one for one in translated(words).accounts if one.said.key == full(key, LONG)]
    assert said in account.outcome.words


def test_a_models_config_with_images_is_found_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"vision_config": {}}')
    with pytest.raises(ConfigError, match="reads images"):
        translated(f"data.image_key=images model.path={tmp_path}")
    assert ours("data.image_key=images")["model.path"] == "org/model"


def written(folder: Path, **files: str) -> None:
    """Write YAML files, `__` for a folder."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("main", "value"),
    [
        ("defaults: [other]\na: {n: 1}\n", 1),  # the file itself comes last
        ("defaults: [_self_, other]\na: {n: 1}\n", 2),
        ("defaults: [other, _self_]\na: {n: 1}\n", 1),
        ("defaults:\n  - group@a: big\n", 3),
        ("defaults:\n  - group@a: big\n  - _self_\na: {n: 1}\n", 1),
        ("defaults:\n  - a: small\n", 4),
        ("defaults:\n  - ppo_trainer\n  - _self_\na: {n: 1}\n", 1),  # verl's own, known here
        ("defaults:\n  - rollout@b: rollout\na: {n: 1}\n", 1),
    ],
)
def test_parts_are_laid_over_each_other_as_hydra_does(main: str, value: int, tmp_path: Path) -> None:
    written(tmp_path, main=main, other="a: {n: 2}\n", group__big="n: 3\n", a__small="n: 4\n")
    assert read([str(tmp_path / "main.yaml")]).get("a.n") == value


@pytest.mark.parametrize("main", ["defaults: [absent]\na: 1\n", "defaults:\n  - group: mine\na: 1\n"])
def test_a_part_that_is_nobodys_has_to_be_there(main: str, tmp_path: Path) -> None:
    written(tmp_path, main=main)
    with pytest.raises(ConfigError, match=r"main\.yaml:1.*not there"):
        read([str(tmp_path / "main.yaml")])
