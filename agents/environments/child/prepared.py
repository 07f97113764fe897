"""What a kind of environment gives a task's parent process: how one is made for an episode, and how it is served.

An environment has Gymnasium's shape: `reset(row, seed)`, `step(action)` in five values, and maybe `close()`.
docs/environments.md has the contract.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, NamedTuple


class Prepared(NamedTuple):
    """A kind of environment, with its imports."""

    make: Callable[[], Any]  # a fresh environment
    is_async: bool  # whether it is served in an event loop


def is_async(environment_class: Any) -> bool:
    """Return whether a method of the contract is a coroutine function."""
    methods = (getattr(environment_class, name, None) for name in ("reset", "step", "close", "reference"))
    return any(map(inspect.iscoroutinefunction, methods))
