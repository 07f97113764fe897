"""The boxes of the agents' demo: nothing but looking leads to the number, and the splits share no box."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tasks.boxes import MOST_LOOKS, Split, box_problems, boxes, fingerprint, holds_number, inside, look, path

SIZES: dict[Split, int] = {
    "train": 4309,
    "eval": 1436,
}  # of the 6,561 names, those with at most three boxes to open
SPLITS: tuple[Split, ...] = ("train", "eval")


def test_the_first_held_out_rows_are_these() -> None:
    assert box_problems("eval", 2) == [
        {
            "messages": [
                {"role": "user", "content": f"Which number is in box {box}? Answer in \\boxed{{}}."}
            ],
            "verification_info": {"type": "math", "answer": {"value": answer}},
        }
        for box, answer in {"3929": "4228", "6956": "9267"}.items()
    ]


@pytest.mark.parametrize("split", SPLITS)
def test_looking_until_there_is_a_number_finds_the_answer(split: Split) -> None:
    looks = set()
    for box, row in zip(boxes(split, 300), box_problems(split, 300), strict=True):
        said, count = look(box), 1
        while next_box := re.fullmatch(r"Look in box (\d{4})\.", said):
            said, count = look(next_box[1]), count + 1
        assert said == f"The number is {row['verification_info']['answer']['value']}."  # type: ignore[index]
        looks.add(count)
    assert looks == {1, 2, 3} == {*range(1, MOST_LOOKS + 1)}


def test_answering_too_early_is_never_right() -> None:
    for split, size in SIZES.items():
        for box in boxes(split, size):
            assert inside(path(box)[-1]) not in path(box)


def test_no_box_of_a_way_is_on_a_way_of_the_other_split() -> None:
    train, held_out = (
        {box for first in boxes(split, size) for box in path(first)} for split, size in SIZES.items()
    )
    assert not train & held_out


def test_half_the_boxes_hold_a_number() -> None:
    held = [holds_number(box) for box in boxes("train", SIZES["train"])]
    assert 0.5 <= sum(held) / len(held) <= 0.6  # those that begin a long way are no problems


@pytest.mark.parametrize("box", ["", "471", "47190", "4710", "471a", "٤٧١٩", "4719\n"])
def test_a_box_that_is_not_there_is_named(box: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"there is no box {box!r}: a box's name has 4 digits")):
        look(box)


@pytest.mark.parametrize("size", [0, -1, SIZES["eval"] + 1])
def test_a_size_that_does_not_exist_is_refused_with_the_largest(size: int) -> None:
    with pytest.raises(ValueError, match=rf"size={size}: the eval split .* 1 to {SIZES['eval']} problems"):
        box_problems("eval", size)


def test_another_process_makes_the_same_problems() -> None:
    program = "from tasks.boxes import fingerprint; print(fingerprint('train', 500))"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == fingerprint("train", 500)
    assert len({fingerprint("train", 500), fingerprint("train", 501), fingerprint("eval", 500)}) == 3
