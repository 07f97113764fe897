"""Ask the doctor's questions that need heavy libraries or run programs, each in a separate process.

In: names of questions that `tools.doctor.probe` answers. Out: the result of each process, or why there is none. A
library that hangs at its import costs its deadline; one that crashes ends only its own process. Two run at a time,
since each takes a processor and a gigabyte.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

from broker import processes

AT_ONCE = 2
DEADLINE_S = 180.0  # vLLM's import alone takes half a minute on a slow disk
NO_ANSWER = "no answer"
LAST_WORDS = 300  # characters of a dead process's output
# Nothing is downloaded from a hub: one that does not answer would cost minutes.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeQuestion:
    """A question, and the process that answers it."""

    name: str  # of the function in `tools.doctor.probe`
    words: Sequence[str] = ()  # arguments of that function
    command: Sequence[str] = ()  # replaces the process, in tests


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """A process's result, or why there is none."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    trouble: str = ""  # why there are no facts


def ask(
    questions: Sequence[ProbeQuestion], *, deadline_s: float = DEADLINE_S
) -> Iterator[tuple[ProbeQuestion, ProbeAnswer]]:
    """Ask all questions; the answers are in the order of the questions. Call it from the main thread."""
    with tempfile.TemporaryDirectory(prefix="millrace-doctor-") as folder:
        waiting = list(questions)
        running: list[_AnsweringProcess] = []
        try:
            while waiting or running:
                while waiting and len(running) < AT_ONCE:
                    running.append(_AnsweringProcess(waiting.pop(0), Path(folder), deadline_s))
                yield running[0].question, running[0].answer()
                running.pop(0)
        finally:
            for process in running:
                process.end()


class _AnsweringProcess:
    """A process that answers one question."""

    def __init__(self, question: ProbeQuestion, folder: Path, deadline_s: float) -> None:
        self.question = question
        self._deadline_s = deadline_s
        self._until = time.monotonic() + deadline_s
        self._out, self._err = (Path(tempfile.mkstemp(dir=folder)[1]) for _ in range(2))
        command = question.command or (
            sys.executable,
            "-m",
            "tools.doctor.probe",
            question.name,
            *question.words,
        )
        with self._out.open("wb") as stdout, self._err.open("wb") as stderr:
            self._process: Popen[bytes] = processes.spawn(
                command, stdout=stdout, stderr=stderr, env={**os.environ, **OFFLINE, "PYTHONSAFEPATH": "1"}
            )

    def answer(self) -> ProbeAnswer:
        """Wait for the answer, until the deadline."""
        has_ended = processes.wait(self._process, max(0.0, self._until - time.monotonic()))
        code = self.end()
        if not has_ended:
            return ProbeAnswer(trouble=f"{NO_ANSWER} in {self._deadline_s:.0f} s")
        try:
            facts = json.loads(self._out.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            said = " ".join(self._err.read_text(encoding="utf-8", errors="replace").split())[-LAST_WORDS:]
            return ProbeAnswer(trouble=f"its process ended with code {code}: {said}")
        trouble = facts.pop("trouble", "")
        return ProbeAnswer(facts, trouble)

    def end(self) -> int:
        """End the process and everything it started. Returns its exit code."""
        return processes.stop(self._process, grace_s=0)
