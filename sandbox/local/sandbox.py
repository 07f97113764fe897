"""The sandbox on this machine: bubblewrap's walls, Landlock's, or none.

In: a `Program`. Out: a `ProgramOutcome` a run. Built by `sandbox.choice`; used by scorers that run programs. Each run
goes to a supervisor (`sandbox.local.supervisor_process`), which forks, watches and kills. What fails there, or
is killed from outside, raises `SandboxUnavailable`.

A program stands in a folder that it can only read, with its main file's fixed name (main.py, main.cpp, main.js); its
working folder, HOME, is a fresh scratch. Python is run as `python -s -B main.py`: without the user's packages and
bytecode files, but not isolated (-I), since `files` beside the main one are there to be imported.
"""

from __future__ import annotations

import math
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sandbox.limits import Limits
from sandbox.local import toolchain
from sandbox.local.disk_space import compiler_without_disk_space, require_disk_space
from sandbox.local.environment import OURS, VirtualEnvironment, make_environment, versions
from sandbox.local.folders import remove_folder
from sandbox.local.kept.process import can_be_kept
from sandbox.local.orders import RunOrder
from sandbox.local.program_files import write_program
from sandbox.local.self_test import self_test
from sandbox.local.supervisors import Supervisor, Supervisors, unavailable
from sandbox.local.toolchain import MAIN_FILE, STACK_BYTES, Interpreter
from sandbox.packages import versions_text
from sandbox.program import (
    CROWDED,
    Ending,
    Language,
    NoRoom,
    Program,
    ProgramOutcome,
    SandboxMissing,
    SandboxUnavailable,
)
from sandbox.walls.seccomp import Walls

ENVIRONMENT = {
    "PATH": toolchain.PATH,
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",  # numpy's: else as many threads as the machine has processors
}
EXTRA_ENVIRONMENT = {
    Language.PYTHON: {"PYTHONINTMAXSTRDIGITS": "0"},  # an integer of any length can be printed and read
    Language.JAVASCRIPT: {"OPENSSL_CONF": "/dev/null"},  # the system's is hidden: node would stop
}
INSIDE = {
    "program": "/program",
    "build": "/build",
    "packages": "/packages",
    "python": "/python",
}  # as bubblewrap's programs see them
ASK_VERSION = "import platform; print(platform.python_version())"
OLDEST = (3, 11)  # Python that an answer may be written for
KEPT_FILE = "kept.py"
PROBE = Limits(wall_s=10.0)


class LocalSandbox:
    """Programs in processes of this machine."""

    max_wall_s, max_output_bytes = math.inf, sys.maxsize  # as much as it is asked for

    def __init__(self, walls: Walls, *, keeps: bool = True) -> None:
        """Take the walls, and whether processes are kept ready, to be forked, for programs that say so."""
        self._walls = walls
        self._keeps = keeps
        self._supervisors = Supervisors()
        self._lock = threading.RLock()
        self._interpreter: Interpreter | None = None
        self._versions: dict[Language, str] | None = None
        self._packages: dict[tuple[str, ...], Path] = {}
        self._kept: dict[tuple[object, ...], Path] = {}  # a program's sources and files -> folder
        self._made_environment: VirtualEnvironment | None = None

    @property
    def name(self) -> str:
        """Return the name of the walls."""
        return self._walls.value

    @property
    def version(self) -> str:
        """Return the versions of interpreters, compiler and packages, which decide what a program does.

        The walls do not.
        """
        names = {Language.PYTHON: "python", Language.CPP: "g++", Language.JAVASCRIPT: "node"}
        tools = self._tools()
        said = [f"{names[language]}={version}" for language, version in tools.items()]
        return " ".join([*said, versions_text(versions(tools[Language.PYTHON]))])

    @property
    def languages(self) -> frozenset[Language]:
        """Return the languages whose tool answers inside the walls."""
        return frozenset(self._tools())

    @contextmanager
    def prepare(self, program: Program) -> Iterator[PreparedProgram]:
        """Make a folder with the program in it, compiled where its language needs that."""
        tools = self._tools()
        if program.language not in tools:
            tool = toolchain.TOOL.get(program.language, "python3")
            raise SandboxMissing(
                f"no {program.language.value} in the sandbox: {tool} is not in {toolchain.PATH}"
            )
        packages = self._package_folder(program.alone) if program.alone else None
        environment = self._environment() if program.language is Language.PYTHON else None
        base = self._supervisors.base()
        if program.kept:
            yield PreparedProgram(
                self, program.language, self._kept_folder(program), packages, environment, is_kept=True
            )
            return
        with unavailable("no folder for a program"):
            folder = Path(tempfile.mkdtemp(prefix="program-", dir=base))
        try:
            with unavailable("a program can't be written down"):
                write_program(folder / "program", program)
            prepared = PreparedProgram(self, program.language, folder, packages, environment)
            if program.language is Language.CPP:
                prepared.compile(program.compile_s)
            yield prepared
        finally:
            remove_folder(folder)

    @property
    def walls(self) -> Walls:
        """Return the walls."""
        return self._walls

    @contextmanager
    def shown_folder(self) -> Iterator[Path]:
        """Make an empty folder whose files programs can read where `execute` shows it. Raises SandboxUnavailable."""
        base = self._supervisors.base()
        with unavailable("no folder for files"):
            folder = Path(tempfile.mkdtemp(prefix="files-", dir=base))
            folder.chmod(0o755)
        try:
            yield folder
        finally:
            remove_folder(folder)

    def self_test(self) -> None:
        """Run a program whose answer is known, and one that tries to get out."""
        self_test(self, self._walls)

    def close(self) -> None:
        """End the supervisors and remove all that was prepared."""
        self._supervisors.close()
        self._packages.clear()
        self._kept.clear()
        self._made_environment = None

    def execute(
        self,
        argv: tuple[str, ...],
        *,
        readable: Mapping[Path, str],
        language: Language,
        limits: Limits,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        writable: tuple[Path, str] | None = None,
        interpreter: Interpreter | None = None,
        kept: tuple[str, ...] = (),
    ) -> ProgramOutcome:
        """Run one command line once, or have what is kept ready by another one forked. Raises SandboxUnavailable."""
        if is_disk := self._walls is not Walls.BUBBLEWRAP:  # whose scratch is in memory
            require_disk_space(self._supervisors.base(), limits.scratch_bytes)
        order = self._order(
            argv,
            readable=readable,
            language=language,
            limits=limits,
            stdin=stdin,
            env=env,
            writable=writable,
            interpreter=interpreter,
        )
        if kept and self._keeps and can_be_kept(order):
            order = replace(order, kept=kept)
        outcome = self._supervisors.run(order)
        if is_disk:  # whatever it said: the harness ends well where an answer does not
            require_disk_space(self._supervisors.base(), limits.scratch_bytes)
        return outcome

    @property
    def base(self) -> Path:
        """Return the folder for what is prepared. Raises SandboxUnavailable."""
        return self._supervisors.base()

    def start(
        self,
        program: PreparedProgram,
        *,
        arguments: tuple[str, ...],
        writable: tuple[Path, str],
        limits: Limits,
        look_s: float,
    ) -> Supervisor:
        """Start a program that goes on, and return who watches over it: the caller ends it.

        Args:
            program: of this sandbox.
            arguments: behind its own command.
            writable: a folder here, and where the program sees it.
            limits: on what it may use.
            look_s: seconds between two looks at memory and files.
        Raises:
            SandboxUnavailable: the machinery failed.
        """
        argv, readable, env = program.command_line(limits)
        order = self._order(
            (*argv, *arguments),
            readable=readable,
            language=Language.PYTHON,
            limits=limits,
            env=env,
            writable=writable,
        )
        return self._begun(replace(order, look_s=look_s))

    def start_command(
        self,
        argv: tuple[str, ...],
        *,
        readable: Mapping[Path, str],
        writable: Mapping[Path, str],
        env: Mapping[str, str],
        limits: Limits,
        look_s: float,
        kept_bytes: int | None = None,
        by: Supervisor | None = None,
    ) -> Supervisor:
        """Start any command, which may speak TCP with itself, and return who watches over it: the caller ends it.

        Args:
            readable: what it sees beside the system's programs and our interpreter, and where.
            writable: files and folders here, and where the command sees them.
            env: its variables, beside the sandbox' own.
            limits: on what it may use; its memory is watched, and its addresses are not limited.
            look_s: seconds between two looks at its memory.
            kept_bytes: size of all writable folders together; None: nobody looks.
            by: who is to watch over it, whose last command has ended; None: somebody new.
        Raises:
            SandboxUnavailable: the machinery failed.
        """
        order = self._order(argv, readable=readable, language=Language.PYTHON, limits=limits, env=env)
        order = replace(
            order,
            writable=tuple((str(here), inside) for here, inside in writable.items()),
            kept_bytes=kept_bytes,
            look_s=look_s,
            address_space=False,
            has_loopback=True,
        )
        return self._begun(order, by)

    def supervisor(self) -> Supervisor:
        """Return somebody to watch over commands of `start_command`, who gives them one user; the caller ends it.

        Raises:
            SandboxUnavailable: the machinery failed.
        """
        return self._supervisors.take()

    def _begun(self, order: RunOrder, by: Supervisor | None = None) -> Supervisor:
        supervisor = by or self._supervisors.take()
        supervisor.start(order)
        return supervisor

    def _order(
        self,
        argv: tuple[str, ...],
        *,
        readable: Mapping[Path, str],
        language: Language,
        limits: Limits,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        writable: tuple[Path, str] | None = None,
        interpreter: Interpreter | None = None,
    ) -> RunOrder:
        interpreter = interpreter or self._interpreter
        shown = [(path, path) for path in toolchain.SYSTEM]
        if language is Language.PYTHON and interpreter is not None and interpreter.prefix is not None:
            shown.append((interpreter.prefix, interpreter.prefix))
        shown += [(str(here), inside) for here, inside in readable.items()]
        return RunOrder(
            walls=self._walls,
            argv=argv,
            env={**ENVIRONMENT, **(env or {})},
            readable=tuple(shown),
            writable=() if writable is None else ((str(writable[0]), writable[1]),),
            limits=limits,
            stack_bytes=STACK_BYTES[language],
            address_space=language is not Language.JAVASCRIPT,
            stdin=stdin,
        )

    def inside(self, what: str, folder: Path) -> str:
        """Return where a program sees a folder of ours."""
        return INSIDE[what] if self._walls is Walls.BUBBLEWRAP else str(folder)

    @property
    def interpreter(self) -> Interpreter:
        """Return the Python that programs run with. Raises SandboxMissing where there is none."""
        self._tools()
        if self._interpreter is None:
            raise SandboxMissing("no Python that programs can be run with")
        return self._interpreter

    @property
    def python_environment(self) -> VirtualEnvironment:
        """Return the environment that Python programs run in, for commands that want its packages."""
        return self._environment()

    def _tools(self) -> dict[Language, str]:
        """Language to the version of its tool, found once by asking each inside the walls."""
        with self._lock:
            if self._versions is None:
                versions = {Language.PYTHON: self._find_interpreter()}
                for language in (Language.CPP, Language.JAVASCRIPT):
                    path = toolchain.find_tool(language)
                    flag = "-dumpfullversion" if language is Language.CPP else "--version"
                    said = "" if path is None else self._ask((path, flag), language)
                    if said:
                        versions[language] = said.removeprefix("v")
                self._versions = versions
            return self._versions

    def _ask(self, argv: tuple[str, ...], language: Language, interpreter: Interpreter | None = None) -> str:
        """Return what a tool inside says of itself; an empty text where it does not run."""
        outcome = self.execute(argv, readable={}, language=language, limits=PROBE, interpreter=interpreter)
        return outcome.stdout.decode(errors="replace").strip() if outcome.exit_code == 0 else ""

    def _find_interpreter(self) -> str:
        """Find the first Python that the programs' user can run, and return its version. Raises SandboxMissing."""
        reasons = []
        for candidate in toolchain.interpreters():
            try:
                said = self._ask((candidate.path, "-s", "-B", "-c", ASK_VERSION), Language.PYTHON, candidate)
            except NoRoom:
                raise
            except SandboxUnavailable as error:
                reasons.append(f"{candidate.path}: {error}")
                continue
            if said and tuple(map(int, said.split(".")[:2])) >= OLDEST:
                self._interpreter = candidate
                return said
            is_old = f"Python {said} is older than 3.11, for which answers are written"
            reasons.append(f"{candidate.path}: {is_old if said else 'does not run inside'}")
        raise SandboxMissing(f"no sandbox by {self.name} for Python: {'; '.join(reasons)}")

    def _environment(self) -> VirtualEnvironment:
        """Return the environment that Python programs run in, made once."""
        with self._lock:
            base = self._supervisors.base()
            made = self._made_environment
            if made is not None and made.folder.exists():
                return made
            python = self._tools()[Language.PYTHON]
            with unavailable("no environment for programs"):
                folder = Path(tempfile.mkdtemp(prefix="python-", dir=base))
                made = make_environment(
                    folder, self.interpreter, python, inside=self.inside("python", folder)
                )
            if not _is_ours(python):
                self._write_bytecode(folder, made.inside)
            self._made_environment = made
            return made

    def _kept_folder(self, program: Program) -> Path:
        """Return the folder with a program of ours, made once; nobody but we can write into it."""
        with self._lock:
            base = self._supervisors.base()
            key = program.source, program.kept, *sorted(program.files.items())
            folder = self._kept.get(key)
            if folder is not None and folder.parent == base and folder.exists():
                return folder
            with unavailable("a program can't be written down"):
                folder = Path(tempfile.mkdtemp(prefix="program-", dir=base))
                write_program(
                    folder / "program", replace(program, files={**program.files, KEPT_FILE: program.kept})
                )
            self._kept[key] = folder
            return folder

    def _package_folder(self, names: tuple[str, ...]) -> Path:
        """Return the folder with copies of the packages, made once for each set of packages."""
        with self._lock:
            base = self._supervisors.base()
            folder = self._packages.get(names)
            if folder is not None and folder.exists():
                return folder
            with unavailable("packages can't be copied"):
                folder = Path(tempfile.mkdtemp(prefix="packages-", dir=base))
                toolchain.copy_packages(names, folder)
                folder.chmod(0o755)
            if not _is_ours(self._tools()[Language.PYTHON]):
                self._write_bytecode(folder, self.inside("packages", folder))
            self._packages[names] = folder
            return folder

    def _write_bytecode(self, folder: Path, inside: str) -> None:
        """Compile the packages for a Python of another version than ours; else each run would compile them again."""
        folder.chmod(0o777)  # its parent lets nobody else in
        for path in folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o777)
        self.execute(
            (self.interpreter.path, "-m", "compileall", "-q", inside),
            readable={},
            language=Language.PYTHON,
            limits=toolchain.COMPILER_LIMITS,
            writable=(folder, inside),
        )
        for path in [folder, *folder.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() else 0o644)


def _is_ours(python: str) -> bool:
    """Return whether a version of Python reads our bytecode."""
    return python.startswith(f"{OURS}.")


class PreparedProgram:
    """A program in its folder."""

    def __init__(
        self,
        sandbox: LocalSandbox,
        language: Language,
        folder: Path,
        packages: Path | None,
        environment: VirtualEnvironment | None,
        *,
        is_kept: bool = False,
    ) -> None:
        self._sandbox = sandbox
        self._is_kept = is_kept
        self._language = language
        self._folder = folder / "program"
        self._build = folder / "build"
        self._packages = packages
        self._environment = environment
        self.failure: ProgramOutcome | None = None
        self.compiler_s = 0.0

    def compile(self, wall_s: float) -> None:
        """Make the build folder's program of the main file; `failure` says what the compiler did instead.

        A program that is none in one of the language's standards may be one in the next; a limit that the compiler
        exceeds is the program's in any. `wall_s` is for each try.
        """
        self._build.mkdir()
        self._build.chmod(0o777)  # for the programs' user; the parent folder lets nobody else in
        for standard in toolchain.STANDARDS:
            outcome = self._compiled(standard, wall_s)
            self.compiler_s += outcome.seconds
            if outcome.ending is not Ending.EXITED or outcome.exit_code == 0:
                break
        self._build.chmod(0o755)
        binary = self._build / "program"
        if outcome.ending is not Ending.EXITED or outcome.exit_code != 0:
            self.failure = outcome
        elif binary.is_symlink() or not binary.is_file():
            raise SandboxUnavailable("the compiler left no program")
        else:
            binary.chmod(0o755)

    def _compiled(self, standard: str, wall_s: float) -> ProgramOutcome:
        """Run the compiler once. Raises NoRoom, SandboxUnavailable."""
        build = self._sandbox.inside("build", self._build)
        compiler = toolchain.find_tool(self._language)
        if compiler is None:
            raise SandboxUnavailable("the compiler is gone")
        outcome = self._sandbox.execute(
            (compiler, "-O2", f"-std={standard}", "-o", f"{build}/program", self._main()),
            readable=self._readable(),
            language=self._language,
            limits=replace(toolchain.COMPILER_LIMITS, wall_s=wall_s),
            env={"TMPDIR": build},
            writable=(self._build, build),
        )
        if outcome.exit_code != 0 and outcome.is_crowded:
            raise NoRoom(CROWDED)
        if outcome.exit_code != 0 and compiler_without_disk_space(outcome.stderr):
            raise NoRoom("no room for a compiler on this machine's disk")
        return outcome

    def run(self, stdin: bytes = b"", limits: Limits | None = None) -> ProgramOutcome:
        """Run the program once, in a fresh scratch folder."""
        if self.failure is not None:
            raise ValueError("the compiler refused this program: there is nothing to run")
        limits = limits or Limits()
        argv, readable, env = self.command_line(limits)
        kept: tuple[str, ...] = ()
        if self._is_kept:
            kept = (*argv[:-1], f"{self._sandbox.inside('program', self._folder)}/{KEPT_FILE}")
        return self._sandbox.execute(
            argv, readable=readable, language=self._language, limits=limits, stdin=stdin, env=env, kept=kept
        )

    def command_line(self, limits: Limits) -> tuple[tuple[str, ...], dict[Path, str], dict[str, str]]:
        """Return the program's words, what it has to see, and its variables."""
        readable, env = self._readable(), dict(EXTRA_ENVIRONMENT.get(self._language, {}))
        if self._packages is not None:
            env["PYTHONPATH"] = readable[self._packages] = self._sandbox.inside("packages", self._packages)
        return self._command(limits), readable, env

    def _main(self) -> str:
        return f"{self._sandbox.inside('program', self._folder)}/{MAIN_FILE[self._language]}"

    def _readable(self) -> dict[Path, str]:
        readable = {self._folder: self._sandbox.inside("program", self._folder)}
        if self._language is Language.CPP and (self._build / "program").exists():
            readable[self._build] = self._sandbox.inside("build", self._build)
        if self._environment is not None:
            readable[self._environment.folder] = self._environment.inside
            readable.update(self._environment.shown)
        return readable

    def _command(self, limits: Limits) -> tuple[str, ...]:
        match self._language:
            case Language.PYTHON:
                python = (
                    self._sandbox.interpreter.path if self._environment is None else self._environment.python
                )
                return python, "-s", "-B", self._main()
            case Language.CPP:
                return (f"{self._sandbox.inside('build', self._build)}/program",)
            case Language.JAVASCRIPT:
                node = toolchain.find_tool(self._language) or "node"
                return node, f"--max-old-space-size={limits.memory_bytes >> 20}", self._main()
