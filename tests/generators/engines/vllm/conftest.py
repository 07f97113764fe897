"""What tests of a whole vLLM engine share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from config.generators import VllmEngineConfig
from generators.engines.vllm.environment import set_environment


@pytest.fixture(scope="session")
def models_seen_here() -> Iterator[None]:
    """Have vLLM look at a model's class in this process: the one that it would start imports it all once more."""
    set_environment(VllmEngineConfig(enforce_eager=True), on_cpu=True)
    from vllm.model_executor.models import registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_run_in_subprocess", lambda look: look())
        yield


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    """Yield an event loop in an environment of which vLLM may change what it likes."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("LD_PRELOAD", "")
    with asyncio.Runner() as runner:
        yield runner
