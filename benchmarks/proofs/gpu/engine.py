"""The steps of `make prove-gpu` about the vLLM engine: does it agree with the learner, and how long is an update?

In: a model with random weights, of Qwen2.5-0.5B's shape on a GPU. Out: how far the engine's log-probabilities are from
the learner's, token by token, each under the version that its span names, while new weights come in flight; the same
as the learner measures it in a step, with and without a float32 head; seconds of updates. The engine is the generators'
own, with its own processes.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

import numpy as np
import torch
from msgspec.structs import replace
from numpy.typing import NDArray
from safetensors.torch import load_file

from benchmarks.proofs.gpu.made_up import QWEN_0_5B, TINY, ModelShape, batch_of, write_model, write_weights
from benchmarks.proofs.gpu.outcomes import Device, Missed, StepFigures, StepPlace
from benchmarks.rigs.groups import demo_run, question, scored
from broker.messages import Completion, Prompt, SampledGroup
from config.generators import VllmEngineConfig
from config.run import Run
from generators.answers import answer
from generators.chat import Chat, open_chat
from generators.engines.vllm.engine import VllmEngine
from learner.training.attention import choose_attention
from learner.training.backend import MISMATCH_KL, MISMATCH_MAX
from learner.training.engines.deepspeed import DeepSpeedBackend
from learner.training.logprobs import LogprobModel
from learner.training.model_files import load_model

# Nats between the engine's log-probability of a token and the learner's: the mean, and the largest.
MEAN = {"float32": 1e-4, "bfloat16": 0.05}
LARGEST = {"float32": 1e-3, "bfloat16": 0.5}
TELLING = 10.0  # times as far the wrong version has to be, or the comparison shows nothing
IN_FLIGHT_S = 0.3  # before new weights come
CROSSED = (
    0.25  # of the completions in flight, that both versions sampled: some stop before, some have not begun
)
UPDATES = 5
PROMPT_TOKENS, MOST_TOKENS = 64, 512  # of a request

Group = tuple[Completion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What is sampled, and of which model."""

    shape: ModelShape
    dtype: Literal["float32", "bfloat16"]
    max_tokens: int
    groups: int
    completions: int  # of a group


IN_FLIGHT: dict[Device, Size] = {
    "cuda": Size(shape=QWEN_0_5B, dtype="bfloat16", max_tokens=512, groups=4, completions=4),
    "cpu": Size(shape=TINY, dtype="float32", max_tokens=300, groups=4, completions=4),
}
MISMATCH: dict[Device, Size] = {
    "cuda": Size(shape=QWEN_0_5B, dtype="bfloat16", max_tokens=256, groups=8, completions=8),
    "cpu": Size(shape=TINY, dtype="bfloat16", max_tokens=64, groups=4, completions=4),
}


def agrees_in_flight(place: StepPlace, *, enforce_eager: bool) -> StepFigures:
    """Sample, load new weights in flight, sample again; compare every token with the learner's log-probability.

    Raises:
        Missed: too far from the version that a span names, or nothing was in flight.
    """
    size = IN_FLIGHT[place.device]
    run = run_of(place, size, enforce_eager=enforce_eager)
    own = Path(run.model.path) / "model.safetensors"
    files = {1: own, 2: write_weights(place.folder / "2.safetensors", size.shape, dtype=size.dtype, seed=2)}
    fresh, *asked = prompts(size, size.groups + 1)
    held = hold(place, run)
    before, groups, after = held.loop.run(_in_flight(held.engine, open_chat(run), files, fresh, asked))
    crossed = fmean(
        [span.version for span in completion.spans] == [1, 2] for group in groups for completion in group
    )
    if crossed < CROSSED:
        raise Missed(
            f"{crossed:.0%} of the completions were sampled by both versions, at least {CROSSED:.0%}"
        )
    right, wrong = _distances(run, files, [fresh, fresh, *asked], [before, after, *groups], place.device)
    give_back(place.device)
    if {span.version for completion in after for span in completion.spans} != {2}:
        raise Missed("what was asked after the update was not sampled by the new version alone")
    mean, largest, other = float(right.mean()), float(right.max()), float(wrong.mean())
    if not (mean <= MEAN[size.dtype] and largest <= LARGEST[size.dtype] and other >= TELLING * mean):
        raise Missed(
            f"engine and learner are {mean:.1e} nats apart, at most {largest:.1e}, and {other:.1e} under the wrong "
            f"version; allowed are {MEAN[size.dtype]} and {LARGEST[size.dtype]}"
        )
    return StepFigures(
        text=f"{size.shape.name} in {size.dtype}, {len(right):,} tokens: engine and learner {mean:.1e} nats apart, at "
        f"most {largest:.1e} ({other:.1e} under the wrong version); {crossed:.0%} of the completions in flight were "
        f"sampled by both versions; started in {held.started_s:.0f} s",
        facts={
            "mean": mean,
            "largest": largest,
            "wrong": other,
            "crossed": crossed,
            "start_s": held.started_s,
        },
    )


def measures_mismatch(place: StepPlace, *, head_dtype: Literal["float32", "model"]) -> StepFigures:
    """Time updates of the engine, then have the learner measure the mismatch on what the engine sampled.

    Raises:
        Missed: the mismatch is one that a run would warn of.
    """
    size = MISMATCH[place.device]
    run = run_of(place, size, enforce_eager=True, head_dtype=head_dtype)
    other = write_weights(place.folder / "other.safetensors", size.shape, dtype=size.dtype, seed=2)
    own = Path(run.model.path) / "model.safetensors"
    asked = prompts(size, size.groups)
    held = hold(place, run)
    updates_s = held.loop.run(_updates(held.engine, own, other))
    groups = held.loop.run(together(held.engine, open_chat(run), asked))
    version = held.engine.version
    rollouts = [
        SampledGroup(prompt=each, completions=group, generator="generator-0", seconds=1.0)
        for each, group in zip(asked, groups, strict=True)
    ]
    policy = DeepSpeedBackend(run, rank=0, world_size=1)
    began = time.monotonic()
    gathered = policy.gather_weights()
    gathered_s = time.monotonic() - began
    saved = place.folder / "saved"
    saved.mkdir()
    gathered.save_weights(saved)
    saved_s = time.monotonic() - began - gathered_s
    metrics = policy.step(batch_of(run, [scored(rollout) for rollout in rollouts], version=version))
    policy.close()
    del policy
    give_back(place.device)
    kl, largest = metrics[MISMATCH_KL], metrics[MISMATCH_MAX]
    update_s = median(updates_s)
    if not kl <= run.learner.mismatch.warn_above:
        raise Missed(f"mismatch_kl {kl:.1e}, and a run warns at {run.learner.mismatch.warn_above}")
    return StepFigures(
        text=f"{size.shape.name} in {size.dtype}, random weights, {metrics['tokens']:,.0f} tokens: mismatch_kl "
        f"{kl:.1e}, largest {largest:.1e} nats; an update of the idle engine {update_s:.2f} s (median of "
        f"{len(updates_s)}), the learner gathers the weights in {gathered_s:.2f} s, "
        f"and writes them beside its next step in {saved_s:.2f} s",
        facts={
            "mismatch_kl": kl,
            "mismatch_max": largest,
            "update_s": update_s,
            "gather_s": gathered_s,
            "save_s": saved_s,
        },
    )


async def _updates(engine: VllmEngine, own: Path, other: Path) -> list[float]:
    """Return the seconds of updates of an idle engine, without the first one; the last one loads `own`."""
    seconds = []
    first = engine.version + 1  # of a session's engine, which has loaded others
    for number in range(2 * UPDATES + 1):
        began = time.monotonic()
        await engine.load_weights([other if number % 2 else own], first + number)
        seconds.append(time.monotonic() - began)
    return seconds[1:]


async def _in_flight(
    engine: VllmEngine, chat: Chat, files: dict[int, Path], fresh: Prompt, asked: Sequence[Prompt]
) -> tuple[Group, list[Group], Group]:
    """Return what the first version sampled, what both did while version 2 came, and what was sampled after that."""
    await engine.load_weights([files[1]], 1)
    before = await answer(
        fresh, engine, chat
    )  # compiles what is compiled at the first token, and fills the cache
    tasks = [asyncio.create_task(answer(each, engine, chat)) for each in asked]
    await asyncio.sleep(IN_FLIGHT_S)
    await engine.load_weights([files[2]], 2)
    return before, await asyncio.gather(*tasks), await answer(fresh, engine, chat)


async def together(engine: VllmEngine, chat: Chat, asked: Sequence[Prompt]) -> list[Group]:
    """Sample groups side by side."""
    return await asyncio.gather(*(answer(each, engine, chat) for each in asked))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEngine:
    """An engine that runs, and the loop that it belongs to."""

    engine: VllmEngine
    loop: asyncio.Runner
    started_s: float


def hold(place: StepPlace, run: Run) -> RunningEngine:
    """Return the session's engine for a run's model and types, started where there is none."""
    key = run.model.model_dump_json() + run.generators.engine.model_dump_json()
    return place.kept.get(key, lambda: _start(place, run))


def _start(place: StepPlace, run: Run) -> RunningEngine:
    config = run.generators.engine
    if not isinstance(config, VllmEngineConfig):
        raise TypeError(f"this step is about vLLM, not {config.type}")
    began = time.monotonic()
    loop, engine = place.kept.stack.enter_context(asyncio.Runner()), VllmEngine(run, config)
    loop.run(engine.start())
    place.kept.stack.callback(lambda: loop.run(engine.close()))
    return RunningEngine(engine=engine, loop=loop, started_s=time.monotonic() - began)


def _distances(
    run: Run, files: dict[int, Path], prompts: Sequence[Prompt], groups: Sequence[Group], device: Device
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return for every sampled token how far it is, in nats, from the version of its span, and from the other one."""
    of_version = {version: _learner(run, file, device) for version, file in files.items()}
    right: list[NDArray[np.float32]] = []
    wrong: list[NDArray[np.float32]] = []
    for asked, group in zip(prompts, groups, strict=True):
        for completion in group:
            apart = {
                version: np.abs(_logprobs(model, asked, completion, device) - completion.segments[0].logprobs)
                for version, model in of_version.items()
            }
            for span in completion.spans:
                tokens = slice(span.first, span.first + span.count)
                for version, distances in apart.items():
                    (right if version == span.version else wrong).append(distances[tokens])
    return np.concatenate(right), np.concatenate(wrong)


def _learner(run: Run, file: Path, device: Device) -> LogprobModel:
    """Build the learner's model with the weights of a file."""
    on = torch.device(device)
    attention = choose_attention("auto", device=on, dtype=getattr(torch, run.model.dtype)).name
    loaded = load_model(run.model, attention=attention, gradient_checkpointing=False)
    if unexpected := loaded.load_state_dict(load_file(file), strict=False).unexpected_keys:
        raise Missed(f"{file} has tensors that the learner's model has not: {unexpected}")
    model = LogprobModel(loaded, temperature=run.sampling.temperature, head_dtype=run.model.head_dtype)
    return model.to(on)


@torch.no_grad()
def _logprobs(
    model: LogprobModel, asked: Prompt, completion: Completion, device: Device
) -> NDArray[np.float32]:
    """Return the learner's log-probability of each token of a completion, nats."""
    ids = torch.tensor([*asked.token_ids.tolist(), *completion.segments[0].token_ids.tolist()], device=device)
    places = torch.arange(len(asked.token_ids), len(ids), device=device)
    logprobs_T, _ = model(
        ids,
        torch.arange(len(ids), device=device),
        places,
        grid=(1, len(ids)),
        bounds_B=torch.tensor([0, len(ids)], dtype=torch.int32, device=device),
    )
    found: NDArray[np.float32] = logprobs_T[places].cpu().numpy()
    return found


def give_back(device: Device) -> None:
    """Give the card's memory back that this process holds for nothing: the session's engine lives on."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def prompts(size: Size, count: int) -> list[Prompt]:
    """Make prompts of random tokens."""
    random = np.random.default_rng(0)
    return [
        replace(
            question(str(number), n=size.completions),
            token_ids=random.integers(0, size.shape.vocabulary, PROMPT_TOKENS, dtype=np.int32),
            max_tokens=size.max_tokens,
        )
        for number in range(count)
    ]


def run_of(place: StepPlace, size: Size, *, enforce_eager: bool, head_dtype: str = "float32") -> Run:
    """Return a run of a random model on this device, written once for all steps of a size and type."""
    model = place.shared / f"{size.shape.hidden}-{size.dtype}"
    if not (model / "tokenizer_config.json").exists():
        write_model(model, size.shape, dtype=size.dtype, seed=1)
    engine: dict[str, Any] = {"type": "vllm", "enforce_eager": enforce_eager, "max_num_seqs": 64}
    on_gpu = place.device == "cuda"
    # A cache of a fixed size: what else uses the card while vLLM measures it has no part in the outcome.
    engine |= {"gpu_memory_utilization": 0.35, "kv_cache_mb": 4096} if on_gpu else {"kv_cache_mb": 256}
    return demo_run(
        place.folder,
        model={"path": str(model), "dtype": size.dtype, "head_dtype": head_dtype},
        data={"max_prompt_tokens": PROMPT_TOKENS},
        sampling={"max_tokens": MOST_TOKENS, "group_size": size.completions},
        generators={"engine": engine},
        learner={
            "device": place.device,
            "filters": {"truncated": "keep"},  # random models seldom stop
            "gradient_checkpointing": on_gpu,
            "tokens_per_micro_batch": 8192 if on_gpu else 2048,
        },
    )
