"""The tables of rewrites: a name, and what makes an answer of a reference's text.

In: nothing. Out: right rewrites, which have to score 1, and wrong ones, which have to score 0. Each takes the text and
chance, and returns None where it does not apply or can't be sure of what it makes.
"""

from __future__ import annotations

from typing import Final

from benchmarks.proofs.metamorphic.right_order import OF_ORDER
from benchmarks.proofs.metamorphic.right_spelling import OF_SPELLING
from benchmarks.proofs.metamorphic.structure import Rewriter
from benchmarks.proofs.metamorphic.wrong_statements import OF_STATEMENTS
from benchmarks.proofs.metamorphic.wrong_values import OF_VALUES

RIGHT: Final[dict[str, Rewriter]] = {**OF_SPELLING, **OF_ORDER}
WRONG: Final[dict[str, Rewriter]] = {**OF_VALUES, **OF_STATEMENTS}
