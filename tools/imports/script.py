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
from tools.imports.theirs import Said

_MAIN: Final = re.compile(r"(?:[\w.]+\.)?main_\w+")
_PORT: Final = 8000  # vLLM's own
# Configurations that lie in verl's package and its recipes; their values are verl's defaults, or a script sets them.
VERLS_OWN: Final = re.compile(r"(?:ppo|dapo)_(?:\w+_)?(?:trainer|config)(?:\.yaml)?")
_CONFIG: Final = re.compile(r"--(?:config[-_]path|config[-_]name|config|cp|cn)(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of verl's trainer."""

    where: str
    words: tuple[str, ...]
    places: tuple[str, ...]  # of each word
    config: str | None = None  # the file that it names
    is_verls_own: bool = False  # the configuration lies in verl's package, and its defaults are known here


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a script would do that matters to a run."""

    call: Call | None
    exported: dict[str, Said]
    served: dict[int, Said]  # models that it serves, by their port


def read_script(path: Path, arguments: Sequence[str] = ()) -> Script:
    """Read a script. Raises ConfigError: no script, or more than one call."""
    try:
        written = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
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
        served=served,
    )


def call_of(command: Command, name: str) -> Call | None:
    """Return the call of verl's trainer that a command is; None where it is another command."""
    words = [word for word, _ in command.words]
    start = _start(words)
    if start is None:
        return None
    config: str | None = None
    name_of_config: str | None = None
    kept: list[tuple[str, int]] = []
    rest = list(command.words[start:])
    while rest:
        word, line = rest.pop(0)
        if option := _CONFIG.fullmatch(word):
            value = option[1] if option[1] is not None else (rest.pop(0)[0] if rest else "")
            if "name" in word.partition("=")[0] or word.startswith("--cn"):
                name_of_config = value
            else:
                config = value
        elif word.startswith("--"):
            if (
                "=" not in word
                and rest
                and not rest[0][0].startswith(("-", "+", "~"))
                and "=" not in rest[0][0]
            ):
                rest.pop(0)  # its value: `--backend fsdp`
        elif word.strip():
            kept.append((word, line))
    file = config
    if name_of_config is not None:
        named = name_of_config if name_of_config.endswith(".yaml") else f"{name_of_config}.yaml"
        file = named if config is None else str(Path(config) / named)
    elif kept and "=" not in kept[0][0] and not kept[0][0].startswith("~"):
        file = kept.pop(0)[0]  # `verl train-ppo CONFIG`
    return Call(
        where=f"{name}:{command.line}",
        words=tuple(word for word, _ in kept),
        places=tuple(f"{name}:{line}" for _, line in kept),
        config=file,
        is_verls_own=VERLS_OWN.fullmatch(name_of_config or "") is not None,
    )


def _start(words: Sequence[str]) -> int | None:
    """Return where the arguments of verl's trainer begin; None where the command is none."""
    for index, word in enumerate(words[:-1]):
        if word == "-m" and _MAIN.fullmatch(words[index + 1]):
            return index + 2
        if word == "verl" and words[index + 1] == "train-ppo":
            return index + 2
    for index, word in enumerate(words):
        if word.endswith(".py") and Path(word).stem.startswith("main_"):
            return index + 1
    return None


def _served(command: Command, name: str) -> tuple[int, Said] | None:
    """Return the port and the name of a model that a command serves."""
    words = [word for word, _ in command.words]
    for index, word in enumerate(words[:-2]):
        if Path(word).name == "vllm" and words[index + 1] == "serve":
            port = next((words[at + 1] for at, one in enumerate(words[:-1]) if one == "--port"), str(_PORT))
            found = Said(key="vllm serve", value=words[index + 2], where=f"{name}:{command.line}")
            return (int(port) if port.isdecimal() else _PORT), found
    return None
