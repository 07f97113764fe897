"""How long a scorer lets its killable child work: counted by what it gives each request, whatever else the machine does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scorers.child.process import Clock, KillableChild, Reply, Request


@contextmanager
def child_waits() -> Iterator[list[float]]:
    """Yield the deadlines of all requests in the block, in seconds, in their order; they are answered as ever."""
    waits: list[float] = []
    asked = KillableChild.ask

    def ask(child: KillableChild, request: Request, timeout_s: float, **how: Clock) -> Reply:
        waits.append(timeout_s)
        return asked(child, request, timeout_s, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KillableChild, "ask", ask)
        yield waits
