"""Any task of reasoning-gym: the scorer of the task `gym`, type `reasoning_gym`.

In: the text of a completion, and a row with an entry of a data set (`verdicts.gym.rows`). Out: 1 or 0, or a share.
Called in a scorer's process by `scorers.group`, which names all completions of a group first: one run judges them, by
`verdicts.gym.judging`. A broken row is unscorable. What the sandbox itself could not do raises `SandboxUnavailable`, a
`Retryable`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from broker.errors import BadMessage, Permanent
from broker.scores import Score
from config.scorer_kinds import GymConfig
from config.scorers import ScorersConfig
from sandbox.choice import LazySandbox
from sandbox.program import Sandbox
from scorers.last_row import LastRow
from scorers.scorer import OVER_LIMIT, OwnTime, SelfTestFailed, make_score
from verdicts.gym.judging import JudgedRow, Judging
from verdicts.gym.rows import row_of, version

RULES: Final = 3  # raise it with any change here or in what this imports that can change a score


class GymAnswer:
    """This scorer judges reasoning-gym's tasks. It holds the sandbox."""

    name = "gym"

    def __init__(self, config: GymConfig, scorers: ScorersConfig, sandbox: Sandbox | None = None) -> None:
        """Start nothing: the sandbox, unless it is given, is built when it is first needed."""
        self._sandbox = LazySandbox(scorers, sandbox)
        self._judging = Judging(config, self._sandbox)
        self.own_time = OwnTime(deadline_s=config.deadline_s)
        self._rows = LastRow(lambda verification_info: JudgedRow.of(row_of(verification_info)))

    @property
    def version(self) -> str:
        """The versions of the rules, the library, and the sandbox with its interpreter."""
        return f"{RULES} reasoning-gym={version()} {self._sandbox.get().version}"

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage naming what the row lacks."""
        self._rows.of(verification_info)

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        """Note the answer, to be judged in one run with the others. See scorers.scorer.Prefetching."""
        with suppress(BadMessage, Permanent):  # `score` says it
            self._judging.expect(text, self._rows.of(verification_info))

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Have the library judge the answer, with all others of the row that were named.

        Raises:
            Retryable: the sandbox failed.
            BadMessage: as `check_row`.
        """
        started = time.monotonic()
        judged = self._rows.of(verification_info)
        verdict = self._judging.judge(text, judged, most_s=self.own_time.most_s)
        components = {} if verdict.library is None else {"library": verdict.library}
        components |= {OVER_LIMIT: 1.0} if verdict.is_over_limit else {}
        return make_score(self, verdict.value, verdict.reason, started=started, components=components)

    def self_test(self) -> None:
        """Raises SelfTestFailed unless a right answer is 1, and a wrong one and no answer are 0."""
        info = {
            "type": "reasoning_gym",
            "answer": {
                "dataset": "basic_arithmetic",
                "entry": {"question": "7 - 11 =", "answer": "-4", "metadata": {}},
            },
        }
        try:
            version()
            self._sandbox.get().self_test()
            scores = [
                (self.score(text, info), expected)
                for text, expected in (
                    ("<answer>-4</answer>", 1.0),
                    ("<answer>4</answer>", 0.0),
                    ("-4", 0.0),
                    ("", 0.0),
                )
            ]
        except Permanent as error:
            raise SelfTestFailed(f"the gym scorer can't work here: {error}") from error
        for score, expected in scores:
            if score.value != expected:
                raise SelfTestFailed(
                    f"the gym scorer's self-test failed: {score.reason}, {score.value}, expected "
                    f"{expected}; versions: {self.version}"
                )

    def close(self) -> None:
        """Let go of the sandbox."""
        self._sandbox.close()
