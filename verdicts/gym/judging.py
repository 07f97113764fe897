"""Judge answers to one entry of reasoning-gym by the library's own scorer, and decide how much of its value counts.

In: a `JudgedRow`, and the texts of completions. Out: a `GymVerdict` each. Called by `scorers.gym.scorer`, and between
the tries of an episode by the environment `reasoning_gym`.

The library runs in the sandbox (`verdicts.gym.runs`), on answers that `verdicts.gym.rules` accepts. The entry's own
answer is judged first: if it is not right, or can't be judged, the row is broken and its completions are unscorable. An
answer that takes too long or too much memory is judged again, alone; if it fails again, it is itself the cause: 0. A
failure of the sandbox raises `SandboxUnavailable`, a `Retryable`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from config.scorer_kinds import GymConfig
from sandbox.choice import LazySandbox
from verdicts.extract import Unanswered, answering_part, last_answer, last_box
from verdicts.gym.rows import GymRow
from verdicts.gym.rules import NO_ROOT, counted, doubt, refusal
from verdicts.gym.runs import LibraryResult, LibraryUnfit, ask


@dataclass(frozen=True, slots=True, kw_only=True)
class GymVerdict:
    """Value of one text."""

    value: float | None  # in [0, 1]; None: the row is broken
    reason: str  # for people
    library: float | None = None  # the library's value, in [0, 1]; None: it was not asked, or has none
    is_over_limit: bool = False  # whether the answer took too long, or too much memory


@dataclass(slots=True)
class JudgedRow:
    """Results so far for one row's answers."""

    row: GymRow
    waiting: dict[str, None] = field(default_factory=dict)  # answers that are still to be judged
    said: dict[str, LibraryResult] = field(default_factory=dict)
    broken: str | None = None  # why the row can't be used

    @classmethod
    def of(cls, row: GymRow) -> JudgedRow:
        """Return a row without results, except that its own answer may be refused."""
        own = gold_of(row)
        reason = None if own is None else refusal(own, row)
        return cls(row, broken=reason and f"the row's own answer {_shown(own or '')} is refused: {reason}")


class Judging:
    """Judge answers in one sandbox, with the scorer's section: where the answer is, and its limits."""

    def __init__(self, config: GymConfig, sandbox: LazySandbox) -> None:
        """Prepare; start nothing yet."""
        self._config, self._sandbox = config, sandbox

    def expect(self, text: str, judged: JudgedRow) -> None:
        """Add the answer of a text, to be judged in one run with the others."""
        answer, _ = self.answer_of(text)
        if answer is not None and answer not in judged.said and refusal(answer, judged.row) is None:
            judged.waiting[answer] = None

    def judge(self, text: str, judged: JudgedRow, *, most_s: float) -> GymVerdict:
        """Have the library judge the answer of a text, together with all others of the row that were added.

        Args:
            text: a completion's text.
            judged: the row and its results.
            most_s: seconds for one answer: half for the first try, half for the second one.
        Raises:
            Retryable: the sandbox failed.
        """
        answer, problem = self.answer_of(text)
        if answer is None:
            return GymVerdict(value=0.0, reason=f"no answer: {problem}")
        reason = refusal(answer, judged.row) if judged.broken is None else None
        if reason is not None:
            return GymVerdict(value=0.0, reason=f"answered {_shown(answer)}: {reason}")
        self._settle(judged, answer, most_s / 2)
        if judged.broken is not None:
            return GymVerdict(value=None, reason=judged.broken)
        said = judged.said[answer]
        if said.value is None:
            reason = f"answered {_shown(answer)}: {said.reason}"
            return GymVerdict(value=0.0, reason=reason, is_over_limit=said.is_limit)
        value = counted(said.value, answer, judged.row, partial=self._config.partial)
        reason = f"answered {_shown(answer)}: reasoning-gym says {said.value:.4g}"
        if doubted := doubt(said.value, answer, judged.row):
            reason += f", but {doubted}"
        return GymVerdict(value=value, reason=reason, library=min(max(said.value, 0.0), 1.0))

    def answer_of(self, text: str) -> tuple[str | None, str]:
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

    def _settle(self, judged: JudgedRow, answer: str, answer_s: float) -> None:
        """Judge this answer and all waiting ones, after the row's own answer. Raises Retryable."""
        if answer in judged.said or judged.broken is not None:
            return
        gold = gold_of(judged.row)
        is_tried = gold is None or gold in judged.said
        asked = list(dict.fromkeys([*([] if is_tried or gold is None else [gold]), answer, *judged.waiting]))
        asked = [one for one in asked if one not in judged.said]
        try:
            said = dict(zip(asked, self._ask(judged.row, asked, answer_s), strict=True))
            for late in [one for one, its in said.items() if its.is_limit]:
                (said[late],) = self._ask(judged.row, [late], answer_s)
                if said[late].is_limit:
                    said[late] = LibraryResult(
                        value=None,
                        is_limit=True,
                        reason=f"exceeded its limit: {said[late].reason}, and again alone",
                    )
        except LibraryUnfit as error:
            judged.broken = f"reasoning-gym can't judge a row of {judged.row.dataset.name}: {error}"
            return
        judged.said |= said
        judged.waiting.clear()
        if (
            gold is not None
            and counted(judged.said[gold].value or 0.0, gold, judged.row, partial=False) != 1.0
        ):
            its = judged.said[gold]
            judged.broken = f"the row's own answer {_shown(gold)} is not right: " + (
                its.reason or doubt(its.value or 0.0, gold, judged.row) or f"reasoning-gym says {its.value}"
            )

    def _ask(self, row: GymRow, answers: list[str], answer_s: float) -> list[LibraryResult]:
        return ask(
            self._sandbox.get(), row, answers, answer_s=answer_s, memory_bytes=self._config.memory_mb << 20
        )


def gold_of(row: GymRow) -> str | None:
    """Return the row's own answer in the form of a completion; None if it has none."""
    if row.example is None:
        return None
    return row.example.strip() or (NO_ROOT[0] if row.dataset.name == "polynomial_equations" else "")


def _shown(answer: str) -> str:
    """Return an answer for people, in one short line."""
    text = " ".join(answer.split())
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
