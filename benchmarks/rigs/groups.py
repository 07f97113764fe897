"""Messages for the benchmarks: groups of any size, and those of the demo.

In: sizes, or the demo's recipe. Out: the very messages that travel in a run. Used by the benchmarks; the demo's model
and tokenizer ship with the project, so nothing is fetched.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from benchmarks.results import ROOT
from broker.codec import encode_prompt
from broker.keys import EPISODES
from broker.messages import (
    NO_IDS,
    NOTHING,
    Completion,
    FinishReason,
    Ids,
    JsonObject,
    Prompt,
    SampledGroup,
    Score,
    ScoredGroup,
    ScoreStatus,
    Span,
    Split,
    Turn,
)
from broker.protocol.run_owner import NewGroup
from config.loading import build_run, read_yaml
from config.run import Run

RECIPE = ROOT / "config" / "recipes" / "demo_cpu.yaml"
VOCABULARY = 151_936  # of the Qwen2 family: ids of the size that real runs have


def demo_run(folder: Path, **sections: Any) -> Run:
    """Load the demo's run, with `sections` over the recipe's; the environment has no say in it."""
    model = ROOT / "config" / "recipes" / "demo_model"
    here: dict[str, Any] = {"runs_dir": str(folder), "model": {"path": str(model)}, **sections}
    return build_run([(str(RECIPE), read_yaml(RECIPE)), ("the benchmark", here)])


def demo_prompts(run: Run, count: int) -> list[Prompt]:
    """Read the first training prompts of the run's order."""
    from learner.data.prompts import load_tokenizer, open_sources

    source = open_sources(run, run.data.train_sources, load_tokenizer(run), shuffle=True)
    return [source.training_prompt(str(ordinal), first_row=0) for ordinal in range(count)]


@contextlib.contextmanager
def demo_engine(run: Run) -> Iterator[Callable[[Sequence[Prompt]], list[tuple[Completion, ...]]]]:
    """Build the run's engine with the model's own weights as version 0: a function that samples prompts together."""
    from generators.answers import answer
    from generators.chat import open_chat
    from generators.engines.build import build_engine

    engine, chat = build_engine(run), open_chat(run)

    async def together(prompts: Sequence[Prompt]) -> list[tuple[Completion, ...]]:
        return await asyncio.gather(*(answer(prompt, engine, chat) for prompt in prompts))

    with asyncio.Runner() as loop:
        loop.run(engine.start())
        try:
            loop.run(engine.load_weights([Path(run.model.path) / "model.safetensors"], 0))
            yield lambda prompts: loop.run(together(prompts))
        finally:
            loop.run(engine.close())


def made_up_rollout(group_id: str, *, completions: int, tokens: int) -> SampledGroup:
    """Make a group of random tokens; the same id gives the same group."""
    random = np.random.default_rng(int(group_id))
    sampled = tuple(
        Completion.of_one_segment(
            token_ids=random.integers(0, VOCABULARY, tokens, dtype=np.int32),
            logprobs=-random.exponential(1.0, tokens).astype(np.float32),
            policy_spans=(Span(version=0, first=0, count=tokens),),
            finish_reason=FinishReason.STOP,
            text="\\boxed{72}",
        )
        for _ in range(completions)
    )
    return SampledGroup(
        prompt=question(group_id, n=completions), completions=sampled, generator="generator-0", seconds=1.0
    )


def spoken_rollout(group_id: str, texts: Sequence[str], reference: str) -> SampledGroup:
    """Make a group of these texts, to be scored against `reference`."""
    said = tuple(
        Completion.of_one_segment(
            token_ids=np.zeros(1, np.int32),
            logprobs=np.zeros(1, np.float32),
            text=text,
            policy_spans=(Span(version=0, first=0, count=1),),
            finish_reason=FinishReason.STOP,
        )
        for text in texts
    )
    return SampledGroup(
        prompt=question(group_id, n=len(texts), reference=reference),
        completions=said,
        generator="generator-0",
        seconds=1.0,
    )


def scored(rollout: SampledGroup) -> ScoredGroup:
    """Score the group with every second answer right, so that its rewards vary."""
    values = [float(index % 2) for index in range(len(rollout.completions))]
    scores = tuple(
        Score(status=ScoreStatus.SCORED, value=value, reason="made up", scorer="math", version="1")
        for value in values
    )
    return ScoredGroup(rollout=rollout, scores=scores, rewards=tuple(values), worker="scorers-0", seconds=0.1)


def question(group_id: str, *, n: int, reference: str = "72") -> Prompt:
    """Make a short question."""
    return prompt(
        group_id,
        n=n,
        messages=({"role": "user", "content": "What is it?"},),
        token_ids=np.arange(32, dtype=np.int32),
        info={"type": "math", "answer": {"value": reference}},
    )


def prompt(
    group_id: str,
    *,
    n: int,
    max_tokens: int = 8192,
    messages: Sequence[Turn] = (),
    token_ids: Ids = NO_IDS,
    info: Mapping[str, Any] = NOTHING,
) -> Prompt:
    """Make a group's prompt, the same each time; without messages its environment, or its agent, has them."""
    return Prompt(
        group_id=group_id,
        split=Split.TRAIN,
        task="math",
        n=n,
        floor=0,
        issued_at=1_700_000_000.0,
        epoch=0,
        row=int(group_id),
        fingerprint="benchmark",
        seed=0,
        temperature=1.0,
        max_tokens=max_tokens,
        messages=tuple(messages),
        token_ids=token_ids,
        verification_info=JsonObject(info),
    )


def new_group(prompt: Prompt, stream: str = EPISODES) -> NewGroup:
    """Return a group that is issued now, with a seed of its own."""
    issued = replace(prompt, issued_at=time.time(), seed=int(prompt.group_id))
    return NewGroup(prompt.group_id, encode_prompt(issued), stream)
