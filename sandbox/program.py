"""The seam between those who have a program run and the walls around it.

In: a `Program`, prepared once (compiled where its language needs that) and run any number of times. Each run has its
own input and a fresh scratch folder. Out: a `ProgramOutcome`: how it ended and what it printed, never whether it was
right. Implementations: the local walls (`sandbox.local.sandbox`: bubblewrap, Landlock, or none) and SandboxFusion's
HTTP API (`sandbox.remote.fusion`). `sandbox.choice` picks one.

What the program brought about is a `ProgramOutcome`. What the machinery did (a sandbox that can't be set up, a run that
was killed from outside) raises `SandboxUnavailable`, a `Retryable`, and can therefore never become a zero.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from broker.errors import Permanent, Retryable
from sandbox.limits import Limits

CROWDED = "other programs of the same user took the processes that the program was promised"


class SandboxUnavailable(Retryable):
    """The sandbox failed, not the program: it can't be reached, can't be set up, or the run was killed from outside."""


class NoRoom(SandboxUnavailable):
    """The machine lacks files, processes, memory or disk just now, which says nothing of its walls."""

    ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT})


class SandboxMissing(Permanent):
    """This machine offers no sandbox, or not what is asked of it; the message says what is missing, and its remedy."""


class ProgramTooLarge(SandboxMissing):
    """One program is more than the sandbox takes; others of the same row may not be."""


class Language(StrEnum):
    """The language that a program is written in."""

    PYTHON = "python"
    CPP = "cpp"
    JAVASCRIPT = "javascript"


class Ending(StrEnum):
    """The ways in which a run can end."""

    EXITED = "exited"  # by itself: `exit_code`
    SIGNALLED = "signalled"  # by a signal that it brought about: `exit_code` is its number, negative
    TIME = "time"  # over `wall_s`, or its first process over `cpu_s`, or stopped by a signal
    MEMORY = "memory"  # over `memory_bytes`
    OUTPUT = "output"  # over `output_bytes`


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to run: one main file, and the files beside it, read-only for the run."""

    language: Language
    source: bytes  # the main file
    files: Mapping[str, bytes] = field(default_factory=dict)  # relative path -> content, beside the main file
    alone: tuple[
        str, ...
    ] = ()  # installed packages that Python must find beside those that programs may import
    compile_s: float = 30.0  # that its compiler may take
    kept: bytes = (
        b""  # of a program of ours that is the same for every run: a main file that is forked for each
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutcome:
    """The outcome of one run: how it ended and what it printed."""

    ending: Ending
    exit_code: int | None  # None where a limit ended it
    stdout: bytes  # at most `output_bytes`
    stderr: bytes  # at most `output_bytes`
    seconds: float  # from its start to its end
    detail: str  # for people: "exit code 1", "10 s of time", ...
    is_crowded: bool = False  # the same user's other programs took of the processes that it was promised


class ReadyProgram(Protocol):
    """A program that is ready to run."""

    @property
    def failure(self) -> ProgramOutcome | None:
        """Return the compiler's outcome where it refused the program, which then can't be run; else None."""
        ...

    @property
    def compiler_s(self) -> float:
        """Return the seconds of the compiler before the first run; 0.0 where each run's seconds hold the compiler's."""
        ...

    def run(self, stdin: bytes = b"", limits: Limits | None = None) -> ProgramOutcome:
        """Run the program once, in a fresh scratch folder as its working folder; its whole process tree ends with it.

        Args:
            stdin: what its standard input holds; empty: nothing can be read from it.
            limits: the default ones where None.
        Raises:
            SandboxUnavailable: the machinery failed.
        """
        ...


class Sandbox(Protocol):
    """Walls to run programs in."""

    @property
    def name(self) -> str:
        """Return the name of the walls: bubblewrap, landlock, fusion or unsafe."""
        ...

    @property
    def version(self) -> str:
        """Return the known versions that decide what a program does: `python=3.11.2 g++=12.2.0 numpy=2.3.5`."""
        ...

    @property
    def languages(self) -> frozenset[Language]:
        """Return the languages that the sandbox can run."""
        ...

    @property
    def max_wall_s(self) -> float:
        """Return the most seconds that one run may take; a run that asks for more is given these."""
        ...

    @property
    def max_output_bytes(self) -> int:
        """Return the most bytes of one stream of one run; a run that asks for more is given these.

        Raises:
            SandboxUnavailable: the number is not known now.
        """
        ...

    def prepare(self, program: Program) -> AbstractContextManager[ReadyProgram]:
        """Make a program ready; leaving the context removes what was made.

        Raises:
            SandboxUnavailable: the machinery failed.
            SandboxMissing: the sandbox does not run this language.
        """
        ...

    def self_test(self) -> None:
        """Run a program whose answer is known, and one that tries to get out.

        Raises:
            SandboxMissing: the sandbox does not hold, or can't be had here.
            SandboxUnavailable: the machinery failed.
        """
        ...

    def close(self) -> None:
        """Let go of what is held. The sandbox can be used again afterwards."""
        ...
