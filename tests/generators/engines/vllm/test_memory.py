"""What a generator takes of a card that a learner trains on: the configuration's amount, or an error with both figures.

No GPU is needed: the driver's answer is made up, and vLLM's own check is asked in `test_engine.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path

import pytest

from broker.errors import RunFailed
from config.generators import VllmEngineConfig
from config.gpus import Card
from config.loading import load_run
from generators.engines.vllm import engine, memory
from generators.engines.vllm.engine import VllmEngine
from generators.engines.vllm.memory import GIB, memory_arguments, share_of, wait_for_room
from tests.support.byte_model import make_run
from tests.support.paths import RECIPES
from tools.up.supervisor import REASON_CHARS

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]

RECIPE = load_run(["--config", str(RECIPES / "gsm8k_qwen2.5-0.5b_1gpu.yaml")])  # a card for both
SHARED = VllmEngineConfig.model_validate(RECIPE.generators.engine.model_dump())
UNFIXED = VllmEngineConfig(gpu_memory_utilization=0.35)
FIXED = VllmEngineConfig(kv_cache_mb=4096)
WEIGHTS = GIB  # of 0.5 billion parameters in bfloat16


def card(free: float, total: float = 24.0, name: str = "0") -> Card:
    return Card(name=name, free_bytes=int(free * GIB), total_bytes=int(total * GIB))


def wait(config: VllmEngineConfig, ask: Callable[[], list[Card]]) -> float:
    slept = [0.0]
    wait_for_room(config, weights_bytes=WEIGHTS, ask=ask, clock=lambda: sum(slept), sleep=slept.append)
    return sum(slept)


@pytest.mark.parametrize("free", [24.0, 9.5, 7.0])  # empty, a learner, a learner at its peak
def test_a_restart_beside_a_training_learner_takes_what_the_first_start_took(free: float) -> None:
    share = share_of(SHARED, weights_bytes=WEIGHTS, card_bytes=card(free).total_bytes)
    assert (SHARED.kv_cache_mb, SHARED.gpu_memory_utilization) == (4096, 0.25)  # the recipe's
    assert share.total == 7 * GIB  # 1 of weights, 4 of KV cache, 2 of vLLM itself
    assert share.is_fixed
    assert share.asked == 6 * GIB  # a quarter of the card: vLLM wants to see it free, and no more
    assert memory_arguments(SHARED) == {"gpu_memory_utilization": 0.25, "kv_cache_memory_bytes": 4 * GIB}
    assert wait(SHARED, lambda: [card(free)]) == 0.0


@pytest.mark.parametrize(
    ("config", "free", "words"),
    [
        # 5.5 - 1 - 2 GiB are left for the KV cache, and 5.5 / 24 may be asked for.
        (SHARED, 5.5, ["GPU 0 has 5.5 GiB free of 24.0, and this generator takes 7.0: weights 1.0, KV cache 4.0 ",
            "(generators.engine.kv_cache_mb=4096), vLLM itself 2.0",
            "set generators.engine.kv_cache_mb=2560 generators.engine.gpu_memory_utilization=0.22, or give"]),
        (SHARED, 6.5, ["takes 7.0", "set generators.engine.kv_cache_mb=3584, or give the generator a card of"]),
        (UNFIXED, 8.0, ["GPU 0 has 8.0 GiB free of 24.0, and this generator takes 8.4: ",
            "generators.engine.gpu_memory_utilization=0.35 of the card has to be free when vLLM starts",
            "set generators.engine.kv_cache_mb=5120 generators.engine.gpu_memory_utilization=0.33"]),
        (FIXED, 10.0, ["takes 21.6", "utilization=0.9 of the card", "kv_cache_mb=4096 ", "utilization=0.41"]),
        (SHARED, 2.5, ["2.5 GiB free", "What to do: give the generator a card of its own"]),
    ],
)  # fmt: skip
def test_a_card_with_too_little_ends_the_generator_with_both_figures_and_what_to_change(
    config: VllmEngineConfig, free: float, words: list[str]
) -> None:
    with pytest.raises(RunFailed) as refused:
        wait(config, lambda: [card(free)])
    said = str(refused.value)
    assert [word for word in words if word not in said[: REASON_CHARS + 100]] == []
    assert words[-1].partition(", or")[0] in said[:REASON_CHARS], "what `millrace up` says of it"
    told = VllmEngineConfig(kv_cache_mb=2560, gpu_memory_utilization=0.22)
    assert wait(told, lambda: [card(5.5)]) == 0.0, "what the first message says to set does fit"


def test_each_of_the_generators_cards_is_looked_at_until_a_predecessor_is_cleared_away() -> None:
    seen = chain([card(3.0), card(3.0)], repeat(card(9.0)))
    assert wait(SHARED, lambda: [next(seen)]) == 2 * memory.POLL_S
    with pytest.raises(RunFailed):
        wait(SHARED, lambda: [card(3.0)])
    two = VllmEngineConfig(tensor_parallel=2, kv_cache_mb=4096, gpu_memory_utilization=0.25)
    assert wait(two, lambda: [card(6.5), card(6.5, name="1"), card(0.0, name="2")]) == 0.0  # half the weights
    with pytest.raises(RunFailed, match="GPU 1 has 6"):
        wait(two, lambda: [card(9.0), card(6.0, name="1")])
    assert wait(SHARED, list) == 0.0, "the driver says nothing"


def test_a_generator_looks_at_its_card_before_it_starts_vllm(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho '0, GPU-aa, 4096, 24564'\n")
    (tmp_path / "nvidia-smi").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(memory, "WAIT_S", 0.0)
    monkeypatch.setattr(engine, "import_vllm", lambda _: True)  # as on a GPU
    started = VllmEngine(make_run(tiny_model, SHARED), SHARED)
    said = r"GPU 0 has 4\.0 GiB free of 24\.0, and this generator takes 6\.0: weights 0\.0"
    with pytest.raises(RunFailed, match=said):
        asyncio.run(started.start())
