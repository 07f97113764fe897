"""Find the call of verl in a shell script, by running the script with bash behind the sandbox's walls.

In: a script, and its arguments. Out: the call's arguments, each with its line, the script's exports, and the models
that it serves by `vllm serve`. What depends on the machine (the output of `nvidia-smi`, whether a program exists) is
found by running the script several times with different answers (`tools.imports.shell.answers`): arguments that differ
are marked as unknown, with what they depend on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.explanations import ConfigError
from tools.imports.shell.answers import Answers, run_through
from tools.imports.shell.behind_walls import Command
from tools.imports.theirs import Served, VerlSetting

MOST_BYTES: Final = 256 << 10  # of a script
II_VERL: Final = "train-ppo"  # a command of II-VERL only
# The trainer that is supported here; every other `main_*` is another algorithm.
TRAINERS: Final = frozenset(
    {"main_ppo", "main_dapo", "main_ppo_split", "main_ppo_sync", "fully_async_main", "main_trainer"}
)
EVALUATES: Final = frozenset({"main_generation", "main_generation_server", "main_eval"})
_OTHERS_PACKAGES: Final = frozenset({"vla"})  # verl's experiments with a main_ppo of their own
_MAIN: Final = re.compile(r"(?:[\w.]+\.)?(?:\w+_)?main(?:_\w+)?")
_PORT: Final = 8000  # vLLM's own
# Configurations in verl's package and its recipes; their values are verl's defaults, or a script sets them.
VERLS_OWN: Final = re.compile(
    r"(?:ppo|dapo|one_step_off|fully_async|async_dapo)_(?:\w+_)?(?:trainer|config)(?:\.yaml)?"
)
# Parts of them, in the folders of verl's configuration.
VERLS_PARTS: Final = re.compile(
    r"(?:(?:dp|megatron|veomni|torchtitan|fsdp|automodel)(?:_\w+)?|actor|critic|ref|reward|reward_model|rollout|hf_model|"
    r"legacy_\w+|rollout_correction|distillation|transfer_queue|profiler|npu_profile|optim|engine)(?:\.yaml)?"
)
_CONFIG: Final = {  # options with the configuration's file
    **dict.fromkeys(("--config-path", "--config_path", "--config", "--cp", "-cp"), "path"),
    **dict.fromkeys(("--config-name", "--config_name", "--cn", "-cn"), "name"),
}
_PYTHONS: Final = frozenset({"-m", "-u"})
_OPTION: Final = re.compile(r"(--?[A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerCall:
    """A call of verl's trainer."""

    where: str
    words: tuple[str, ...]
    places: tuple[str, ...]  # of each argument
    config: str | None = None  # its configuration file
    name: str | None = None  # of the configuration, as written
    folder_of_config: str | None = None  # as written
    module: str = "verl.trainer.main_ppo"  # the trainer, with its package
    is_verls_own: bool = False  # the configuration is in verl's package, and its defaults are known here
    is_ii_verl: bool = False  # `verl train-ppo`, II-VERL's command
    main: str = "main_ppo"  # the trainer
    folder: str = "."  # the folder of the call: the script may have changed it
    options: tuple[VerlSetting, ...] = ()  # such as `--backend`
    launcher: tuple[VerlSetting, ...] = ()  # options of the launcher: `torchrun`, `ray job submit`


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The effects of a script on a run."""

    call: TrainerCall
    exported: dict[str, VerlSetting]
    own: frozenset[str]  # those of them that the script uses itself
    served: dict[int, Served]  # models that it serves, by port
    notes: tuple[str, ...] = ()  # for people


def read_script(
    path: Path, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Script:
    """Run a script behind walls, and read its call. Raises ConfigError: none, several, or no walls."""
    written = text_of(path)
    given = dict(os.environ) if environment is None else dict(environment)
    answers = run_through(path, written, arguments, given, is_call=lambda one: _start(one.words) is not None)
    found = [one for one in answers.commands if _start(one.words) is not None]
    commands = [one for one in found if main_of(one.words) in TRAINERS | {II_VERL}]
    calls = list({(one.words, one.folder): one for one in commands}.values())
    _refuse_others(path, found, calls, answers)
    call = call_of(calls[0], path.name, written)
    served = dict(
        one for command in answers.commands if (one := _served(command, path.name, written)) is not None
    )
    exported = {name: value for name, value in calls[0].exported.items() if given.get(name) != value}
    return Script(
        call=call,
        exported={
            name: VerlSetting(
                key=name, value=value, where=f"{path.name}:{_line_of(name, written, calls[0].line)}"
            )
            for name, value in exported.items()
        },
        own=frozenset(one for one in exported if re.search(rf"\$\{{?{one}\b", written)),
        served=served,
        notes=answers.notes,
    )


def _refuse_others(path: Path, found: Sequence[Command], calls: Sequence[Command], answers: Answers) -> None:
    """Raise ConfigError unless there is one call of the supported trainer."""
    if len(calls) > 1:
        lines = " and ".join(f"{path.name}:{call.line}" for call in calls)
        raise ConfigError(
            f"{path}: calls of verl at {lines}: import one at a time, from a file with one of them"
        )
    if calls:
        return
    for one in found:
        trainer_of(one.words, f"{path.name}:{one.line}")
    raise ConfigError(f"{path}: {answers.why_no_call()}")


def trainer_of(words: Sequence[str], where: str) -> str:
    """Return the trainer in a command. Raises ConfigError: there is none, or another algorithm."""
    main = main_of(words)
    if main in EVALUATES:
        raise ConfigError(
            f"{where}: {main} generates or evaluates, and trains nothing: `millrace evaluate` does that here"
        )
    if main not in TRAINERS | {II_VERL}:
        module = words[(_start(words) or 2) - 1] if len(words) > 1 else ""
        raise ConfigError(f"{where}: {module} is another algorithm than main_ppo: it is not here")
    return main


def _line_of(name: str, written: str, otherwise: int) -> int:
    """Return the last line that assigns a variable."""
    found = [*re.finditer(rf"(?:^|[\s;(]){name}=", written)]
    return written.count("\n", 0, found[-1].end()) + 1 if found else otherwise


def text_of(path: Path) -> str:
    """Return the text of a script or an `.env` file. Raises ConfigError: missing, or too long."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConfigError(f"{path}: longer than {MOST_BYTES >> 10} KiB")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def call_of(command: Command, name: str, written: str = "") -> TrainerCall:
    """Parse a command that calls verl's trainer."""
    start = _start(command.words) or 0
    lines = _places(command, written)
    rest = list(zip(command.words, lines, strict=True))
    options, kept = _parted(rest[start:], name)
    found = {_CONFIG[one.key]: str(one.value) for one in options if one.key in _CONFIG}
    file, name_of_config = found.get("path"), found.get("name")
    if name_of_config is not None:
        named = name_of_config if name_of_config.endswith(".yaml") else f"{name_of_config}.yaml"
        file = named if file is None else str(Path(file) / named)
    elif kept and "=" not in kept[0][0] and not kept[0][0].startswith("~"):
        file = kept.pop(0)[0]  # `verl train-ppo CONFIG`
    return TrainerCall(
        where=f"{name}:{command.line}",
        words=tuple(word for word, _ in kept),
        places=tuple(f"{name}:{line}" for _, line in kept),
        config=file,
        name=name_of_config,
        folder_of_config=found.get("path"),
        module=_module_of(command.words),
        is_verls_own=VERLS_OWN.fullmatch(name_of_config or "") is not None,
        is_ii_verl=command.words[start - 1] == II_VERL,
        main=main_of(command.words),
        folder=command.folder,
        options=tuple(options),
        launcher=tuple(one for one in _parted(rest[: start - 1], name)[0] if one.key not in _PYTHONS),
    )


def _places(command: Command, written: str) -> list[int]:
    """Return the line of each argument: the call's, or the nearest one with its key."""
    texts = written.splitlines()
    end = command.line - 1
    while end < len(texts) and texts[end].rstrip().endswith("\\"):
        end += 1
    order = [
        *range(command.line - 1, min(end + 1, len(texts))),
        *range(min(command.line - 1, len(texts)) - 1, -1, -1),
    ]
    lines = []
    for word in command.words:
        key = word.partition("=")[0] + "=" if "=" in word else word
        at = next((place for place in order if _has_word(texts[place], key)), command.line - 1)
        lines.append(at + 1)
    return lines


def _has_word(line: str, key: str) -> bool:
    return key in line and not line.lstrip().startswith("#")


def _parted(words: Sequence[tuple[str, int]], name: str) -> tuple[list[VerlSetting], list[tuple[str, int]]]:
    """Separate a command's options, each with its value ("" for none), from its other arguments."""
    options: list[VerlSetting] = []
    kept: list[tuple[str, int]] = []
    rest = list(words)
    while rest:
        word, line = rest.pop(0)
        if option := _OPTION.fullmatch(word):
            value = option[2]
            if value is None:
                value = rest.pop(0)[0] if rest and _is_value(rest[0][0], option[1]) else ""
            options.append(VerlSetting(key=option[1], value=value, where=f"{name}:{line}"))
        elif word.strip() and word != "--":
            kept.append((word, line))
    return options, kept


def _is_value(word: str, option: str) -> bool:
    """Return whether the argument after an option is its value: no option itself, and no override."""
    return option in _CONFIG or not (word.startswith(("+", "~")) or "=" in word or _OPTION.fullmatch(word))


def main_of(words: Sequence[str]) -> str:
    """Return the trainer in a command, without its package; "" for none."""
    start = _start(words)
    if start is None:
        return ""
    parts = words[start - 1].removesuffix(".py").replace("/", ".").split(".")
    return parts[-1] if _OTHERS_PACKAGES.isdisjoint(parts[:-1]) else ".".join(parts[-2:])


def _module_of(words: Sequence[str]) -> str:
    """Return the trainer's module; verl's own for `verl train-ppo`."""
    name = words[(_start(words) or 1) - 1]
    return (
        "verl.trainer.main_ppo" if name == II_VERL else name.removesuffix(".py").replace("/", ".").strip(".")
    )


def _start(words: Sequence[str]) -> int | None:
    """Return the index of the first argument of verl's trainer; None where the command is no call."""
    for index, word in enumerate(words[:-1]):
        if word == "-m" and _MAIN.fullmatch(words[index + 1]):
            return index + 2
        if word == "verl" and words[index + 1] == II_VERL:
            return index + 2
    for index, word in enumerate(words):
        if word.endswith(".py") and _MAIN.fullmatch(Path(word).stem) and Path(word).stem != "main":
            return index + 1
    return None


def _served(command: Command, name: str, written: str) -> tuple[int, Served] | None:
    """Return the port and the name of a served model, with the command's other options."""
    words = command.words
    for index, word in enumerate(words[:-2]):
        if Path(word).name == "vllm" and words[index + 1] == "serve":
            rest = list(zip(words, _places(command, written), strict=True))
            options, kept = _parted(rest[index + 2 :], name)
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
