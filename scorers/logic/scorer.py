"""Scorer of logic puzzles: zebra, ordering, graph, and the grids of ARC-AGI and BARC.

In: the text of a completion, and `{"type": "zebra", "answer": {"value": ...}}`; the type says which puzzle it is. Out:
1.0 or 0.0 with a reason, for a zebra puzzle the share of its cells. Runs in the scorer's process: the answer is the
content of the last `<answer>` after the thinking, read as data by parsers linear in its length and never evaluated. A
row without a usable reference raises `BadMessage`; nothing here can be out of order, so nothing is unscorable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.errors import BadMessage
from broker.scores import Score
from config.scorer_kinds import LogicConfig
from config.scorers import ScorersConfig
from scorers.custom import SimpleScorer
from scorers.logic.puzzles import Arc, Graph, Ordering, Puzzle, PuzzleResult
from scorers.logic.zebra import Zebra, compatible_share
from scorers.scorer import SelfTestFailed, make_score
from scorers.text.extract import Unanswered, answering_part, last_answer, within
from tasks.values import listed, shown

RULES: Final = 4  # raise it with any change in scorers/logic that can change a score
MAX_ANSWER_CHARS: Final = 50_000  # a grid of 30 x 30 that is written with a cell a line has 12,000
PUZZLES: Final[Mapping[str, Callable[[Any], Puzzle]]] = {
    "zebra": Zebra.of,
    "ordering": Ordering.of,
    "graph": Graph.of,
    "arc": Arc.of,
}
_TABLE: Final = {"header": ["Position", "Food"], "rows": [["1", "apple"], ["2", "bread"]]}
_SELF_TESTS: Final[tuple[tuple[str, Any, str, float], ...]] = (
    ("zebra", _TABLE, '{"header": ["Position", "Food"], "rows": [["1", "apple"], ["2", "bread"]]}', 1.0),
    ("zebra", _TABLE, '{"header": ["Position", "Food"], "rows": [["1", "bread"], ["2", "apple"]]}', 0.0),
    ("ordering", ["Emma", "Wei"], "['Emma', 'Wei']", 1.0),
    ("ordering", ["Emma", "Wei"], "['Wei', 'Emma']", 0.0),
    ("graph", "fdebme", "fdebme", 1.0),
    ("graph", "fdebme", "not fdebme", 0.0),
    ("arc", [[1, 1], [0, 0]], "[[1, 1], [0, 0]]", 1.0),
    ("arc", [[0]], "", 0.0),
    ("arc", [[0]], "[" * MAX_ANSWER_CHARS, 0.0),
)


class LogicAnswer(SimpleScorer):
    """Scorer of the four kinds of logic puzzles. Holds nothing."""

    name = "logic"
    version = str(RULES)

    def __init__(self, config: LogicConfig, scorers: ScorersConfig) -> None:
        """Read from `scorers.credit` what a part of a zebra puzzle is worth."""
        self._config = config
        self._credit = scorers.credit

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage where the row is of no known type, or its `answer.value` is no reference of that type."""
        puzzle_of(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Score 1.0 for the right answer, 0.0 for none or a wrong one; of a zebra puzzle, the share of its cells.

        With `scorers.credit: all` a zebra puzzle, too, is right or wrong as a whole; its component `cells` keeps the
        share. Raises BadMessage as `check_row`.
        """
        started = time.monotonic()
        puzzle = puzzle_of(verification_info)
        if self._config.compatible and isinstance(puzzle, Zebra):
            verdict = _compatible(text, verification_info["answer"]["value"])
        else:
            verdict = _verdict(text, puzzle)
        value = float(verdict.value == 1.0) if self._credit == "all" else verdict.value
        return make_score(self, value, verdict.reason, started=started, components=verdict.components)

    def self_test(self) -> None:
        """Raises SelfTestFailed unless right answers of every kind are 1, wrong ones and endless nesting 0."""
        for row_type, value, answer, expected in _SELF_TESTS:
            score = self.score(f"<answer>{answer}</answer>", {"type": row_type, "answer": {"value": value}})
            if score.value != expected:
                raise SelfTestFailed(
                    f"the logic scorer's self-test failed: {shown(answer)} for the {row_type} puzzle "
                    f"{shown(value)} gave {score.value} ({score.reason}), expected {expected}"
                )


def puzzle_of(verification_info: Mapping[str, Any]) -> Puzzle:
    """Return the reference of a row. Raises BadMessage naming what it lacks."""
    row_type, answer = verification_info.get("type"), verification_info.get("answer")
    if not isinstance(row_type, str) or row_type not in PUZZLES:
        raise BadMessage(f"the logic scorer takes rows of type {listed(PUZZLES)}; got {shown(row_type)}")
    if not isinstance(answer, Mapping) or answer.get("value") is None:
        raise BadMessage(
            f"no answer: a row of type {row_type!r} needs an answer with a value; got {shown(answer)}"
        )
    return PUZZLES[row_type](answer["value"])


def _verdict(text: str, puzzle: Puzzle) -> PuzzleResult:
    try:
        answer = last_answer(answering_part(text))
        if answer is None:
            return PuzzleResult(0.0, "no answer: no closed <answer> after the thinking")
        if not answer:
            return PuzzleResult(0.0, "no answer: the last <answer> is empty")
        return puzzle.judge(within(answer, MAX_ANSWER_CHARS))
    except Unanswered as error:
        return PuzzleResult(0.0, str(error))


def _compatible(text: str, value: Any) -> PuzzleResult:
    """Return Reasoning360's number for a grid. It reads an answer whose tags stand in one line."""
    try:
        lines = answering_part(text).split("\n")
        answer = next((found for line in reversed(lines) if (found := last_answer(line)) is not None), None)
        if not answer:
            return PuzzleResult(0.0, "no answer: no closed <answer> in one line after the thinking")
        return compatible_share(value, within(answer, MAX_ANSWER_CHARS))
    except Unanswered as error:
        return PuzzleResult(0.0, str(error))
