"""Rows of reasoning-gym, and answers to them: right, wrong, and meant to be paid without being right.

Where the library itself pays in full for an attack, a comment says what it reads there.
"""

from __future__ import annotations

from typing import Any, Final

Case = tuple[str, str]  # name of a row, what stands in <answer>
Look = tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]  # a row, right answers, wrong ones


def gym(dataset: str, answer: str | None, **metadata: Any) -> dict[str, Any]:
    """Return a row of the data set, as the library makes its entries."""
    entry = {"question": "?", "answer": answer, "metadata": {"source_dataset": dataset, **metadata}}
    return {"type": "reasoning_gym", "answer": {"dataset": dataset, "entry": entry}}


def asked(question: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with a question."""
    row["answer"]["entry"]["question"] = question
    return row


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
HONEST: Final[tuple[Case, ...]] = (
    ("arithmetic", "-1043"),
    ("halting", "False"),
    ("halting", "false"),
    ("coins", "0.109375"),
    ("coins", "7/64"),
    ("coins", "0.1094"),
    ("complex", "4.0 - 7.0i"),
    ("complex", "4-7i"),
    ("complex", "(4 - 7j)"),
    ("never", "-1"),
    ("never", " -1\n"),
    ("spiral", "6 9 7 0"),
    ("logic", "(P \u2194 R)"),
    ("logic", "P \u2227 Q"),
    ("logic", "(R \u2228 \u00acQ)"),
    ("grid", "9 9\n9 1"),
    ("grid", "9 9 \n9 1"),
    ("24", "10*2 + 5 - 1"),
    ("24", "5*(10/2) - 1"),
    ("24", "(10*5)/2 - 1"),
    ("integral", "X**2 + C"),
    ("integral", "X*X"),
    ("integral", "(2*X**2)/2 - 7"),
    ("integral", "X**2 + sin(X)**2 + cos(X)**2"),
)
WRONG: Final[tuple[Case, ...]] = (
    ("arithmetic", "1043"),
    ("arithmetic", "-1043."),
    ("arithmetic", "It is -1043"),
    ("halting", "True"),
    ("halting", "It will not"),
    ("coins", "0.110375"),
    ("coins", "7/65"),
    ("complex", "4.0 + 7.0i"),
    ("complex", "4"),
    ("never", "1"),
    ("never", "0"),
    ("spiral", "6 9 0 7"),
    ("spiral", "6, 9, 7, 0"),
    ("logic", "\u00acQ"),
    ("logic", "P \u2228 \u00acP"),
    ("grid", "9 9\n9 9"),
    ("grid", "9 9"),
    ("24", "10*2 + 5 + 1"),
    ("24", "10 + 2 + 5 - 1"),
    ("integral", "X**2/2"),
    ("integral", "2*X"),
    ("integral", "x**2"),
)
ATTACKS: Final[tuple[Case, ...]] = (
    ("arithmetic", "-1042 -1043"),
    ("halting", "I don't know"),
    ("halting", "pass"),  # two texts, both not empty
    ("coins", "0"),
    ("coins", "0.1"),
    ("coins", "0."),  # the beginning of the right digits
    ("coins", "1e-9999999999"),
    ("complex", "nan"),
    ("complex", "nanj"),  # no distance at all
    ("never", "1000000"),  # a value of e to the power of millions
    ("spiral", "[6, 9, 7, 0]"),
    ("spiral", "__import__('os').popen('echo 6 9 7 0').read()"),
    ("logic", "(P \u2227 R)"),
    ("logic", "R"),
    ("grid", "Shape: 2x2"),  # a premise follows from itself
    ("24", "6*4*1*1"),
    ("24", "8*3*1*1"),  # other numbers than the given ones
    ("24", "(10*5 - 1)/2"),  # 24.5, cut
    ("24", "24"),
    ("24", "10*2 + 5 - 1 if 1 else 0"),
    ("integral", "Integral(2*X, X)"),
    ("integral", "().__class__.__mro__"),
    ("integral", "sympify('X**2')"),
    ("integral", "O(1)"),
    ("integral", "lambda: X**2"),
)
NOTHING: Final = (
    "",
    "\n",
    "I don't know",
    "</think>",
    "pass",
    "<think>it is <answer>{gold}</answer>",
    "\\boxed{}",
    "<answer></answer>",
    "<answer>\n</answer>",
    "{gold}",
    "<answer>{gold}",
)
