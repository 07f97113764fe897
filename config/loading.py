"""From files, environment and command line to one frozen `Run`, or to an error that says which key and what to do.

YAML < environment (`MILLRACE_LEARNER__OPTIMIZER__LR`) < command line (`learner.optimizer.lr=1e-6`). The one module that
reads the environment's settings. Runs in every entry point before anything heavy is imported.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, SecretStr, ValidationError, create_model
from pydantic_settings import BaseSettings, EnvSettingsSource

from config.run import Run

ENV_PREFIX = "MILLRACE_"
# Secrets are read from here and from nowhere else: variable -> key.
SECRETS = {"REDIS_URL": ("broker", "url"), "HF_TOKEN": ("model", "hf_token")}

Tree = dict[str, Any]


class ConfigError(Exception):
    """The configuration can't be used; the message names the key, where it was written and what was expected."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML that refuses a key written twice, of which the first would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise ConfigError(f"{key_node.start_mark.name}:{key_node.start_mark.line + 1}: {key!r} is written twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def load_run(argv: Sequence[str]) -> Run:
    """The run that `argv` describes.

    Args:
        argv: `--config FILE` and any number of `key=value`, dots between nested keys.
    Raises:
        ConfigError: a file that can't be read, an unknown key, a wrong value.
    """
    layers: list[tuple[str, Tree]] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--config" or word.startswith("--config="):
            name = word.partition("=")[2] or (rest.pop(0) if rest else "")
            layers.insert(0, (name, read_yaml(Path(name))))
        elif "=" in word and not word.startswith("-"):
            layers.append(("the command line", _from_word(word)))
        else:
            raise ConfigError(f"{word!r} is neither --config FILE nor key=value")
    files = [layer for layer in layers if layer[0] != "the command line"]
    words = [layer for layer in layers if layer[0] == "the command line"]
    words.sort(key=lambda layer: next(_leaves(layer[1]))[0][-1] != "type")
    if not files:
        raise ConfigError("no configuration: give --config FILE")
    for where, tree in files + words:
        _refuse_secrets(where, tree)
    return build_run([*files, ("the environment", _from_environment()), *words])


def build_run(layers: Sequence[tuple[str, Tree]]) -> Run:
    """Merge `layers`, each named by where it was written, later ones over earlier ones, and check the whole."""
    merged: Tree = {}
    origin: dict[tuple[str, ...], str] = {}
    for where, tree in layers:
        for path, value in _leaves(tree):
            _put(merged, path, value)
            origin[path] = where
    try:
        return Run.model_validate(merged)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(dict(item), merged, origin) for item in error.errors())) from None


def read_yaml(path: Path) -> Tree:
    """The mapping in the file `path`."""
    try:
        with path.open(encoding="utf-8") as stream:
            tree = yaml.load(stream, Loader=_UniqueKeyLoader)     # noqa: S506 - a SafeLoader
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected keys and values, got {type(tree).__name__}")
    return tree


def to_yaml(run: Run, *, mask: bool = False) -> str:
    """The run as YAML that `from_yaml` reads. Secrets are left out, or shown as set with `mask`."""
    tree = run.model_dump(mode="json")
    for section, key in SECRETS.values():
        secret = getattr(getattr(run, section), key)
        del tree[section][key]
        if mask and secret is not None:
            tree[section][key] = "**********"
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def from_yaml(text: str) -> Run:
    """The run that another process resolved, with this process's own secrets."""
    return build_run([("the run's own configuration", yaml.safe_load(text)), ("the environment", _secrets())])


def redis_url() -> SecretStr | None:
    """REDIS_URL, if it is set."""
    value = os.environ.get("REDIS_URL")
    return SecretStr(value) if value else None


def state_folder() -> Path:
    """Where this user's programs keep state: `$XDG_STATE_HOME/millrace`."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "millrace"


def _from_word(word: str) -> Tree:
    key, _, text = word.partition("=")
    tree: Tree = {}
    try:
        value = yaml.safe_load(text) if text.strip() else None
    except yaml.YAMLError:
        value = text
    _put(tree, tuple(key.split(".")), value)
    return tree


def _from_environment() -> Tree:
    """What MILLRACE_… variables say; nested keys are separated by `__`."""
    fields = {name: (field.annotation, field) for name, field in Run.model_fields.items()}
    shape: Any = create_model("Environment", __base__=BaseSettings, **fields)    # type: ignore[call-overload]
    known = {f"{ENV_PREFIX}{name}".upper() for name in Run.model_fields}
    for name in os.environ:
        if name.startswith(ENV_PREFIX) and name.split("__")[0].upper() not in known:
            key = name.removeprefix(ENV_PREFIX).lower().replace("__", ".")
            raise ConfigError(f"unknown key {key} in the environment ({name}){_nearest(tuple(key.split('.')))}")
    source = EnvSettingsSource(shape, env_prefix=ENV_PREFIX, env_nested_delimiter="__")
    tree: Tree = {}
    for where in (source(), _secrets()):
        for path, value in _leaves(where):
            _put(tree, path, value)
    return tree


def _secrets() -> Tree:
    tree: Tree = {}
    for variable, path in SECRETS.items():
        if value := os.environ.get(variable):
            _put(tree, path, value)
    return tree


def _refuse_secrets(where: str, tree: Tree) -> None:
    for variable, path in SECRETS.items():
        section = tree.get(path[0])
        if isinstance(section, dict) and section.get(path[1]):
            raise ConfigError(f"{'.'.join(path)} in {where}: a secret comes from the environment only; set {variable}")


def _leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in sorted(tree.items(), key=lambda item: item[0] != "type"):     # see `_put`: the choice comes first
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def _put(tree: Tree, path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        inner = tree.get(key)
        if not isinstance(inner, dict):
            inner = tree[key] = {}
        tree = inner
    # A union's members have different keys: choosing another one drops what was said of the first.
    if path[-1] == "type" and tree.get("type", value) != value:
        tree.clear()
    tree[path[-1]] = value


def _explain(item: Tree, merged: Tree, origin: Mapping[tuple[str, ...], str]) -> str:
    path = _real_path(item["loc"], merged)
    where = next((origin[key] for key in origin if key[: len(path)] == path), "")
    where = f" in {where}" if where else ""
    key = ".".join(path)
    if item["type"] == "extra_forbidden":
        return f"unknown key {key}{where}{_nearest(path)}"
    if item["type"] == "missing":
        return f"missing key {key}"
    message = item["msg"].removeprefix("Value error, ")
    if not path:
        return str(message)
    shown = "" if isinstance(item["input"], dict) else f", got {item['input']!r}"
    return f"{key}{where}: {message}{shown}"


def _real_path(loc: Sequence[Any], merged: Tree) -> tuple[str, ...]:
    """`loc` without the tags that pydantic puts in for the members of a union."""
    path: list[str] = []
    tree: Any = merged
    for index, part in enumerate(loc):
        is_last = index == len(loc) - 1
        if isinstance(tree, dict) and part not in tree and not is_last:
            continue
        path.append(str(part))
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tuple(path)


def _nearest(path: tuple[str, ...]) -> str:
    keys = sorted(_all_keys(Run))
    wanted = ".".join(path)
    same_leaf = [key for key in keys if key.split(".")[-1] == path[-1]]
    close = same_leaf or difflib.get_close_matches(wanted, keys, n=1, cutoff=0.6)
    close = close or [key for key in keys if difflib.SequenceMatcher(None, key.split(".")[-1], path[-1]).ratio() > 0.75]
    best = sorted(close, key=lambda key: -difflib.SequenceMatcher(None, key, wanted).ratio())
    return f"; did you mean {best[0]}?" if best else ""


def _all_keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        yield prefix + name
        for inner in _sections(field.annotation):
            yield from _all_keys(inner, f"{prefix}{name}.")


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _sections(part)
