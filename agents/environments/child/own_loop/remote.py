"""Represent agents on other machines: nothing runs here, so it only begins episodes, to be watched."""

from __future__ import annotations

from typing import Any, Dict

from agents.environments.child.prepared import Prepared


def prepare(section: Dict[str, Any]) -> Prepared:  # noqa: ARG001
    """Import nothing."""
    return Prepared(Elsewhere, False)


class Elsewhere:
    """An agent that another program starts."""

    def reset(self, row: Any, seed: int) -> None:
        """Accept any row."""
