"""Any task of reasoning-gym: the scorer of the task `gym`, type `reasoning_gym`.

In: the text of a completion, and a row with an entry of a data set (`scorers.gym.rows`). Out: 1 or 0, or a share.
Called in a scorer's process by `scorers.group`, which names all completions of a group first: one run judges them.

The library's own scorer decides, in the sandbox (`scorers.gym.runs`) and of answers that `scorers.gym.rules` lets pass.
The entry's own answer goes first: where it is not right, or can't be judged, the row is broken and its completions are
unscorable. An answer that takes too long or too much memory is judged once more, alone, and then has brought that
about: 0. What the sandbox itself could not do raises `SandboxUnavailable`, a `Retryable`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from broker.errors import BadMessage, Permanent
from broker.messages import Score
from config.scorer_kinds import GymConfig
from config.scorers import ScorersConfig
from sandbox.choice import LazySandbox
from sandbox.program import Sandbox
from scorers.gym.rows import Row, row_of, version
from scorers.gym.rules import NO_ROOT, counted, doubt, refusal
from scorers.gym.runs import LibraryUnfit, Said, ask
from scorers.last_row import LastRow
from scorers.scorer import OVER_LIMIT, OwnTime, SelfTestFailed, make_score
from scorers.text.extract import Unanswered, answering_part, last_answer, last_box

RULES: Final = 3  # raise it with any change here or in what this imports that can change a score


@dataclass(slots=True)
class _Group:
    """What is known of one row's answers."""

    row: Row
    waiting: dict[str, None] = field(default_factory=dict)  # answers that will be asked about
    said: dict[str, Said] = field(default_factory=dict)
    broken: str | None = None  # why nothing can be said of the row

    @classmethod
    def of(cls, row: Row) -> _Group:
        """Return a group of which nothing is known yet, except that its row's own answer may be refused."""
        gold = _gold(row)
        reason = None if gold is None else refusal(gold, row)
        return cls(row, broken=reason and f"the row's own answer {_shown(gold or '')} is refused: {reason}")


class GymAnswer:
    """This scorer judges reasoning-gym's tasks. It holds the sandbox."""

    name = "gym"

    def __init__(self, config: GymConfig, scorers: ScorersConfig, sandbox: Sandbox | None = None) -> None:
        """Start nothing: the sandbox, unless it is given, is built when it is first needed."""
        self._config = config
        self._scorers = scorers
        self._sandbox = LazySandbox(scorers, sandbox)
        self.own_time = OwnTime(deadline_s=config.deadline_s)
        self._groups = LastRow(lambda verification_info: _Group.of(row_of(verification_info)))

    @property
    def version(self) -> str:
        """The versions of the rules, the library, and the sandbox with its interpreter."""
        return f"{RULES} reasoning-gym={version()} {self._sandbox.get().version}"

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage naming what the row lacks."""
        self._groups.of(verification_info)

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        """Note the answer, to be judged in one run with the others. See scorers.scorer.Prefetching."""
        with suppress(BadMessage, Permanent):  # `score` says it
            group = self._groups.of(verification_info)
            answer, _ = self._answer(text)
            if answer is not None and answer not in group.said and refusal(answer, group.row) is None:
                group.waiting[answer] = None

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Have the library judge the answer, with all others of the row that were named.

        Raises:
            Retryable: the sandbox failed.
            BadMessage: as `check_row`.
        """
        started = time.monotonic()
        group = self._groups.of(verification_info)
        answer, problem = self._answer(text)
        if answer is None:
            return self._score(started, 0.0, f"no answer: {problem}")
        reason = refusal(answer, group.row) if group.broken is None else None
        if reason is not None:
            return self._score(started, 0.0, f"answered {_shown(answer)}: {reason}")
        self._settle(group, answer)
        if group.broken is not None:
            return self._score(started, None, group.broken)
        said = group.said[answer]
        if said.value is None:
            over_limit = {OVER_LIMIT: 1.0} if said.is_limit else {}
            return self._score(started, 0.0, f"answered {_shown(answer)}: {said.reason}", over_limit)
        value = counted(said.value, answer, group.row, partial=self._config.partial)
        reason = f"answered {_shown(answer)}: reasoning-gym says {said.value:.4g}"
        if doubted := doubt(said.value, answer, group.row):
            reason += f", but {doubted}"
        return self._score(started, value, reason, {"library": min(max(said.value, 0.0), 1.0)})

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

    def _answer(self, text: str) -> tuple[str | None, str]:
        """Return the answer of a completion, or why there is none."""
        try:
            response = answering_part(text)
        except Unanswered as error:
            return None, str(error)
        match self._config.part:
            case "answer":
                found, where = last_answer(response), "<answer>"
            case "box":
                found, where = last_box(response), "\\boxed{}"
            case _:
                found, where = response.strip() or None, "text"
        return (None, f"no {where} after the thinking") if found is None else (found.strip(), "")

    def _settle(self, group: _Group, answer: str) -> None:
        """Have this answer and all that wait judged, the row's own before them. Raises Retryable."""
        if answer in group.said or group.broken is not None:
            return
        gold = _gold(group.row)
        is_tried = gold is None or gold in group.said
        asked = list(dict.fromkeys([*([] if is_tried or gold is None else [gold]), answer, *group.waiting]))
        asked = [one for one in asked if one not in group.said]
        try:
            said = dict(zip(asked, self._ask(group.row, asked), strict=True))
            for late in [one for one, its in said.items() if its.is_limit]:
                (said[late],) = self._ask(group.row, [late])
                if said[late].is_limit:
                    said[late] = Said(
                        value=None,
                        is_limit=True,
                        reason=f"exceeded its limit: {said[late].reason}, and again alone",
                    )
        except LibraryUnfit as error:
            group.broken = f"reasoning-gym can't judge a row of {group.row.dataset.name}: {error}"
            return
        group.said |= said
        group.waiting.clear()
        if gold is not None and counted(group.said[gold].value or 0.0, gold, group.row, partial=False) != 1.0:
            its = group.said[gold]
            group.broken = f"the row's own answer {_shown(gold)} is not right: " + (
                its.reason or doubt(its.value or 0.0, gold, group.row) or f"reasoning-gym says {its.value}"
            )

    def _ask(self, row: Row, answers: list[str]) -> list[Said]:
        return ask(
            self._sandbox.get(),
            row,
            answers,
            answer_s=self.own_time.most_s / 2,
            memory_bytes=self._config.memory_mb << 20,
        )

    def _score(
        self, started: float, value: float | None, reason: str, components: Mapping[str, float] | None = None
    ) -> Score:
        return make_score(self, value, reason, started=started, components=components or {})


def _gold(row: Row) -> str | None:
    """Return the row's own answer as a completion would give it; None where it has none."""
    if row.example is None:
        return None
    return row.example.strip() or (NO_ROOT[0] if row.dataset.name == "polynomial_equations" else "")


def _shown(answer: str) -> str:
    """Return an answer for people, in one short line."""
    text = " ".join(answer.split())
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
