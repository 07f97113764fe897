"""A child for agents elsewhere: nothing of them runs here, so it begins episodes and no more, for who looks on."""

from __future__ import annotations

from typing import Any, Dict

from agents.environments.child.prepared import Prepared


def prepare(section: Dict[str, Any]) -> Prepared:  # noqa: ARG001
    """Import nothing."""
    return Prepared(Elsewhere, False)


class Elsewhere:
    """An agent that some other program starts."""

    def reset(self, row: Any, seed: int) -> None:
        """Take any row."""
