"""Answers that hang, one for each shape of rows and each moment at which an answer can hang.

In: nothing. Out: `SHAPES`, by name. Used by `benchmarks.measures.hanging` and by the test that bounds their price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

SPIN: Final = "while True: pass"
HANGS: Final = "def f(x):\n    while True: pass"
STOPS: Final = "import os, signal\n"
LOOKS_RIGHT: Final = "\ndef f(x): return x\n"


@dataclass(frozen=True, slots=True)
class HangingAnswer:
    """One hanging answer with its row."""

    info: Mapping[str, Any]  # verification_info
    program: str
    type: str = "code"  # of the scorer


def _row(**answer: Any) -> dict[str, Any]:
    """Return a row whose score is the share of its cases."""
    return {"type": "code_verifiable", "answer": answer}


def _stdio(cases: int) -> dict[str, Any]:
    return _row(test_cases=[{"input": f"{number}\n", "output": f"{number}\n"} for number in range(cases)])


def _asserts(cases: int) -> dict[str, Any]:
    return _row(tests=[f"assert f({number}) == {number}" for number in range(cases)])


def _calls(cases: int) -> dict[str, Any]:
    return _row(fn_name="f", inputs=[[number] for number in range(cases)], outputs=list(range(cases)))


def _functional(cases: int) -> dict[str, Any]:
    return _row(functional="\n".join(f"assert f({number}) == {number}" for number in range(cases)))


_PYTEST: Final = _row(pytest="from solution import f\n\ndef test_f():\n    assert f(1) == 1\n")
_COLLECTED: Final = _row(
    pytest="import pytest\nfrom solution import f\n\n"
    "@pytest.mark.parametrize('x', f(3))\ndef test_f(x):\n    assert x == 1\n"
)
_FORTY: Final = _row(
    pytest="import pytest\nfrom solution import f\n\n"
    "@pytest.mark.parametrize('x', range(40))\ndef test_f(x):\n    assert f(x) == x\n"
)
_BEFORE: Final = "def add(a, b):\n    return a + b\n"
_AFTER: Final = "def add(a, b):\n    return a + b + 1\n"
_SWE: Final = {
    "type": "swe_verifiable",
    "answer": {
        "input": _BEFORE,
        "ground_truth": _AFTER,
        "files": {
            "add.py": _BEFORE,
            "test_add.py": "from add import add\n\ndef test_add():\n    assert add(1, 2) == 4\n",
        },
        "test_command": "pytest -q test_add.py",
    },
}

SHAPES: Final[Mapping[str, HangingAnswer]] = {
    **{
        f"{name}, {cases} {'case' if cases == 1 else 'cases'}": HangingAnswer(made(cases), program)
        for name, made, program in (
            ("standard input", _stdio, SPIN),
            ("asserts", _asserts, HANGS),
            ("functional", _functional, HANGS),
            ("function calls", _calls, HANGS),
        )
        for cases in (1, 2, 40)
    },
    "asserts, a hang at load": HangingAnswer(_asserts(40), SPIN),
    "asserts, a sleep in every other case": HangingAnswer(
        _asserts(40), "import time\ndef f(x):\n    if x % 2: time.sleep(1000)\n    return x"
    ),
    "asserts, the checking process kept busy": HangingAnswer(
        _row(tests=["assert f(0) == 0", *["assert sum(f(9)) == 1"] * 3]),
        "def f(x): return x and range(10 ** 15)",
    ),
    "pytest, one test": HangingAnswer(_PYTEST, HANGS),
    "pytest, 40 tests": HangingAnswer(_FORTY, HANGS),
    "pytest, a hang at collection": HangingAnswer(_COLLECTED, HANGS),
    "pytest, the checking process kept busy at collection": HangingAnswer(
        _COLLECTED, "def f(x):\n    while True: yield x"
    ),
    "standard input, stops itself": HangingAnswer(_stdio(40), f"{STOPS}os.kill(os.getpid(), signal.SIGSTOP)"),
    "asserts, stops itself at load": HangingAnswer(
        _asserts(40), f"{STOPS}os.kill(os.getpid(), signal.SIGSTOP){LOOKS_RIGHT}"
    ),
    "asserts, stops its group at load": HangingAnswer(
        _asserts(40), f"{STOPS}os.kill(0, signal.SIGSTOP){LOOKS_RIGHT}"
    ),
    "asserts, stops the checking process at load": HangingAnswer(
        _asserts(40), f"{STOPS}os.kill(os.getppid(), signal.SIGSTOP)\n{SPIN}"
    ),
    "asserts, stops the checking process and seems right": HangingAnswer(
        _asserts(40), f"{STOPS}os.kill(os.getppid(), signal.SIGSTOP){LOOKS_RIGHT}"
    ),
    "pytest, stops the checking process": HangingAnswer(
        _PYTEST, f"{STOPS}def f(x):\n    os.kill(os.getppid(), signal.SIGSTOP)\n    return 1"
    ),
    "asserts, ignores what may be ignored": HangingAnswer(
        _asserts(40),
        f"{STOPS}for number in range(1, 65):\n    try: signal.signal(number, signal.SIG_IGN)\n"
        f"    except (OSError, ValueError): pass\n{SPIN}",
    ),
    "swe, a module that spins": HangingAnswer(_SWE, f"{SPIN}\n{_AFTER}", "swe"),
    "swe, a function that spins": HangingAnswer(_SWE, f"def add(a, b):\n    {SPIN}", "swe"),
}
