"""What vLLM makes of our section: on this machine, on GPUs that are made up, and the room that follows from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from config.data import DataConfig, HeldOutProcedural, ProceduralSource
from config.generators import VllmEngineConfig
from generators.engines.vllm.settings import longest_sequence, room
from tests.support.chain import make_run
from tests.support.paths import ROOT

H100 = ("NVIDIA H100 80GB HBM3", "80", "9.0")
A100 = ("NVIDIA A100-SXM4-80GB", "80", "8.0")
RTX_4090 = ("NVIDIA GeForce RTX 4090", "24", "8.9")


def on(gpu: tuple[str, str, str], model: Path, **section: Any) -> dict[str, Any]:
    """Resolve in a process of its own: what a platform is asked once is kept for good."""
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.made_up_gpu",
            str(model),
            *gpu,
            json.dumps({"type": "vllm", **section}),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    resolved: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return resolved


@pytest.mark.parametrize(
    ("gpu", "section", "expected"),
    [
        (
            H100,
            {},
            {
                "v2_model_runner": True,
                "async_scheduling": True,
                "max_num_batched_tokens": 16384,
                "max_num_seqs": 256,
                "prefix_caching": True,
                "head_dtype": "torch.float32",
                "dtype": "torch.bfloat16",
                "logprobs_mode": "processed_logprobs",
                "load_format": "dummy",
                "cuda_graphs": "FULL_AND_PIECEWISE",
                "executor": "UniProcExecutor",
            },
        ),
        (A100, {"enforce_eager": True}, {"max_num_batched_tokens": 8192, "cuda_graphs": "NONE"}),
        (
            RTX_4090,
            {"new_weights": "keep_cache", "max_num_batched_tokens": 4096, "tensor_parallel": 2},
            {"max_num_batched_tokens": 4096, "prefix_caching": False, "executor": "MultiprocExecutor"},
        ),
    ],
    ids=["H100", "A100", "4090"],
)
def test_what_a_gpu_would_run_is_resolved_without_one(
    gpu: tuple[str, str, str], section: dict[str, Any], expected: dict[str, Any], tiny_model: Path
) -> None:
    found = on(gpu, tiny_model, **section)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("cache_tokens", "sequence_tokens", "max_num_seqs", "group_size", "expected"),
    [
        (1_000_000, 2048, 256, 8, 64),  # 488 would fit, 256 are sampled side by side: twice 256 of 8
        (1_000_000, 8192, 256, 8, 31),  # 122 fit: 244 of 8, and the last group in part
        (100_000, 2048, 256, 64, 2),  # 48 fit: 96 of 64
        (1000, 2048, 256, 8, 1),  # not one fits at its longest
    ],
)
def test_room_is_twice_what_cache_and_batch_hold(
    *, cache_tokens: int, sequence_tokens: int, max_num_seqs: int, group_size: int, expected: int
) -> None:
    assert (
        room(
            cache_tokens=cache_tokens,
            sequence_tokens=sequence_tokens,
            max_num_seqs=max_num_seqs,
            group_size=group_size,
        )
        == expected
    )


def test_the_longest_sequence_may_be_a_held_out_one(tmp_path: Path) -> None:
    run = make_run(tmp_path, sampling={"max_tokens": 100})
    sets = (
        HeldOutProcedural(name="short", max_tokens=50),
        HeldOutProcedural(name="long", max_prompt_tokens=400, max_tokens=300),
    )
    plain = DataConfig(train=ProceduralSource(), max_prompt_tokens=200)
    for held_out, expected in ((None, 300), (sets[:1], 300), (sets, 700)):
        data = plain.model_copy(update={"held_out": held_out})
        assert longest_sequence(run.model_copy(update={"data": data}), VllmEngineConfig()) == expected
    assert longest_sequence(run, VllmEngineConfig(max_model_len=64)) == 64
