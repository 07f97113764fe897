"""Read all sources of a run of verl: YAML files, a script with the call, an `.env`, arguments.

In: the arguments of `millrace import`. Out: `Theirs`. A file's type follows from its name or its first line: `.env` has
variables, `.sh`, `.bash`, `.slurm`, `.sbatch` or `#!` is a script (`tools.imports.script`), and every other one is
YAML. A file that a YAML file or a call names is read too, if it is next to it. Raises ConfigError with file and line.
Nothing that is read is executed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from config.explanations import ConfigError
from config.places import is_there
from tools.imports.composer.hydra import NoHydra, Verl, compose
from tools.imports.new_names import older, with_older_names
from tools.imports.rows_at_hand import paid_source
from tools.imports.script import (
    II_VERL,
    VERLS_OWN,
    VERLS_PARTS,
    TrainerCall,
    read_script,
    text_of,
    trainer_of,
)
from tools.imports.shell.view import SCRIPTS
from tools.imports.tables import multi_turn
from tools.imports.theirs import UNKNOWN, Served, Theirs, VerlSetting, hydra_value, overlaid
from tools.imports.translation import todays_defaults
from tools.imports.versions import ENGINES, Base, base_of
from tools.imports.yaml_file import read_keys, resolved

PROGRAM: Final = frozenset({"python", "python3", "verl", II_VERL, "torchrun"})  # programs of a typed call
_WORD: Final = re.compile(r"(?P<sign>~|\+\+?)?(?P<key>[A-Za-z_][\w.@/-]*)(?P<rest>=.*)?", re.DOTALL)
_MODEL: Final = "actor_rollout_ref.model.path"
_FILES: Final = frozenset(  # keys whose relative paths start at the call's folder
    {
        "data.train_files",
        "data.val_files",
        _MODEL,
        "custom_reward_function.path",
        "reward_api.save_dir",
        *multi_turn.FILES,
        "trainer.default_local_dir",
        "trainer.rollout_data_dir",
        "trainer.validation_data_dir",
    }
)
_SUFFIXES: Final = frozenset({".parquet", ".json", ".jsonl", ".csv", ".arrow"})
BACKEND: Final = "--backend"  # an option of II-VERL's call only
_NAMED: Final = re.compile(r"\$\{oc\.env:\s*(\w+)")  # a variable in a value
_OF_II_VERL: Final = ("reward_api.", "data.train_split", "data.val_split")
_ENGINES: Final = ("model_engine", "actor_rollout_ref.actor.strategy", "actor@actor_rollout_ref.actor")
TYPED: Final = "the command line"


@dataclass(slots=True, kw_only=True)
class _Found:
    """The content read so far."""

    layers: list[list[VerlSetting]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    environment: dict[str, VerlSetting] = field(default_factory=dict)
    served: dict[int, Served] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    options: list[VerlSetting] = field(default_factory=list)
    launcher: list[VerlSetting] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    added: set[str] = field(default_factory=set)  # keys written with `+`
    is_ii_verl: bool = False
    main: str = "main_ppo"
    engine: str = ""  # names of configurations, which may contain verl's engine
    words: list[str] = field(default_factory=list)  # of the call, in Hydra's form
    module: str = "verl.trainer.main_ppo"  # the trainer, with its package
    config_path: str | None = None  # of the call
    config_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfVerl:
    """The location of verl itself, for composing its base with Hydra."""

    folder: Path
    python: str | None = None  # with hydra-core; None: a separate environment is made


def read(
    words: Sequence[str],
    *,
    config: str | None = None,
    options: Sequence[tuple[str, str]] = (),
    verl: OfVerl | None = None,
) -> Theirs:
    """Read files, a call's arguments and overrides.

    Args:
        words: files, arguments of a script, and `key=value`, `+key=value` or `~key`.
        config: the file named by `--config_path` or `--config-name`.
        options: options of the call with their values, including these two.
        verl: its location; None: the tables of its defaults are used.
    """
    found, said = _laid_over(words, config, options)
    composed = {} if verl is None else _composed(verl, found)
    said = {
        key: replace(one, value=composed[key]) if key in composed and not _is_unknown(one.value) else one
        for key, one in said.items()
    }
    base = _base(
        {**{key: VerlSetting(key=key, value=value, where="") for key, value in composed.items()}, **said},
        found,
    )
    defaults = {**todays_defaults(), **base.defaults, **_of_main(found, said), **composed}
    found.notes.insert(
        0, f"taken as {base.words}" + (f", composed by Hydra from {verl.folder}" if composed and verl else "")
    )
    found.own |= {name for one in said.values() for name in _NAMED.findall(str(one.value))}
    exported = {name: str(one.value) for name, one in found.environment.items()}
    theirs = Theirs(
        said=resolved(said, defaults, {**os.environ, **exported}),
        defaults=defaults,
        environment=found.environment,
        served=found.served,
        own=frozenset(found.own),
        options=tuple(found.options),
        launcher=tuple(found.launcher),
        notes=tuple(found.notes),
        version=base.version,
        main=found.main,
    )
    return replace(theirs, paid=paid_source(theirs))


def _laid_over(
    words: Sequence[str], config: str | None, options: Sequence[tuple[str, str]]
) -> tuple[_Found, dict[str, VerlSetting]]:
    """Read all named sources, and merge them."""
    found = _Found(
        options=[VerlSetting(key=name, value=value, where=TYPED) for name, value in options],
        is_ii_verl=II_VERL in words,
    )
    _read_options(dict(options), found)
    files = [word for word in words if "=" not in word and word not in PROGRAM and _is_file(Path(word))]
    rest = [word for word in words if word not in files and word not in PROGRAM]
    overrides = [word for word in rest if "=" in word or word.startswith("~")]
    arguments = [word for word in rest if word not in overrides]
    for file in [*([config] if config else []), *files]:
        _read_file(Path(file), arguments, found)
    scripts = [file for file in files if _is_script(Path(file))]
    if arguments and not scripts:
        raise ConfigError(f"{arguments[0]!r} is no file, and no key=value")
    found.layers.append(words_said(overrides, [TYPED] * len(overrides), found))
    found.words += overrides
    said = {key: one for key, one in overlaid(found.layers).items() if not _is_left_out(key, found.left_out)}
    if not said:
        raise ConfigError("nothing to import: name a YAML file, a script, or the words of a call")
    return found, with_older_names(said)


def _composed(verl: OfVerl, found: _Found) -> dict[str, Any]:
    """Compose the call with Hydra; {} without Hydra, with a note. Raises ConfigError."""
    try:
        values = compose(
            Verl.at(verl.folder),
            module=found.module,
            config_path=found.config_path,
            config_name=found.config_name,
            words=[word for word in found.words if not _is_unknown(word)],
            python=verl.python,
        )
    except NoHydra as error:
        found.notes.append(f"{error}: the tables of verl's defaults are used")
        return {}
    layer = [
        VerlSetting(key=key, value=value, where="verl") for key, value in values.items() if value != "???"
    ]
    return {key: one.value for key, one in with_older_names(overlaid([layer])).items()}


def _of_main(found: _Found, said: Mapping[str, VerlSetting]) -> dict[str, Any]:
    """Return the defaults of verl's asynchronous trainers: separate generators, and the sampler's ratio."""
    is_apart = found.main == "fully_async_main" or "one_step_off" in found.module
    if not (is_apart or any(key in said for key in ("rollout.nnodes", "rollout.n_gpus_per_node"))):
        return {}
    own = {"rollout.nnodes": 1, "rollout.n_gpus_per_node": 8}
    return {**own, "algorithm.rollout_correction.bypass_mode": True} if is_apart else own


def _is_unknown(value: Any) -> bool:
    return isinstance(value, str) and UNKNOWN in value


def _base(said: Mapping[str, VerlSetting], found: _Found) -> Base:
    """Find the version of verl that the sources were written for."""
    backends = {str(one.value) for one in found.options if one.key == BACKEND}
    named = " ".join([*(str(said[key].value) for key in _ENGINES if key in said), *backends, found.engine])
    return base_of(
        said,
        added=found.added,
        is_ii_verl=found.is_ii_verl or bool(backends) or any(key.startswith(_OF_II_VERL) for key in said),
        engine=next((one for one in ENGINES if one in named), "dp"),
    )


def _read_options(options: Mapping[str, str], found: _Found) -> None:
    """Read the options of a typed call. Raises ConfigError: it is not the trainer's."""
    if "-m" in options:
        found.main = trainer_of(("-m", options["-m"]), TYPED)
        found.module = options["-m"]
    found.config_name = options.get("--config-name")
    found.engine = options.get("--config-name", "")


def words_said(words: Iterable[str], places: Iterable[str], found: _Found) -> list[VerlSetting]:
    """Read `key=value`, `+key=value` and `~key`, each written at one of the places; note those left out."""
    said: list[VerlSetting] = []
    for word, where in zip(words, places, strict=True):
        part = _WORD.fullmatch(word)
        if part is None or (part["rest"] is None and part["sign"] != "~"):
            raise ConfigError(f"{where}: {word!r} is no key=value")
        if part["sign"] == "~":
            found.left_out.append(part["key"])
            continue
        if part["sign"]:
            found.added.add(part["key"])
        said += _leaves(part["key"], hydra_value(part["rest"][1:]), where)
    return said


def _leaves(key: str, value: Any, where: str) -> Iterator[VerlSetting]:
    """Yield the leaf keys of a value: `{a: 1, b: 2}` has two."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner, where)
    else:
        yield VerlSetting(key=key, value=value, where=where)


def _in_folder(words: Iterable[str], folder: str) -> list[str]:
    """Return a call's arguments with relative paths of files resolved against the call's folder."""
    if folder in (".", "", str(Path.cwd())):
        return list(words)
    return [_below(word, folder) for word in words]


def _below(word: str, folder: str) -> str:
    sign_and_key, equals, value = word.partition("=")
    key = older(sign_and_key.lstrip("+"))
    if not equals or key not in _FILES or UNKNOWN in value:
        return word
    found = hydra_value(value)
    if isinstance(found, list) and all(isinstance(item, str) for item in found):
        return f"{sign_and_key}=[{','.join(_path(item, folder, key) for item in found)}]"
    return f"{sign_and_key}={_path(found, folder, key)}" if isinstance(found, str) else word


def _path(value: str, folder: str, key: str) -> str:
    """Return a path resolved against a folder; names on a model hub and references stay."""
    is_file = value.startswith(("./", "../")) or key.startswith(
        ("trainer.", "reward", "custom_reward", *multi_turn.FILES)
    )
    if not value or value.startswith(("/", "~", "$", "hdfs:", "s3:")):
        return value
    return os.path.normpath(Path(folder) / value) if is_file or Path(value).suffix in _SUFFIXES else value


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
    """Read a file with those in its `defaults`, in order: `_self_` is the file, and last where it is missing.

    `NAME` is a file next to it, `GROUP: NAME` and `GROUP@SECTION: NAME` one in the folder GROUP, whose keys go to
    SECTION, else to GROUP. Names of verl's own are known here. Raises ConfigError for other missing ones.
    """
    if path in above:
        raise ConfigError(f"{path}: its `defaults` lead back to it")
    said = read_keys(path)
    own = [one for one in said if one.key != "defaults" and not one.key.startswith("defaults.")]
    named = next((one for one in said if one.key == "defaults"), None)
    items = [] if named is None else named.value if isinstance(named.value, list) else [named.value]
    for item in [*items, *(["_self_"] if "_self_" not in items else [])]:
        if item == "_self_":
            found.layers.append(own)
        elif named is not None:
            _read_part(item, path, named.where, found, above)


def _read_part(item: Any, path: Path, where: str, found: _Found, above: tuple[Path, ...]) -> None:
    """Read one entry of `defaults`."""
    group, name = next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else ("", item)
    folder, _, section = str(group).removeprefix("override ").removeprefix("optional ").partition("@")
    if name is None or folder.startswith("hydra"):
        return
    names = name if isinstance(name, list) else [name]
    for one in names:
        stem = str(one).removesuffix(".yaml")
        beside = path.parent / folder.lstrip("/") / f"{stem}.yaml"
        if not _is_file(beside):
            _refuse_absent(stem, folder, beside, where)
            found.engine = f"{found.engine} {stem}"
            continue
        begin = len(found.layers)
        _read_yaml(beside, found, (*above, path))
        above_keys = section or folder.strip("/").replace("/", ".")
        if above_keys and above_keys != "_global_":
            found.layers[begin:] = [
                [replace(said, key=f"{above_keys}.{said.key}") for said in layer]
                for layer in found.layers[begin:]
            ]


def _refuse_absent(stem: str, folder: str, beside: Path, where: str) -> None:
    """Raise ConfigError where a part is missing and is not verl's own, whose values are its defaults."""
    if not (VERLS_OWN.fullmatch(stem) or (folder and VERLS_PARTS.fullmatch(stem))):
        raise ConfigError(f"{where}: `defaults` name {beside}, which is not there and is none of verl's own")


def _read_call(call: TrainerCall, script: Path, found: _Found) -> None:
    found.is_ii_verl |= call.is_ii_verl
    found.main, found.module = call.main, call.module
    found.config_path, found.config_name = call.folder_of_config, call.name
    found.engine = found.engine or call.name or ""
    if call.folder not in (".", str(Path.cwd())):
        found.notes.append(f"{call.where}: the call stands in {call.folder}: relative paths are below it")
    found.options += call.options
    found.launcher += call.launcher
    if call.config is not None:
        file = next(
            (
                one
                for one in (Path(call.config), script.parent / call.config, Path(call.folder) / call.config)
                if _is_file(one)
            ),
            Path(call.config),
        )
        if _is_file(file):
            _read_yaml(file, found, ())
        elif not call.is_verls_own:
            raise ConfigError(
                f"{call.where}: the call's configuration {call.config} is not there, and is none of verl's own"
            )
    words, places = joined(call.words, call.places, found.notes)
    words = _in_folder(words, call.folder)
    found.words += words
    found.layers.append(words_said(words, places, found))


def joined(words: Sequence[str], places: Sequence[str], notes: list[str]) -> tuple[list[str], list[str]]:
    """Join an argument that is no key to the value before it: a value with blanks and without quotes."""
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


def read_variables(path: Path) -> list[VerlSetting]:
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
        said.append(VerlSetting(key=name.strip(), value=plain, where=f"{path.name}:{number}"))
    return said


def variables(theirs: Theirs) -> Mapping[str, str]:
    """Return the variables that scripts and `.env` files export, as a process's environment."""
    return {name: str(one.value) for name, one in theirs.environment.items()}
