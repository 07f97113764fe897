"""Describe a kind of environment for a task's parent process: how to make one for an episode, and how to serve it.

An environment has Gymnasium's shape: `reset(row, seed)`, `step(action)` with five values, and optionally `close()`.
docs/environments.md has the contract.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, NamedTuple


class PreparedKind(NamedTuple):
    """A kind of environment, with its imports."""

    make: Callable[[], Any]  # makes a new environment
    is_async: bool  # whether it runs in an event loop


def is_async(environment_class: Any) -> bool:
    """Return whether a method of the contract is a coroutine function."""
    methods = (getattr(environment_class, name, None) for name in ("reset", "step", "close", "reference"))
    return any(map(inspect.iscoroutinefunction, methods))
