"""Free answers as people write them, right and wrong, each with its question and reference."""

from __future__ import annotations

from typing import Final, NamedTuple


class Answered(NamedTuple):
    """One answer."""

    question: str
    reference: str
    text: str


_CAPITAL = ("What is the capital of France?", "Paris")
_DRUG = ("What should this patient be given?", "The patient should be treated with antibiotics.")
_PRIME = ("Is 91 a prime?", "No")
_HEAT = ("How much heat is produced?", "4.5 J")
_CAR = ("Should you accept the offer?", "No, its present value is $8,645.09, less than $9,000.")
_GAS = ("Which gas do plants take up?", "carbon dioxide")
_BORN = ("When was Ada Lovelace born?", "10 December 1815")
_LAW = ("Which law relates force and acceleration?", "Newton's second law")
_TRUE = ("True or false: light is a wave only.", "False")
_MANY = ("Name the noble gases of the first three periods.", "helium, neon, argon")
_NONE = ("Which real numbers solve x^2 = -1?", "none")
_SIGN = ("Which sign fits 2 ? 3", "<")

HONEST: Final = tuple(
    Answered(*asked, text)
    for asked, text in (
        (_CAPITAL, "Paris"),
        (_CAPITAL, "It is Paris."),
        (_CAPITAL, "<think>Lyon? No.</think>The capital is **Paris**."),
        (_CAPITAL, "\u5df4\u9ece"),
        (_DRUG, "Give antibiotics."),
        (_DRUG, "An antibiotic, such as amoxicillin."),
        (_PRIME, "No, since 91 = 7 x 13."),
        (_PRIME, "It is composite."),
        (_HEAT, "4.5 joules"),
        (_HEAT, "0.0045 kJ"),
        (_HEAT, "W = F s = 1.5 N x 3 m = \\boxed{4.5\\,\\text{J}}"),
        (_CAR, "No: its present value is only $8,645.09."),
        (_GAS, "CO2"),
        (_GAS, "Carbon dioxide (CO\u2082)"),
        (_BORN, "1815-12-10"),
        (_BORN, "December 10th, 1815"),
        (_LAW, "F = ma, Newton's second law of motion"),
        (_LAW, "the 2nd law of Newton"),
        (_TRUE, "That is false."),
        (_TRUE, "False"),
        (_MANY, "Argon, neon and helium"),
        (_MANY, "He, Ne, Ar"),
        (_NONE, "\u2205"),
        (_NONE, "There are no real solutions."),
        (_SIGN, "less than"),
        (_SIGN, "<"),
        (_CAPITAL, "Paris.<|im_end|>"),
    )
)
WRONG: Final = tuple(
    Answered(*asked, text)
    for asked, text in (
        (_CAPITAL, "Lyon"),
        (_CAPITAL, "It is Paris or Lyon."),
        (_CAPITAL, "London, Paris, Rome, Berlin, Madrid"),
        (_CAPITAL, "<think>Paris</think>Marseille"),
        (_CAPITAL, "A city in France"),
        (_DRUG, "Surgery."),
        (_DRUG, "No antibiotics."),
        (_PRIME, "Yes"),
        (_PRIME, "91 is prime, since no prime divides it."),
        (_HEAT, "4.5 W"),
        (_HEAT, "45 J"),
        (_HEAT, "-4.5 J"),
        (_CAR, "Yes, $12,000 is more than $9,000."),
        (_GAS, "oxygen"),
        (_GAS, "carbon monoxide"),
        (_BORN, "1852"),
        (_BORN, "10 December 1915"),
        (_LAW, "Newton's third law"),
        (_TRUE, "True"),
        (_TRUE, "True. Light is a wave."),
        (_MANY, "helium and neon"),
        (_MANY, "helium, neon, iron"),
        (_NONE, "1 and -1"),
        (_SIGN, "more than"),
        (_CAPITAL, "What is the capital of Germany? Berlin"),
    )
)
