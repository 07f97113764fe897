"""Made configurations and scripts of the shapes that users of verl, II-VERL, RRM and Reasoning360 have.

Keys and values are those that such files have; paths and models are made up. `seeds` are the documents that these shapes
are known from, where they lie beside the checkout.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.paths import ROOT

SEEDS = ROOT.parent / "shared" / "reference" / "seeds"

GRPO_YAML = """\
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

# As II-Thought configures II-VERL: rows with verification_info, and a reward server.
II_VERL_YAML = """\
data:
  tokenizer: null
  train_files: rows/train.parquet
  val_files: rows/test.parquet
  train_split: train
  val_split: test
  prompt_key: messages
  max_prompt_length: 1024
  max_response_length: 8192
  train_batch_size: 128
  val_batch_size: 128
  filter_overlong_prompts: true
actor_rollout_ref:
  model: {path: deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B, use_remove_padding: true}
  actor:
    strategy: fsdp
    ppo_mini_batch_size: 64
    use_dynamic_bsz: true
    ulysses_sequence_parallel_size: 1
    ppo_max_token_len_per_gpu: 32768
    use_kl_loss: True
    kl_loss_coef: 0.001
    kl_loss_type: low_var_kl
    optim: {lr: 1.0e-06}
  ref: {param_offload: true}
  rollout:
    name: vllm
    temperature: 0.6
    gpu_memory_utilization: 0.8
    tensor_model_parallel_size: 1
    enforce_eager: false
    free_cache_engine: false
    n: 5
reward_model: {enable: false}
reward_api:
  enable: true
  api_url: http://localhost:8000
  max_workers: 20
  timeout: 60
  verification_info_column: verification_info
  save_dir: dumps/
  save_freq: 1
algorithm:
  adv_estimator: grpo
  kl_penalty: kl
  kl_ctrl: {type: fixed, kl_coef: 0.001}
trainer:
  total_epochs: 15
  project_name: thought
  experiment_name: thought-grpo
  nnodes: 1
  n_gpus_per_node: 8
  save_freq: 25
  test_freq: 25
  default_local_dir: checkpoints/thought-grpo
"""

II_VERL_ENV = """\
# services of the verifier
FUSION_SANDBOX_URL=http://localhost:8080

LLM_JUDGE_MODEL=Qwen/Qwen2.5-32B-Instruct       # its name there
LLM_JUDGE_BASE_URL=http://localhost:8002/v1
LLM_JUDGE_API_KEY=EMPTY
USE_FORMAT_VERIFIER=false                       # off
"""

MAIN_PPO_SH = """\
set -x

python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo data.train_files=$HOME/data/gsm8k/train.parquet \\
    data.val_files=$HOME/data/gsm8k/test.parquet data.train_batch_size=1024 data.max_prompt_length=512 \\
    data.max_response_length=1024 data.filter_overlong_prompts=True data.truncation='error' \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.actor.ppo_mini_batch_size=256 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=40 actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.actor.kl_loss_coef=0.001 actor_rollout_ref.actor.kl_loss_type=low_var_kl \\
    actor_rollout_ref.actor.entropy_coeff=0 actor_rollout_ref.model.enable_gradient_checkpointing=True \\
    actor_rollout_ref.actor.fsdp_config.param_offload=False \\
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=False \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=40 \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 actor_rollout_ref.rollout.n=5 \\
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=40 \\
    actor_rollout_ref.ref.fsdp_config.param_offload=True algorithm.use_kl_in_reward=False \\
    trainer.critic_warmup=0 trainer.logger=['console','wandb'] \\
    trainer.project_name='verl_grpo_example_gsm8k' trainer.experiment_name='qwen_function_rm' \\
    trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.save_freq=20 trainer.test_freq=5 \\
    trainer.total_epochs=15 $@
"""

# As RRM starts its policy: a served rubric model, PPO by default, and names made of arguments.
RUBRIC_SH = """\
#!/bin/bash
set -x
export WANDB_API_KEY=none
export WANDB_MODE=offline

cleanup() {
    echo "cleaning up"
    jobs -p | xargs -r kill
    exit 0
}
trap cleanup EXIT INT TERM

BASE_MODEL=${1:-"some/policy"}
EPOCHS=${2:-"12"}
SET=${3:-"polaris"}
NO_KL=${4:-"True"}
VERIFIER=${5:-"some/rubric"}
SETUP=${6:-"tinyv_only"}   # or addon, mixed
WEIGHT=${7:-"1.0"}
MINI=64
NAME=$(basename "$BASE_MODEL")-${SET}-${SETUP}
STAMP=$(date +%Y%m%d)
if [[ "$SET" == *_tinyv* ]]; then
    NAME=${NAME}-marked
else
    NAME=${NAME}-plain
fi
if [ "$NO_KL" == "True" ]; then
    NAME=${NAME}-nokl
    KL_LOSS=FALSE
    KL_REWARD=FALSE
    COEF=0.000
else
    KL_LOSS=True
    KL_REWARD=False
    COEF=0.001
fi
export RUN_NAME=${NAME}
SAVED="./models/${NAME}"
PROMPT=1024
ANSWER=4096
TOKENS=$(( 3 * $(( $PROMPT + $ANSWER )) ))
if [ -z "$SOME_VISIBLE_DEVICES" ]; then
    GPUS=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
else
    GPUS=$(echo "$SOME_VISIBLE_DEVICES" | awk -F',' '{print NF}')
fi
vllm serve $VERIFIER \\
    --tensor-parallel-size 8 \\
    --port 8000 \\
    --host 0.0.0.0 2>&1 | grep -v INFO > served.log &
PID=$!
TRIES=0
while [ $TRIES -lt 50 ]; do
    if curl -s http://localhost:8000/v1/models > /dev/null; then
        break
    else
        sleep 10
        TRIES=$((TRIES+1))
    fi
done
if [ $TRIES -eq 50 ]; then
    echo "not there"
    exit 1
fi

python3 -m verl.trainer.main_ppo \\
    algorithm.use_kl_in_reward=$KL_REWARD data.train_files=rows/train.parquet \\
    data.val_files=rows/test.parquet data.train_batch_size=512 data.max_prompt_length=$PROMPT \\
    data.max_response_length=$ANSWER data.filter_overlong_prompts=True data.truncation='error' \\
    actor_rollout_ref.model.path=$BASE_MODEL actor_rollout_ref.actor.optim.lr=5e-7 \\
    actor_rollout_ref.actor.ppo_mini_batch_size=$MINI \\
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$TOKENS \\
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.use_kl_loss=$KL_LOSS \\
    actor_rollout_ref.actor.kl_loss_coef=$COEF actor_rollout_ref.actor.kl_loss_type=low_var_kl \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.max_num_batched_tokens=$(( $PROMPT + $ANSWER )) \\
    actor_rollout_ref.rollout.n=8 +trainer.rollout_data_dir=$SAVED algorithm.kl_ctrl.kl_coef=0.001 \\
    critic.optim.lr=9e-6 critic.model.path=$BASE_MODEL critic.ppo_max_token_len_per_gpu=24000 \\
    trainer.critic_warmup=0 trainer.logger=['console','wandb'] trainer.project_name='rubric' \\
    trainer.experiment_name=${RUN_NAME} trainer.nnodes=1 trainer.default_local_dir=$SAVED \\
    trainer.n_gpus_per_node=$GPUS trainer.save_freq=10 trainer.test_freq=2 \\
    trainer.validation_data_dir=$SAVED trainer.resume_mode=auto trainer.total_epochs=$EPOCHS \\
    reward_model.reward_manager=prime reward_model.tinyv_setup=$SETUP \\
    reward_model.tinyv_weight=$WEIGHT 2>&1 | tee log/$RUN_NAME.log
"""

# As Reasoning360 trains on its mixture: a Slurm script, DAPO's recipe with all of its features off.
GURU_SH = """\
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
export STEM_LLM_JUDGE_URL="http://localhost:8000"
export VLLM_USE_V1=0
SHARED_DATA_PATH=./data
TRAIN_DIR=${SHARED_DATA_PATH}/train
EVAL_DIR=${SHARED_DATA_PATH}/online_eval
train_files="['${TRAIN_DIR}/math__combined_54.4k.parquet']"
test_files="['${EVAL_DIR}/math__math_500.parquet']"
BASE_MODEL=Qwen/Qwen2.5-7B
NAME=${SLURM_JOB_ID:-local}-${BASE_MODEL##*/}
for node in one two; do
    echo "ray start at $node"
done
use_kl=False
low=0.2
prompt=$((1024 * 4))
answer=$((1024 * 8))
buffer=$((1024 * 4))
batch=512
mini=64
offload=True
ARGS=(
    algorithm.adv_estimator=grpo
    algorithm.use_kl_in_reward=${use_kl}
    algorithm.kl_ctrl.kl_coef=0.0
    algorithm.filter_groups.enable=False
    algorithm.filter_groups.metric=acc
    algorithm.filter_groups.max_num_gen_batches=10
)
python -m recipe.dapo.main_dapo \\
    --config-path=config --config-name="dapo_fsdp_config.yaml" \\
    "${ARGS[@]}" \\
    data.train_files="$train_files" data.val_files="$test_files" data.prompt_key=prompt \\
    data.truncation='right' data.max_prompt_length=${prompt} data.max_response_length=${answer} \\
    data.train_batch_size=${batch} data.gen_batch_size=$((batch * 1)) \\
    actor_rollout_ref.actor.use_kl_loss=${use_kl} actor_rollout_ref.actor.clip_ratio_low=${low} \\
    actor_rollout_ref.actor.clip_ratio_high=0.2 actor_rollout_ref.actor.clip_ratio_c=10.0 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$(( prompt + answer )) \\
    actor_rollout_ref.actor.strategy="fsdp" actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.actor.optim.lr_warmup_steps=10 actor_rollout_ref.actor.optim.weight_decay=0.1 \\
    actor_rollout_ref.actor.optim.warmup_style=constant actor_rollout_ref.actor.optim.min_lr_ratio=0. \\
    actor_rollout_ref.actor.ppo_mini_batch_size=${mini} actor_rollout_ref.actor.ppo_micro_batch_size=null \\
    actor_rollout_ref.actor.fsdp_config.param_offload=${offload} \\
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=${offload} \\
    actor_rollout_ref.actor.fsdp_config.fsdp_size=-1 actor_rollout_ref.actor.loss_agg_mode="token-mean" \\
    actor_rollout_ref.actor.ulysses_sequence_parallel_size=1 \\
    actor_rollout_ref.ref.fsdp_config.param_offload=${offload} actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.n=16 actor_rollout_ref.rollout.tensor_model_parallel_size=1 \\
    actor_rollout_ref.rollout.temperature=1.0 actor_rollout_ref.rollout.top_p=1.0 \\
    actor_rollout_ref.rollout.top_k=-1 \\
    actor_rollout_ref.rollout.val_kwargs.top_p=1.0\\
    actor_rollout_ref.rollout.val_kwargs.temperature=1.0 \\
    actor_rollout_ref.rollout.val_kwargs.do_sample=True actor_rollout_ref.model.path=$BASE_MODEL \\
    +actor_rollout_ref.rollout.multi_turn.enable=False +actor_rollout_ref.rollout.mode="sync" \\
    +actor_rollout_ref.model.override_config.attention_dropout=0. \\
    reward_model.reward_manager=async_multi_process reward_model.overlong_buffer.enable=True \\
    reward_model.overlong_buffer.len=${buffer} reward_model.overlong_buffer.penalty_factor=1.0 \\
    trainer.logger=['console','wandb'] trainer.project_name=guru trainer.experiment_name=${NAME} \\
    trainer.val_before_train=False trainer.n_gpus_per_node=8 trainer.nnodes=$SLURM_JOB_NUM_NODES \\
    trainer.save_freq=10 trainer.test_freq=10 trainer.total_epochs=10 \\
    +trainer.val_generations_to_log_to_wandb=30 trainer.max_actor_ckpt_to_keep=2 \\
    trainer.resume_mode=auto
"""


def blocks_of(seed: str) -> list[str]:
    """Return the fenced blocks of one of the documents, in their order."""
    path = next(SEEDS.glob(f"{seed}_*.txt"))
    return re.findall(
        r"^[ ]*```\w*\n(.*?)^[ ]*```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def block_with(seed: str, *parts: str) -> str:
    """Return the longest block of a document that has all of these parts."""
    return max((block for block in blocks_of(seed) if all(part in block for part in parts)), key=len)


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name
