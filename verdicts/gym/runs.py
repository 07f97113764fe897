"""Run reasoning-gym in the sandbox once, with an entry and any number of answers.

In: a row, and answers. Out: the library's result for each (`LibraryResult`). Called by `verdicts.gym.judging`. The
harness is that of programs with tests (`sandbox.harness.start`): two processes, of which one has the library and sees
the answers, and the other one has the nonce and writes the line that counts. If a run proves nothing, its answers are
judged separately. Failures of the machinery raise `SandboxUnavailable`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sandbox.limits import Limits
from sandbox.program import CROWDED, Ending, Language, Program, ProgramOutcome, Sandbox, SandboxUnavailable
from verdicts.code.harness import harness_source, new_nonce, proof_of
from verdicts.gym.rows import DISTRIBUTION, GymRow

AT_ONCE: Final = 20  # answers of one run
START_S: Final = 30.0  # of a run, to import the library on a busy machine
# Names under which the harness's start loads the two sides, and their files here.
_SIDES: Final = {
    "pipe": "pipe",
    "codec": "codec",
    "link": "link",
    "arguments": "arguments",
    "views": "views",
    "remote": "remote",
    "checks": "checks",
    "candidate": "gym_library",
    "cases": "gym_values",
}


class LibraryUnfit(Exception):
    """The sandbox can't run the library on this row at all; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryResult:
    """The library's result for one answer."""

    value: float | None  # the library's value; None if it has none
    reason: str = ""  # why there is none
    is_limit: bool = False  # whether the reason was time or memory


@functools.cache
def program(packages: tuple[str, ...]) -> Program:
    """Return the harness, with the library and the packages that a data set needs."""
    return Program(language=Language.PYTHON, alone=(DISTRIBUTION, *packages), source=harness_source(_SIDES))


def ask(
    sandbox: Sandbox, row: GymRow, answers: Sequence[str], *, answer_s: float, memory_bytes: int
) -> list[LibraryResult]:
    """Return the library's result for each answer.

    Args:
        sandbox: where the library runs.
        row: the row with the entry.
        answers: different ones, any number.
        answer_s: seconds for one of them.
        memory_bytes: of one run.
    Raises:
        SandboxUnavailable: the machinery failed.
        LibraryUnfit: the library is not in the sandbox, or can't be used with this entry.
    """
    said: list[LibraryResult] = []
    with sandbox.prepare(program(row.dataset.packages)) as prepared:
        while len(said) < len(answers):
            batch = answers[len(said) : len(said) + AT_ONCE]
            wall_s = min(START_S + answer_s * len(batch), sandbox.max_wall_s)
            nonce = new_nonce()
            outcome = prepared.run(
                _payload(nonce, row, batch, answer_s, memory_bytes),
                Limits(wall_s=wall_s, memory_bytes=memory_bytes),
            )
            found = _proven(outcome, nonce, len(batch))
            if not found and len(batch) > 1:  # one of them ended the run: each gets a separate run
                for answer in batch:
                    found += ask(sandbox, row, [answer], answer_s=answer_s, memory_bytes=memory_bytes)
            said += found or [_unproven(outcome)]
    return said


def _payload(nonce: str, row: GymRow, answers: Sequence[str], answer_s: float, memory_bytes: int) -> bytes:
    job = {
        "module": row.dataset.module,
        "dataset": row.dataset.name,
        "entry": json.dumps(row.entry),
        "answer_s": answer_s,
        "memory_bytes": memory_bytes // 4 * 3,
    }
    return json.dumps({"nonce": nonce, "job": job, "answers": list(answers)}).encode("ascii")


def _proven(outcome: ProgramOutcome, nonce: str, number: int) -> list[LibraryResult]:
    """Return the results in the run's line, of the first answers or of all; none without a line. Raises as `ask`."""
    if (proof := proof_of(outcome, nonce, of=" of reasoning-gym")) is None:
        return []
    if proof["unfit"] is not None:
        raise LibraryUnfit(str(proof["unfit"]))
    if outcome.is_crowded and not all("value" in one for one in proof["said"]):
        raise SandboxUnavailable(CROWDED)
    return [_said(one) for one in proof["said"][:number]]


def _said(one: Mapping[str, Any]) -> LibraryResult:
    ((word, what),) = one.items()
    match word:
        case "value":
            return LibraryResult(value=float(what))
        case "raised":
            return LibraryResult(value=None, reason=f"the library can't read it: {what}")
        case "absent":
            raise LibraryUnfit(f"{what} is not in the sandbox")
        case "died":
            return LibraryResult(value=None, reason="the process that judged it ended", is_limit=True)
        case _:
            return LibraryResult(value=None, reason="time" if word == "late" else "memory", is_limit=True)


def _unproven(outcome: ProgramOutcome) -> LibraryResult:
    """Return why a run with one answer proved nothing."""
    is_limit = outcome.ending in {Ending.TIME, Ending.MEMORY, Ending.OUTPUT}
    return LibraryResult(
        value=None, reason=f"the run ended without its proof: {outcome.detail}", is_limit=is_limit
    )
