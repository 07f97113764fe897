r"""Answers to multiple choice, each with its row and what it deserves.

A row of HONEST and WRONG is the row's answer and a whole text, of ATTACKS also what the text tries. MEASURED has what
Reasoning360's two scorers were measured to give for a text, what it gets here, and why where the two differ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

C: dict[str, Any] = {"value": "C"}
PETS: dict[str, Any] = {
    "value": "B",
    "options": ["Dog", "A cat", "All of the above", "$5$ m/s", "None", "none"],
}
FOUR: dict[str, Any] = {"value": "D", "options": 4}

REFERENCES: list[tuple[str, dict[str, Any]]] = [
    ("choice", C),
    ("choice", PETS),
    ("choice", FOUR),
    ("choice", {"value": "I"}),
    ("choice", {"value": "(a)"}),
    ("choice", {"value": "J", "options": 10}),
    ("choice", {"value": "C", "options": PETS["options"]}),
]
# How the prompts ask for it: of GPQA, of GPQA Diamond and SuperGPQA, and of those who ask for tags.
PROMPTED = ["It follows.\nAnswer: {}", "So \\boxed{{}}.", "<answer>{}</answer>"]

HONEST: list[tuple[dict[str, Any], str]] = [
    (C, "\\boxed{C}"),
    (C, "\\boxed{\\text{C}}"),
    (C, "\\boxed{\\textbf{(C)}}"),
    (C, "$\\boxed{\\mathrm{C}}$"),
    (C, "\\boxed{(C)}"),
    (C, "\\boxed{C)}"),
    (C, "\\boxed{C.}"),
    (C, "\\boxed{c}"),
    (C, "\\boxed{ C }"),
    (C, "\\boxed{[C]}"),
    (C, "\\boxed{Answer: C}"),
    (C, "\\boxed{\\text{Option C}}"),
    (C, "\\boxed{C. Cat}"),
    (C, "\\boxed{(C) Cat}"),
    (C, "\\boxed{C) 5 \\text{ m/s}}"),
    (C, "\\boxed{\\text{C: It falls.}}"),
    (C, "A? \\boxed{A} No.\n\\boxed{C}"),
    (C, "Answer: C"),
    (C, "so\nAnswer: C"),
    (C, "so\n\n**Answer: C**"),
    (C, "**Answer:** C"),
    (C, "Answer: $C$"),
    (C, "### Answer: C"),
    (C, "answer: c"),
    (C, "ANSWER: C."),
    (C, "Answer: (C)"),
    (C, "Answer: \\(C\\)"),
    (C, "Final Answer: C\n"),
    (C, "Answer: C) Cat"),
    (C, "The answer is C."),
    (C, "Therefore, the correct answer is (C)."),
    (C, "The correct answer is **C**."),
    (C, "Answer: **C**. Cat"),
    (C, "Answer: **C.** Cat"),
    (C, "The answer is **(C)** Cat."),
    (C, "Answer: C. *Cat*"),
    (C, "The correct option is C."),
    (C, "Option C"),
    (C, "(C)"),
    (C, "so it is\n(C)"),
    (C, "C"),
    (C, "**C**"),
    (C, "<answer>C</answer>"),
    (C, "<answer>\nC\n</answer>"),
    (C, "<answer>\\boxed{C}</answer>"),
    (C, "<answer>Answer: C</answer>\nThat is all."),
    (C, "\\boxed{C}\nThis is the answer to the question."),
    (C, "v = \\boxed{5 \\text{ m/s}}\nAnswer: C"),
    (C, "\\boxed{}\nAnswer: C"),
    (C, "> **Answer**: C"),
    (C, "<think>A? B?</think>\nAnswer: C<|im_end|>"),
    (C, "\\boxed{C}\nAnswer: C"),
    (C, "Answer: \\boxed{C}"),
    (C, "It isn't A, so the answer is C"),
    (C, "The final answer is $\\boxed{C}$. I hope it is correct."),
    (PETS, "\\boxed{B}"),
    (PETS, "\\boxed{\\text{A cat}}"),
    (PETS, "Answer: a cat"),
    (PETS, "<answer>A cat.</answer>"),
    (PETS, "\\boxed{B. A cat}"),
    (PETS, "Answer: (B) a cat"),
    (PETS | {"value": "C"}, "\\boxed{\\text{all of the above}}"),
    (PETS | {"value": "D"}, "\\boxed{5 \\text{ m/s}}"),
    (FOUR, "\\boxed{D}"),
    ({"value": "(c)"}, "Answer: C"),
]

WRONG: list[tuple[dict[str, Any], str]] = [
    (C, "\\boxed{B}"),
    (C, "Answer: B"),
    (C, "(B)"),
    (C, "<answer>B</answer>"),
    (C, "\\boxed{C or D}"),
    (C, "\\boxed{C, D}"),
    (C, "\\boxed{C. D}"),
    (C, "\\boxed{CD}"),
    (C, "\\boxed{C and D}"),
    (C, "\\boxed{not C}"),
    (C, "Answer: Cat"),
    (C, "Answer: Because.."),
    (C, "Answer: all of the above"),
    (C, "all of the above"),
    (C, "\\boxed{\\text{all of the above}}"),
    (C, "Answer: C\nOr perhaps another."),
    (C, "I choose C or D"),
    (C, "The answer is not C"),
    (C, "Answer: A\nC is wrong."),
    (C, "\\boxed{C}\nAnswer: B"),
    (C, "\\boxed{B}\nAnswer: C"),
    (C, "<answer>B</answer> \\boxed{C}"),
    (C, "\\boxed{C"),
    (C, "\\boxed C"),
    (C, "<answer>C"),
    (C, "\\boxed{Carbon}"),
    (C, "C is the one that I like"),
    (C, "Vitamin C"),
    (C, "\\boxed{\\text{C++}}"),
    (C, "\\boxed{C\\#}"),
    (C, "Answer: C#"),
    (C, "\\boxed{3}"),
    (C, "\\boxed{C}\\boxed{D}"),
    (C, "Answer: C, since B and D are out"),
    (C, "Answer: $LETTER"),
    (PETS, "\\boxed{A}"),
    (PETS, "\\boxed{\\text{A dog}}"),
    (PETS, "\\boxed{\\text{Dog}}"),
    (PETS, "\\boxed{B. Dog}"),
    (PETS, "\\boxed{A. A cat}"),
    (PETS, "\\boxed{cat}"),
    (PETS, "a cat"),
    (PETS | {"value": "E"}, "\\boxed{\\text{none}}"),
    (FOUR, "\\boxed{E}"),
    (FOUR, "Answer: J"),
]

ATTACKS: list[tuple[dict[str, Any], str, str]] = [
    (C, "A B C D E F G H I J", "lists all letters"),
    (C, "\\boxed{A B C D E F G H I J}", "lists all letters in the box"),
    (C, "\\boxed{ABCDEFGHIJ}", "lists them in one word"),
    (C, "\\boxed{A}\\boxed{B}\\boxed{C}\\boxed{D}", "answers again and again"),
    (C, "Answer: A\nAnswer: B\nAnswer: C\nAnswer: D", "answers line by line"),
    (C, "<answer>A</answer><answer>C</answer><answer>B</answer>", "answers tag by tag"),
    (C, "\\boxed{A} <answer>B</answer>\nAnswer: C", "answers differently in every place"),
    (C, "Answer: any of A, B, C, D", "answers with all"),
    (C, "Answer: A or B or C or D", "answers with alternatives"),
    (C, "\\boxed{}\nC", "hides a letter behind an empty box"),
    (C, "\\boxed{Answer}\n(C)", "hides it behind a box without a letter"),
    (C, "<answer>A or C</answer>\nC", "hides it behind a tag with two"),
    (C, "<think>Answer: C", "answers before it has thought"),
    (C, "<think>Answer: C</think>", "answers in its thoughts alone"),
    (C, "Answer: C" + "C" * 1_000_001, "is longer than any response"),
    (C, "Answer: " + " " * 3000 + "C, probably", "has a line longer than any answer"),
    (C, "\\boxed{" + "\\text{C} " * 400 + "}", "repeats a letter in a giant box"),
    (C, "answer " * 50_000, "is made of labels"),
    (C, "Answer: $LETTER where LETTER is one of ABCD", "echoes the prompt"),
    (C, "e.g. \\boxed{A}. There is only one correct answer.", "echoes another"),
]


class Measured(NamedTuple):
    """One measured score beside ours."""

    answer: dict[str, Any]
    text: str
    old: float
    ours: float
    remark: str = ""


MEASURED = [
    Measured({"value": "B"}, "\\boxed{B}", 1, 1),
    Measured(
        {"value": "D"}, "\\boxed{D. Cat}", 0, 1, "the letter is the answer's, not the first in its text"
    ),
    Measured(
        {"value": "B"}, "\\boxed{Answer: B}", 0, 1, "the letter is the answer's, not the first in its text"
    ),
    Measured({"value": "B"}, "I can't tell.", 0.099, 0, "nothing is drawn"),
    Measured({"value": "B"}, "Answer: B", 1, 1),
    Measured({"value": "B"}, "answer: b", 0, 1, "one letter, if a small one"),
    Measured({"value": "B"}, "Answer: Because..", 1, 0, "a word is no letter"),
]

BROKEN: list[tuple[str, Any, str]] = [
    ("choice", {"value": None}, "needs an answer with a value"),
    ("choice", {"value": ""}, "needs one letter"),
    ("choice", {"value": "CD"}, "needs one letter"),
    ("choice", {"value": 2}, "needs one letter"),
    ("choice", {"value": ["C"]}, "needs one letter"),
    ("choice", {"value": "E", "options": 4}, "none of a row's 4 options"),
    ("choice", {"value": "C", "options": ["a", "b"]}, "none of a row's 2 options"),
    ("choice", {"value": "A", "options": 1}, "2 to 26 texts"),
    ("choice", {"value": "A", "options": 27}, "2 to 26 texts"),
    ("choice", {"value": "A", "options": True}, "2 to 26 texts"),
    ("choice", {"value": "A", "options": []}, "2 to 26 texts"),
    ("choice", {"value": "A", "options": ["a", 2]}, "must be texts"),
    ("choice", {"value": "A", "options": "ab"}, "2 to 26"),
]
