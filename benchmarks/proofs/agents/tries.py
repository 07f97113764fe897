"""Several tries at a problem of reasoning-gym, and at a program, by the scorers' own rules, in Millrace's Python."""

from __future__ import annotations

import re
from typing import Final

from benchmarks.proofs.agents.stage import KindStage

TERM: Final = re.compile(r"([+-]?) ?(\d+)(?= [+-]|\s*=|\s*$)", re.MULTILINE)
DOUBLE, SQUARE = "print(2 * int(input()))", "print(int(input()) ** 2)"
TESTS: Final = {"inputs": ["2\n", "3\n", "10\n"], "outputs": ["4\n", "9\n", "100\n"]}
ROW: Final = {"type": "code", "answer": TESTS}


def reasoning_gym(stage: KindStage) -> None:
    """Answer sums wrong and right."""
    section = {"type": "reasoning_gym", "dataset": "chain_sum", "tries": 3, "discount": 0.5}
    answers: list[str] = []

    def second(read: str) -> str:
        """Answer wrong, and then right by the first question."""
        if not answers:
            found = TERM.findall(read.partition(":")[2] or read)
            answers.append(str(sum(int(f"{sign}{number}") for sign, number in found)))
            return "<answer>one</answer>"
        return f"<answer>{answers[0]}</answer>"

    with stage.plays(section, scorer="environment") as player:
        right = player.play_by(second, most=3, seed=3)
        again = player.play("<answer>one</answer>", "no answer", "<answer>two</answer>", seed=3)
    stage.holds(
        "a second try that is right is paid by the discount", right.rewards == [0.0, 0.5], right.is_over
    )
    stage.holds("the same seed asks the same", again.opening == right.opening)
    stage.holds(
        "wrong answers and none are told, and the last try ends it",
        "not right" in again.said[0],
        "no answer" in again.said[1],
        again.rewards == [0.0] * 3,
        again.is_over,
    )


def code(stage: KindStage) -> None:
    """Write a program that is wrong, one that hangs, and one that is right."""
    section = {"type": "code", "public": 2, "tries": 3, "case_timeout_s": 2, "max_turns": 4}
    wrong, hangs, right = (f"```python\n{one}\n```" for one in (DOUBLE, "while True: pass", SQUARE))
    with stage.plays(section, scorer="code") as player:
        mended = player.play(wrong, hangs, right, row=ROW)
        never = player.play("I can't.", wrong, wrong, row=ROW)
    stage.holds(
        "a failed public test is shown, and no hidden one",
        "expected '9', got '6'" in mended.said[0],
        "100" not in mended.said[0],
    )
    stage.holds("a program that hangs costs its try alone", mended.rewards == [0.0, 0.0, 1.0], mended.is_over)
    stage.holds(
        "no program is told, and the last try ends it",
        "There is no program" in never.said[0],
        never.rewards == [0.0] * 3,
        never.is_over,
    )
