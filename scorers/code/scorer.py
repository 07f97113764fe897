"""Programs against their tests: the scorer of the tasks `code` and `code_verifiable`.

In: the text of a completion and a row (`verdicts.code.rows` has its shapes). Out: the share of cases that passed, or
all or nothing. Called in a scorer's process by `scorers.group`, one completion at a time. The program is taken out of
the text here (the last closed code block in the row's language) and judged by `verdicts.code.judging`, in the sandbox
only.

What the sandbox itself could not do, or not in time, raises `SandboxUnavailable`, a `Retryable`; a language that it
lacks, a module that it should have and an answer imports (`sandbox.lacks`), and a program too large for it make the
completion unscorable, saying so. Never a zero.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.scores import Score
from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox.choice import LazySandbox
from sandbox.program import Language, ProgramTooLarge, Sandbox
from scorers.code.trial import passing_stub
from scorers.last_row import LastRow
from scorers.scorer import LACKING, OVER_LIMIT, OwnTime, SelfTestFailed, TakesLong, make_score
from verdicts.code.answer import program_of
from verdicts.code.judging import CaseTally, Judging, Obstacles, OutOfPatience
from verdicts.code.rows import Suite, suite_of
from verdicts.extract import Unanswered

RULES: Final = 10  # raise it with any change here or in what this imports that can change a score


class CodeTests:
    """This scorer judges programs. It holds the sandbox."""

    name = "code"

    def __init__(self, config: CodeConfig, scorers: ScorersConfig, sandbox: Sandbox | None = None) -> None:
        """Start nothing: the sandbox, unless it is given, is built when it is first needed."""
        self.patience_s: float | None = None  # see `scorers.scorer.Patient`
        self.own_time = OwnTime(deadline_s=config.deadline_s)
        self._config = config
        self._scorers = scorers
        self._sandbox = LazySandbox(scorers, sandbox)
        self._obstacles = Obstacles(self._sandbox)
        self._suites = LastRow(self._read_suite)

    @property
    def version(self) -> str:
        """The versions of the rules, and of the sandbox with its interpreters."""
        return f"{RULES} {self._sandbox.get().version}"

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage naming what the row lacks."""
        self._suites.of(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Run the completion's program against the row's tests.

        Raises:
            Retryable: the sandbox failed.
            BadMessage: as `check_row`.
            TakesLong: a case took longer than `patience_s`, and its limit is longer.
        """
        return self._scored(verification_info, lambda language: program_of(text, language))

    def score_program(self, program: str, verification_info: Mapping[str, Any]) -> Score:
        """Score a program by itself, whatever stands in it. Raises as `score`."""
        return self._scored(verification_info, lambda _: program)

    def _scored(self, verification_info: Mapping[str, Any], answered: Callable[[Language], str]) -> Score:
        started = time.monotonic()
        suite = self._suites.of(verification_info)
        if lacking := self._obstacles.of(suite):
            return self._score(started, None, lacking, {LACKING: 1.0})
        try:
            program = answered(suite.language)
            tally = self._judge(program, suite)
        except Unanswered as error:
            return self._score(started, 0.0, f"no answer: {error}", {"passed": 0.0})
        except ProgramTooLarge as error:
            return self._score(started, None, str(error), {})
        value, share, reason = tally.score()
        if value < 1.0 and (lacking := self._obstacles.of_failure(program, suite, tally)):
            return self._score(started, None, lacking, {LACKING: 1.0})
        over_limit = {OVER_LIMIT: 1.0} if tally.is_over_limit and value == 0.0 else {}
        return self._score(started, value, reason, {"passed": share, **over_limit})

    def self_test(self) -> None:
        """Raises SelfTestFailed unless right is 1, and wrong, hanging and ending with success are 0.

        The hang alone has little time: a right answer may need more on a busy machine.
        """
        self._sandbox.get().self_test()
        brief = CodeTests(
            self._config.model_copy(update={"deadline_s": 4.0, "case_timeout_s": 1.0}),
            self._scorers,
            self._sandbox.get(),
        )
        row = {"type": "code", "answer": {"tests": ["assert double(2) == 4", "assert double([]) == []"]}}
        echo = {"type": "code", "answer": {"test_cases": [{"input": "4\n", "output": "8\n"}]}}
        for what, scorer, program, info, expected in (
            ("a right answer", self, "def double(x): return x + x", row, 1.0),
            ("a wrong answer", self, "def double(x): return 2", row, 0.0),
            ("an answer that hangs", brief, "def double(x):\n    while True: pass", row, 0.0),
            ("an answer that ends with success", self, "import os\ndef double(x): os._exit(0)", row, 0.0),
            ("a right program", self, "print(2 * int(input()))", echo, 1.0),
            ("a wrong program", self, "print(4)", echo, 0.0),
        ):
            score = scorer.score(f"```python\n{program}\n```", info)
            if score.value != expected:
                raise SelfTestFailed(
                    f"the code scorer's self-test failed: {what} gave {score.value} ({score.reason}), "
                    f"expected {expected}; versions: {self.version}"
                )

    def passing_stub(self, verification_info: Mapping[str, Any]) -> str:
        """Return an answer without work that passes the row, in words; see `scorers.scorer.Trying`."""
        return passing_stub(self._suites.of(verification_info), self._sandbox, self._config)

    def close(self) -> None:
        """Let go of the sandbox."""
        self._sandbox.close()

    def _read_suite(self, verification_info: Mapping[str, Any]) -> Suite:
        split = self._scorers.credit == "fraction" or (
            self._scorers.credit is None and verification_info.get("type") == "code_verifiable"
        )
        return suite_of(verification_info, split=split, max_cases=self._config.max_cases)

    def _score(
        self, started: float, value: float | None, reason: str, components: Mapping[str, float]
    ) -> Score:
        return make_score(self, value, reason, started=started, components=components)

    def _judge(self, source: str, suite: Suite) -> CaseTally:
        judging = Judging(
            self._sandbox.get(),
            self._config,
            is_all=self._scorers.credit == "all" or (self._scorers.credit is None and not suite.is_fraction),
            most_s=self.own_time.most_s,
            patience_s=self.patience_s,
        )
        try:
            tally = judging.judge(source, suite)
        except OutOfPatience as error:
            raise TakesLong(str(error)) from error
        self.own_time.ran_s += judging.used_s
        return tally
