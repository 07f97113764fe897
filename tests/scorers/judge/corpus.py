"""Free answers as people write them, right and wrong, each with its question and reference."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.support.text_tables import paired


class Answered(NamedTuple):
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

_ASKED = {
    "capital": _CAPITAL,
    "drug": _DRUG,
    "prime": _PRIME,
    "heat": _HEAT,
    "car": _CAR,
    "gas": _GAS,
    "born": _BORN,
    "law": _LAW,
    "true": _TRUE,
    "many": _MANY,
    "none": _NONE,
    "sign": _SIGN,
}


def _rows(table: str) -> tuple[Answered, ...]:
    return tuple(Answered(*_ASKED[name], text) for name, text in paired(table))


HONEST: Final = _rows(r"""
capital <== Paris ¦ It is Paris. ¦ <think>Lyon? No.</think>The capital is **Paris**. ¦ \u5df4\u9ece
capital <== Paris.<|im_end|> ;; drug <== Give antibiotics. ¦ An antibiotic, such as amoxicillin.
prime <== No, since 91 = 7 x 13. ¦ It is composite. ;; car <== No: its present value is only $8,645.09.
heat <== 4.5 joules ¦ 0.0045 kJ ¦ W = F s = 1.5 N x 3 m = \boxed{4.5\,\text{J}} ;; sign <== less than ¦ <
gas <== CO2 ¦ Carbon dioxide (CO\u2082) ;; born <== 1815-12-10 ¦ December 10th, 1815
law <== F = ma, Newton's second law of motion ¦ the 2nd law of Newton ;; true <== That is false. ¦ False
many <== Argon, neon and helium ¦ He, Ne, Ar ;; none <== \u2205 ¦ There are no real solutions.
""")
WRONG: Final = _rows(r"""
capital <== Lyon ¦ It is Paris or Lyon. ¦ London, Paris, Rome, Berlin, Madrid ¦ <think>Paris</think>Marseille
capital <== A city in France ¦ What is the capital of Germany? Berlin ;; drug <== Surgery. ¦ No antibiotics.
prime <== Yes ¦ 91 is prime, since no prime divides it. ;; heat <== 4.5 W ¦ 45 J ¦ -4.5 J ;; none <== 1 and -1
car <== Yes, $12,000 is more than $9,000. ;; gas <== oxygen ¦ carbon monoxide ;; law <== Newton's third law
born <== 1852 ¦ 10 December 1915 ;; true <== True ¦ True. Light is a wave. ;; sign <== more than
many <== helium and neon ¦ helium, neon, iron
""")
