"""Hold the sources of a run of verl: keys with their values and places, and verl's defaults for the rest.

In: `VerlSetting` values of files, a call and the command line. Out: `Theirs`, from which the import's rules read values
by type; a value of another type raises `WrongValue` with its place. Pure; used by `tools.imports.rule` and the tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from config.yaml_text import NotYaml, read_yaml_text

T = TypeVar("T")
_OF_HYDRA: Final = re.compile(
    r"""([{,]\s*["']?[\w.]+["']?):(?=[^\s/])"""
)  # `{a:1}`, which YAML writes `{a: 1}`
UNKNOWN: Final = "\x00"  # marks a text that is unknown before a script runs; what it depends on follows


class WrongValue(Exception):
    """A key has an invalid value; the message says what was expected.

    Attributes:
        key: the key of the value; "": the one whose rule was reading.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlSetting:
    """One key of verl's, as written in a source."""

    key: str  # with dots
    value: Any
    where: str  # `config.yaml:12`
    written: str = ""  # the key's name, if written with another one of a newer version

    @property
    def shown(self) -> str:
        """Return the key as written."""
        return self.written or self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Served(VerlSetting):
    """A model that a script serves by `vllm serve`, in place of its value, with the options of that call."""

    options: tuple[VerlSetting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """All sources, and the defaults for the rest."""

    said: Mapping[str, VerlSetting]
    defaults: Mapping[str, Any]
    # Besides the keys: exports of a script or an `.env`, and models that a script serves, by port.
    environment: Mapping[str, VerlSetting] = field(default_factory=dict)
    served: Mapping[int, Served] = field(default_factory=dict)
    own: frozenset[str] = frozenset()  # variables of the environment that the script or a file uses itself
    options: tuple[VerlSetting, ...] = ()  # of verl's call: `--backend`
    launcher: tuple[VerlSetting, ...] = ()  # of its launcher: `torchrun --nproc-per-node`
    notes: tuple[str, ...] = ()  # for people: findings besides the keys
    version: int = 8  # of verl, as numbered in `tools.imports.versions`
    main: str = "main_ppo"  # the trainer
    paid: str = ""  # a source of the rows that verl's own scorers reward with +1 and -1; "": none known

    def has(self, key: str) -> bool:
        """Return whether a source has the key."""
        return key in self.said

    def get(self, key: str) -> Any:
        """Return a key's value, or verl's default; None for neither."""
        return self.said[key].value if key in self.said else self.defaults.get(key)

    def number(self, key: str) -> float:
        """Return a key's value as a number. Raises WrongValue."""
        return self._read(key, number)

    def whole(self, key: str) -> int:
        """Return a key's value as a whole number. Raises WrongValue."""
        return self._read(key, whole)

    def flag(self, key: str) -> bool:
        """Return whether a key is on; None is off. Raises WrongValue."""
        return self.get(key) is not None and self._read(key, flag)

    def text(self, key: str) -> str:
        """Return a key's value as text, "" for None. Raises WrongValue."""
        return "" if self.get(key) is None else self._read(key, text)

    def _read(self, key: str, read: Callable[[Any], T]) -> T:
        try:
            return read(self.get(key))
        except WrongValue as error:
            raise WrongValue(str(error), error.key or key) from None


def overlaid(layers: Iterable[Iterable[VerlSetting]]) -> dict[str, VerlSetting]:
    """Merge layers, later ones over earlier ones. A section replaces a value, and a value a section."""
    merged: dict[str, VerlSetting] = {}
    for one in (one for layer in layers for one in layer):
        above = [".".join(one.key.split(".")[:end]) for end in range(1, one.key.count(".") + 1)]
        for key in [*above, *(key for key in merged if key.startswith(f"{one.key}."))]:
            merged.pop(key, None)
        merged.pop(one.key, None)
        merged[one.key] = one
    return merged


def number(value: Any) -> float:
    """Read a number; YAML reads `1e-6` as text, and OmegaConf does not. Raises WrongValue."""
    try:
        return float("no number" if isinstance(_known(value), bool) else value)
    except (TypeError, ValueError):
        raise WrongValue(f"a number is expected, got {value!r}") from None


def whole(value: Any) -> int:
    """Read a whole number. Raises WrongValue."""
    found = number(value)
    if found != int(found):
        raise WrongValue(f"a whole number is expected, got {value!r}")
    return int(found)


def flag(value: Any) -> bool:
    """Read true or false, in Hydra's spellings too; None is off. Raises WrongValue."""
    if value is None:
        return False
    if isinstance(_known(value), bool):
        return bool(value)
    known = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
    if str(value).strip().lower() not in known:
        raise WrongValue(f"true or false is expected, got {value!r}")
    return known[str(value).strip().lower()]


def text(value: Any) -> str:
    """Read a text. Raises WrongValue for a list or a section."""
    if isinstance(_known(value), list | dict):
        raise WrongValue(f"one value is expected, got {value!r}")
    return str(value)


def texts(value: Any) -> list[str]:
    """Read one text or a list of them, or a list written as one text. Raises WrongValue."""
    if isinstance(_known(value), str) and value.strip().startswith("["):
        value = hydra_value(value)
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return [text(item) for item in items]


def hydra_value(written: str) -> Any:
    """Read the value of `key=value` as Hydra does: as YAML, or else as text."""
    if UNKNOWN in written:
        return written
    if written.strip().startswith(("{", "[")):
        written = _OF_HYDRA.sub(r"\1: ", written)
    try:
        found = read_yaml_text(written, "a value of theirs")
    except NotYaml:
        return written
    return written if isinstance(found, dict) and not written.strip().startswith("{") else found


def _known(value: Any) -> Any:
    if isinstance(value, str) and UNKNOWN in value:
        raise WrongValue(f"its value is not known before the script runs: {value.partition(UNKNOWN)[2]}")
    if isinstance(value, str) and "${" in value:
        raise WrongValue(f"{value} refers to nothing that is written here")
    return value
