"""Generate the demo's problems: operations on the digits of a number.

In: a split and a size. Out: rows of the same shape as a data set's. The learner's prompt source calls it with
`data.train` or `data.held_out`, and `tools.make_demo_model` draws its demonstrations from the train split. It reads
only its arguments, and fails only for a size that does not exist.

Each problem has an easy wrong answer, the unchanged number, and a right one. A policy that knows both needs the reward
to find out which one pays. A number's digits are 1 to 9, so that no answer has a leading zero, and all different, so
that no number is its own answer and the wrong way never scores.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

Split = Literal["train", "eval"]

LENGTHS = (3, 4, 5)  # digits of a number
HELD_OUT = 0.25  # share of the digit multisets that only the eval split has

# Operation -> phrasings. The right answers are in `DigitProblem.answer`.
PHRASINGS: dict[str, tuple[str, ...]] = {
    "reverse": ("Reverse the digits of {digits}.", "Write {digits} from right to left."),
    "rotate": ("Move the first digit of {digits} to the end.", "Write {digits} with its first digit last."),
}
INSTRUCTION = " Answer in \\boxed{}."


@dataclass(frozen=True, slots=True)
class DigitProblem:
    """One operation on one number."""

    operation: str  # key of PHRASINGS
    digits: str  # the number: digits 1 to 9, all different

    @property
    def answer(self) -> str:
        """The number after the operation."""
        return self.digits[::-1] if self.operation == "reverse" else self.digits[1:] + self.digits[0]

    @property
    def question(self) -> str:
        """The user's question."""
        ways = PHRASINGS[self.operation]
        return (
            ways[_hash("phrasing", self.operation, self.digits) % len(ways)].format(digits=self.digits)
            + INSTRUCTION
        )

    def row(self) -> dict[str, object]:
        """Return the problem as a row of a data set: `messages`, and `verification_info` of type `math`."""
        return {
            "messages": [{"role": "user", "content": self.question}],
            "verification_info": {"type": "math", "answer": {"value": self.answer}},
        }


def problems(split: Split, size: int) -> list[DigitProblem]:
    """Return the first `size` problems of `split`, in a fixed order.

    The splits are disjoint by construction: the set of a number's digits decides its split. So no number of one split
    occurs in the other, in any order of its digits, and hence not as an answer either.
    Raises ValueError for a size that the split does not have.
    """
    pool = _pool(split)
    if not 1 <= size <= len(pool):
        raise ValueError(
            f"size={size}: the {split} split of the digit problems has 1 to {len(pool)} problems"
        )
    return [DigitProblem(*problem) for problem in pool[:size]]


def digit_problems(split: Split, size: int) -> list[dict[str, object]]:
    """Return the first `size` problems of `split` as rows, each as `DigitProblem.row` makes it."""
    return [problem.row() for problem in problems(split, size)]


def fingerprint(split: Split, size: int) -> str:
    """Return 16 hex digits that change with the wording or answer of any of the first `size` problems of `split`."""
    rows = json.dumps([split, digit_problems(split, size)], sort_keys=True)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


@cache
def _pool(split: Split) -> tuple[tuple[str, str], ...]:
    """Return operation and number of every problem of `split`, in order."""
    return tuple(sorted(_every_problem(split), key=lambda problem: _hash("order", *problem)))


def _every_problem(split: Split) -> Iterator[tuple[str, str]]:
    """Yield every operation on every number of `split`."""
    for length in LENGTHS:
        for chosen in itertools.combinations("123456789", length):
            if _is_held_out("".join(chosen)) == (split == "eval"):
                for digits in itertools.permutations(chosen):
                    for operation in PHRASINGS:
                        yield operation, "".join(digits)


def _is_held_out(digits: str) -> bool:
    """Return whether numbers of these ascending digits, in any order, belong to the eval split."""
    return _hash("split", digits) < HELD_OUT * 2**64


def _hash(*words: str) -> int:
    """Return a number in [0, 2^64), the same on every machine and Python version."""
    return int.from_bytes(hashlib.sha256("\0".join(words).encode()).digest()[:8], "big")
