"""Patches: how near an edit comes to the one that fixed the issue, or whether the tests pass with it.

In: the text of a completion, and a row whose answer is one of
    {"input", "ground_truth"}                   the answer is the whole file, in the last fenced block with a language
    {"code_context", "oracle_new_content"}      SEARCH/REPLACE edits of several files, in <solution> after a thought
    {"oracle_patches"}                          unified diffs, in blocks tagged diff or bare
and the first two also with {"files", "test_command"}: then the tests decide (`scorers.swe.trial`). Out: a score; where
there are no tests, the similarity of the two changes in [0, 1], II-Thought's for the first form and SWE-RL's for the
others. No change at all is 0. Run by the scorer's process: the edit is taken out of the text here
(`scorers.swe.answer`), the comparison happens in a child (`scorers.child.process`) that is killed at the deadline.

An answer without an edit that can be read and made is 0, with the reason and the component `edit: 0`, of which
`scorers.reward.combine` makes SWE-RL's -1 where `format_penalty` asks for it. An answer is also 0 whose change is over
`swe_compare.MAX_DIFF_CHARS`, `swe_edits.MAX_CHARS` or MAX_EDITS. So is one that uses up half the deadline, and again
the other half alone in a fresh child. A reference over those limits is unscorable: no answer could match it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from broker.scores import Score
from config.scorer_kinds import SweConfig
from config.scorers import ScorersConfig
from scorers.child.process import KillableChild, LimitExceeded, Reply, Request
from scorers.last_row import LastRow
from scorers.scorer import OVER_LIMIT, OwnTime, SelfTestFailed, make_score
from scorers.swe.answer import edited
from scorers.swe.compare import MAX_DIFF_CHARS, compare
from scorers.swe.rows import Edits, Patches, Reference, SweRow, WholeFile, read_row
from scorers.swe.trial import Trial
from scorers.text.extract import Unanswered

VERSION: Final = "4"  # raise it with any change that can change a score


class SwePatch:
    """Scorer of edits by their similarity with the reference's. Holds one child process."""

    name = "swe"
    version = VERSION

    def __init__(self, config: SweConfig, scorers: ScorersConfig) -> None:
        """Start nothing yet: the first comparison forks the child."""
        self._config = config
        self._child = KillableChild(compare)
        self.own_time = OwnTime(deadline_s=config.deadline_s)
        self._trial = Trial(scorers, self.own_time)
        self._rows = LastRow(read_row)

    @property
    def child_pid(self) -> int | None:
        """Return the process id of the scoring child; None before the first comparison and after a kill."""
        return self._child.pid

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Check a row before any answer. Raises BadMessage naming what the row lacks."""
        self._rows.of(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Return the similarity, or what the tests say; see the module for what becomes of everything else.

        Raises:
            Retryable: the child was killed from outside, or the sandbox failed.
            BadMessage: as `check_row`.
        """
        started = time.monotonic()
        score = self._verdict(text, self._rows.of(verification_info), started + self._config.deadline_s)
        return replace(score, seconds=time.monotonic() - started)

    def self_test(self) -> None:
        """Score known answers. Raises SelfTestFailed unless the fix is 1, nothing done is 0, and no answer is 0."""
        row = {"type": "swe", "answer": {"input": "a = 1\nb = 2", "ground_truth": "a = 1\nb = 3"}}
        for text, expected in (
            ("```python\na = 1\nb = 3\n```", 1.0),
            ("```python\na = 1\nb = 2\n```", 0.0),
            ("", 0.0),
        ):
            score = self.score(text, row)
            if score.value != expected:
                raise SelfTestFailed(
                    f"the swe scorer gives {score.value} for {text!r}, where {expected} is right: "
                    f"{score.reason}"
                )

    def close(self) -> None:
        """Kill the child, and let go of the sandbox."""
        self._child.close()
        self._trial.close()

    def _verdict(self, text: str, row: SweRow, end: float) -> Score:
        try:
            written = edited(text, row, self._config)
        except Unanswered as error:
            return self._scored(0.0, f"no edit: {error}", edit=0.0)
        if row.tests is not None:
            value, reason, is_limit = self._trial.verdict(row, row.tests, written, end)
            version = f"{self.version} {self._trial.version}"
            return self._scored(value, reason, over_limit=is_limit and value == 0.0, version=version)
        request = self._request(written, row.reference)
        try:
            with self.own_time.measured() as most_s:
                reply = self._child.ask_with_fresh_child_retry(request, most_s)
        except LimitExceeded as limit:
            return self._scored(
                0.0, f"the edit exceeded its {limit}, and again alone in a fresh child", over_limit=True
            )
        return self._judged(reply)

    def _request(self, written: dict[str, str], reference: Reference) -> Request:
        """Return what the child is to compare."""
        match reference:
            case WholeFile():
                request: Request = {"files": [["", reference.before, written[""], reference.after]]}
            case Edits():
                paths = sorted(written.keys() | reference.after.keys())
                request = {
                    "files": [
                        [path, reference.before.get(path), written.get(path), reference.after.get(path)]
                        for path in paths
                    ]
                }
            case Patches():
                paths = sorted(written.keys() | reference.changes.keys())
                request = {
                    "changes": [[written.get(path, ""), reference.changes.get(path, "")] for path in paths]
                }
        return {**request, "floor": self._config.subtract_floor, "syntax": self._config.syntax_gate}

    def _judged(self, reply: Reply) -> Score:
        """Return the score that the child's reply makes."""
        if reply["reference_size"] > MAX_DIFF_CHARS:
            return self._scored(
                None,
                f"the reference's change has {reply['reference_size']} characters; "
                f"{MAX_DIFF_CHARS} is the limit",
            )
        if reply["size"] > MAX_DIFF_CHARS:
            return self._scored(0.0, f"a change of {reply['size']} characters; {MAX_DIFF_CHARS} is the limit")
        if not reply["size"] or reply["broken"] is not None:
            return self._scored(
                0.0, f"the edit breaks {reply['broken']}" if reply["size"] else "the edit changes nothing"
            )
        value = reply["value"]
        if not self._config.subtract_floor or reply["floor"] >= 1.0:
            return self._scored(value, f"similarity {value:.4f} with the reference's change")
        above = max(0.0, (value - reply["floor"]) / (1.0 - reply["floor"]))
        return self._scored(
            above,
            f"similarity {value:.4f} with the reference's change, of which {reply['floor']:.4f} "
            "goes to an edit that does nothing",
        )

    def _scored(
        self,
        value: float | None,
        reason: str,
        *,
        edit: float = 1.0,
        over_limit: bool = False,
        version: str = VERSION,
    ) -> Score:
        components = {"edit": edit} | ({OVER_LIMIT: 1.0} if over_limit else {})
        return make_score(self, value, reason, components=components, version=version)
