"""Run a script with bash behind the sandbox's walls, and read the arguments of its programs.

In: a script, its arguments, the environment. Out: `Ran`: every program that it would have started, with its arguments,
and how the script ended. Only bash and text tools really run: `prelude.sh` replaces the others. There is no network,
only a scratch folder is writable, standard input is empty, and the time limit is 30 seconds. Raises ConfigError where
this machine has no walls to run it behind.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from config.explanations import ConfigError
from sandbox.choice import best_local
from sandbox.limits import Limits
from sandbox.local.sandbox import ENVIRONMENT, LocalSandbox
from sandbox.program import Ending, Language, ProgramOutcome, SandboxMissing, SandboxUnavailable
from sandbox.walls.seccomp import Walls
from tools.imports.shell.view import ScriptView, make_view, place

LIMITS: Final = Limits(wall_s=30.0, processes=256, output_bytes=16 << 20)
ANSWERS: Final = ("many", "few", "absent")  # of programs that report a machine's resources
BASH: Final = "/bin/bash"
_PRELUDE: Final = Path(__file__).parent / "prelude.sh"
_OURS: Final = ("MILLRACE_", "BASH", "LD_")  # in the environment, but not the script's
_NOT_EXPORTED: Final = frozenset({"PWD", "OLDPWD", "SHLVL", "_", "HOME", "LINES", "COLUMNS"})
_START: Final = """
exec 198>&1 1>/dev/null
export BASH_ENV="$MILLRACE_PATH/prelude.sh"
cd "$1" && shift
exec "$BASH" "$@"
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Command:
    """A called program, with its arguments."""

    words: tuple[str, ...]
    line: int
    file: str  # the script, or another one that it runs
    folder: str  # the working folder
    assigns: str = ""  # the variable that got its output; "": none
    exported: Mapping[str, str] = field(default_factory=dict)  # of a call that looks like a trainer's


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The record of a script's run."""

    commands: tuple[Command, ...]
    ended_at: int | None  # line of the `exit` that ended it
    last_line: int | None  # the last one reached
    has_failed: bool  # its exit status is not 0
    said: str  # bash's own standard error
    missing: tuple[tuple[int, str], ...]  # missing files that it sources, with their lines
    why: str = ""  # how it was ended from outside: "30 s of time"


class Shell:
    """Run a script any number of times, each time fresh."""

    def __init__(self, sandbox: LocalSandbox, view: ScriptView, script: Path, start: Path) -> None:
        """Store the walls, the script's view of files, its name, and its start folder."""
        self._sandbox, self._view, self._script, self._start = sandbox, view, script, start
        self._prefix = "" if sandbox.walls is Walls.BUBBLEWRAP else str(view.mirror)
        self._now = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())

    def run(self, arguments: Sequence[str], environment: Mapping[str, str], answer: str) -> Ran:
        """Run it. `answer`: one of ANSWERS. Raises ConfigError."""
        prefix, view = self._prefix, self._view
        shown = (
            {view.mirror: prefix} if prefix else {place(root, view.mirror): str(root) for root in view.roots}
        )
        script = str(self._script)
        argv = (BASH, "-c", _START, "start", f"{prefix}{self._start}")
        named = f"{prefix}{script}" if script.startswith("/") else script
        try:
            outcome = self._sandbox.execute(
                (*argv, named, *arguments),
                readable={view.tools: str(view.tools), **shown},
                language=Language.JAVASCRIPT,  # its memory is limited by use, and not by addresses
                limits=LIMITS,
                env=self._environment(environment, answer),
            )
        except SandboxUnavailable as error:
            raise ConfigError(f"{script}: bash could not be run behind walls: {error}") from None
        return _read(outcome, prefix, script, str(view.tools))

    def _environment(self, given: Mapping[str, str], answer: str) -> dict[str, str]:
        tools = str(self._view.tools)
        kept = {name: value for name, value in given.items() if not name.startswith(_OURS) and name != "ENV"}
        return {
            **kept,
            "PATH": tools,
            "MILLRACE_PATH": tools,
            "MILLRACE_HOME": given.get("HOME", str(Path.home())),
            "MILLRACE_HOST": socket.gethostname(),
            "MILLRACE_NOW": str(self._now),
            "MILLRACE_TOP": f"{self._prefix}{self._view.top}",
            "MILLRACE_ANSWER": answer,
        }


@contextmanager
def shell_for(script: Path, start: Path) -> Iterator[Shell]:
    """Prepare running a script. Raises ConfigError: no walls, or no bash."""
    with ExitStack() as stack:
        try:
            sandbox = _walls()
            base = stack.enter_context(sandbox.shown_folder())
            real = script.resolve()
            view = make_view(
                base, start.joinpath(script) if not real.is_file() else _named(script, start), start
            )
            shutil.copy(_PRELUDE, view.tools / "prelude.sh")
            (view.tools / "prelude.sh").chmod(0o644)
        except (SandboxMissing, SandboxUnavailable) as error:
            raise ConfigError(
                f"{script}: it is run by bash to see what it calls, and there are no walls here to do that behind "
                f"({error}). Give the words of the call instead: `millrace import key=value ...`, as bash's own "
                "`set -x` prints them"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{script}: {error}") from None
        yield Shell(sandbox, view, script, start)


@cache
def _walls() -> LocalSandbox:
    """Return the sandbox, tested once per process. Raises SandboxMissing and SandboxUnavailable."""
    sandbox = best_local()
    atexit.register(sandbox.close)
    return sandbox


def _named(script: Path, start: Path) -> Path:
    """Return the script's path as named, without following links."""
    return Path(os.path.normpath(start / script))


def _read(outcome: ProgramOutcome, prefix: str, script: str, tools: str) -> Ran:
    """Read the prelude's record; `prefix` is where the real folders are shown."""
    text, said = (raw.decode(errors="replace") for raw in (outcome.stdout, outcome.stderr))
    if prefix:
        text, said = text.replace(prefix, ""), said.replace(prefix, "")
    commands: list[Command] = []
    missing: list[tuple[int, str]] = []
    ended_at = last_line = None
    has_failed, waits = False, ""
    for kind, *words in _records(text):
        match kind, words:
            case "call", [line, file, folder, assigned, count, *rest]:
                exported = _of_the_script(rest[int(count) :], tools)
                called = tuple(rest[: int(count)])
                commands.append(
                    Command(called, int(line), file=file, folder=folder, assigns=assigned, exported=exported)
                )
            case "exit", [line, file, "0", _status] if file == script:
                ended_at = int(line)
            case "end", [line, status, "0", _pid]:
                last_line, has_failed = int(line), status != "0"
            case "missing", [line, file]:
                missing.append((int(line), file))
            case "waits", [line]:
                waits = f"it waits for something at line {line}"
    ended = "" if outcome.ending in (Ending.EXITED, Ending.SIGNALLED) else outcome.detail
    return Ran(
        commands=tuple(commands),
        ended_at=ended_at,
        last_line=last_line,
        has_failed=has_failed,
        said=said,
        missing=tuple(missing),
        why=waits or ended,
    )


def _of_the_script(exported: Sequence[str], tools: str) -> dict[str, str]:
    """Return the exported variables that are not the sandbox's or bash's own."""
    pairs = dict(pair.split("=", 1) for pair in exported if "=" in pair)
    return {
        name: value
        for name, value in pairs.items()
        if not name.startswith(_OURS)
        and name not in _NOT_EXPORTED
        and value != ENVIRONMENT.get(name)
        and not (name == "PATH" and value == tools)
    }


def _records(text: str) -> Iterator[list[str]]:
    """Yield the prelude's records, each joined from its process's pieces."""
    begun: dict[str, str] = {}
    for piece in text.split("\0")[:-1]:
        pid, _, rest = piece.partition("\036")
        state, _, words = rest.partition("\036")
        whole = begun.pop(pid, "") + words
        if state == "more":
            begun[pid] = whole
        elif state == "end":
            yield whole.replace("\034", "\n").split("\035")[:-1]
