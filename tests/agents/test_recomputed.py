"""Episodes of four turns whose tokens a plain forward pass finds as likely as their engine said, over new weights too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, PreTrainedModel

from broker.checksums import weights_checksum
from broker.connection import RedisLink
from broker.keys import ROLLOUTS, Keys
from broker.messages import Announcement, End, Ids
from config.run import Run
from generators.engine import Engine, Sample, SamplingParams
from generators.engines.build import build_engine
from tests.support.arena import SIZE, Arena, run_of
from tests.support.byte_model import TOLERANCE, save_weights
from tests.support.paths import ROOT
from tests.support.waiting import wait_in_loop

pytestmark = [
    pytest.mark.model,
    pytest.mark.together("vllm"),
    pytest.mark.usefixtures("quick"),
    pytest.mark.filterwarnings("ignore:Unclosed context:ResourceWarning"),  # vLLM leaves its own open
    pytest.mark.filterwarnings("ignore:max_tokens is deprecated:DeprecationWarning"),
]

MODEL = ROOT / "config" / "recipes" / "demo_model"  # ends its turns
LADDER = {
    "type": "custom",
    "import_path": "tests.support.arena_environments:Ladder",
    "max_turns": 4,
    "turn_tokens": 32,
}
QUESTION = {"role": "user", "content": "Reverse the digits of 94762. Answer in \\boxed{}."}
ENGINES: dict[str, dict[str, Any]] = {
    "hf": {"type": "hf", "threads": 1},
    "vllm": {"type": "vllm", "kv_cache_mb": 64, "max_num_seqs": 8, "enforce_eager": True},
}
IDS = ("0", "1", "2", "3")  # of the groups
TEMPERATURE = 0.8
FIRST_ENDS = 2  # of turns in the prompt of a first one: the question, and what the ladder adds
ENDS = FIRST_ENDS + 4  # and in that of a third one two answers and two steps


class Gated:
    """An engine that answers no third turn of a conversation before version 1.

    Args:
        publish: is called once, at the first of these, when every conversation has its first turn. So the generator needs
            room for all of them: third turns that wait must keep no first one out.
    """

    def __init__(self, engine: Engine, publish: Any) -> None:
        self._engine, self._publish = engine, publish
        self._is_published = False
        self._first_turns = 0  # that are in flight

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, token_ids: Ids, params: SamplingParams, n: int) -> tuple[Sample, ...]:
        (end,) = params.stop_token_ids
        ends = np.count_nonzero(token_ids == end)
        if ends >= ENDS:
            await wait_in_loop(lambda: self._first_turns >= len(IDS) * SIZE)
            if not self._is_published:
                self._is_published = True
                await asyncio.to_thread(self._publish)
            await wait_in_loop(lambda: self._engine.version == 1)
        found = await self._engine.generate(token_ids, params, n)
        self._first_turns += ends == FIRST_ENDS
        return found


def models() -> list[PreTrainedModel]:
    """Return the model and what a few steps in any direction would make of it."""
    found = [AutoModelForCausalLM.from_pretrained(MODEL, dtype="float32").eval() for _ in range(2)]
    chance = torch.Generator().manual_seed(7)
    with torch.inference_mode():
        for parameter in found[1].parameters():
            noise = torch.randn(parameter.shape, generator=chance)
            parameter.add_(0.1 * parameter.std(correction=0) * noise)
    return found


class Weighed(Arena):
    """An arena whose versions are the weights of models."""

    def __init__(
        self, link: RedisLink, keys: Keys, folder: Path, run: Run, models: Sequence[PreTrainedModel]
    ) -> None:
        self.models = models
        super().__init__(link, keys, folder, run)
        self.rows = {
            group_id: {
                "messages": (QUESTION,),
                "columns": {"turns": 4},
                "temperature": TEMPERATURE,
                "floor": 0,
            }
            for group_id in IDS
        }

    def publish(self, version: int) -> None:
        folder = self.folder / f"v{version}"
        folder.mkdir()
        file = save_weights(self.models[version], folder / "model.safetensors")
        self.learner.announce(
            Announcement(
                version=version,
                path=str(folder),
                size_bytes=file.stat().st_size,
                checksum=weights_checksum([file]),
                announced_at=0.0,
            )
        )


def recomputed(model: PreTrainedModel, ids: Ids) -> NDArray[np.float32]:
    """Return how likely each token but the first is behind those before it, by one pass over all."""
    with torch.inference_mode():
        tokens = torch.from_numpy(ids.astype(np.int64))[None]
        logits = model(input_ids=tokens, use_cache=False).logits[0, :-1]
        logprobs = (logits / TEMPERATURE).log_softmax(-1).gather(-1, tokens[0, 1:, None])[:, 0]
        found: NDArray[np.float32] = logprobs.numpy()
        return found


@pytest.mark.parametrize("engine", ["hf", pytest.param("vllm", marks=pytest.mark.prove)])
def test_one_pass_over_an_episode_finds_each_token_as_likely_as_the_weights_that_sampled_it(
    engine: str, link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("LD_PRELOAD", "")  # vLLM sets it, and later children of pytest would inherit that
    run = run_of(
        LADDER,
        model={"path": str(MODEL), "dtype": "float32"},
        data={"train": {"type": "procedural"}, "max_prompt_tokens": 64},
        sampling={"group_size": SIZE, "max_tokens": 190, "temperature": TEMPERATURE},
        generators={"engine": ENGINES[engine], "groups_in_flight": len(IDS)},
    )
    ground = Weighed(link, keys, tmp_path, run, models())

    async def play() -> None:
        gated: Any = Gated(build_engine(run), partial(ground.publish, 1))
        async with ground.generator(gated) as (_, sampling), ground.agent() as (_, playing):
            await wait_in_loop(lambda: sampling.done() or bool(gated.version == 0), within_s=300)
            ground.issue(*map(int, IDS))
            await wait_in_loop(lambda: len(ground.ids(ROLLOUTS)) == len(IDS), task=playing, within_s=60)

    asyncio.run(play())
    versions = []
    for rollout in map(ground.rollout, IDS):
        for completion in rollout.completions:
            (segment,) = completion.segments
            prompt_ids = rollout.prompt.token_ids
            ids = np.concatenate([prompt_ids, segment.token_ids])
            by_version = [recomputed(model, ids)[len(prompt_ids) - 1 :] for model in ground.models]
            for span in segment.policy_spans:
                own = slice(span.first, span.first + span.count)
                np.testing.assert_allclose(
                    segment.logprobs[own], by_version[span.version][own], atol=TOLERANCE, rtol=0
                )
            if completion.ended_by is End.ENVIRONMENT:  # after four turns
                versions.append([span.version for span in segment.policy_spans])
    assert all(own[-2:] == [1, 1] for own in versions), versions
    assert sum(own[0] == 0 for own in versions) > len(IDS) * SIZE / 2, versions
