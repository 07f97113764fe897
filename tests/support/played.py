"""A run with a task that has an environment, so that agents play its groups."""

from __future__ import annotations

from typing import Any

TASKS: dict[str, Any] = {
    "math": {"scorer": {"type": "math"}, "environment": {"type": "tools", "functions": ["math:gcd"]}}
}
