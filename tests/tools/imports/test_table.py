"""The table of `millrace import`: every key of verl's has one rule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from config.explanations import ConfigError
from config.other_names.foreign_names import NOT_HERE, OURS
from tests.support.config_keys import is_key
from tools.imports.known_keys import BELOW_SECTIONS
from tools.imports.theirs import Theirs, VerlSetting, overlaid
from tools.imports.translation import RULES, rule_for, todays_defaults, translate

BASE = {
    "algorithm.adv_estimator": "grpo",
    "actor_rollout_ref.model.path": "m",
    "actor_rollout_ref.rollout.n": 4,
    "data.train_files": "a.parquet",
    "data.train_batch_size": 8,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 8,
}


def settings_of(**keys: Any) -> dict[str, Any]:
    """Translate a base and these keys, `__` for their dots, and return our settings."""
    said = BASE | {key.replace("__", "."): value for key, value in keys.items()}
    layer = [
        VerlSetting(key=key, value=value, where=f"c.yaml:{at}")
        for at, (key, value) in enumerate(said.items(), 1)
    ]
    merged = overlaid([layer])
    theirs = Theirs(said=merged, defaults=todays_defaults())
    return {one.path: one.value for one in translate(theirs).settings}


def test_every_key_has_one_rule_and_every_rule_names_keys_that_are_here() -> None:
    keys = [rule.key for rule in RULES]
    assert sorted(key for key in keys if keys.count(key) > 1) == []
    named = {key for rule in RULES for key in rule.ours.split(", ") if "." in key}
    assert sorted(key for key in named if not is_key(key.split("."))) == []


def test_an_own_rule_comes_before_the_one_of_a_section() -> None:
    for key, rule in (
        ("critic.optim.lr", "critic.*"),
        ("critic", "critic.*"),
        (
            "actor_rollout_ref.actor.fsdp_config.param_offload",
            "actor_rollout_ref.actor.fsdp_config.param_offload",
        ),
        ("actor_rollout_ref.actor.fsdp_config.fsdp_size", "actor_rollout_ref.actor.fsdp_config.*"),
    ):
        found = rule_for(key)
        assert found is not None
        assert found.key == rule
    assert rule_for("actor_rollout_ref.actor.lr") is None


ACTOR, ROLLOUT = "actor_rollout_ref__actor__", "actor_rollout_ref__rollout__"


CONVERTED: list[Any] = [
    # 8 prompts a step in mini-batches of 2: 4 optimizer steps of a batch
    ({f"{ACTOR}ppo_mini_batch_size": 2}, {"learner.mini_batches": 4, "learner.groups_per_step": 8}),
    # GAE with single answers: 8 answers are one group of 8
    ({"algorithm__adv_estimator": "gae", f"{ROLLOUT}n": 1},
        {"sampling.group_size": 8, "learner.groups_per_step": 1, "learner.advantage.baseline": "mean"}),
    ({"algorithm__adv_estimator": "rloo"}, {"learner.advantage.baseline": "leave_one_out"}),
    ({"algorithm__norm_adv_by_std_in_grpo": False}, {"learner.advantage.scale": "none"}),
    ({f"{ACTOR}clip_ratio_high": 0.28}, {"learner.objective.clip_low": 0.2, "learner.objective.clip_high": 0.28}),
    ({f"{ACTOR}loss_agg_mode": "seq-mean-token-mean"}, {"learner.objective.aggregate": "sequence"}),
    ({f"{ACTOR}loss_agg_mode": "seq-mean-token-sum-norm", "data__max_response_length": 99},
        {"learner.objective.aggregate": "constant", "learner.objective.constant_length": 99}),
    ({f"{ACTOR}use_kl_loss": True, f"{ACTOR}kl_loss_coef": "1e-2", f"{ACTOR}kl_loss_type": "kl"},
        {"learner.objective.kl.coef": 0.01, "learner.objective.kl.estimator": "k1",
        "learner.objective.kl.place": "loss"}),
    ({"algorithm__use_kl_in_reward": "TRUE", "algorithm__kl_ctrl__type": "adaptive"},
        {"learner.objective.kl.place": "reward", "learner.objective.kl.target": 0.1,
        "learner.objective.kl.horizon": 10000}),
    # 3 rows of 20 + 30 tokens
    ({f"{ACTOR}ppo_micro_batch_size_per_gpu": 3, "data__max_prompt_length": 20, "data__max_response_length": 30},
        {"learner.tokens_per_micro_batch": 150}),
    ({f"{ACTOR}use_dynamic_bsz": True, f"{ACTOR}ppo_max_token_len_per_gpu": 777},
        {"learner.tokens_per_micro_batch": 777}),
    ({f"{ACTOR}optim__lr_warmup_steps_ratio": 0.1}, {"learner.optimizer.warmup_share": 0.1}),
    ({f"{ACTOR}optim__lr_warmup_steps": 7}, {"learner.optimizer.warmup_steps": 7}),
    ({f"{ACTOR}fsdp_config__param_offload": True, f"{ACTOR}fsdp_config__optimizer_offload": True},
        {"learner.zero.stage": 3, "learner.zero.offload_weights": True, "learner.zero.offload_optimizer": True}),
    ({"actor_rollout_ref__model__custom_chat_template": "{{ messages[0].content }}"},
        {"model.chat_template.text": "{{ messages[0].content }}"}),
    ({"trainer__rollout_data_dir": "a", "trainer__validation_data_dir": "b"},
        {"learner.dumps.rollouts": "a", "learner.dumps.held_out": "b"}),
    # verl would write the rounds over the steps
    ({"trainer__rollout_data_dir": "a", "trainer__validation_data_dir": "a"},
        {"learner.dumps.rollouts": "a", "learner.dumps.held_out": "a/validation"}),
    ({"reward_api__enable": True, "reward_api__api_url": "http://localhost:1", "reward_api__save_dir": "d",
        "reward_api__save_freq": -1}, {"learner.dumps.parquet": "d", "learner.dumps.parquet_every": 0,
        "data.columns": ["id"]}),
    ({"trainer__save_freq": -1}, {"learner.checkpoint.every": 0}),
    ({"trainer__save_freq": 5, f"{ACTOR}checkpoint__contents": ["model", "hf_model"]},
        {"learner.checkpoint.every": 5, "learner.checkpoint.export": True}),
    ({"trainer__test_freq": 5, "data__val_files": "b.parquet", f"{ROLLOUT}val_kwargs__n": 4},
        {"evaluation.every": 5, "evaluation.samples": 4}),
    # 8 GPUs: 4 generate, two to a model, and 4 train
    ({"trainer__n_gpus_per_node": 8, f"{ROLLOUT}tensor_model_parallel_size": 2},
        {"generators.gpus": [0, 1, 2, 3], "generators.count": 2, "generators.engine.tensor_parallel": 2,
        "learner.gpus": [4, 5, 6, 7], "learner.ranks": 4}),
    # 2 GPUs: one each, and no model over two
    ({"trainer__n_gpus_per_node": 2, f"{ROLLOUT}tensor_model_parallel_size": 2},
        {"generators.gpus": [0], "generators.engine.tensor_parallel": 1, "learner.gpus": [1], "learner.ranks": 1}),
    ({"trainer__n_gpus_per_node": 1}, {"generators.gpus": [0], "learner.gpus": [0],
        "generators.engine.kv_cache_mb": 4096}),
    ({"trainer__nnodes": 4}, {"learner.ranks": 16}),
    ({"trainer__experiment_name": "a run/1.5b"}, {"name": "a-run-1-5b"}),
    ({"reward_model__overlong_buffer__enable": True, "reward_model__overlong_buffer__len": 10,
        "reward_model__overlong_buffer__penalty_factor": 0.5, "data__max_response_length": 50},
        {"scorers.tasks.math": {"scorer": {"type": "math"},
        "penalties": {"overlong": {"buffer_tokens": 10, "weight": 0.5, "max_tokens": 50}}}}),
    ({"reward_model__sandbox_fusion__url": "http://h:8080/run_code"}, {"scorers.sandbox_urls": ["http://h:8080"]}),
    ({"trainer__total_training_steps": 12}, {"learner.steps": 12}),
    ({"algorithm__filter_groups__enable": True}, {"learner.filters.zero_variance": "replace"}),
    ({"actor_rollout_ref__model__lora_rank": 8},
        {"learner.lora": {"rank": 8, "alpha": 16, "targets": "all-linear"}}),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "ours"), CONVERTED)
def test_a_value_of_another_meaning_here_is_converted(keys: dict[str, Any], ours: dict[str, Any]) -> None:
    found = settings_of(**keys)
    assert {key: found.get(key) for key in ours} == ours


@pytest.mark.parametrize(
    ("keys", "absent"),
    [
        ({}, "data.held_out"),
        ({}, "evaluation.every"),
        ({}, "learner.objective.kl.coef"),
        ({}, "generators.engine.gpu_memory_utilization"),
        ({"trainer__total_training_steps": 12}, "learner.epochs"),
        ({f"{ACTOR}use_kl_loss": True, f"{ACTOR}kl_loss_coef": 0.0}, "learner.objective.kl.coef"),
    ],
)
def test_what_was_off_there_is_not_set_here(keys: dict[str, Any], absent: str) -> None:
    assert absent not in settings_of(**keys)


@pytest.mark.parametrize(("key", "value", "words"), [
    ("algorithm.adv_estimator", "remax", "none of grpo, gae"),
    ("actor_rollout_ref.rollout.top_p", 0.9, "set it to 1"),
    ("actor_rollout_ref.rollout.top_k", 50, "set it to -1"),
    ("actor_rollout_ref.rollout.multi_turn.enable", True, "it has no tools: name them by"),
    ("actor_rollout_ref.rollout.multi_turn.interaction_config_path", "i.yaml",
        "an environment of your own"),
    ("data.tool_config_path", "tools.yaml", "an answer is one turn without tools"),
    ("actor_rollout_ref.actor.ppo_epochs", 2, "trains once"),
    ("actor_rollout_ref.actor.policy_loss.loss_mode", "clip_cov",
        "none of vanilla, gspo, cispo, dppo_tv"),
    ("actor_rollout_ref.actor.loss_agg_mode", "mean", "token-mean"),
    ("reward_model.enable", True, "serve the model"),
    ("trainer.resume_mode", "resume_path", "can't be read"),
    ("data.custom_cls.path", "x.py", "write the rows"),
    ("data.tokenizer", "t", "the model's folder"),
    ("actor_rollout_ref.actor.optim.lr", "fast", "a number is expected, got 'fast'"),
    ("data.train_batch_size", 1.5, "a whole number is expected"),
    ("data.shuffle", "maybe", "true or false is expected"),
    ("actor_rollout_ref.actor.optim.lr", "${optim.lr}", "refers to nothing"),
    ("actor_rollout_ref.actor.lr", 1, "did you mean actor_rollout_ref.actor.optim.lr?"),
    ("trainer.total_epoch", 1, "did you mean trainer.total_epochs?"),
    ("reward_model.tinyv_setup", "tinyv_onyl", "none of addon, gate, mixed, tinyv_only, nor grade-ppo"),
])  # fmt: skip
def test_what_can_not_be_carried_over_is_named_with_its_place(key: str, value: Any, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        settings_of(**{key.replace(".", "__"): value})
    message = str(error.value)
    place = [*BASE].index(key) + 1 if key in BASE else len(BASE) + 1
    assert f"c.yaml:{place}: " in message
    assert re.search(re.escape(key), message)
    assert words in message


def test_a_setup_that_rrm_sets_and_never_reads_makes_a_run_without_a_verifier() -> None:
    found = settings_of(reward_model__tinyv_setup="grade-ppo")
    assert [key for key in found if key.startswith("scorers.tasks.")] == ["scorers.tasks.math"]


UNKNOWN_BELOW: list[Any] = [
    ("reward_model.tinyv_wieght", "reward_model.tinyv_weight"),
    ("reward_model.rollout.max_modle_len", "reward_model.rollout.max_model_len"),
    ("reward_model.overlong_buffer.lenn", "reward_model.overlong_buffer.len"),
    ("actor_rollout_ref.ref.nonsense", "actor_rollout_ref.ref.model"),
    ("actor_rollout_ref.actor.fsdp_config.parm_offload", "actor_rollout_ref.actor.fsdp_config.param_offload"),
    ("actor_rollout_ref.actor.megatron.tensor_model_paralel_size",
        "actor_rollout_ref.actor.megatron.tensor_model_parallel_size"),
    ("actor_rollout_ref.rollout.log_prob_micro_batch", "actor_rollout_ref.rollout.log_prob_micro_batch_size"),
    ("critic.modle.path", "critic.model.path"),
    ("reward_manager.x", "reward_manager.name"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "meant"), UNKNOWN_BELOW)
def test_a_key_that_verl_does_not_have_is_unknown_below_a_section_too(key: str, meant: str) -> None:
    said = rf"c\.yaml:7: unknown key {re.escape(key)}; did you mean {re.escape(meant)}\?"
    with pytest.raises(ConfigError, match=said):
        settings_of(**{key.replace(".", "__"): 1})


@pytest.mark.parametrize("key", [
    "critic", "reward_model.rollout", "custom_reward_function.reward_kwargs.anything",
    "reward_model.reward_kwargs.anything", "actor_rollout_ref.model.override_config.attention_dropout",
    "actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space_gb",
    "actor_rollout_ref.actor.megatron.override_transformer_config.moe_router_dtype",
    "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size", "algorithm.filter_groups.horizon",
    "ray_kwargs.ray_init.num_gpus", "hydra.run.dir",
])  # fmt: skip
def test_sections_and_names_that_verl_leaves_to_others_are_known(key: str) -> None:
    assert rule_for(key) is not None


def test_every_known_key_below_a_section_is_covered_by_its_rule() -> None:
    """A key that has a rule of its own, or none at all, would stand in the list for nothing."""
    assert [key for key in sorted(BELOW_SECTIONS) if (rule := rule_for(key)) is None or rule.key == key] == []


def test_several_files_become_lists_of_sources_and_of_named_sets() -> None:
    held_out = ["c/x.parquet", "d/x.parquet"]
    train = "['a/x.parquet', 'b/y.parquet']"
    found = settings_of(data__train_files=train, data__val_files=held_out, trainer__test_freq=5)
    sources = [(one["path"], one["prompt_column"]) for one in found["data.train"]]
    assert sources == [("a/x.parquet", "prompt"), ("b/y.parquet", "prompt")]
    sets = [(one["name"], one["path"]) for one in found["data.held_out"]]
    assert sets == [("c-x", "c/x.parquet"), ("d-x", "d/x.parquet")]
    assert found["evaluation.temperature"] == 0  # greedy, which is verl's default


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        settings_of(data__nonsense=1, trainer__nonsense=2, actor_rollout_ref__rollout__top_p=0.5)
    assert len(str(error.value).splitlines()) == 3


def test_names_of_verls_that_the_configuration_explains_lead_to_the_same_keys() -> None:
    """What an unknown key in a run's own YAML is answered with agrees with the import."""
    table = {rule.key: rule for rule in RULES}
    for key, rule in table.items():
        last = key.rpartition(".")[2]
        if last in OURS and rule.ours and "actor." in key:
            assert OURS[last].split(".")[0] in {one.split(".")[0] for one in rule.ours.split(", ")}, key
    assert "critic" in NOT_HERE


def test_every_key_of_verls_flattened_configuration_has_a_rule() -> None:
    """Names of keys as the flattened configurations of verl in 2025 have them, a section a line."""
    names = (Path(__file__).parent / "verl_keys.txt").read_text(encoding="utf-8").split()
    assert len(names) > 250
    assert [name for name in names if rule_for(name) is None] == []
