"""Find combinations of individually valid settings that make no sense together.

In: a plan. Out: findings: a problem where the run would fail or train on nothing, a note where hardware would idle or a
setting has no effect; each says what to set. Configurations that fail their own checks never get here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from config.generators import HfEngineConfig, VllmEngineConfig
from config.learner.objective import DrGrpoConfig, ReinforceConfig
from generators.engines.vllm.settings import longest_sequence
from learner.data.held_out_rounds import HeldOutRounds, held_out_rounds
from tools.doctor.findings import Check, CheckFinding
from tools.doctor.gpu_memory import places
from tools.estimates.generators import judge_weights_bytes
from tools.estimates.learner import rank_memory
from tools.estimates.stores import redis_room
from tools.plan.figures import Plan

AREA = "combinations"
GROUPS, LAG, ENGINE, LEARNER, GPUS, JUDGE, SCHEDULE, REDIS, EPISODES = (
    Check(AREA, name)
    for name in ("groups", "lag", "engine", "learner", "GPUs", "judge", "schedule", "redis", "episodes")
)
FAST = 200.0  # tokens/s of one completion: few servers sample a stream faster
MUCH = 0.5  # share of the training tokens from which held-out rounds count as expensive


def findings(plan: Plan) -> Iterator[CheckFinding]:
    """Yield all findings, and for each kind of GPU whether its contents fit."""
    yield from _fits(plan)
    yield from _groups(plan)
    yield from _lag(plan)
    yield from _engine(plan)
    yield from _heads(plan)
    yield from _learner(plan)
    yield from _gpus(plan)
    yield from _judge(plan)
    yield from _schedule(plan)
    yield from _redis(plan)
    yield from _episodes(plan)


def _fits(plan: Plan) -> Iterator[CheckFinding]:
    """Yield the doctor's sums on the planned GPUs."""
    if plan.shape is None or not plan.is_on_gpus:
        return
    rank = rank_memory(plan.run, plan.shape, card_bytes=plan.cards.bytes)
    for found in places(plan.run, plan.shape, rank, plan.cards.of(plan.run)):
        yield replace(found, area=AREA)


def _groups(plan: Plan) -> Iterator[CheckFinding]:
    run = plan.run
    sampling, learner = run.sampling, run.learner
    if sampling.group_size == 1 and learner.advantage.scale != "batch_std":
        yield GROUPS.problem(
            "sampling.group_size=1: a completion alone is its own baseline, so every advantage is 0",
            do="sampling.group_size=8",
        )
    completions = learner.groups_per_step * sampling.group_size
    rows = learner.ranks // learner.sequence_ranks
    if completions < rows * learner.mini_batches:
        yield GROUPS.problem(
            f"a step has {completions} completions for {rows} ranks in {learner.mini_batches} mini-batches: some have "
            "none",
            do="a larger learner.groups_per_step, or fewer learner.ranks",
        )
    one = plan.one
    room = run.generators.count * one.completions / sampling.group_size
    if room >= 1.25 * run.budget:
        yield GROUPS.note(
            f"the generators could sample {room:.4g} groups side by side, and the budget has {run.budget}: the rest of "
            "them idles",
            do="fewer generators, a larger learner.max_lag or learner.groups_per_step",
        )
    needed = sampling.max_tokens / learner.group_deadline_s
    if needed > FAST:
        yield GROUPS.note(
            f"an answer of {sampling.max_tokens} tokens within learner.group_deadline_s="
            f"{learner.group_deadline_s:g} is {needed:.0f} tokens/s of one completion: long answers would die",
            do=f"learner.group_deadline_s={sampling.max_tokens / 10:.0f} or more",
        )


def _lag(plan: Plan) -> Iterator[CheckFinding]:
    run = plan.run
    learner, objective = run.learner, run.learner.objective
    apart = bool(learner.gpus) and not set(learner.gpus) & set(run.generators.gpus)
    if learner.max_lag == 0 and apart:
        yield LAG.note(
            "learner.max_lag=0 with GPUs of their own: learner and generators take turns, and one of them always idles",
            do="learner.max_lag=1 or more, or one set of GPUs for both",
        )
    if run.budget == learner.groups_per_step < (learner.max_lag + 1) * learner.groups_per_step:
        yield LAG.note(
            f"learner.groups_in_flight={learner.groups_in_flight} is one step's groups: learner.max_lag="
            f"{learner.max_lag} has no effect, and learner and generators take turns",
            do=f"learner.groups_in_flight={2 * learner.groups_per_step} or more",
        )
    if isinstance(objective, ReinforceConfig) and objective.max_weight is None and learner.max_lag:
        yield LAG.note(
            f"reinforce without a weight (max_weight: null) with learner.max_lag={learner.max_lag}: old samples count "
            "as if the newest weights had made them",
            do="learner.objective.max_weight=2, or learner.max_lag=0",
        )
    if isinstance(objective, DrGrpoConfig) and learner.advantage.scale != "none":
        yield LAG.note(
            f"dr_grpo with learner.advantage.scale={learner.advantage.scale}: what the paper leaves out of GRPO is in",
            do="learner.advantage.scale=none",
        )


def _engine(plan: Plan) -> Iterator[CheckFinding]:
    run, engine, one = plan.run, plan.run.generators.engine, plan.one
    longest = run.data.max_prompt_tokens + run.sampling.max_tokens
    if isinstance(engine, HfEngineConfig) and plan.is_on_gpus and run.generators.gpus:
        yield ENGINE.note(
            "the engine hf on GPUs samples far slower than vllm", do="generators.engine.type=vllm"
        )
    if isinstance(engine, VllmEngineConfig):
        sequence = longest_sequence(run, engine)
        if sequence < longest:
            yield ENGINE.problem(
                f"generators.engine.max_model_len={sequence} is less than the longest prompt and answer, "
                f"{longest} tokens",
                do=f"generators.engine.max_model_len={longest}, or leave it unset",
            )
        if 0 < one.cache_tokens < sequence:
            yield ENGINE.problem(
                f"the KV cache has room for {one.cache_tokens:,} tokens, and the longest sequence has {sequence:,}: "
                "vLLM won't start",
                do="a larger generators.engine.kv_cache_mb, gpu_memory_utilization or tensor_parallel",
            )
        elif one.cache_tokens and one.completions < engine.max_num_seqs / 2:
            yield ENGINE.note(
                f"generators.engine.max_num_seqs={engine.max_num_seqs}, and the KV cache has room for "
                f"{one.completions} at full length: long ones are preempted and computed again",
                do=f"generators.engine.max_num_seqs={one.completions}, if answers are that long",
            )
    if plan.shape is not None and 0 < plan.shape.positions < longest:
        yield ENGINE.problem(
            f"the model is made for {plan.shape.positions:,} positions, and the longest prompt and answer have "
            f"{longest:,}",
            do=f"sampling.max_tokens={max(1, plan.shape.positions - run.data.max_prompt_tokens)}",
        )


def _heads(plan: Plan) -> Iterator[CheckFinding]:
    """Yield parallel sizes that the model's heads do not allow."""
    shape, engine = plan.shape, plan.run.generators.engine
    if shape is None:
        return
    width = engine.tensor_parallel if isinstance(engine, VllmEngineConfig) else 1
    if shape.heads % width:
        yield ENGINE.problem(
            f"generators.engine.tensor_parallel={width} does not divide the model's {shape.heads} heads",
            do="generators.engine.tensor_parallel=1, or a divisor",
        )
    size = plan.run.learner.sequence_ranks
    if shape.heads % size or shape.key_value_heads % size:
        yield LEARNER.problem(
            f"learner.sequence_ranks={size} does not divide the model's {shape.heads} heads of queries and "
            f"{shape.key_value_heads} of keys",
            do="learner.sequence_ranks=1, or a divisor of both",
        )


def _learner(plan: Plan) -> Iterator[CheckFinding]:
    run = plan.run
    learner, zero = run.learner, run.learner.zero
    if zero.offload_weights and zero.stage != 3:
        yield LEARNER.problem(
            f"learner.zero.offload_weights needs learner.zero.stage=3, not {zero.stage}",
            do="learner.zero.stage=3",
        )
    if zero.offload_optimizer and zero.stage == 0:
        yield LEARNER.problem(
            "learner.zero.offload_optimizer needs learner.zero.stage of at least 1", do="learner.zero.stage=1"
        )
    if zero.stage == 0 and run.model.dtype != "float32":
        yield LEARNER.problem(
            f"model.dtype={run.model.dtype} with learner.zero.stage=0: gradients would be added up in 16 bits",
            do="learner.zero.stage=1",
        )
    if zero.stage >= 2 and learner.ranks == 1 and not zero.offload_weights:
        yield LEARNER.note(
            f"learner.zero.stage={zero.stage} with one rank: there is nobody to split with, and its buffers "
            "take memory",
            do="learner.zero.stage=1",
        )
    longest = run.data.max_prompt_tokens + run.sampling.max_tokens
    if learner.tokens_per_micro_batch < longest:
        yield LEARNER.note(
            f"learner.tokens_per_micro_batch={learner.tokens_per_micro_batch} is less than the longest sequence, "
            f"{longest} tokens, which has a micro-batch to itself: memory is that of the longest",
            do=f"learner.tokens_per_micro_batch={longest}, which takes no more",
        )
    if learner.attention in {"flash", "varlen"} and run.model.dtype == "float32":
        yield LEARNER.problem(
            f"learner.attention={learner.attention} has no kernels for model.dtype=float32",
            do="learner.attention=auto, or model.dtype=bfloat16",
        )


def _gpus(plan: Plan) -> Iterator[CheckFinding]:
    run, engine = plan.run, plan.run.generators.engine
    learner, generators = run.learner, run.generators
    width = engine.tensor_parallel if isinstance(engine, VllmEngineConfig) else 1
    used = generators.count * width
    if len(generators.gpus) > used:
        yield GPUS.note(
            f"generators.gpus names {len(generators.gpus)}, and {generators.count} generators use {used}: "
            "the others idle",
            do=f"generators.count={len(generators.gpus) // width}",
        )
    if 0 < len(generators.gpus) < used:
        yield GPUS.note(
            f"{generators.count} generators of {width} GPUs go round {len(generators.gpus)} GPUs: they share cards",
            do=f"generators.count={max(1, len(generators.gpus) // width)}",
        )
    if len(learner.gpus) > learner.ranks:
        yield GPUS.note(
            f"learner.gpus names {len(learner.gpus)}, and there are {learner.ranks} ranks: the others idle",
            do=f"learner.ranks={len(learner.gpus)}",
        )
    shared = sorted(set(learner.gpus) & set(generators.gpus))
    if shared and isinstance(engine, VllmEngineConfig) and engine.kv_cache_mb is None:
        yield GPUS.problem(
            f"learner and generators share GPU {', '.join(map(str, shared))}, and generators.engine.kv_cache_mb is "
            "unset: a generator that restarts measures less memory than the first did",
            do="generators.engine.kv_cache_mb=4096, say",
        )


def _judge(plan: Plan) -> Iterator[CheckFinding]:
    """Yield a served judge that takes another role's GPU, or whose size is unknown."""
    run, serve = plan.run, plan.run.judge.serve
    if serve is None:
        return
    shared = sorted({*serve.gpus} & {*run.learner.gpus, *run.generators.gpus})
    if shared and serve.kv_cache_mb is None:
        yield JUDGE.problem(
            f"judge.serve shares GPU {', '.join(map(str, shared))} with another role, and judge.serve.kv_cache_mb is "
            "unset: started again, it would measure less memory than at first",
            do="judge.serve.kv_cache_mb=4096, say, or GPUs of its own",
        )
    if len(serve.gpus) > serve.tensor_parallel:
        yield JUDGE.note(
            f"judge.serve.gpus names {len(serve.gpus)}, and it uses {serve.tensor_parallel}: the others idle",
            do=f"judge.serve.tensor_parallel={len(serve.gpus)}",
        )
    if not judge_weights_bytes(run):
        yield JUDGE.note(
            f"how large {serve.model} is can't be told without its files: its weights are left out of the memory",
            do=f"hf download {serve.model}, or judge.serve.model=FOLDER",
        )


def _schedule(plan: Plan) -> Iterator[CheckFinding]:
    run = plan.run
    learner = run.learner
    warmup, steps = learner.optimizer.warmup_steps, learner.steps
    if learner.optimizer.warmup_share is None and warmup >= steps and not learner.steps_follow_epochs:
        yield SCHEDULE.note(
            f"learner.optimizer.warmup_steps={warmup} of learner.steps={steps}: the rate never gets to lr",
            do=f"learner.optimizer.warmup_steps={steps // 10}",
        )
    trained = learner.groups_per_step * run.sampling.group_size
    sets = [rounds for rounds in held_out_rounds(run) if rounds.every]
    held_out = sum(rounds.completions / rounds.every for rounds in sets)
    if held_out > MUCH * trained:
        yield SCHEDULE.note(
            f"held-out rounds are {held_out:,.0f} completions a step, beside {trained:,} trained ones: "
            f"{held_out / (held_out + trained):.0%} of what the generators sample",
            do=_seldom(sets, held_out / (MUCH * trained)),
        )


def _seldom(sets: Sequence[HeldOutRounds], times: float) -> str:
    """Return the settings that make rounds `times` rarer."""
    if not any(rounds.name for rounds in sets):
        return f"evaluation.every={math.ceil(sets[0].every * times)}"
    return ", ".join(
        f"every={math.ceil(rounds.every * times)} of data.held_out's {rounds.name}" for rounds in sets
    )


def _redis(plan: Plan) -> Iterator[CheckFinding]:
    run = plan.run
    limit = run.broker.maxmemory_mb << 20
    needed = redis_room(run).limit
    if 0 < limit < needed:
        yield REDIS.note(
            f"broker.maxmemory_mb={run.broker.maxmemory_mb} is less than a full budget may take: the learner "
            "waits where it is short",
            do=f"broker.maxmemory_mb={int(needed / 2**20) + 1}, or a smaller learner.groups_in_flight",
        )


def _episodes(plan: Plan) -> Iterator[CheckFinding]:
    """Yield ends of an episode that cost the policy nothing, and agents without room for the groups in flight."""
    agents, most = plan.run.agents, plan.run.budget * plan.run.sampling.group_size
    if plan.run.has_agents and (room := agents.count * agents.episodes) < most:
        yield EPISODES.note(
            f"agents have room for {room} episodes, and the budget for {most}: the others wait in `episodes`",
            do=f"agents.count={math.ceil(most / agents.episodes)}, or a larger agents.episodes",
        )
    tasks = [name for name, task in plan.run.scorers.tasks.items() if task.environment is not None]
    if tasks and plan.run.learner.filters.truncated == "mask":
        yield EPISODES.note(
            f"learner.filters.truncated=mask makes ends of an episode free that the policy can bring about (tasks "
            f"{', '.join(tasks)}): out of turns, a full context, max_tokens of a turn, its deadline. A policy that is "
            "losing learns to run into one",
            do="learner.filters.truncated=null, which masks answers of one turn alone, or keep",
        )
