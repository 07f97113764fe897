"""What every test of the protocol does at its end."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Have what killed parts left open closed in the test that killed them, and not in one that comes later."""
    gc.freeze()  # looked at once, and not again after each test: what was there before
    yield
    gc.collect()
