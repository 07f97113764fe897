"""What tests of a whole vLLM engine share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    """Yield an event loop in an environment of which vLLM may change what it likes."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("LD_PRELOAD", "")
    with asyncio.Runner() as runner:
        yield runner
