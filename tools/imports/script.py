"""This module finds the call of verl in a shell script, without running the script.

In: a script, and the arguments that it would be started with. Out: the call's words, each with its line, what the
script exports, and the models that it serves by `vllm serve`. `tools.imports.shell` reads the script's statements and
expands its variables as bash does. What only a running script could know (the output of `nvidia-smi`, say) is marked as
unknown, and the words that depend on it say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.explanations import ConfigError
from tools.imports.shell.interpreter import Command, run_through
from tools.imports.theirs import Said, Served

MOST_BYTES: Final = 256 << 10  # of a script
II_VERL: Final = "train-ppo"  # the command that only II-VERL has
_MAIN: Final = re.compile(r"(?:[\w.]+\.)?main_\w+")
_PORT: Final = 8000  # vLLM's own
# Configurations that lie in verl's package and its recipes; their values are verl's defaults, or a script sets them.
VERLS_OWN: Final = re.compile(r"(?:ppo|dapo)_(?:\w+_)?(?:trainer|config)(?:\.yaml)?")
_CONFIG: Final = {  # options that name the configuration's file
    **dict.fromkeys(("--config-path", "--config_path", "--config", "--cp", "-cp"), "path"),
    **dict.fromkeys(("--config-name", "--config_name", "--cn", "-cn"), "name"),
}
_PYTHONS: Final = frozenset({"-m", "-u"})
_OPTION: Final = re.compile(r"(--?[A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of verl's trainer."""

    where: str
    words: tuple[str, ...]
    places: tuple[str, ...]  # of each word
    config: str | None = None  # the file that it names
    is_verls_own: bool = False  # the configuration lies in verl's package, and its defaults are known here
    is_ii_verl: bool = False  # `verl train-ppo`, which only II-VERL has
    options: tuple[Said, ...] = ()  # `--backend`, and the like
    launcher: tuple[Said, ...] = ()  # options of what starts the trainer: `torchrun`, `ray job submit`


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a script would do that matters to a run."""

    call: Call | None
    exported: dict[str, Said]
    own: frozenset[str]  # of those, the ones that it uses itself
    served: dict[int, Served]  # models that it serves, by their port


def read_script(path: Path, arguments: Sequence[str] = ()) -> Script:
    """Read a script. Raises ConfigError: no script, or more than one call."""
    written = text_of(path)
    ran = run_through(written, path.name, arguments)
    calls = [call for command in ran.commands if (call := call_of(command, path.name)) is not None]
    if len(calls) > 1:
        raise ConfigError(
            f"{path}: calls of verl at {' and '.join(call.where for call in calls)}: import one at a time, from a file "
            "with one of them"
        )
    served = dict(found for command in ran.commands if (found := _served(command, path.name)) is not None)
    return Script(
        call=calls[0] if calls else None,
        exported={
            name: Said(key=name, value=value, where=f"{path.name}:{line}")
            for name, (value, line) in ran.exported.items()
        },
        own=frozenset(one for one in ran.exported if re.search(rf"\$\{{?{one}\b", written)),
        served=served,
    )


def text_of(path: Path) -> str:
    """Return the text of a script or an `.env` file. Raises ConfigError: none, or one that is too long."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConfigError(f"{path}: longer than {MOST_BYTES >> 10} KiB")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def call_of(command: Command, name: str) -> Call | None:
    """Return the call of verl's trainer that a command is; None where it is another command."""
    words = [word for word, _ in command.words]
    start = _start(words)
    if start is None:
        return None
    options, kept = _parted(command.words[start:], name)
    found = {_CONFIG[one.key]: str(one.value) for one in options if one.key in _CONFIG}
    file, name_of_config = found.get("path"), found.get("name")
    if name_of_config is not None:
        named = name_of_config if name_of_config.endswith(".yaml") else f"{name_of_config}.yaml"
        file = named if file is None else str(Path(file) / named)
    elif kept and "=" not in kept[0][0] and not kept[0][0].startswith("~"):
        file = kept.pop(0)[0]  # `verl train-ppo CONFIG`
    return Call(
        where=f"{name}:{command.line}",
        words=tuple(word for word, _ in kept),
        places=tuple(f"{name}:{line}" for _, line in kept),
        config=file,
        is_verls_own=VERLS_OWN.fullmatch(name_of_config or "") is not None,
        is_ii_verl=words[start - 1] == II_VERL,
        options=tuple(options),
        launcher=tuple(
            one for one in _parted(command.words[: start - 1], name)[0] if one.key not in _PYTHONS
        ),
    )


def _parted(words: Sequence[tuple[str, int]], name: str) -> tuple[list[Said], list[tuple[str, int]]]:
    """Part a command's options, each with its value ("" for none), from its other words."""
    options: list[Said] = []
    kept: list[tuple[str, int]] = []
    rest = list(words)
    while rest:
        word, line = rest.pop(0)
        if option := _OPTION.fullmatch(word):
            value = option[2]
            if value is None:
                value = rest.pop(0)[0] if rest and _is_value(rest[0][0], option[1]) else ""
            options.append(Said(key=option[1], value=value, where=f"{name}:{line}"))
        elif word.strip() and word != "--":
            kept.append((word, line))
    return options, kept


def _is_value(word: str, option: str) -> bool:
    """Return whether the word behind an option is its value: no option itself, and no override."""
    return option in _CONFIG or not (word.startswith(("+", "~")) or "=" in word or _OPTION.fullmatch(word))


def _start(words: Sequence[str]) -> int | None:
    """Return where the arguments of verl's trainer begin; None where the command is none."""
    for index, word in enumerate(words[:-1]):
        if word == "-m" and _MAIN.fullmatch(words[index + 1]):
            return index + 2
        if word == "verl" and words[index + 1] == II_VERL:
            return index + 2
    for index, word in enumerate(words):
        if word.endswith(".py") and Path(word).stem.startswith("main_"):
            return index + 1
    return None


def _served(command: Command, name: str) -> tuple[int, Served] | None:
    """Return the port and the name of a model that a command serves, with its other options."""
    words = [word for word, _ in command.words]
    for index, word in enumerate(words[:-2]):
        if Path(word).name == "vllm" and words[index + 1] == "serve":
            options, kept = _parted(command.words[index + 2 :], name)
            model = [text for text, _ in kept[:1]] or [
                str(one.value) for one in options if one.key == "--model"
            ]
            if not model:
                return None
            port = next((str(one.value) for one in options if one.key == "--port"), str(_PORT))
            found = Served(
                key="vllm serve", value=model[0], where=f"{name}:{command.line}", options=tuple(options)
            )
            return (int(port) if port.isdecimal() else _PORT), found
    return None
