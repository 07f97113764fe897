"""A sandbox that can't run anything."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sandbox.program import Language, Program, ReadyProgram, SandboxUnavailable


class Unable:
    """It raises `error` at every program."""

    name, version = "unable", "0"
    max_wall_s, max_output_bytes = 10.0, 1000

    def __init__(
        self, error: Exception | None = None, languages: frozenset[Language] = frozenset(Language)
    ) -> None:
        self.error = error or SandboxUnavailable("http://sandbox:8080 refused the connection")
        self.languages = languages

    def prepare(self, program: Program) -> AbstractContextManager[ReadyProgram]:
        raise self.error

    def self_test(self) -> None: ...

    def close(self) -> None: ...
