"""This module reads all that a run of verl is made of: YAML files, a script with the call, an `.env`, words.

In: the words after `millrace import`. Out: `Theirs`. A file is told by its name or its first line: `.env` holds
variables, `.sh`, `.bash`, `.slurm`, `.sbatch` or `#!` a script (`tools.imports.script`), and every other one is YAML.
A file that a YAML file or a call names is read too, where it is beside it. Raises ConfigError with file and line.
Nothing of what is read is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from config.explanations import ConfigError
from config.places import is_there
from tools.imports.script import II_VERL, Call, read_script, text_of
from tools.imports.shell.view import SCRIPTS
from tools.imports.theirs import Said, Served, Theirs, flag, hydra_value, overlaid
from tools.imports.translation import defaults_of
from tools.imports.yaml_file import read_keys, resolved

PROGRAM: Final = frozenset({"python", "python3", "verl", II_VERL, "torchrun"})  # of a call that was typed
_WORD: Final = re.compile(r"(?P<sign>~|\+\+?)?(?P<key>[A-Za-z_][\w.@/-]*)(?P<rest>=.*)?", re.DOTALL)
BACKEND: Final = "--backend"  # an option that only II-VERL's call has
_NAMED: Final = re.compile(r"\$\{oc\.env:\s*(\w+)")  # a variable that a value names
_KL_LOSS: Final = "actor_rollout_ref.actor.use_kl_loss"
TYPED: Final = "the command line"


@dataclass(slots=True, kw_only=True)
class _Found:
    """What has been read so far."""

    layers: list[list[Said]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    environment: dict[str, Said] = field(default_factory=dict)
    served: dict[int, Served] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    options: list[Said] = field(default_factory=list)
    launcher: list[Said] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_ii_verl: bool = False


def read(
    words: Sequence[str], *, config: str | None = None, options: Sequence[tuple[str, str]] = ()
) -> Theirs:
    """Read files, a call's words and overrides.

    Args:
        words: files, arguments of a script, and `key=value`, `+key=value` or `~key`.
        config: the file that `--config_path` or `--config-name` names.
        options: those of the call and their values, these two among them.
    """
    found = _Found(
        options=[Said(key=name, value=value, where=TYPED) for name, value in options],
        is_ii_verl=II_VERL in words,
    )
    files = [word for word in words if "=" not in word and word not in PROGRAM and _is_file(Path(word))]
    rest = [word for word in words if word not in files and word not in PROGRAM]
    overrides = [word for word in rest if "=" in word or word.startswith("~")]
    arguments = [word for word in rest if word not in overrides]
    for file in [*([config] if config else []), *files]:
        _read_file(Path(file), arguments, found)
    scripts = [file for file in files if _is_script(Path(file))]
    if arguments and not scripts:
        raise ConfigError(f"{arguments[0]!r} is no file, and no key=value")
    found.layers.append(words_said(overrides, [TYPED] * len(overrides), found.left_out))
    said = {key: one for key, one in overlaid(found.layers).items() if not _is_left_out(key, found.left_out)}
    if not said:
        raise ConfigError("nothing to import: name a YAML file, a script, or the words of a call")
    backends = {str(one.value) for one in found.options if one.key == BACKEND}
    defaults = defaults_of(
        said,
        uses_kl_loss=_KL_LOSS in said and flag(said[_KL_LOSS].value),
        is_ii_verl=found.is_ii_verl or bool(backends),
        has_megatron="megatron" in backends,
    )
    found.own |= {name for one in said.values() for name in _NAMED.findall(str(one.value))}
    exported = {name: str(one.value) for name, one in found.environment.items()}
    return Theirs(
        said=resolved(said, defaults, {**os.environ, **exported}),
        defaults=defaults,
        environment=found.environment,
        served=found.served,
        own=frozenset(found.own),
        options=tuple(found.options),
        launcher=tuple(found.launcher),
        notes=tuple(found.notes),
    )


def words_said(words: Iterable[str], places: Iterable[str], left_out: list[str]) -> list[Said]:
    """Read `key=value`, `+key=value` and `~key`, each written at one of the places; what is left out is added there."""
    said = []
    for word, where in zip(words, places, strict=True):
        part = _WORD.fullmatch(word)
        if part is None or (part["rest"] is None and part["sign"] != "~"):
            raise ConfigError(f"{where}: {word!r} is no key=value")
        if part["sign"] == "~":
            left_out.append(part["key"])
        else:
            said.append(Said(key=part["key"], value=hydra_value(part["rest"][1:]), where=where))
    return said


def _read_file(path: Path, arguments: Sequence[str], found: _Found) -> None:
    if path.name == ".env" or path.suffix == ".env":
        found.environment |= {one.key: one for one in read_variables(path)}
    elif _is_script(path):
        script = read_script(path, arguments)
        found.environment |= script.exported
        found.served |= script.served
        found.own |= script.own
        found.notes += script.notes
        _read_call(script.call, path, found)
    else:
        _read_yaml(path, found, ())


def _is_file(path: Path) -> bool:
    return is_there(path) and path.is_file()


def _is_script(path: Path) -> bool:
    if path.suffix in SCRIPTS:
        return True
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _read_yaml(path: Path, found: _Found, above: tuple[Path, ...]) -> None:
    """Read a file, after those that its `defaults` name where they lie beside it; verl's own are known here."""
    if path in above:
        raise ConfigError(f"{path}: its `defaults` lead back to it")
    said = read_keys(path)
    for one in [one for one in said if one.key == "defaults"]:
        for name in one.value if isinstance(one.value, list) else [one.value]:
            beside = path.parent / f"{name}.yaml"
            if isinstance(name, str) and name != "_self_" and _is_file(beside):
                _read_yaml(beside, found, (*above, path))
    found.layers.append([one for one in said if one.key != "defaults"])


def _read_call(call: Call, script: Path, found: _Found) -> None:
    found.is_ii_verl |= call.is_ii_verl
    found.options += call.options
    found.launcher += call.launcher
    if call.config is not None:
        file = next(
            (one for one in (Path(call.config), script.parent / call.config) if _is_file(one)),
            Path(call.config),
        )
        if _is_file(file):
            _read_yaml(file, found, ())
        elif not call.is_verls_own:
            raise ConfigError(
                f"{call.where}: the call's configuration {call.config} is not there, and is none of verl's own"
            )
    words, places = joined(call.words, call.places, found.notes)
    found.layers.append(words_said(words, places, found.left_out))


def joined(words: Sequence[str], places: Sequence[str], notes: list[str]) -> tuple[list[str], list[str]]:
    """Join a word that is no key to the value before it: a value with blanks that stood without quotes."""
    kept: list[str] = []
    where: list[str] = []
    for word, place in zip(words, places, strict=True):
        if kept and "=" in kept[-1] and "=" not in word and not word.startswith("~"):
            kept[-1] = f"{kept[-1]} {word}"
            notes.append(f"{where[-1]}: bash splits it at its blanks: taken as one value, {kept[-1]!r}")
        else:
            kept.append(word)
            where.append(place)
    return kept, where


def _is_left_out(key: str, left_out: Iterable[str]) -> bool:
    return any(key == one or key.startswith(f"{one}.") for one in left_out)


def read_variables(path: Path) -> list[Said]:
    """Return the variables of an `.env` file. A comment may follow a value, after a space."""
    said = []
    for number, line in enumerate(text_of(path).splitlines(), 1):
        bare = line.strip().removeprefix("export ").strip()
        if not bare or bare.startswith("#"):
            continue
        name, equals, value = bare.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ConfigError(f"{path.name}:{number}: {bare!r} is no NAME=value")
        quoted = re.match(r"\s*(['\"])(.*?)\1", value)
        plain = quoted[2] if quoted else re.split(r"(?:^|\s)#", value, maxsplit=1)[0].strip()
        said.append(Said(key=name.strip(), value=plain, where=f"{path.name}:{number}"))
    return said


def variables(theirs: Theirs) -> Mapping[str, str]:
    """Return what scripts and `.env` files export, as the environment of a process has it."""
    return {name: str(one.value) for name, one in theirs.environment.items()}
