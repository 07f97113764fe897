"""Select the tests of a row that a policy may see, and describe those that its program fails.

In: a code row, as `verdicts.code.rows` reads it. Out: `PublicTests`: the tests that the row itself calls public, or the
first ones of its own. It contains no other tests of the row, so none can be run or shown. Used by the environment
`code`. A row without public tests raises `BadMessage` that says what to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.errors import BadMessage
from tasks.values import is_nothing, python_text, shown
from verdicts.code.judging import CaseTally, Failure
from verdicts.code.long_integers import long_integers
from verdicts.code.rows import Harnessed, Suite, first_of, suite_of

# Where rows have them, in the answer or as a column: Code Contests' name and LiveCodeBench's.
KEYS: Final = ("public_tests", "public_test_cases")
MOST_TOLD: Final = 3  # failed tests that are shown
_ERROR_LINES: Final = 12
_PLACE: Final = re.compile(r"[^\s\"'(]*/(main\.(?:py|cpp|js))")  # its folder is another one in each run


@dataclass(frozen=True, slots=True)
class ShownTest:
    """A test in a policy's form."""

    given: str
    expected: str | None = None  # None: it is in `given`, an assert
    is_stdio: bool = False


@dataclass(frozen=True, slots=True)
class PublicTests:
    """Tests of a row that a policy may see."""

    suite: Suite
    shown: tuple[ShownTest, ...]  # one for each case of the suite

    def told(self, tally: CaseTally, most_chars: int) -> str:
        """Describe which of them a program failed, and why.

        Args:
            tally: the program's, with `suite`.
            most_chars: of an input, of the expected output, and of the program's output.
        """
        passed, total = sum(tally.results), len(self.shown)
        told = [self._failed(failure, most_chars) for failure in tally.failures[:MOST_TOLD]]
        return "\n\n".join([f"{passed} of {total} public tests passed.", *told])

    def _failed(self, failure: Failure, most_chars: int) -> str:
        if failure.is_of_all:
            return "\n".join(_reason(failure, most_chars))
        test = self.shown[failure.number - 1]
        name = "Input" if test.is_stdio else "Check" if test.expected is None else "Call"
        parts = [f"Test {failure.number} failed.", f"{name}:\n{cut(test.given, most_chars)}"]
        if test.expected is not None:
            parts.append(f"Expected:\n{cut(test.expected, most_chars)}")
        if test.is_stdio and not failure.error:
            parts.append(f"Got:\n{cut(failure.printed, most_chars)}")
        return "\n".join([*parts, *_reason(failure, most_chars)])


def public_tests(row: Mapping[str, Any], first: int | None) -> PublicTests:
    """Return the tests of a row that a policy may see: those that it calls public, else the first of its own.

    Args:
        row: `type`, `answer` and `language` of its `verification_info`, and maybe one of `KEYS`: a list of cases with
            `input` and `output`, an object of such lists, or a list of asserts; or the JSON text of one.
        first: number of the row's own tests to use if it calls none public; at least one stays hidden. None: such a row
            is refused.
    Raises:
        BadMessage: there is no such test, or the row can't be read.
    """
    if (key := next((key for key in KEYS if not is_nothing(row.get(key))), None)) is not None:
        suite = suite_of({**row, "answer": _answer(row, key)}, split=True)
    elif first is None:
        raise BadMessage(
            f"a code row that calls no test public: they stand under {' or '.join(KEYS)} beside the answer or in a "
            "column that `data.columns` names; or `environment.public: 2` shows the first two of its own tests"
        )
    else:
        suite = _first(suite_of(row, split=True), first)
    if not isinstance(suite.tests, Harnessed):
        return PublicTests(
            suite, tuple(ShownTest(case.stdin, case.expected, is_stdio=True) for case in suite.tests)
        )
    texts = suite.tests.texts or tuple(str(case.get("text")) for case in suite.tests.cases)
    return PublicTests(
        suite, tuple(_shown(case, text) for case, text in zip(suite.tests.cases, texts, strict=True))
    )


def _reason(failure: Failure, most_chars: int) -> list[str]:
    """Return why a test failed, and the end of the error output of the program or its compiler."""
    lines = _PLACE.sub(r"\1", failure.error.strip("\n")).split("\n")[-_ERROR_LINES:]
    said = cut("\n".join(lines), most_chars, keeps_end=True)
    return [text for text in (cut(_PLACE.sub(r"\1", failure.reason), most_chars), said) if text]


def cut(text: str, most_chars: int, *, keeps_end: bool = False) -> str:
    """Cut a text to `most_chars` characters, with a note about the omitted ones."""
    text = text.strip("\n")
    if (more := len(text) - most_chars) <= 0:
        return text
    said = f"[{more} more characters]"
    return f"{said} {text[more:]}" if keeps_end else f"{text[:most_chars]} {said}"


def _first(suite: Suite, number: int) -> Suite:
    """Return a suite with the first of its tests, at least one less than all. Raises BadMessage."""
    if isinstance(suite.tests, Harnessed) and suite.tests.pytest is not None:
        raise BadMessage("a pytest file can't be shown in part: such a row has to name its public tests")
    cases = suite.tests.cases if isinstance(suite.tests, Harnessed) else suite.tests
    if len(cases) < 2:
        raise BadMessage(
            "a code row with one test, which stays hidden: such a row has to name its public tests"
        )
    return first_of(suite, min(number, len(cases) - 1))


def _answer(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an answer with only the public tests, and the row's keys about how they run."""
    answer = row.get("answer")
    own = answer if isinstance(answer, Mapping) else {}
    about = {name: own[name] for name in ("language",) if not is_nothing(own.get(name))}
    tests = _read(row[key])
    if isinstance(tests, Mapping):
        given, wanted = (tests.get(name, tests.get(f"{name}s")) for name in ("input", "output"))
        if not isinstance(given, list) or not isinstance(wanted, list) or len(given) != len(wanted):
            raise BadMessage(f"{key} of a code row: `input` and `output` are lists of one length")
        tests = [{"input": one, "output": other} for one, other in zip(given, wanted, strict=True)]
    if not isinstance(tests, list) or not tests:
        raise BadMessage(f"{key} of a code row is a list of tests, got {shown(row[key])}")
    if all(isinstance(test, str) for test in tests):
        setup = {} if is_nothing(own.get("setup")) else {"setup": own["setup"]}
        return {"tests": tests, **setup, **about}
    name = {} if is_nothing(own.get("fn_name")) else {"fn_name": own["fn_name"]}
    return {"test_cases": tests, **name, **about}


def _read(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return python_text(value)


def _shown(case: Mapping[str, Any], text: str) -> ShownTest:
    if "entry" not in case:
        return ShownTest(text.strip())
    with long_integers():
        given = f"{case['entry']}({', '.join(map(repr, case['arguments']))})"
        return ShownTest(given, repr(case["expected"][0]))
