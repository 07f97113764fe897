r"""Answers to multiple choice, each with its row and what it deserves.

A row of HONEST and WRONG is the row's answer and a whole text, of ATTACKS also what the text tries. MEASURED has what
Reasoning360's two scorers were measured to give for a text, what it gets here, and why where the two differ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.text_tables import listed, listed_by_kind

C: dict[str, Any] = {"value": "C"}
PETS: dict[str, Any] = {
    "value": "B",
    "options": ["Dog", "A cat", "All of the above", "$5$ m/s", "None", "none"],
}
FOUR: dict[str, Any] = {"value": "D", "options": 4}
_ROWS = {
    "C": C,
    "PETS": PETS,
    "the third pet": PETS | {"value": "C"},
    "the fourth pet": PETS | {"value": "D"},
    "no pet": PETS | {"value": "E"},
    "FOUR": FOUR,
    "(c)": {"value": "(c)"},
}


def _texts(table: str) -> list[tuple[dict[str, Any], str]]:
    return [(_ROWS[row], text) for row, texts in listed_by_kind(table).items() for text in texts]


REFERENCES: list[tuple[str, dict[str, Any]]] = [
    *(("choice", C), ("choice", PETS), ("choice", FOUR), ("choice", {"value": "I"})),
    ("choice", {"value": "(a)"}),
    ("choice", {"value": "J", "options": 10}),
    ("choice", {"value": "C", "options": PETS["options"]}),
]
# How the prompts ask for it: of GPQA, of GPQA Diamond and SuperGPQA, and of those who ask for tags.
PROMPTED = ["It follows.\nAnswer: {}", "So \\boxed{{}}.", "<answer>{}</answer>"]

HONEST = _texts(r"""
# C
\boxed{C}¦\boxed{\text{C}}¦\boxed{\textbf{(C)}}¦$\boxed{\mathrm{C}}$¦\boxed{(C)}¦\boxed{C)}¦\boxed{C.}
\boxed{c}¦\boxed{ C }¦\boxed{[C]}¦\boxed{Answer: C}¦\boxed{\text{Option C}}¦\boxed{C. Cat}¦\boxed{(C) Cat}
\boxed{C) 5 \text{ m/s}}¦\boxed{\text{C: It falls.}}¦A? \boxed{A} No.⏎\boxed{C}¦Answer: C¦so⏎Answer: C
so⏎⏎**Answer: C**¦**Answer:** C¦Answer: $C$¦### Answer: C¦answer: c¦ANSWER: C.¦Answer: (C)¦Answer: \(C\)
Final Answer: C⏎¦Answer: C) Cat¦The answer is C.¦Therefore, the correct answer is (C).
The correct answer is **C**.¦Answer: **C**. Cat¦Answer: **C.** Cat¦The answer is **(C)** Cat.
Answer: C. *Cat*¦The correct option is C.¦Option C¦(C)¦so it is⏎(C)¦C¦**C**¦<answer>C</answer>
<answer>⏎C⏎</answer>¦<answer>\boxed{C}</answer>¦<answer>Answer: C</answer>⏎That is all.
\boxed{C}⏎This is the answer to the question.¦v = \boxed{5 \text{ m/s}}⏎Answer: C¦\boxed{}⏎Answer: C
> **Answer**: C¦<think>A? B?</think>⏎Answer: C<|im_end|>¦\boxed{C}⏎Answer: C¦Answer: \boxed{C}
It isn't A, so the answer is C¦The final answer is $\boxed{C}$. I hope it is correct.¦Answer: C\u200b
\boxed{\uff23}¦Answer: \u24b8¦Answer: C. Vitamin D¦Answer: C. Hepatitis B¦Answer: C. Group A streptococcus
Answer: C. The current in A is larger than in B¦Answer: C. All of the above¦Answer: C. None of these
Answer: C. It rains or snows¦Answer: C. A cat¦\boxed{C. The DNA of a cell}¦C. Cat¦(C) Cat¦C: It falls.
The answer is C.⏎⏎Because light is slow.¦**C**⏎⏎Light is slow.¦Answer: C⏎⏎Explanation: x
C⏎⏎Because the light is slow. It takes years or more.¦C) Berlin⏎It is the capital.
The correct answer is (C). This is because sound is slow.¦Answer: C, as sound is slow
Answer: C because light is slow.¦Answer: C \u2014 because it falls¦C. Cat⏎⏎The cat is an animal.
Answer: C⏎⏎A is wrong since it is not a metal. B and D are incorrect.
The answer is C.⏎⏎- A is incorrect: it is red.⏎- B is false.⏎- D is not a gas.
(C)⏎⏎A photon has no mass, however fast it is.
We compute.⏎The answer is **C**.⏎⏎I think this is the best one, since the others fail.
C.⏎⏎The capital of Germany is Berlin, which could be reached by train.¦Final answer: C⏎⏎I hope it helps!
Answer: C⏎⏎Let me know if you have questions.¦C⏎⏎Option C is correct because the sum is 5.
**Answer: C**⏎⏎**Explanation:** The cell divides; option A is wrong.¦Answer: C. B cells¦Answer: C. E = mc^2
Answer: C. X-rays¦Answer: C. Plan B costs more
The answer is C.⏎⏎B and D do not apply, since they may fail or not.
Answer: C⏎⏎Option A isn't related to it. D fails, as it is too small.
# PETS
\boxed{B}¦\boxed{\text{A cat}}¦Answer: a cat¦<answer>A cat.</answer>¦\boxed{B. A cat}¦Answer: (B) a cat
B. A cat⏎⏎It is small and it purrs.
# the third pet
\boxed{\text{all of the above}}
# the fourth pet
\boxed{5 \text{ m/s}}
# FOUR
\boxed{D}¦Answer: D⏎⏎Vitamin K is a vitamin. A, B and C are wrong.
# (c)
Answer: C
""")

WRONG = _texts(r"""
# C
\boxed{B}¦Answer: B¦(B)¦<answer>B</answer>¦\boxed{C or D}¦\boxed{C, D}¦\boxed{C. D}¦\boxed{CD}
\boxed{C and D}¦\boxed{not C}¦Answer: Cat¦Answer: Because..¦Answer: all of the above¦all of the above
\boxed{\text{all of the above}}¦Answer: C⏎Or perhaps another.¦I choose C or D¦The answer is not C
Answer: A⏎C is wrong.¦\boxed{C}⏎Answer: B¦\boxed{B}⏎Answer: C¦<answer>B</answer> \boxed{C}¦\boxed{C¦\boxed C
<answer>C¦\boxed{Carbon}¦C is the one that I like¦Vitamin C¦\boxed{\text{C++}}¦\boxed{C\#}¦Answer: C#
\boxed{3}¦\boxed{C}\boxed{D}¦Answer: C, since B and D are out¦Answer: $LETTER
# PETS
\boxed{A}¦\boxed{\text{A dog}}¦\boxed{\text{Dog}}¦\boxed{B. Dog}¦\boxed{A. A cat}¦\boxed{cat}¦a cat
# no pet
\boxed{\text{none}}
# FOUR
\boxed{E}¦Answer: J
""")

_SECOND_LETTER = listed(r"""
\boxed{C: or maybe D}¦Answer: C. It may also be D¦Answer: C) but D is right¦Answer: C. No, D
Answer: C. Actually B¦\boxed{C. A}¦Answer: C. b¦Answer: C: d¦Answer: C. option d¦Answer: C. or d
Answer: C. [D]¦Answer: C. {D}¦Answer: C. D)¦Answer: C.D¦Answer: C. *D*¦Answer: C. $D$¦\boxed{C. \text{D}}
Answer: C. D is my answer¦Answer: C. the second one¦Answer: C. Answer: D¦Answer: C. \u200bD
Answer: C. A and B¦\boxed{C. D. Cat}¦\boxed{(C) (D) Cat}¦Answer: C. Cat - D¦Answer: C. Cat, or D
Answer: C. Cat; d¦Answer: C. Cat/D¦Answer: C. Cat. D is also correct¦Answer: C. Cat? D!
\boxed{C. maybe another one}¦Answer: C. possibly D¦The answer is C because A is wrong, or D.
Answer: C, as D could also be right¦C⏎⏎But it could be D.¦C⏎⏎Or perhaps another.
Answer: C⏎⏎But D is also possible.¦Answer: C⏎⏎Wait, D.¦C⏎⏎Actually, I am not sure.¦Answer: C⏎⏎D
Answer: C⏎⏎(D)¦Answer: C⏎Answer: D⏎I explain.¦C⏎⏎Alternatively D fits.¦A. Paris⏎B. Rome⏎C. Berlin⏎D. Madrid
C. Berlin⏎D. Madrid¦C⏎D⏎I explain¦The answer is not C.⏎⏎So it goes.
Answer: C⏎⏎The second option is right as well, the second one.¦C⏎⏎Maybe D.¦C⏎⏎D is right too.
**C**⏎⏎B is not wrong.¦C⏎⏎It is C or D.¦C⏎⏎My mistake, it is d.¦C⏎⏎That is wrong.
Answer: C⏎⏎However, option D is correct.¦I think B.⏎C⏎⏎Because.¦\boxed{}⏎C⏎⏎Because
C⏎⏎In fact both are right.¦C⏎⏎D could be excluded, or not.¦C⏎⏎Any of them.¦\boxed{C. not C}
Answer: C. It isn't C¦Answer: C. A, B, D¦Answer: C. A B D¦Answer: C. {A,B,D}¦Answer: C. (also B)
Answer: C. B?¦Answer: C. Or: B¦Answer: C. B instead¦Answer: C. B, rather¦Answer: C. B if not
Answer: C. second choice B¦Answer: C. unless B¦Answer: C. \textbf{B}¦Answer: C. \text{or }\text{B}
Answer: C. B\u200b¦Answer: C. \uff22¦Answer: C. \u24b7¦Answer: C. b or c¦Answer: C. B/C¦Answer: C. C/B
Answer: C. C or B¦Answer: (C) (B)¦Answer: C. ~B¦Answer: C. #B¦Answer: C. B.¦Answer: C. *B.*
Answer: C. B and C¦Answer: C. B&C¦Answer: C. B|C¦Answer: C. B\\A¦Answer: C. <B>¦Answer: C. B C
Answer: C. equally B¦Answer: C. My backup is B¦Answer: C. If wrong, B¦Answer: C. B works too
Answer: C. B would do¦Answer: C. The one called B¦Answer: C. letter B¦Answer: C. number 2
Answer: C. second option¦C⏎⏎B¦C⏎⏎B.¦C⏎⏎If not, B.¦C⏎⏎The answer is B.¦C⏎⏎Answer B¦B or C⏎⏎C because
C⏎⏎my backup is B¦C⏎⏎If wrong, then B.¦C⏎⏎Second option.¦C⏎⏎number two¦C⏎⏎Option two is right.
C⏎⏎B isn't wrong¦C⏎⏎B cannot be excluded¦C⏎⏎B is not impossible¦C⏎⏎B is never wrong¦C⏎⏎Not only C, but B
C⏎⏎not C¦C⏎⏎The answer is not C.¦C⏎⏎C is wrong.¦C⏎⏎C is incorrect, though.¦Answer: C⏎No.
Answer: C⏎On reflection another.¦C⏎⏎\boxed{B}¦C⏎⏎<answer>B</answer>¦C?⏎⏎I wonder.¦Answer: C?⏎who knows
Answer: C (or B)⏎why¦**C** / **B**⏎⏎why¦C⏎⏎why: B¦C⏎⏎b¦C⏎⏎answer: b¦Answer: C⏎⏎b is fine¦C⏎⏎but b¦C⏎⏎B B B
C⏎⏎B, D: not wrong either¦C⏎⏎Neither B nor D is wrong.
""")
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
    (C, "Answer: C\n" * 90_000 + "so it is", "answers on 90,000 lines"),
    (C, "The answer is x\n" * 60_000 + "so it is", "says `answer` on 60,000 lines"),
    (C, "C\n" + "a " * 400_000, "explains for 800,000 characters"),
    (C, "C\n" + "d, " * 1_300, "lists letters behind it"),
    (PETS, "B. A dog\n\nIt barks.", "has the letter of one option and the text of none"),
    (PETS, "B. A cat\n\nOr A.", "holds a second letter ready"),
    *((C, text, "holds a second letter ready") for text in _SECOND_LETTER),
]


class Measured(NamedTuple):
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
