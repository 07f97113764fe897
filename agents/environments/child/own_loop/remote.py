"""Represent agents on other machines: nothing runs here, so it only begins episodes, to be watched."""

from __future__ import annotations

from typing import Any, Dict

from agents.environments.child.prepared import PreparedKind


def prepare(section: Dict[str, Any]) -> PreparedKind:  # noqa: ARG001
    """Import nothing."""
    return PreparedKind(Elsewhere, False)


class Elsewhere:
    """An agent that another program starts."""

    def reset(self, row: Any, seed: int) -> None:
        """Accept any row."""
