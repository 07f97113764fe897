"""Environments and tools as users write them, for the children that agents start."""

# ruff: noqa: ANN001, ASYNC251, PTH109, T201 - it does what users do

from __future__ import annotations

import asyncio
import enum
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

Answer = tuple[Any, float | None, bool, bool, dict[str, Any]]
HELD: list[bytearray] = []
PRESENT: dict[str, asyncio.Event] = {}


class Guess:
    """A number from 0 to 9; the policy's action may also be a way to go wrong."""

    reward_range = (0.0, 1.0)

    def __init__(self, greeting: str = "Guess a digit.") -> None:
        self._greeting = greeting
        self._number = 0

    def reset(self, row: dict[str, Any], seed: int) -> str:
        if row.get("fails"):
            raise ValueError(f"no level {row['fails']}")
        if row.get("hangs"):
            time.sleep(100)
        self._number = seed % 10
        return self._greeting

    def step(self, action: str) -> Answer:
        word, _, rest = action.partition(" ")
        if hasattr(self, f"do_{word}"):
            return getattr(self, f"do_{word}")(rest) or ("done", None, False, False, {})
        is_right = action == str(self._number)
        return "right" if is_right else "wrong", float(is_right), is_right, False, {"remark": "asked"}

    def do_hang(self, seconds: str) -> None:
        print("about to wait")
        time.sleep(float(seconds or 100))

    def do_raise(self, text: str) -> None:
        raise ValueError(text)

    def do_shout(self, mb: str) -> None:
        raise ValueError("a" * (int(mb) << 20))

    def do_exit(self, code: str) -> None:
        os._exit(int(code))

    def do_leave(self, code: str) -> None:
        sys.exit(int(code))

    def do_kill(self, number: str) -> None:
        os.kill(os.getpid(), int(number))

    def do_leak(self, mb: str) -> None:
        HELD.append(bytearray(int(mb) << 20))

    def do_unreachable(self, _: str) -> None:
        try:
            raise ConnectionRefusedError("port 1")
        except OSError as error:
            raise RuntimeError("the shop does not answer") from error

    def do_print(self, text: str) -> None:
        print(text)
        os.write(1, b"x" * 300_000)
        subprocess.run(["echo", "from a program"], check=True)

    def do_reply(self, text: str) -> Any:
        return eval(text)

    def do_variable(self, name: str) -> Answer:
        return os.environ.get(name, "not set"), None, False, False, {}

    def do_random(self, _: str) -> Answer:
        return f"{random.random()} {hash('x')}", None, False, False, {}

    def do_pids(self, _: str) -> Answer:
        sleeper = subprocess.Popen(["sleep", "1000"])
        return f"{os.getpid()} {os.getppid()} {sleeper.pid}", None, False, False, {}

    def do_limit(self, _: str) -> Answer:
        return str(resource.getrlimit(resource.RLIMIT_AS)[0]), None, False, False, {}

    def do_run(self, _: str) -> Answer:
        return asyncio.run(asyncio.sleep(0, "from a loop of its own")), None, False, False, {}


class Riddle:
    """Its answer is its seed; the row says what the reference is."""

    reward_range = (-1.0, 1.0)

    def reset(self, row: dict[str, Any], seed: int) -> str:
        self._seed = seed
        return "Which number?"

    def step(self, action: str) -> Answer:
        if action == "raise":
            raise ValueError("no riddle")
        is_right = action == str(self._seed)
        return "Ask, or answer.", float(is_right), is_right, False, {}

    def reference(self, row: dict[str, Any], seed: int) -> Any:
        return row["reference"]


class Closing(Guess):
    def close(self) -> None:
        Path(self._greeting).write_text("closed", encoding="utf-8")


class Patient:
    """Async: it waits as long as the action says, or blocks."""

    async def reset(self, row: dict[str, Any], seed: int, *, own_seed: int, token: str) -> str:
        return f"{row.get('name')} {seed} {own_seed} {token}"

    async def step(self, action: str) -> Answer:
        word, seconds = action.split()
        if word == "block":
            time.sleep(float(seconds))
        if word == "exit":
            os._exit(int(seconds))
        if word == "leak":
            HELD.append(bytearray(int(seconds) << 20))
        await asyncio.sleep(float(seconds) if word == "wait" else 0)
        return str(os.getpid()), None, False, False, {}


class Speaking:
    """It has a prompt of its own, tools, and reads whole messages."""

    takes_messages = True

    def __init__(self) -> None:
        self.tools: list[dict[str, Any]] = []

    def reset(self, row: dict[str, Any], seed: int) -> Any:
        self.tools = [{"type": "function", "function": {"name": f"look_{seed}", "parameters": {}}}]
        return [{"role": "system", "content": "You look."}, {"role": "user", "content": row["place"]}], {
            "a": 1
        }

    def step(self, action: dict[str, Any]) -> Answer:
        call = action["tool_calls"][0]
        return {"role": "tool", "content": call["function"]["name"]}, 0, True, False, {}


class Silent:
    def reset(self, row: dict[str, Any], seed: int) -> None:
        return None

    def step(self, action: str) -> Answer:
        return None, 1, True, False, {}


class NoStep:
    def reset(self, row: dict[str, Any], seed: int) -> None: ...


class Unit(enum.Enum):
    METRE = "m"
    FOOT = "ft"


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """
    return a + b


def height(of: str, unit: Unit = Unit.METRE, style: Literal["short", "long"] = "short") -> str:
    """Say how high something is."""
    return f"{of} {unit.name} {style}"


async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return f"waited {seconds}"


async def meet(name: str) -> str:
    """Wait for the other one: a or b."""
    mine, other = (PRESENT.setdefault(one, asyncio.Event()) for one in (name, "ab".replace(name, "")))
    mine.set()
    await other.wait()
    return f"{name} met {'ab'.replace(name, '')}"


def fail(how: str) -> str:
    """Fail."""
    if how == "file":
        return Path(f"{os.getcwd()}/missing/{how}").read_text(encoding="utf-8")
    if how == "exit":
        os._exit(4)
    if how == "memory":
        HELD.append(bytearray(1 << 32))
    raise KeyError(how)


def long(characters: int) -> str:
    """Say much."""
    return "y" * characters


def odd() -> Any:
    """Give what JSON can't hold as it is."""
    return {"set": Path("x"), "é": 1}


def half() -> str:
    """Give half of a surrogate pair."""
    return "half \udcff"


def undescribed(a: int) -> int:
    return a


def unhinted(a) -> int:  # type: ignore[no-untyped-def]
    """Have no hint."""
    return 0


def unknown(a: Path) -> int:
    """Have a type without a schema."""
    return 0


OWN_TOOLS = ("add", "height", "wait", "meet", "fail", "long", "odd", "half")
