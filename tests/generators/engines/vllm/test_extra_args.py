"""`generators.engine.extra_args`: any argument of the installed vLLM's engine that is nobody else's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from broker.errors import RunFailed
from config.generators import NOT_EXTRA, VllmEngineConfig
from generators.engines.vllm.settings import _arguments, resolve
from tests.support.chain import make_run

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]

MAY_BE_BOTH = {"block_size", "enable_prefix_caching"}  # left to vLLM on most machines


def engine(**section: Any) -> VllmEngineConfig:
    return VllmEngineConfig(kv_cache_mb=64, enforce_eager=True, **section)


def test_an_argument_reaches_vllm(tiny_model: Path, tmp_path: Path) -> None:
    extra = {"max_logprobs": 7, "compilation_config": {"mode": 0}, "block_size": 64}
    found = resolve(make_run(tmp_path, model={"path": str(tiny_model)}), engine(extra_args=extra))
    assert found.model_config.max_logprobs == 7
    assert found.compilation_config.mode == 0
    assert found.cache_config.block_size == 64


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


def test_what_millrace_sets_is_refused_and_every_refused_name_is_vllms(
    tiny_model: Path, tmp_path: Path
) -> None:
    from vllm import AsyncEngineArgs

    own = _arguments(make_run(tmp_path, model={"path": str(tiny_model)}), engine()).keys()
    assert (
        own - MAY_BE_BOTH <= NOT_EXTRA.keys() <= {field.name for field in dataclasses.fields(AsyncEngineArgs)}
    )


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"extra_args": {"max_num_seqs": 7}}, "extra_args.max_num_seqs can't be set: it is generators.engine.max_num_seqs"),
        ({"extra_args": {"logits_processors": []}}, "off-policy"),
        ({"extra_args": {"enable_prefix_caching": True}, "new_weights": "keep_cache"}, "new_weights=keep_cache"),
    ],
)  # fmt: skip
def test_what_is_set_elsewhere_is_told_where(section: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        engine(**section)
