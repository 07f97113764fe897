"""What every test of the protocol does at its end."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    """Have what was there before looked at once for garbage, and not after each test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Have what killed parts left open closed in the test that killed them, and not in one that comes later."""
    yield
    gc.collect()
