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

EVERY = ("stdio", "calls", "solution", "functional", "asserts", "pytest")
STDIO, CALLS, SOLUTION, FUNCTIONAL, ASSERTS, PYTEST = EVERY

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

# The right answer in each shape, and one that is wrong for both pairs.
RIGHT = dict.fromkeys(CALLED, "def add(a, b):\n    return a + b\n") | {
    STDIO: "a, b = map(int, input().split())\nprint(a + b)\n",
    SOLUTION: "class Solution:\n    def add(self, a, b):\n        return a + b\n",
}
WRONG = {shape: text.replace("a + b", "a - b") for shape, text in RIGHT.items()}


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    info: Mapping[str, Any]  # verification_info
    text: str  # the completion
    value: float
    needs_numpy: bool = False  # whether its tests do

    @property
    def language(self) -> str:
        return str(self.info["answer"].get("language", "python"))


def fenced(source: str, tag: str = "python") -> str:
    return f"Here it is.\n```{tag}\n{source.rstrip(chr(10))}\n```\n"


def row(answer: Mapping[str, Any], row_type: str = "code_verifiable") -> dict[str, Any]:
    return {"type": row_type, "answer": dict(answer)}


def case(name: str, answer: Mapping[str, Any], source: str, value: float, *, row_type: str = "code") -> Case:
    """Return a case whose completion is the program in a fence; the program is dedented."""
    tag = str(answer.get("language", "python"))
    text = fenced(textwrap.dedent(source).lstrip("\n"), tag)
    return Case(name=name, info=row(answer, row_type), text=text, value=value)


def stdio(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"test_cases": [{"input": text, "output": output} for text, output in pairs]}


SUM = stdio(("3 5\n", "8\n"), ("-10 4\n", "-6\n"))


def calls(name: str, *pairs: tuple[Any, Any]) -> dict[str, Any]:
    inputs, outputs = zip(*pairs, strict=True)
    return {"fn_name": name, "inputs": list(inputs), "outputs": list(outputs)}


def told_calls(name: str, *pairs: tuple[list[Any], Any]) -> dict[str, Any]:
    """Return the same as LiveCodeBench has it: JSON, one argument a line."""
    return calls(name, *[("\n".join(map(json.dumps, given)), json.dumps(value)) for given, value in pairs])


def asserts(*tests: str, setup: str = "") -> dict[str, Any]:
    return {"tests": list(tests)} | ({"setup": setup} if setup else {})


def cases(
    answer: Mapping[str, Any], value: float, programs: Mapping[str, str], row_type: str = "code"
) -> list[Case]:
    return [case(name, answer, source, value, row_type=row_type) for name, source in programs.items()]


def cases_apart(value: float, programs: Mapping[str, tuple[Mapping[str, Any], str]]) -> list[Case]:
    return [case(name, answer, source, value) for name, (answer, source) in programs.items()]


def texts(answer: Mapping[str, Any], value: float, whole: Mapping[str, str]) -> list[Case]:
    """Return a case for each whole completion by its name, all of them on one row and worth the same."""
    return [Case(name=name, info=row(answer, "code"), text=text, value=value) for name, text in whole.items()]


def in_shapes(title: str, shapes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield a shape and the name of the case in it, for each of `shapes` or of those in the title's brackets."""
    name, _, told = title.partition(" [")
    for shape in told.rstrip("]").split() if told else shapes:
        yield shape, f"{name} [{shape}]"


def attacks(
    tricks: Mapping[str, str], *, after: str = "", row_type: str = "code_verifiable"
) -> Iterator[Case]:
    """Yield each trick in front of (and `after` behind) a wrong answer, in the shapes of its title; without: in every one."""
    for title, trick in tricks.items():
        for shape, name in in_shapes(title, EVERY):
            parts = (textwrap.dedent(trick).strip("\n"), WRONG[shape], textwrap.dedent(after).strip("\n"))
            yield Case(name=name, info=row(ADD[shape], row_type), text=fenced("\n".join(parts)), value=0.0)


def exhausts(tricks: Mapping[str, str]) -> Iterator[Case]:
    """Yield the same for tricks that use up a limit: the first case decides, so that each takes its time once."""
    return attacks(tricks, row_type="code")


def exhausts_when_called(tricks: Mapping[str, str]) -> Iterator[Case]:
    """Yield the same where the trick is what the function does."""
    for title, body in tricks.items():
        yield from attacks({title: ""}, after=f"def add(a, b):\n    {body}", row_type="code")


def breaches(conditions: Mapping[str, str]) -> Iterator[Case]:
    """Yield answers that are right if, and only if, a forbidden thing can be done; on stdio, if the title says no more.

    A condition is the body of a function that returns whether it could; an exception says that it could not.
    """
    for title, condition in conditions.items():
        body = textwrap.indent(textwrap.dedent(condition).strip("\n"), "        ")
        guard = f"def could():\n    try:\n{body}\n    except BaseException:\n        return False\n"
        for shape, name in in_shapes(title, (STDIO,)):
            answer = WRONG[shape].replace("a - b", "a + b if could() else None")
            yield Case(name=name, info=row(ADD[shape]), text=fenced(f"{guard}\n{answer}"), value=0.0)
