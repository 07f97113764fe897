"""What the cases of the code corpus are made of: one problem, adding two integers, as a row of every shape.

A case is a completion with the score that it deserves. Attacks are made of a trick and a wrong answer: the trick is
told in every shape in which it makes sense, in front of an answer that fails every test by itself.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PAIRS = ((3, 5), (-10, 4))

STDIO, CALLS, SOLUTION, FUNCTIONAL, ASSERTS, PYTEST = (
    "stdio",
    "calls",
    "solution",
    "functional",
    "asserts",
    "pytest",
)

# The sum of two integers. A share of the cases is worth points, so that a trick which wins a single case is seen.
ADD: dict[str, dict[str, Any]] = {
    STDIO: {"test_cases": [{"input": f"{a} {b}\n", "output": f"{a + b}\n"} for a, b in PAIRS]},
    CALLS: {"fn_name": "add", "inputs": [[a, b] for a, b in PAIRS], "outputs": [a + b for a, b in PAIRS]},
    SOLUTION: {"fn_name": "add", "inputs": [[a, b] for a, b in PAIRS], "outputs": [a + b for a, b in PAIRS]},
    FUNCTIONAL: {
        "functional": "def check(candidate):\n    assert candidate(3, 5) == 8\n"
        "    assert candidate(-10, 4) == -6\n\ncheck(add)\n"
    },
    ASSERTS: {"tests": [f"assert add({a}, {b}) == {a + b}" for a, b in PAIRS]},
    PYTEST: {
        "pytest": "import pytest\nfrom solution import add\n\n"
        "@pytest.mark.parametrize(('a', 'b', 'c'), [(3, 5, 8), (-10, 4, -6)])\n"
        "def test_add(a, b, c):\n    assert add(a, b) == c\n"
    },
}
CALLED = (CALLS, FUNCTIONAL, ASSERTS, PYTEST)  # the shapes that call `add`
EVERY = (STDIO, CALLS, SOLUTION, FUNCTIONAL, ASSERTS, PYTEST)

# The right answer in each shape, and one that is wrong for both pairs.
RIGHT = dict.fromkeys(CALLED, "def add(a, b):\n    return a + b\n") | {
    STDIO: "a, b = map(int, input().split())\nprint(a + b)\n",
    SOLUTION: "class Solution:\n    def add(self, a, b):\n        return a + b\n",
}
WRONG = {shape: text.replace("a + b", "a - b") for shape, text in RIGHT.items()}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A completion, its row, and what it deserves."""

    name: str
    info: Mapping[str, Any]  # verification_info
    text: str  # the completion
    value: float
    needs_numpy: bool = False  # whether its tests do

    @property
    def language(self) -> str:
        """What the row says that it is written in."""
        return str(self.info["answer"].get("language", "python"))


def fenced(source: str, tag: str = "python") -> str:
    """Return a completion that holds the program."""
    return f"Here it is.\n```{tag}\n{source.rstrip(chr(10))}\n```\n"


def row(answer: Mapping[str, Any], row_type: str = "code_verifiable") -> dict[str, Any]:
    """Return a row's verification_info."""
    return {"type": row_type, "answer": dict(answer)}


def case(name: str, answer: Mapping[str, Any], source: str, value: float, *, row_type: str = "code") -> Case:
    """Return a case whose completion is the program in a fence; the program is dedented."""
    tag = str(answer.get("language", "python"))
    return Case(
        name=name,
        info=row(answer, row_type),
        text=fenced(textwrap.dedent(source).lstrip("\n"), tag),
        value=value,
    )


def stdio(*pairs: tuple[str, str], language: str | None = None) -> dict[str, Any]:
    """Return an answer with cases of input and output."""
    return {"test_cases": [{"input": text, "output": output} for text, output in pairs]} | (
        {} if language is None else {"language": language}
    )


def calls(name: str, *pairs: tuple[list[Any], Any]) -> dict[str, Any]:
    """Return an answer with calls of a function, as Python values."""
    return {
        "fn_name": name,
        "inputs": [arguments for arguments, _ in pairs],
        "outputs": [value for _, value in pairs],
    }


def told_calls(name: str, *pairs: tuple[list[Any], Any]) -> dict[str, Any]:
    """Return the same as LiveCodeBench has it: JSON, one argument a line."""
    return {
        "fn_name": name,
        "inputs": ["\n".join(map(json.dumps, arguments)) for arguments, _ in pairs],
        "outputs": [json.dumps(value) for _, value in pairs],
    }


def asserts(*tests: str, setup: str = "") -> dict[str, Any]:
    """Return an answer with tests of one assert each."""
    return {"tests": list(tests)} | ({"setup": setup} if setup else {})


def attacks(name: str, trick: str, shapes: tuple[str, ...] = EVERY, *, after: str = "") -> Iterator[Case]:
    """Yield the trick in front of (and `after` behind) a wrong answer, in each of the shapes."""
    yield from _told(name, trick, shapes, after, "code_verifiable")


def exhausts(name: str, trick: str, shapes: tuple[str, ...] = EVERY, *, after: str = "") -> Iterator[Case]:
    """Yield the same for tricks that use up a limit: the first case decides, so that each takes its time once."""
    yield from _told(name, trick, shapes, after, "code")


def _told(name: str, trick: str, shapes: tuple[str, ...], after: str, row_type: str) -> Iterator[Case]:
    for shape in shapes:
        source = "\n".join(
            (textwrap.dedent(trick).strip("\n"), WRONG[shape], textwrap.dedent(after).strip("\n"))
        )
        yield Case(name=f"{name} [{shape}]", info=row(ADD[shape], row_type), text=fenced(source), value=0.0)


def breach(name: str, condition: str, shapes: tuple[str, ...] = (STDIO,)) -> Iterator[Case]:
    """Yield an answer that is right if, and only if, a forbidden thing can be done.

    Args:
        name: of the case.
        condition: the body of a function that returns whether it could; an exception says that it could not.
        shapes: of the rows.
    """
    body = textwrap.indent(textwrap.dedent(condition).strip("\n"), "        ")
    for shape in shapes:
        answer = WRONG[shape].replace("a - b", "a + b if could() else None")
        guard = f"def could():\n    try:\n{body}\n    except BaseException:\n        return False\n"
        yield Case(
            name=f"{name} [{shape}]", info=row(ADD[shape]), text=fenced(f"{guard}\n{answer}"), value=0.0
        )
