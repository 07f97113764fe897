"""The agents' demo: boxes that hold a number or the name of another box, and the tool that opens them.

In: a split and a size, or a box. Out: rows in the same shape as a data set's rows, or the content of the box. The
learner's prompt source calls `box_problems`, `tools.make_demo_model` takes its demonstrations from the train split, and
the agents' child processes call `look` when the policy does. Reads nothing but its arguments, and fails only for a size
or a box that does not exist.

The content of a box is a hash of its name. So it can't be known without looking, and a policy can't memorize it for
boxes that it has not seen. No box of one split leads to a box of the other.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from functools import cache
from typing import Literal

Split = Literal["train", "eval"]

DIGITS = "123456789"
LENGTH = 4  # digits of a box's name, and of a number
HELD_OUT = 0.25  # share of the boxes that only the eval split has
HOLDS_NUMBER = 0.5  # share of the boxes that hold a number; the others name another box
MOST_LOOKS = 3  # the most boxes that a problem leads through
QUESTION = "Which number is in box {box}? Answer in \\boxed{{}}."
NUMBER, NEXT = "The number is {}.", "Look in box {}."


def look(box: str) -> str:
    """Look into a box.

    Args:
        box: name of the box, four digits
    """
    if not re.fullmatch(f"[{DIGITS}]{{{LENGTH}}}", box):
        raise ValueError(f"there is no box {box!r}: a box's name has {LENGTH} digits from 1 to 9")
    found = inside(box)
    return (NUMBER if holds_number(box) else NEXT).format(found)


def holds_number(box: str) -> bool:
    """Return whether the box holds a number, and not the name of another box."""
    return _hash("kind", box) < HOLDS_NUMBER * 2**64


def inside(box: str) -> str:
    """Return the digits in the box: a number, or the name of a box of the same split."""
    found = (_digits(box, number) for number in itertools.count())
    return next(one for one in found if holds_number(box) or _is_held_out(one) == _is_held_out(box))


def path(box: str) -> list[str]:
    """Return the boxes to look into, from `box` to the one that holds the number; at most MOST_LOOKS + 1."""
    boxes = [box]
    while not holds_number(boxes[-1]) and len(boxes) <= MOST_LOOKS:
        boxes.append(inside(boxes[-1]))
    return boxes


def boxes(split: Split, size: int) -> list[str]:
    """Return the first `size` boxes with which problems of `split` begin, in an order that never changes.

    Raises ValueError for a size that the split does not have.
    """
    pool = _pool(split)
    if not 1 <= size <= len(pool):
        raise ValueError(f"size={size}: the {split} split of the boxes has 1 to {len(pool)} problems")
    return list(pool[:size])


def box_problems(split: Split, size: int) -> list[dict[str, object]]:
    """Return the first `size` problems of `split` as rows: `messages`, and `verification_info` of type `math`."""
    return [
        {
            "messages": [{"role": "user", "content": QUESTION.format(box=box)}],
            "verification_info": {"type": "math", "answer": {"value": inside(path(box)[-1])}},
        }
        for box in boxes(split, size)
    ]


def fingerprint(split: Split, size: int) -> str:
    """Return 16 hex digits that change with the wording or answer of any of the first `size` problems of `split`."""
    rows = json.dumps([split, box_problems(split, size)], sort_keys=True)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


@cache
def _pool(split: Split) -> tuple[str, ...]:
    every = map("".join, itertools.product(DIGITS, repeat=LENGTH))
    mine = (box for box in every if _is_held_out(box) == (split == "eval") and len(path(box)) <= MOST_LOOKS)
    return tuple(sorted(mine, key=lambda box: _hash("order", box)))


def _is_held_out(box: str) -> bool:
    return _hash("split", box) < HELD_OUT * 2**64


def _digits(box: str, number: int) -> str:
    """Return digits drawn from the box's name; `number` makes the draws differ."""
    drawn = _hash("inside", box, str(number))
    return "".join(DIGITS[drawn // 9**place % 9] for place in range(LENGTH))


def _hash(*words: str) -> int:
    """Return a number in [0, 2^64) that is the same on every machine and in every version of Python."""
    return int.from_bytes(hashlib.sha256("\0".join(words).encode()).digest()[:8], "big")
