"""Read the reward that tests have left: `reward.json`, else `reward.txt`, as Harbor does.

In: the folder of their logs. Out: a number and, for people, its other fields. An invalid reward raises `NoReward`,
which is never the agent's fault. The tests may have run the agent's own code: no link is followed, and files are
limited in size.
"""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 16
MAIN = "reward"  # the number that counts, of several


class NoReward(Exception):
    """The tests left no valid reward; the message says what they left."""


def reward_in(logs: Path) -> tuple[float, str]:
    """Return the reward and a remark, "" or the other numbers. Raises NoReward."""
    try:
        folder = os.open(logs / "verifier", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise NoReward(f"/logs/verifier can't be read: {error.strerror}") from None
    try:
        if (text := _text(folder, "reward.json")) is not None:
            return _of_json(text)
        if (text := _text(folder, "reward.txt")) is not None:
            return _of_text(text)
    finally:
        os.close(folder)
    raise NoReward("they left neither /logs/verifier/reward.json nor reward.txt")


def _of_text(text: str) -> tuple[float, str]:
    try:
        return _number(float(text)), ""
    except ValueError as error:
        raise NoReward(f"reward.txt has no reward: {error}") from None


def _of_json(text: str) -> tuple[float, str]:
    try:
        return _of_found(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise NoReward(f"reward.json has no reward: {error}") from None


def _of_found(found: Any) -> tuple[float, str]:
    if isinstance(found, dict):
        numbers = {name: value for name, value in found.items() if _is_number(value)}
        if MAIN in numbers:
            main = numbers.pop(MAIN)
        elif len(numbers) == 1:
            main = numbers.popitem()[1]
        else:
            raise ValueError(f"of {sorted(map(str, found))} none is {MAIN!r}")
        return _number(main), ", ".join(f"{name} {value:g}" for name, value in numbers.items())
    if not _is_number(found):
        raise ValueError(f"a number is wanted, or an object with {MAIN!r}, got {type(found).__name__}")
    return _number(found), ""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _number(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"a finite number is wanted, got {number}")
    return number


def _text(folder: int, name: str) -> str | None:
    """Return the text of a file in an open folder; None for none. Raises NoReward."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NoReward(f"{name} can't be read: {error.strerror}") from None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NoReward(f"{name} is no file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise NoReward(f"{name} has more than {MOST_BYTES} bytes")
    return data.decode("utf-8", "replace")
