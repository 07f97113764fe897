"""Compute the figures of a plan: the memory of each role, groups in flight, and the required rates.

In: a run, the size and shape of its model, the planned GPUs, and the user's assumptions on answers and steps. Out:
`Figure`s, each with its text for people, its numbers for programs, and its assumptions (`tools.plan.assumptions`).
Arithmetic alone: starts nothing, and queries no GPU, Redis or network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from config.generators import ScriptedEngineConfig, VllmEngineConfig
from config.learner.weight_sync import FilesystemTransportConfig
from config.run import Run
from tools.doctor.findings import readable
from tools.doctor.gpu_memory import wants_gpus
from tools.estimates.generators import (
    GeneratorLoad,
    expected_lag,
    generator_share,
    held,
    judge_share,
    judge_weights_bytes,
    sampled_groups,
    sampling_bytes,
    token_bytes,
)
from tools.estimates.learner import GIB, rank_memory, reference_bytes, trained_parameters, training_bytes
from tools.estimates.model import MIB, DecoderShape, Size
from tools.estimates.operations import TERA, peak_of, step_operations
from tools.estimates.stores import checkpoints_bytes, journal_bytes, redis_room, version_bytes, versions_bytes
from tools.plan.assumptions import (
    ANSWERS,
    BUDGET,
    CARD,
    LAG,
    OPERATIONS,
    RANK,
    REDIS,
    SHAPE,
    STEP,
    TURNS,
    VLLM,
)
from tools.plan.cards import Planned

MEMORY, FLOW, RATES, STORES = "memory", "groups and lag", "rates", "Redis and disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A line of the plan."""

    section: str
    name: str
    text: str  # for people
    numbers: Mapping[str, float] = field(default_factory=dict)  # for programs, with units in the names
    rests_on: tuple[str, ...] = ()  # letters of `tools.plan.assumptions`


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run, and the inputs of its figures."""

    run: Run
    size: Size | None  # None: the model's files are not here, and its name does not give it
    shape: DecoderShape | None  # None where `size` is None
    cards: Planned
    answer_tokens: int  # mean per answer
    step_s: float  # seconds per step for the rates

    @property
    def one(self) -> GeneratorLoad:
        """The load of one generator."""
        return held(self.run, self.shape, card_bytes=self.cards.bytes)

    @property
    def engine_marks(self) -> tuple[str, ...]:
        """The assumptions of a figure about the KV cache."""
        return (VLLM,) if isinstance(self.run.generators.engine, VllmEngineConfig) else ()

    @property
    def shape_marks(self) -> tuple[str, ...]:
        """The assumptions of a figure about the model's size: none where its files give it."""
        is_read = self.shape is not None and self.shape.source.startswith("as ")
        return () if is_read else (SHAPE,)

    @property
    def is_on_gpus(self) -> bool:
        """Whether learner and generators are planned for GPUs."""
        return wants_gpus(self.run, self.cards.of(self.run))


def figures(plan: Plan) -> Iterator[Figure]:
    """Yield all figures, section by section."""
    if plan.shape is not None:
        yield from memory(plan, plan.shape)
    yield from flow(plan)
    yield from rates(plan)
    yield from stores(plan)


def memory(plan: Plan, shape: DecoderShape) -> Iterator[Figure]:
    """Yield the memory of a rank and of a generator, on their GPUs or on the host."""
    if plan.is_on_gpus:
        yield _rank(plan, shape)
        if (generator := _generator(plan, shape)) is not None:
            yield generator
    else:
        yield _host(plan, shape)
    if (judge := _judge(plan)) is not None:
        yield judge
    kl = plan.run.learner.objective.kl
    if reference := reference_bytes(plan.run, shape.parameters):
        where = "in the host's memory" if kl.offload else "counted in the learner's weights"
        yield Figure(
            section=MEMORY,
            name="reference model",
            text=f"{reference / GIB:.1f} GiB on all ranks together, {where}",
            numbers={"bytes": reference},
            rests_on=plan.shape_marks,
        )
    if plan.run.learner.lora is not None:
        trained = trained_parameters(plan.run, shape)
        yield Figure(
            section=MEMORY,
            name="adapters",
            text=f"{trained / 1e6:.1f} million parameters train, {trained / shape.parameters:.2%} of the model's",
            numbers={"parameters": trained},
            rests_on=plan.shape_marks,
        )
    if not isinstance(plan.run.generators.engine, ScriptedEngineConfig):  # a scripted engine has no model
        yield _cache(plan, shape)


def _rank(plan: Plan, shape: DecoderShape) -> Figure:
    learner = plan.run.learner
    rank = rank_memory(plan.run, shape, card_bytes=plan.cards.bytes)
    parts = ", ".join(f"{name} {count / GIB:.1f}" for name, count in rank.terms.items())
    numbers = {f"{name}_bytes": count for name, count in rank.terms.items()} | {
        "total_bytes": rank.total,
        "ranks": learner.ranks,
    }
    return Figure(
        section=MEMORY,
        name="learner's rank",
        text=f"{learner.ranks} x {rank.total / GIB:.1f} GiB: {parts}",
        numbers=numbers,
        rests_on=(RANK, *plan.shape_marks, *((CARD,) if plan.cards.bytes is not None else ())),
    )


def _generator(plan: Plan, shape: DecoderShape) -> Figure | None:
    share = generator_share(plan.run, shape, card_bytes=plan.cards.bytes)
    if share is None:
        return None
    return Figure(
        section=MEMORY,
        name="vLLM generator",
        text=f"{plan.run.generators.count} x {share.needed / GIB:.1f} GiB of each of its GPUs: {share}",
        numbers={
            "total_bytes": share.needed,
            "weights_bytes": share.weights,
            "cache_bytes": share.kv_cache,
            "runtime_bytes": share.runtime,
            "generators": plan.run.generators.count,
        },
        rests_on=(VLLM, CARD, *plan.shape_marks),
    )


def _judge(plan: Plan) -> Figure | None:
    """Return the served judge's memory, on its GPUs or on the host; None where none is served."""
    serve, weights = plan.run.judge.serve, judge_weights_bytes(plan.run)
    if serve is None:
        return None
    share = judge_share(plan.run, card_bytes=plan.cards.bytes) if plan.is_on_gpus else None
    if share is None:
        taken = weights + (serve.kv_cache_mb or 0) * MIB
        text = f"{serve.model}: weights {readable(weights)}, KV cache {serve.kv_cache_mb or 'unset'} MiB"
    else:
        taken = share.needed
        text = f"{serve.model}: {taken / GIB:.1f} GiB of each of {serve.tensor_parallel} GPUs: {share}"
    return Figure(
        section=MEMORY,
        name="served judge",
        text=text,
        numbers={"total_bytes": taken, "weights_bytes": weights},
        rests_on=(VLLM, *((CARD,) if share is not None else ())),
    )


def _host(plan: Plan, shape: DecoderShape) -> Figure:
    training = training_bytes(plan.run, shape)
    sampling = sampling_bytes(plan.run, shape.parameters)
    return Figure(
        section=MEMORY,
        name="host",
        text=(
            f"training {readable(training)}, activations not counted; weights of "
            f"{plan.run.generators.count} x generator {readable(sampling)}"
        ),
        numbers={"training_bytes": training, "sampling_bytes": sampling},
        rests_on=plan.shape_marks,
    )


def _cache(plan: Plan, shape: DecoderShape) -> Figure:
    one = plan.one
    place = "each GPU" if plan.engine_marks else "the device's memory"
    text = f"{one.completions} completions of a generator side by side at full length"
    if one.cache_tokens:
        text += f": {one.cache_tokens:,} tokens, {readable(one.cache_bytes)} of {place}"
    else:
        text += ", if the KV cache has room: --gpu-memory GB says of which card"
    return Figure(
        section=MEMORY,
        name="KV cache",
        text=text,
        numbers={
            "completions": one.completions,
            "cache_tokens": one.cache_tokens,
            "cache_bytes": one.cache_bytes,
            "token_bytes": token_bytes(plan.run, shape),
        },
        rests_on=(*plan.engine_marks, *plan.shape_marks),
    )


def flow(plan: Plan) -> Iterator[Figure]:
    """Yield the number of groups in flight by place, and the resulting lag."""
    run, one = plan.run, plan.one
    learner, sampled = run.learner, sampled_groups(run, one)
    yield Figure(
        section=FLOW,
        name="in flight",
        text=(
            f"{run.budget} groups, {run.budget / learner.groups_per_step:g} steps' worth: "
            f"{run.budget * run.sampling.group_size:,} completions"
        ),
        numbers={"groups": run.budget, "groups_per_step": learner.groups_per_step},
    )
    yield Figure(
        section=FLOW,
        name="sampled",
        text=(
            f"{sampled:g} groups side by side by {run.generators.count} "
            f"generator{'s' * (run.generators.count > 1)}, which hold at most {one.groups} each"
        ),
        numbers={"groups": sampled, "held_groups": one.groups, "generators": run.generators.count},
        rests_on=(ANSWERS,),
    )
    if run.has_agents:
        yield _played(run)
    least, most = expected_lag(run, one)
    yield Figure(
        section=FLOW,
        name="expected lag",
        text=(
            f"{least:.2g} versions, a trained token's mean, where the generators are waited for; {most:g} where the "
            f"learner is; the bound is {learner.max_lag}"
            f"{'' if learner.late_groups != 'train' else ', and late groups train beyond it'}"
        ),
        numbers={"least_versions": least, "most_versions": most, "bound_versions": learner.max_lag},
        rests_on=(LAG,),
    )


def rates(plan: Plan) -> Iterator[Figure]:
    """Yield the rate that each role needs for a step every `step_s` seconds, and for no group to die."""
    run, one = plan.run, plan.one
    completions = run.learner.groups_per_step * run.sampling.group_size
    answers = completions * plan.answer_tokens
    each = answers / plan.step_s / run.generators.count
    side_by_side = sampled_groups(run, one) * run.sampling.group_size / run.generators.count
    yield Figure(
        section=RATES,
        name="generator",
        text=(
            f"{each:,.0f} tokens/s each, {each / side_by_side:.3g} of a completion: {answers:,} tokens a step in "
            f"{plan.step_s:g} s"
        ),
        numbers={"tokens_per_s": each, "completion_tokens_per_s": each / side_by_side},
        rests_on=(ANSWERS, STEP),
    )
    if run.has_agents:
        yield from _turns(plan, completions)
    yield _deadline(run, one)
    yield from _learner(plan, completions)
    worker_s = run.scorers.workers * plan.step_s / completions
    yield Figure(
        section=RATES,
        name="scorers",
        text=(
            f"{completions / plan.step_s:,.3g} completions/s; each of {run.scorers.workers} workers may take "
            f"{worker_s:.3g} s for one, and no longer"
        ),
        numbers={"completions_per_s": completions / plan.step_s, "worker_s": worker_s},
        rests_on=(STEP,),
    )


def _played(run: Run) -> Figure:
    """Return how many episodes are played concurrently."""
    agents, most = run.agents, run.budget * run.sampling.group_size
    episodes = min(most, agents.count * agents.episodes)
    return Figure(
        section=FLOW,
        name="episodes",
        text=(
            f"{episodes:,} at once by {agents.count} agent{'s' * (agents.count > 1)}, which play at most "
            f"{agents.episodes} each, of {most:,} in flight"
        ),
        numbers={"episodes": episodes, "agents": agents.count, "episodes_each": agents.episodes},
    )


def _turns(plan: Plan, completions: int) -> Iterator[Figure]:
    """Yield the cost of turns: calls of the policy, and prompts that are computed again."""
    run = plan.run
    sections = [task.environment for task in run.scorers.tasks.values() if task.environment is not None]
    turns = max(section.max_turns for section in sections)
    calls = completions * turns
    yield Figure(
        section=RATES,
        name="turns",
        text=(
            f"{calls / plan.step_s:,.3g} calls/s: {calls:,} a step, {turns} turns at most of {completions} episodes"
        ),
        numbers={"calls_per_s": calls / plan.step_s, "calls": calls, "turns": turns},
        rests_on=(STEP, TURNS),
    )
    engine = run.generators.engine
    if isinstance(engine, ScriptedEngineConfig):
        return
    at_once = min(run.budget * run.sampling.group_size, run.agents.count * run.agents.episodes)
    mean = run.data.max_prompt_tokens + run.sampling.max_tokens / 2
    if isinstance(engine, VllmEngineConfig) and engine.new_weights != "keep_cache":
        step = completions * (run.data.max_prompt_tokens + run.sampling.max_tokens)
        update = at_once * mean / run.learner.weights.every
        text = (
            f"{step:,} tokens a step, each once; weights that change between two turns empty the cache, and "
            f"{update:,.0f} more a step are computed again ({update / step:.0%})"
        )
    else:
        step, update = int(calls * mean), 0.0
        text = (
            f"{step:,} tokens a step: no turn finds its conversation in a cache, and each computes it whole"
        )
    yield Figure(
        section=RATES,
        name="prefill",
        text=text,
        numbers={"tokens": step, "again_tokens": update},
        rests_on=(TURNS,),
    )


def _deadline(run: Run, one: GeneratorLoad) -> Figure:
    """Return the rates below which groups die of `learner.group_deadline_s`."""
    deadline_s = run.learner.group_deadline_s
    tokens = run.budget * run.sampling.group_size * run.sampling.max_tokens
    least = tokens / deadline_s / run.generators.count
    longest = run.sampling.max_tokens / deadline_s
    return Figure(
        section=RATES,
        name="deadline",
        text=(
            f"each generator needs {least:,.0f} tokens/s, and a completion {longest:.3g}, or a full budget does not "
            f"end within learner.group_deadline_s={deadline_s:g}"
        ),
        numbers={"tokens_per_s": least, "completion_tokens_per_s": longest, "held_groups": one.groups},
        rests_on=(BUDGET,),
    )


def _learner(plan: Plan, completions: int) -> Iterator[Figure]:
    run, shape = plan.run, plan.shape
    length = run.data.max_prompt_tokens + plan.answer_tokens
    each = completions * length / plan.step_s / run.learner.ranks
    text, numbers = f"{each:,.0f} tokens/s each", {"tokens_per_s": each}
    if shape is not None:
        operations = step_operations(shape, [length] * completions, completions * plan.answer_tokens)
        needed = operations / plan.step_s / run.learner.ranks / TERA
        numbers |= {"operations": operations, "tera_per_s": needed}
        text += f", {needed:,.3g} x 10^12 operations/s"
        if (peak := peak_of(plan.cards.name)) is not None:
            numbers["mfu"] = needed / peak.tera
            text += f": {needed / peak.tera:.1%} of the {peak.name}'s peak"
    yield Figure(
        section=RATES, name="learner's rank", text=text, numbers=numbers, rests_on=(ANSWERS, STEP, OPERATIONS)
    )
    if shape is None:
        return
    version = version_bytes(run, shape.parameters)
    rate = version / (plan.step_s * run.learner.weights.every)
    yield Figure(
        section=RATES,
        name="weights",
        text=f"{readable(version)} a version: {readable(rate)}/s are written, and read by each generator",
        numbers={"version_bytes": version, "bytes_per_s": rate},
        rests_on=(STEP,),
    )


def stores(plan: Plan) -> Iterator[Figure]:
    """Yield the needs of Redis and the disks."""
    run = plan.run
    room = redis_room(run)
    beside = f", a held-out round {readable(room.rounds)}" if room.rounds else ""
    if room.weights:
        only = isinstance(run.learner.weights, FilesystemTransportConfig)
        beside += f", weights {readable(room.weights)}{' if a generator lacks the folder' if only else ''}"
    yield Figure(
        section=STORES,
        name="Redis",
        text=f"groups {readable(room.groups)}{beside}; maxmemory of {readable(room.limit)} or more, or none",
        numbers={
            "groups_bytes": room.groups,
            "evaluation_bytes": room.rounds,
            "weights_bytes": room.weights,
            "maxmemory_bytes": room.limit,
        },
        rests_on=(BUDGET, REDIS),
    )
    numbers = {"journal_bytes": journal_bytes(run)}
    text = f"journal {readable(numbers['journal_bytes'])}"
    if plan.shape is not None:
        numbers["weights_bytes"] = versions_bytes(run, plan.shape.parameters)
        numbers["checkpoints_bytes"] = checkpoints_bytes(run, plan.shape)
        text += f", versions of the weights {readable(numbers['weights_bytes'])}"
        text += f", checkpoints and the model {readable(numbers['checkpoints_bytes'])}"
    yield Figure(section=STORES, name="disk", text=text, numbers=numbers, rests_on=(BUDGET,))
