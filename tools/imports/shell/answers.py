"""Find which of a script's arguments depend on the machine, by running it with several answers.

In: a script. Out: `Answers`: the commands of one run, in which a value that differs between runs is marked as unknown
(`theirs.UNKNOWN`) with the program or the variable that determines it. Programs that a script queries (`nvidia-smi`,
`python3 -c ...`, `command -v`) answer "many", then "few", then they are absent; variables that are set nowhere get
unique values in a last run. An argument that is the same in all of them depends on bash alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tools.imports.shell.behind_walls import ANSWERS, Command, Ran, shell_for
from tools.imports.theirs import UNKNOWN

# Programs that a script starts without needing an answer.
_SILENT: Final = frozenset((
    "apt", "apt-get", "chmod", "chown", "clear", "conda", "cp", "env", "gzip", "hf", "huggingface-cli", "kill",
    "killall", "ln", "mamba", "mkdir", "module", "mv", "nohup", "pip", "pip3", "pkill", "redis-server", "reset",
    "rm", "rmdir", "rsync", "setsid", "sglang", "sync", "tar", "tmux", "touch", "unzip", "vllm", "wandb",
))  # fmt: skip
_FIRST_STAND_IN: Final = 7901  # the value of the first unset variable
_USED: Final = re.compile(r"\$(?:\{#?)?([A-Za-z_]\w*)(:?[-=+])?(?=([^}\s]?))")
_BASHS_OWN: Final = re.compile(
    r"BASH\w*|HOME|PWD|OLDPWD|RANDOM|SRANDOM|SECONDS|EPOCH\w+|UID|EUID|PPID|HOSTNAME|HOSTTYPE|OSTYPE|MACHTYPE|FUNCNAME|"
    r"LINENO|OPTARG|OPTIND|REPLY|IFS|PATH|PIPESTATUS|SHLVL|SHELLOPTS|DIRSTACK|GROUPS|USER|COLUMNS|LINES|PS4|SHELL|TERM"
)
_LOOKS: Final = re.compile(r"\bmain_(?:ppo|dapo)\b|train-ppo|fully_async_main")
_QUOTED: Final = re.compile(r"<<-?\s*'(\w+)'.*?^\1$", re.DOTALL | re.MULTILINE)
_SAID_LINES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """A script's commands, for any machine."""

    commands: tuple[Command, ...]
    ran: Ran
    unset: tuple[str, ...]  # variables that are set nowhere
    opens: tuple[str, ...]  # those of them that it needs to reach its call
    decides: str  # what of the machine decides whether it reaches the call; "": nothing
    call_lines: tuple[int, ...]  # lines that look like a call
    notes: tuple[str, ...] = ()

    def why_no_call(self) -> str:
        """Explain why the script reached no call of verl."""
        if self.decides:
            return f"whether it calls verl depends on {self.decides}: give the words of the call instead"
        parts = [self._how()]
        if named := self.opens or (self.unset if self.call_lines else ()):
            parts.append(
                f"{', '.join(f'${name}' for name in named)} {'is' if len(named) == 1 else 'are'} set nowhere: "
                f"`{' '.join(f'{name}=...' for name in named)} millrace import ...`"
            )
        if self.call_lines and not self.opens:
            parts.append(f"line {self.call_lines[0]} looks like one")
        if said := [line for line in self.ran.said.splitlines() if line.strip()][-_SAID_LINES:]:
            parts.append(f"bash said: {' / '.join(said)}")
        return "; ".join(parts)

    def _how(self) -> str:
        if self.ran.why:
            return f"it came to no call of verl: it was ended after {self.ran.why}"
        if self.ran.ended_at is not None:
            return f"it ended at line {self.ran.ended_at}, by `exit`, before a call of verl"
        if self.ran.has_failed and self.ran.last_line:
            return f"it failed at line {self.ran.last_line}, before a call of verl"
        return "no call of verl in it: `python -m verl.trainer.main_ppo ...`, or the like"


def run_through(
    script: Path,
    written: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    is_call: Callable[[Command], bool],
) -> Answers:
    """Run a script with each answer. Raises ConfigError: it can't be run behind walls here."""
    given = {**_asked_of_slurm(written), **environment}
    unset = _set_nowhere(written, given)
    stands = {name: str(_FIRST_STAND_IN + at) for at, name in enumerate(unset)}
    with shell_for(script, Path.cwd()) as shell:
        base = shell.run(arguments, given, ANSWERS[0])

        def calls_with(more: Mapping[str, str], answer: str = ANSWERS[0]) -> list[Command]:
            ran = shell.run(arguments, {**given, **more}, answer)
            return [one for one in ran.commands if is_call(one)]

        calls = [one for one in base.commands if is_call(one)]
        probes = [one for one in base.commands if one not in calls and _is_probe(one)]
        others = [calls_with({}, answer) for answer in (ANSWERS[1:] if probes and not base.why else ())]
        with_all = calls_with(stands) if unset and not base.why else []
        opens = [
            name
            for name in (unset if with_all and not calls else ())
            if not calls_with({one: value for one, value in stands.items() if one != name})
        ]
    source = _Source(script=script.name, written=written, probes=tuple(probes))
    marked = [
        _named(_marked(call, [one[at] for one in others if len(one) > at], source), with_all[at:], stands)
        for at, call in enumerate(calls)
    ]
    places = dict(zip(map(id, calls), marked, strict=True))
    return Answers(
        commands=tuple(places.get(id(one), one) for one in base.commands),
        ran=base,
        unset=tuple(unset),
        opens=tuple(opens),
        decides=_told(probes, script.name) if not calls and any(others) else "",
        call_lines=_call_lines(written),
        notes=_notes(base, calls, unset, with_all),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A script, and the programs that it queries."""

    script: str
    written: str
    probes: tuple[Command, ...]


def _call_lines(written: str) -> tuple[int, ...]:
    """Return the lines that look like a call of verl."""
    return tuple(
        number
        for number, line in enumerate(written.splitlines(), 1)
        if _LOOKS.search(line) and not line.lstrip().startswith("#")
    )


def _is_probe(command: Command) -> bool:
    return command.words[0].rpartition("/")[2] not in _SILENT


def _marked(call: Command, others: Sequence[Command], source: _Source) -> Command:
    """Mark each value that differs with other answers, and each key that is only sometimes there."""
    words = list(call.words)
    for other in others:
        theirs = {_key(word): word for word in other.words if "=" in word}
        ours = {_key(word) for word in words if "=" in word}
        for place, word in enumerate(words):
            if "=" in word and theirs.get(_key(word)) != word and UNKNOWN not in word:
                words[place] = _unknown(_key(word), source)
        words += [_unknown(key, source) for key in theirs if key not in ours]
    return replace(call, words=tuple(words))


def _unknown(key: str, source: _Source) -> str:
    """Return a key with the programs whose answer may affect its value: of a variable in its line, else all."""
    lines = [line for line in source.written.splitlines() if f"{key}=" in line]
    near = [
        one
        for one in source.probes
        if one.assigns and any(re.search(rf"\b{one.assigns}\b", line) for line in lines)
    ]
    return f"{key}={UNKNOWN}{_told(near or source.probes, source.script)}"


def _told(probes: Sequence[Command], name: str) -> str:
    """Name what determines a value, with its line and the variable with the answer."""
    told = []
    for one in probes:
        words = " ".join(one.words)
        short = words if len(words) <= 60 else f"{words[:57]}..."
        holds = f", in ${one.assigns}: `{one.assigns}=... millrace import ...` where the script lets it"
        told.append(f"what `{short}` says on the machine ({name}:{one.line}{holds if one.assigns else ''})")
    return " or ".join(dict.fromkeys(told[:_SAID_LINES]))


def _named(call: Command, others: Sequence[Command], stands: Mapping[str, str]) -> Command:
    """Mark each value that is empty because a variable is unset; the first of `others` has all variables set."""
    if not others:
        return call
    theirs = {_key(word): word for word in others[0].words if "=" in word}
    words = list(call.words)
    for place, word in enumerate(words):
        other = theirs.get(_key(word), word).partition("=")[2]
        if word.endswith("=") and other:
            names = [name for name, value in stands.items() if value in other] or list(stands)
            words[place] = f"{word}{UNKNOWN}{' or '.join(f'${name}' for name in names)}, which is set nowhere"
    return replace(call, words=tuple(words))


def _notes(
    base: Ran, calls: Sequence[Command], unset: Sequence[str], with_all: Sequence[Command]
) -> tuple[str, ...]:
    """Report what else the arguments depend on."""
    notes = [f"line {line}: {file} is not there, and was passed over" for line, file in base.missing]
    if calls and with_all and calls[0].words != with_all[0].words:
        notes.append(f"set nowhere, and empty: {', '.join(f'${name}' for name in unset)}")
    return tuple(notes)


def _key(word: str) -> str:
    return word.partition("=")[0]


def _set_nowhere(written: str, given: Mapping[str, str]) -> list[str]:
    """Return the variables that a script uses, and that neither it nor the environment sets."""
    text = "\n".join(
        line for line in _QUOTED.sub("", written).splitlines() if not line.lstrip().startswith("#")
    )
    used: list[str] = []
    for found in _USED.finditer(text):
        name, default, first = found.groups()
        has_default = default is not None and not (default == ":-" and first in ("", "}"))
        if not has_default and name not in used:
            used.append(name)
    return [
        name
        for name in used
        if name not in given and not _BASHS_OWN.fullmatch(name) and not re.search(_assigns(name), text)
    ]


def _assigns(name: str) -> str:
    """Return a pattern for assignments of a variable in a script; `X=$X` does not match."""
    itself = rf"(?![\"']?\$\{{?{name}\b(?!:?[-=]))"
    return (
        rf"(?:^|[\s;&|(]){name}(?:\[[^\]]*\])?\+?={itself}|\b(?:for|select)\s+{name}\b|"
        rf"\bread\b[^\n;|]*\b{name}\b|(?:mapfile|readarray)\b[^\n]*\b{name}\b|\$\{{{name}:?="
    )


def _asked_of_slurm(script: str) -> dict[str, str]:
    """Return the variables that Slurm would set for the script's `#SBATCH` lines."""
    asked = dict(re.findall(r"^#SBATCH\s+--?([\w-]+)[ =](\S+)", script, re.MULTILINE))
    names = {
        "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
        "N": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
        "job-name": ("SLURM_JOB_NAME",),
        "J": ("SLURM_JOB_NAME",),
        "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
        "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    }
    return {
        name: asked[option] for option, variables in names.items() if option in asked for name in variables
    }
