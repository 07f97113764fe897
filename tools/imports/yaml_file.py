"""Read a YAML file of verl's, each key with its line, and resolve `${...}`.

In: a file. Out: its keys as `VerlSetting`. OmegaConf's references (`${data.max_prompt_length}`,
`${oc.select:KEY,DEFAULT}`, `${oc.env:NAME,DEFAULT}`) are resolved after all files and arguments have been merged, as
OmegaConf does. Nothing is evaluated. Called by `tools.imports.reading`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from config.explanations import ConfigError
from config.yaml_text import read_yaml_file, yaml_nodes
from tools.imports.new_names import older
from tools.imports.theirs import VerlSetting, hydra_value

_REFERENCE: Final = re.compile(r"\$\{([^${}]*)\}")
_MOST_STEPS: Final = 20  # longest chain of references
_OPEN: Final = "???"  # OmegaConf's mark for a required value
Lookup = Callable[[str], Any]


def read_keys(path: Path) -> list[VerlSetting]:
    """Return every key of a file with a value, in order.

    Raises:
        ConfigError: no file, no YAML, or no keys in it.
    """
    with yaml_nodes(read_yaml_file(path), str(path)) as (loader, node):
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{path}: expected keys and values")
        loader.flatten_mapping(node)
        return list(_leaves(node, loader, path.name))


def _leaves(
    node: yaml.MappingNode, loader: yaml.SafeLoader, name: str, above: tuple[str, ...] = ()
) -> Iterator[VerlSetting]:
    seen: set[str] = set()
    for key_node, value_node in node.value:
        key = str(loader.construct_object(key_node, deep=True))
        where = f"{name}:{key_node.start_mark.line + 1}"
        if key in seen:
            raise ConfigError(f"{where}: {key!r} is written twice")
        seen.add(key)
        path = (*above, *key.split("."))
        if isinstance(value_node, yaml.MappingNode) and value_node.value:
            loader.flatten_mapping(value_node)
            yield from _leaves(value_node, loader, name, path)
        else:
            value = loader.construct_object(value_node, deep=True)
            if value != _OPEN:
                yield VerlSetting(key=".".join(path), value=value, where=where)


def resolved(
    said: Mapping[str, VerlSetting], defaults: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, VerlSetting]:
    """Return the same keys with their references resolved; a dangling one stays as written."""

    def value_of(key: str) -> Any:
        key = older(key)
        return said[key].value if key in said else defaults.get(key, _OPEN)

    return {
        key: replace(one, value=_resolved(one.value, key, value_of, environment)) for key, one in said.items()
    }


def _resolved(value: Any, key: str, value_of: Lookup, environment: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_resolved(item, key, value_of, environment) for item in value]
    for _ in range(_MOST_STEPS):
        if not isinstance(value, str) or not (found := _REFERENCE.search(value)):
            return value
        meant = _meant(found[1].strip(), key, value_of, environment)
        if meant == _OPEN:
            return value
        is_all = found.span() == (0, len(value))
        value = meant if is_all else f"{value[: found.start()]}{meant}{value[found.end() :]}"
    return value


def _meant(reference: str, key: str, value_of: Lookup, environment: Mapping[str, str]) -> Any:
    """Return a reference's value; _OPEN for none."""
    resolver, colon, rest = reference.partition(":")
    if not colon:
        return value_of(_absolute(reference, key))
    name, comma, default = (part.strip() for part in rest.partition(","))
    fallback = hydra_value(default) if comma else None
    match resolver.strip():
        case "oc.select":
            found = value_of(_absolute(name, key))
            return fallback if found in (_OPEN, None) else found
        case "oc.env":
            return environment.get(name, fallback if comma else _OPEN)
    return _OPEN


def _absolute(reference: str, key: str) -> str:
    """Return the absolute key of a reference: one dot before it means its own section."""
    bare = reference.lstrip(".")
    ups = len(reference) - len(bare)
    return bare if not ups else ".".join([*key.split(".")[:-ups], bare])
