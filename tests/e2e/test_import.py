"""Runs of verl, imported as they are, train two steps with the tiny model in place of theirs."""

from __future__ import annotations

from pathlib import Path

from tests.support.verl_runs import millrace, two_steps, verl_rows, write_parquet

GRPO = """\
algorithm:
  adv_estimator: grpo
  kl_ctrl: {kl_coef: 0.001}
data:
  train_files: data/gsm8k/train.parquet
  val_files: data/gsm8k/test.parquet
  train_batch_size: 64
  max_prompt_length: 64
  max_response_length: 128
actor_rollout_ref:
  model: {path: Qwen/Qwen2-7B-Instruct, use_remove_padding: true, enable_gradient_checkpointing: true}
  actor:
    optim: {lr: 1e-6}
    ppo_mini_batch_size: 16
    ppo_micro_batch_size_per_gpu: 4
    use_kl_loss: true
    kl_loss_coef: 0.001
    kl_loss_type: low_var_kl
  rollout: {name: vllm, n: 5, tensor_model_parallel_size: 2, gpu_memory_utilization: 0.6}
trainer:
  project_name: gsm8k
  experiment_name: grpo one
  n_gpus_per_node: 8
  nnodes: 1
  save_freq: -1
  test_freq: 5
  total_epochs: 15
"""


def test_a_configuration_of_grpo_trains_two_steps(tmp_path: Path) -> None:
    write_parquet(tmp_path / "data/gsm8k/train.parquet", verl_rows())
    write_parquet(tmp_path / "data/gsm8k/test.parquet", verl_rows(count=4))
    (tmp_path / "grpo.yaml").write_text(GRPO, encoding="utf-8")
    done = millrace("import", "grpo.yaml", "-o", "run.yaml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    steps = two_steps(tmp_path / "run.yaml", name="grpo")
    assert [step["step"] for step in steps] == [1, 2]
