"""Load the user's own environment: a class with `reset(row, seed)` and `step(action)`."""

from __future__ import annotations

import functools
from typing import Any, Dict

from agents.environments.child.imports import imported
from agents.environments.child.prepared import PreparedKind, is_async


def prepare(section: Dict[str, Any]) -> PreparedKind:
    """Import the class. Raises the import's errors, and TypeError for a class without the two methods."""
    path = section["import_path"]
    found = imported(path)
    if lacking := [name for name in ("reset", "step") if not callable(getattr(found, name, None))]:
        raise TypeError(
            f"{path} has no {' and no '.join(lacking)}: an environment has reset(row, seed) and step(action)"
        )
    return PreparedKind(functools.partial(found, **section["options"]), is_async(found))
