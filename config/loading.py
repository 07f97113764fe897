"""Load files, environment and command line into one frozen `Run`, or raise an error that says what to do.

Order of precedence: YAML < environment (`MILLRACE_LEARNER__OPTIMIZER__LR`) < command line
(`learner.optimizer.lr=1e-6`). Only this module reads a run's settings from the environment (config.logs also reads the
secrets, at every line, to mask them). Runs in every entry point before anything heavy is imported.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from config.endpoint import KEY_VARIABLE, URL_VARIABLE, EndpointConfig
from config.engines.limits import beyond_limits
from config.explanations import ConfigError, explain
from config.layers import Leaf, Tree, holds_text, leaves_of, put, without_numbers
from config.other_names import foreign_names
from config.other_names.aliases import settings_of
from config.other_names.renamed_keys import current_path
from config.places import KEYS, LISTS, found, is_there, shipped
from config.run import Run
from config.yaml_text import NotYaml, read_yaml_file, read_yaml_text

log = logging.getLogger(__name__)

ENV_PREFIX = "MILLRACE_"
# Secrets are only read from these variables: variable -> key.
SECRETS = {"REDIS_URL": ("broker", "url"), "HF_TOKEN": ("model", "hf_token")}
REWARD_VARIABLE = "MILLRACE_REWARD_TOKEN"  # token of the reward server's clients; no key of a configuration


class ProcessEnvironment(BaseSettings):
    """Variables that belong to this process and to no file: its secrets, and its user's folders."""

    model_config = SettingsConfigDict(frozen=True, env_ignore_empty=True, case_sensitive=True)

    redis_url: SecretStr | None = Field(None, validation_alias="REDIS_URL")
    hf_token: SecretStr | None = Field(None, validation_alias="HF_TOKEN")
    state_home: Path | None = Field(None, validation_alias="XDG_STATE_HOME")
    cache_home: Path | None = Field(None, validation_alias="XDG_CACHE_HOME")


def load_run(argv: Sequence[str], *, below: Tree | None = None, above: Tree | None = None) -> Run:
    """Return the run that `argv` describes.

    Args:
        argv: `--config FILE` (of several, the later one takes precedence) and any number of `key=value`, with dots
            between nested keys.
        below: defaults, which everything else overrides; with them no file is required.
        above: values that override everything else; they may contain a reserved name.
    Raises:
        ConfigError: a file that can't be read, an unknown key, a wrong value.
    """
    files: list[list[Leaf]] = []
    words: list[Leaf] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--config" or word.startswith("--config="):
            name = word.partition("=")[2] or (rest.pop(0) if rest else "")
            if not name:
                raise ConfigError("--config needs a file")
            file = file_of(name)
            files.append([_placed(leaf, file.parent) for leaf in leaves_of(name, read_yaml(file))])
        elif "=" in word and not word.startswith("-"):
            words += map(_placed, _from_word(word))
        else:
            raise ConfigError(f"{word!r} is neither --config FILE nor key=value")
    if not files and below is None:
        raise ConfigError("no configuration: give --config FILE")
    files.insert(0, list(leaves_of("the defaults of this program", below or {})))
    settings = _from_environment()
    settings = settings_of(os.environ, [*chain(*files), *settings, *words]) + settings
    for leaf in chain(*files, settings, words):
        _refuse_secret(leaf)
    own = list(leaves_of("this program", above or {}))
    return _within_limits(_resolve([*files, settings + _secrets(), words, own], may_be_reserved=bool(own)))


def file_of(name: str) -> Path:
    """Return the path of a configuration file; recipes `config/recipes/NAME.yaml` are found from any folder."""
    file = Path(name)
    return file if is_there(file) else shipped(file) or file


def _placed(leaf: Leaf, beside: Path | None = None) -> Leaf:
    """Return the value with the path that it names made independent of the working directory."""
    if leaf.path in LISTS and isinstance(leaf.value, list):
        return leaf._replace(value=[_placed_source(source, beside) for source in leaf.value])
    if without_numbers(leaf.path) not in KEYS or not isinstance(leaf.value, str):
        return leaf
    return leaf._replace(value=found(leaf.value, beside))


def _placed_source(source: Any, beside: Path | None) -> Any:
    """Return a source of a list with its path made independent of the working directory."""
    if not isinstance(source, dict) or not isinstance(source.get("path"), str):
        return source
    return {**source, "path": found(source["path"], beside)}


def build_run(layers: Sequence[tuple[str, Tree]]) -> Run:
    """Merge `layers`, each keyed by where it was written, later ones over earlier ones, and validate the result."""
    return _within_limits(_resolve([list(leaves_of(where, tree)) for where, tree in layers]))


def _within_limits(run: Run) -> Run:
    """Return the run. Raises ConfigError if its engine would refuse or change a value."""
    if lines := list(beyond_limits(run, os.environ)):
        raise ConfigError("\n".join(lines))
    return run


def read_yaml(path: Path) -> Tree:
    """Return the mapping in the file `path`."""
    return _mapping(read_yaml_file(path), str(path))


def to_yaml(run: Run, *, mask: bool = False) -> str:
    """Return the run as YAML that `from_yaml` reads. Secrets are left out, or shown as set with `mask`."""
    tree = run_tree(run)
    for section, key in SECRETS.values() if mask else ():
        if getattr(getattr(run, section), key) is not None:
            tree[section][key] = "**********"
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def run_tree(run: Run) -> Tree:
    """Return the run as lists, dicts and single values, without its secrets."""
    tree = run.model_dump(mode="json")
    for section, key in SECRETS.values():
        del tree[section][key]
    return tree


def from_yaml(text: str | bytes, where: str = "the run's own configuration") -> Run:
    """Return the run that another process resolved and wrote to `where`, with this process's own secrets."""
    return _resolve([list(leaves_of(where, _mapping(text, where))), _secrets()], may_be_reserved=True)


def redis_url() -> SecretStr | None:
    """Return REDIS_URL, if it is set."""
    return ProcessEnvironment().redis_url


def api_key(variable: str) -> SecretStr | None:
    """Return a served model's key, if the `variable` that `config.endpoint` names is set. It stays in this process."""
    return SecretStr(key) if (key := os.environ.get(variable, "").strip()) else None


def at_served_judge(endpoint: EndpointConfig) -> EndpointConfig:
    """Return the endpoint; if it names no server, with the run's own judge, if this process has its address.

    Raises:
        ConfigError: the variable with the judge's address holds no address.
    """
    url = os.environ.get(URL_VARIABLE, "").strip()
    if endpoint.urls or not url:
        return endpoint
    try:
        return EndpointConfig.model_validate(
            endpoint.model_dump() | {"urls": (url,), "key_variable": KEY_VARIABLE}
        )
    except ValidationError as error:
        raise ConfigError(f"{URL_VARIABLE}: {error.errors()[0]['msg']}") from None


def state_folder() -> Path:
    """Return the folder in which this user's programs keep state: `$XDG_STATE_HOME/millrace`."""
    return (ProcessEnvironment().state_home or Path.home() / ".local" / "state") / "millrace"


def cache_folder() -> Path:
    """Return the folder for this user's caches: `$XDG_CACHE_HOME/millrace`."""
    return (ProcessEnvironment().cache_home or Path.home() / ".cache") / "millrace"


def _mapping(text: str | bytes, where: str) -> Tree:
    """Return the keys and values of `text`, which was read from the file or place `where`."""
    tree = read_yaml_text(text, where)
    if not isinstance(tree, dict):
        raise ConfigError(f"{where}: expected keys and values, got {type(tree).__name__}")
    return tree


def reward_token() -> SecretStr | None:
    """Return the token that clients of the reward server have to send, if the environment sets it."""
    return SecretStr(token) if (token := os.environ.get(REWARD_VARIABLE, "").strip()) else None


def _resolve(layers: Sequence[Sequence[Leaf]], *, may_be_reserved: bool = False) -> Run:
    merged: Tree = {}
    origin: dict[tuple[str, ...], str] = {}
    for layer in layers:
        # The choice of a type comes first: `put` drops the values of another type.
        for leaf in sorted(map(_renamed, layer), key=lambda leaf: leaf.path[-1] != "type"):
            try:
                put(merged, leaf.path, leaf.value)
            except LookupError as error:
                raise ConfigError(f"{'.'.join(leaf.path)} in {leaf.where}: {error.args[0]}") from None
            for end in range(1, len(leaf.path)):  # a value that is now a section
                if not leaf.path[end].isdecimal():  # or an entry of a list, which keeps where it was written
                    origin.pop(leaf.path[:end], None)
            origin[leaf.path] = leaf.where
    try:
        return Run.model_validate(merged, context={"reserved": may_be_reserved})
    except ValidationError as error:
        said = [explain(dict(item), merged, origin) for item in error.errors()]
        raise ConfigError("\n".join([*said, *foreign_names.whole_file(merged)])) from None


def _renamed(leaf: Leaf) -> Leaf:
    """Return the value under the present name of its key; log a warning about an old name."""
    path = current_path(leaf.path)
    if path != leaf.path:
        log.warning(
            "renamed_key old=%s new=%s in=%s: the old name is read until 1.0",
            ".".join(leaf.path),
            ".".join(path),
            leaf.where,
        )
    return leaf._replace(path=path)


def _from_word(word: str) -> Iterator[Leaf]:
    key, _, text = word.partition("=")
    path = tuple(key.split("."))
    if _stands_as_it_is(path, text):
        return iter([Leaf(path, text, "the command line")])
    try:
        value = read_yaml_text(text, f"{key} on the command line")
    except NotYaml:
        value = text
    return leaves_of("the command line", value, path)


def _stands_as_it_is(path: tuple[str, ...], text: str) -> bool:
    """Return whether an argument is text and not YAML: its key holds text, and it is neither null nor in quotes."""
    bare = text.strip()
    is_quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'"
    return bare not in ("", "null", "~") and not is_quoted and holds_text(Run, current_path(path))


def _from_environment() -> list[Leaf]:
    """Return the settings in MILLRACE_… variables; `__` separates nested keys. An empty variable counts as unset."""
    leaves: list[Leaf] = []
    for variable, text in os.environ.items():
        if not variable.startswith(ENV_PREFIX) or variable == REWARD_VARIABLE or not text:
            continue
        path = tuple(variable.removeprefix(ENV_PREFIX).lower().split("__"))
        value: Any = text  # pydantic converts text to numbers and booleans, but not to these three
        if text == "null" or (text[0] in "[{" and not holds_text(Run, current_path(path))):
            with suppress(NotYaml):
                value = read_yaml_text(text, variable)
        leaves += leaves_of(f"the environment ({variable})", value, path)
    return leaves


def _secrets() -> list[Leaf]:
    environment = ProcessEnvironment()
    return [
        Leaf(path, value.get_secret_value(), f"the environment ({variable})")
        for variable, path in SECRETS.items()
        if (value := getattr(environment, variable.lower())) is not None
    ]


def _refuse_secret(leaf: Leaf) -> None:
    for variable, path in SECRETS.items():
        if leaf.path[:2] == path and leaf.value:
            raise ConfigError(
                f"{'.'.join(path)} in {leaf.where}: a secret comes from the environment's {variable} and "
                "from nowhere else"
            )
