"""Programs foretold: the scorer of the task `simulation`, types `codeio` and `cruxeval`.

In: the text of a completion, and a row with a program, and an input or an output of it (`scorers.simulation.rows` has
the shapes). Out: 1 or 0. Called in a scorer's process by `scorers.group`, one completion at a time.

What an answer says is read as data (`scorers.simulation.answers`) and never run. An output is compared with the row's.
An input is given to the row's own program, in the sandbox and by `scorers.code.scorer`: the program is its answer, and
that it gives the wanted output its test. So it runs in a process without the test, and its result comes back as data. A
run over its limits is tried once more alone; then the answered input has brought that about: 0. Before the first
answer the program must do what the row says of it; where it does not, the row is broken and the completion unscorable.
What the sandbox itself could not do raises `SandboxUnavailable`, a `Retryable`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from broker.scores import Score
from config.scorer_kinds import CodeConfig, SimulationConfig
from config.scorers import ScorersConfig
from sandbox.program import Sandbox
from scorers.code.scorer import CodeTests
from scorers.last_row import LastRow
from scorers.scorer import OVER_LIMIT, OwnTime, SelfTestFailed, make_score
from scorers.simulation.rows import AnswerFinding, Reference, SimulationQuestion, question_of
from scorers.simulation.values import data_source
from scorers.text.extract import Unanswered, answering_part

RULES: Final = 4  # raise it with any change here or in what this imports that can change a score
_FAILED: Final = "0 of 1 cases passed; case 1: "  # what the code scorer says before the reason


class Simulation:
    """Scorer of inputs and outputs of programs. Holds the sandbox, by the scorer of programs."""

    name = "simulation"

    def __init__(
        self, config: SimulationConfig, scorers: ScorersConfig, sandbox: Sandbox | None = None
    ) -> None:
        """Start nothing yet: the sandbox, unless it is given, is built when it is first needed."""
        self._config = config
        self._programs = CodeTests(
            CodeConfig(
                deadline_s=config.deadline_s, case_timeout_s=config.deadline_s / 2, memory_mb=config.memory_mb
            ),
            scorers.model_copy(update={"credit": "all"}),
            sandbox,
        )
        self.own_time = OwnTime(deadline_s=config.deadline_s)
        self._questions = LastRow(self._read_question)
        self._trial: tuple[Reference, Score] | None = None  # of the last row's program

    @property
    def version(self) -> str:
        """The rules, and those of the scorer that runs programs, with its sandbox."""
        return f"{RULES} {self._programs.version}"

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage naming what the row lacks."""
        self._questions.of(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Compare the answered value, or have the row's program decide.

        Raises:
            Retryable: the sandbox failed.
            BadMessage: as `check_row`.
        """
        started = time.monotonic()
        question = self._questions.of(verification_info)
        try:
            finding = _finding(text, question)
        except Unanswered as error:
            return self._score(started, 0.0, f"no answer: {error}")
        if question.reference is None or finding.test is None:
            return self._score(started, float(finding.is_right), finding.reason)
        trial = self._trial_of(question.reference)
        if trial.value != 1.0:
            reason = f"the row's program fails its own row: {trial.reason.removeprefix(_FAILED)}"
            return self._score(started, None, reason)
        with self.own_time.lent_to(self._programs.own_time):
            ran = self._run(question.reference, finding.test)
        said = "right" if ran.value == 1.0 else ran.reason.removeprefix(_FAILED)
        over_limit = {OVER_LIMIT: 1.0} if OVER_LIMIT in ran.components else {}
        return self._score(started, ran.value, f"{finding.reason}: {said}", over_limit)

    def passing_stub(self, verification_info: Mapping[str, Any]) -> str:
        """Return an answer without work that is right, in words; see `scorers.scorer.Trying`."""
        for words, response in self._questions.of(verification_info).stubs():
            if self.score(response, verification_info).value == 1.0:
                return words
        return ""

    def self_test(self) -> None:
        """Raises SelfTestFailed unless a right input is 1, and a wrong one and no answer are 0.

        That a program that hangs is a zero is in the self-test of the scorer that runs them.
        """
        self._programs.self_test()
        row = {
            "type": "codeio",
            "answer": {
                "value": '"input": {"n": 3}',
                "output": 9,
                "code": "def main_solution(n):\n    return n * n",
            },
        }
        for what, answer, expected in (
            ("a right input", '\\boxed{"input": {"n": -3}}', 1.0),
            ("a wrong input", '\\boxed{"input": {"n": 4}}', 0.0),
            ("no answer", "", 0.0),
        ):
            score = self.score(answer, row)
            if score.value != expected:
                raise SelfTestFailed(
                    f"the simulation scorer's self-test failed: {what} gave {score.value} "
                    f"({score.reason}), expected {expected}; versions: {self.version}"
                )

    def close(self) -> None:
        """Let go of the sandbox."""
        self._programs.close()

    def _read_question(self, verification_info: Mapping[str, Any]) -> SimulationQuestion:
        question = question_of(verification_info)
        if question.reference is not None:
            self._programs.check_row(_tests_row(question.reference, question.reference.gold))
        return question

    def _trial_of(self, reference: Reference) -> Score:
        """Return what becomes of the program's own test. A test without an outcome runs again with the next answer."""
        if self._trial is None or self._trial[0] != reference:
            self._trial = (reference, self._run(reference, reference.gold))
        return self._trial[1]

    def _run(self, reference: Reference, test: str) -> Score:
        """Return whether the row's program passes a test. Raises Retryable."""
        return self._programs.score_program(reference.code, _tests_row(reference, test))

    def _score(
        self, started: float, value: float | None, reason: str, components: Mapping[str, float] | None = None
    ) -> Score:
        return make_score(self, value, reason, started=started, components=components or {})


def _finding(text: str, question: SimulationQuestion) -> AnswerFinding:
    """Return what a completion comes to. Raises Unanswered."""
    return question.finding(answering_part(text))


def _tests_row(reference: Reference, test: str) -> dict[str, Any]:
    """Return a row of the scorer of programs: one test, with what it compares by."""
    return {"type": "code", "answer": {"tests": [test], "setup": data_source() + reference.setup}}
