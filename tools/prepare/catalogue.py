"""List every built-in preparation by name, and load a user's own by module.

In: a name such as `gsm8k`, or `my_module:PREPARATION`. Out: the preparation. An unknown name raises `UsageError` with
the nearest one. A user's module is imported only in this process.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from broker.errors import Permanent
from config.custom import import_own
from tools.arguments import UsageError
from tools.prepare.domains import (
    agents,
    codegen,
    logic,
    made,
    mathematics,
    other,
    rubric,
    science,
    simulation,
    tables,
)
from tools.prepare.preparation import Files, Hub, Preparation

_DOMAINS: Final = (made, mathematics, codegen, logic, simulation, tables, science, other, rubric, agents)
PREPARATIONS: Final[Mapping[str, Preparation]] = {
    one.name: one for domain in _DOMAINS for one in domain.PREPARATIONS
}


def splits_of(one: Preparation) -> str:
    """Return the names of a preparation's splits, each with its own size."""
    return ", ".join(
        name if split.size is None else f"{name} ({split.size})" for name, split in one.splits.items()
    )


def place_of(one: Preparation) -> str:
    """Return the origin of a preparation's records."""
    if isinstance(one.source, Hub):
        return f"{one.source.path} {one.source.config}" if one.source.config else one.source.path
    return one.source.address if isinstance(one.source, Files) else "made here"


class NoPreparation(Permanent):
    """A user's module has no preparation under that name."""


def find(name: str) -> Preparation:
    """Return the preparation of that name, or at that path. Raises UsageError, NoPreparation."""
    if ":" in name:
        return _own(name)
    if name not in PREPARATIONS:
        near = difflib.get_close_matches(name, PREPARATIONS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"no preparation {name!r}; {hint}`millrace prepare --list` has them all, and MODULE:NAME takes one of "
            "your own"
        )
    return PREPARATIONS[name]


def _own(path: str) -> Preparation:
    module_name, _, name = path.partition(":")
    try:
        found: Any = import_own(module_name)
    except Exception as error:
        raise NoPreparation(f"{path}: importing {module_name} failed: {error!r}") from error
    one = getattr(found, name, None)
    if not isinstance(one, Preparation):
        known = [key for key, value in vars(found).items() if isinstance(value, Preparation)]
        raise NoPreparation(
            f"{path}: {module_name} has no preparation {name!r}; it has {', '.join(known) or 'none'}"
        )
    return one
