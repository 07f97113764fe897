"""Rows of reasoning-gym, and answers to them: right, wrong, and meant to be paid without being right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.support.text_tables import listed, paired, right_and_wrong

Case = tuple[str, str]  # name of a row, what stands in <answer>
Look = tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]  # a row, right answers, wrong ones


def gym(dataset: str, answer: str | None, **metadata: Any) -> dict[str, Any]:
    entry = {"question": "?", "answer": answer, "metadata": {"source_dataset": dataset, **metadata}}
    return {"type": "reasoning_gym", "answer": {"dataset": dataset, "entry": entry}}


def asked(question: str, row: dict[str, Any]) -> dict[str, Any]:
    row["answer"]["entry"]["question"] = question
    return row


def looks(rows: Mapping[str, Any], table: str) -> tuple[Look, ...]:
    """Read looks, each behind the name of its row."""
    return tuple((rows[name], right, wrong) for name, right, wrong in right_and_wrong(table))


# Judged in the sandbox; one run a row.
ROWS: Final = {
    "arithmetic": gym("basic_arithmetic", "-1043"),
    "halting": gym("game_of_life_halting", "False"),
    "coins": gym("coin_flip", "0.109375"),
    "complex": gym("complex_arithmetic", "4.0 - 7.0i", result=[4, -7]),
    "never": gym("calendar_arithmetic", "-1", task="recurring_event_day"),
    "spiral": gym("spiral_matrix", "6 9 7 0"),
    "logic": gym(
        "propositional_logic",
        None,
        premises=["(P \u2227 R)", "Q"],
        variables=["P", "Q", "R"],
        example_answer="(P \u2194 R)",
    ),
    "grid": gym("rearc", "9 9\n9 1", input=[[9, 9], [9, 1]], output=[[9, 9], [9, 1]]),
    "24": gym("puzzle24", "10*2 + 5 - 1", numbers=[1, 2, 5, 10]),
    "integral": gym("simple_integration", "X**2 + C", variable="X", integrand="2*X"),
}
HONEST: Final = (
    *paired(r"""
arithmetic <== -1043 ;; halting <== False ¦ false ;; coins <== 0.109375 ¦ 7/64 ¦ 0.1094 ;; never <== -1
complex <== 4.0 - 7.0i ¦ 4-7i ¦ (4 - 7j) ;; spiral <== 6 9 7 0 ;; grid <== 9 9⏎9 1 ¦ 9 9 ⏎9 1
logic <== (P \u2194 R) ¦ P \u2227 Q ¦ (R \u2228 \u00acQ) ;; 24 <== 10*2 + 5 - 1 ¦ 5*(10/2) - 1 ¦ (10*5)/2 - 1
integral <== X**2 + C ¦ X*X ¦ (2*X**2)/2 - 7 ¦ X**2 + sin(X)**2 + cos(X)**2
"""),
    ("never", " -1\n"),
)
WRONG: Final = paired(r"""
arithmetic <== 1043 ¦ -1043. ¦ It is -1043 ;; halting <== True ¦ It will not ;; coins <== 0.110375 ¦ 7/65
complex <== 4.0 + 7.0i ¦ 4 ;; never <== 1 ¦ 0 ;; spiral <== 6 9 0 7 ¦ 6, 9, 7, 0 ;; grid <== 9 9⏎9 9 ¦ 9 9
logic <== \u00acQ ¦ P \u2228 \u00acP ;; 24 <== 10*2 + 5 + 1 ¦ 10 + 2 + 5 - 1
integral <== X**2/2 ¦ 2*X ¦ x**2
""")
# The library pays in full for `pass` and for "I don't know" (two texts, both not empty), for `0.` (the beginning of the
# right digits), `nanj` (no distance at all), a million where e is raised to it, a premise that follows from itself,
# other numbers than the given ones, and (10*5 - 1)/2, 24.5 cut.
ATTACKS: Final = paired(r"""
arithmetic <== -1042 -1043 ;; halting <== I don't know ¦ pass ;; coins <== 0 ¦ 0.1 ¦ 0. ¦ 1e-9999999999
complex <== nan ¦ nanj ;; never <== 1000000 ;; logic <== (P \u2227 R) ¦ R ;; grid <== Shape: 2x2
spiral <== [6, 9, 7, 0] ¦ __import__('os').popen('echo 6 9 7 0').read()
24 <== 6*4*1*1 ¦ 8*3*1*1 ¦ (10*5 - 1)/2 ¦ 24 ¦ 10*2 + 5 - 1 if 1 else 0
integral <== Integral(2*X, X) ¦ ().__class__.__mro__ ¦ sympify('X**2') ¦ O(1) ¦ lambda: X**2
""")
NOTHING: Final = listed(r"""
¦⏎¦I don't know¦</think>¦pass¦<think>it is <answer>{gold}</answer>¦\boxed{}¦<answer></answer>
<answer>⏎</answer>¦{gold}¦<answer>{gold}
""")
