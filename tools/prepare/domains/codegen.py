"""Prepare code tasks: a description, and tests for the sandbox.

In: records of MBPP, HumanEval, LeetCode, TACO, PrimeIntellect and LiveCodeBench. Out: drafts whose ground truth is the
JSON text of tests in the form of `verdicts.code.rows`, with the published solution as the row's reference. Nothing is
run here. Arguments and results of functions stay data: they are not written into a program, where JSON's `true` would
be an undefined name. Called by `tools.prepare.stages`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Final

from tools.prepare.preparation import (
    LIST,
    MAYBE_TEXT,
    OBJECT,
    TEXT,
    BadRecord,
    Draft,
    Draw,
    Filter,
    Hub,
    LeftOut,
    Preparation,
    Record,
    Split,
    tokens_below,
)

_DEEPCODER: Final = "agentica-org/DeepCoder-Preview-Dataset"
_LONGEST: Final = tokens_below(4096)
_FENCE: Final = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_UNTESTED_SITES: Final = ("geeksforgeeks", "leetcode")  # of TACO
_LEAST_CHARS: Final = 100  # letters and digits of a task

_MOST_DIGITS: Final = 4300  # of a number: Python's limit for parsing and printing
_HAS_TESTS: Final = "has tests"
_NAMES_FUNCTION: Final = "names its function"
_SHORT_NUMBERS: Final = f"numbers of at most {_MOST_DIGITS} digits"

_FUNCTION: Final = (
    "Write the function in a Python code block, complete with its imports and without the tests."
)
_PROGRAM: Final = (
    "Write a Python program that reads its input from standard input and prints the answer to standard output, in a "
    "code block that begins with ```python. Leave out any run on the samples."
)
_STARTER: Final = "Complete this code, and write all of it in a code block that begins with ```python:"


def tests_of(text: str, column: str) -> Any:
    """Return the tests in a column as JSON.

    Raises:
        BadRecord: it is no JSON.
        LeftOut: it has a number with more digits than Python parses.
    """
    try:
        return json.loads(text, parse_int=_number)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f", column {column}: it is no JSON: {error}") from error


def _number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise LeftOut(_SHORT_NUMBERS)
    return int(digits)


def with_asserts(task: str, shown: Sequence[str]) -> str:
    """Return a prompt that shows some of the tests."""
    tests = "\n".join(shown)
    return (
        f"{task.strip()}\n\nThe function has to pass tests such as:\n```python\n{tests}\n```\n\n{_FUNCTION}"
    )


def _mbpp(record: Record, shown: int | None) -> Draft:
    tests = [*record["test_list"], *(record.get("challenge_test_list") or ())]
    setup = (record.get("test_setup_code") or "").strip()
    return Draft(
        prompt=with_asserts(record["text"], record["test_list"][:shown]),
        ground_truth=json.dumps({"functional": "\n".join([*([setup, ""] if setup else []), *tests, ""])}),
        extra={
            "reference": record["code"].replace("\r\n", "\n"),
            "dataset": "mbpp",
            "task_id": str(record["task_id"]),
        },
    )


def mbpp_to_train(record: Record, _: random.Random) -> Draft:
    """Return the draft of an MBPP task for training: the prompt shows only the first test, the others are held back."""
    return _mbpp(record, 1)


def mbpp_to_evaluate(record: Record, _: random.Random) -> Draft:
    """Return the draft of an MBPP task for evaluation: the prompt shows `test_list`, never the challenge tests."""
    return _mbpp(record, None)


def mbppplus(record: Record, _: random.Random) -> Draft:
    """Return the draft of a task of MBPP+, whose many tests are one program."""
    imports = "\n".join(record.get("test_imports") or ())
    return Draft(
        prompt=with_asserts(record["prompt"], record["test_list"]),
        ground_truth=json.dumps({"functional": f"{imports}\n\n{record['test']}".strip()}),
        extra={
            "reference": record["code"].replace("\r\n", "\n"),
            "dataset": "mbpp",
            "task_id": str(record["task_id"]),
        },
    )


def humaneval(record: Record, _: random.Random) -> Draft:
    """Return the draft of a task of HumanEval."""
    return _humaneval(record, "openai_humaneval")


def humanevalplus(record: Record, _: random.Random) -> Draft:
    """Return the draft of a task of HumanEval+."""
    return _humaneval(record, "evalplus_humanevalplus")


def _humaneval(record: Record, dataset: str) -> Draft:
    """Return the draft of a task whose reference is the whole function, as answers must be."""
    return Draft(
        prompt=(
            "Complete this function. Keep its signature and its docstring as they are, and write all of it, with the "
            f"imports that it needs, in a Python code block.\n\n```python\n{record['prompt'].strip()}\n```"
        ),
        ground_truth=json.dumps(
            {"functional": f"{record['test']}\n\ncheck({record['entry_point'].strip()})"}
        ),
        extra={
            "reference": f"{record['prompt']}{record['canonical_solution']}",
            "dataset": dataset,
            "task_id": record["task_id"],
        },
    )


def leetcode(record: Record, _: random.Random) -> Draft:
    """Return the draft of a task of LeetCodeDataset, whose `query` without its last heading is the prompt."""
    query = record["query"].replace("### Answer: (use the provided format with backticks)", "")
    meta = record["meta"]
    return Draft(
        prompt=query.replace("### Format: ", "### Format:\n").strip(),
        ground_truth=json.dumps(
            {"functional": f"{record['test']}\n\ncheck({record['entry_point'].strip()})"}
        ),
        extra={
            "reference": record["completion"],
            "prefix": record["prompt"],
            "dataset": "LeetCodeDataset",
            "question_title": str(meta.get("question_title") or ""),
            "difficulty": str(meta.get("difficulty") or ""),
        },
    )


def taco(record: Record, _: random.Random) -> Draft:
    """Return the draft of a task of TACO. The kept solution is the tested one."""
    oracle = tests_of(record["input_output"], "input_output")
    starter = record["starter_code"].strip()
    form = f"{_STARTER}\n```python\n{starter}\n```" if starter else _PROGRAM
    if not isinstance(oracle, dict) or not oracle.get("inputs"):
        raise LeftOut(_HAS_TESTS)
    keys = ("fn_name", "inputs", "outputs") if oracle.get("fn_name") else ("inputs", "outputs")
    return Draft(
        prompt=f"{record['question'].strip()}\n\n{form}",
        ground_truth=json.dumps({key: oracle.get(key) for key in keys}),
        extra={
            "reference": code_of(record["solutions"][-1]),
            "dataset": "likaixin/TACO-verified",
            "source": record["source"],
        },
    )


def code_of(text: str) -> str:
    """Return the program in a text: its last code block, or all of it without one."""
    blocks = _FENCE.findall(text)
    return str(blocks[-1] if blocks else text).replace("\r\n", "\n").strip()


def primeintellect(record: Record, _: random.Random) -> Draft:
    """Return the draft of a task of PrimeIntellect's part of DeepCoder; its prompt gives the answer's form itself."""
    tests = _cases(record["tests"])
    kind = tests[0].get("type")
    prompt = record["problem"]
    if kind == "function_call":
        name = tests[0].get("fn_name")
        if not name:
            raise LeftOut(_NAMES_FUNCTION)
        if name not in prompt:
            prompt = f"{prompt.rstrip()}\n\nThe function is called {name}."
    elif kind == "stdin_stdout":
        name = None
    else:
        raise BadRecord(f", column tests: no such type of tests: {kind!r}")
    return Draft(
        prompt=prompt,
        ground_truth=json.dumps(_pairs(tests, name)),
        extra={
            "reference": code_of(record["solutions"][0]),
            "dataset": "PrimeIntellect",
            "function_name": name or "",
        },
    )


def livecodebench(record: Record, _: random.Random) -> Draft:
    """Return the draft of a task of LiveCodeBench, which publishes no solutions."""
    tests = _cases(record["tests"])
    name, form = None, _PROGRAM
    if tests[0].get("testtype") == "functional":
        name = (record["metadata"] or {}).get("func_name")
        if not name:
            raise LeftOut(_NAMES_FUNCTION)
        form = f"{_STARTER}\n```python\n{(record['starter_code'] or '').rstrip()}\n```"
    elif tests[0].get("testtype") != "stdin":
        raise BadRecord(f", column tests: no such type of tests: {tests[0].get('testtype')!r}")
    return Draft(
        prompt=f"{record['problem'].strip()}\n\n{form}",
        ground_truth=json.dumps(_pairs(tests, name)),
        extra={"reference": "", "dataset": "LiveCodeBench", "function_name": name or ""},
    )


def _cases(text: str) -> list[dict[str, Any]]:
    """Return the test cases of a task of DeepCoder. Raises BadRecord, or LeftOut where there are none."""
    tests = tests_of(text, "tests")
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise BadRecord(", column tests: a list of objects is wanted")
    if not tests:
        raise LeftOut(_HAS_TESTS)
    if lacking := next((test for test in tests if not {"input", "output"} <= test.keys()), None):
        raise BadRecord(f", column tests: a case needs input and output, got {sorted(lacking)}")
    return tests


def _pairs(tests: Sequence[Mapping[str, Any]], name: str | None) -> dict[str, Any]:
    found = {"inputs": [test["input"] for test in tests], "outputs": [test["output"] for test in tests]}
    return {"fn_name": name, **found} if name else found


def _has_task(record: Record) -> bool:
    """Return whether a prompt of PrimeIntellect has a task before its example or its input format."""
    _, _, said = record["problem"].rpartition(
        "Solve the following coding problem using the programming language python:"
    )
    return not said.lstrip().lower().startswith(("example", "input", "-----input-----"))


def _no_picture(column: str) -> Filter:
    def keeps(record: Record) -> bool:
        text = record[column].lower()
        return not ("<image>" in text or "[image]" in text or "\n![" in text)

    return Filter(name="no pictures", keeps=keeps)


def _with_id(least: int, most: int) -> Filter:
    return Filter(
        name=f"tasks {least} to {most}, the split's", keeps=lambda record: least <= record["task_id"] <= most
    )


_HAS_SOLUTION: Final = Filter(name="has a solution", keeps=lambda record: bool(record["solutions"]))

_MBPP: Final = {
    "task_id": (int,),
    "text": TEXT,
    "code": TEXT,
    "test_list": LIST,
    "test_setup_code": MAYBE_TEXT,
    "challenge_test_list": (list, NoneType),
}
_HUMANEVAL: Final = {
    "task_id": TEXT,
    "prompt": TEXT,
    "canonical_solution": TEXT,
    "test": TEXT,
    "entry_point": TEXT,
}


def _humaneval_set(name: str, row: Draw, path: str, about: str, licence: str) -> Preparation:
    return Preparation(
        name=name,
        domain="code",
        about=about,
        source=Hub(path=path),
        columns=_HUMANEVAL,
        row=row,
        data_source=f"codegen__{name}",
        ability="codegen",
        repeats=("original_prompt",),
        splits={"test": Split(source="test")},
        max_prompt_tokens=_LONGEST,
        tests_references=True,
        licence=licence,
    )


PREPARATIONS: Final = (
    Preparation(
        name="mbpp",
        domain="code",
        about="short functions of Python, each with three tests",
        source=Hub(path="google-research-datasets/mbpp"),
        columns=_MBPP,
        row=mbpp_to_train,
        data_source="codegen__mbpp",
        ability="codegen",
        repeats=("original_prompt",),
        splits={
            "train": Split(filters=(_with_id(601, 974),)),
            "test": Split(source="test", filters=(_with_id(11, 510),), row=mbpp_to_evaluate),
        },
        tests_references=True,
        licence="CC-BY-4.0",
    ),
    Preparation(
        name="mbppplus",
        domain="code",
        about="MBPP with many more tests",
        source=Hub(path="evalplus/mbppplus"),
        columns={
            "task_id": (int, str),
            "prompt": TEXT,
            "code": TEXT,
            "test": TEXT,
            "test_list": LIST,
            "test_imports": (list, NoneType),
        },
        row=mbppplus,
        data_source="codegen__mbppplus",
        ability="codegen",
        repeats=("original_prompt",),
        splits={"test": Split(source="test")},
        tests_references=True,
        licence="Apache-2.0",
    ),
    _humaneval_set("humaneval", humaneval, "openai/openai_humaneval", "164 functions to complete", "MIT"),
    _humaneval_set(
        "humanevalplus",
        humanevalplus,
        "autoprogrammer/humanevalplus_corrected",
        "HumanEval with many more tests",
        "",
    ),
    Preparation(
        name="leetcode2k",
        domain="code",
        about="tasks of LeetCode with their tests",
        source=Hub(path="newfacade/LeetCodeDataset", revision="34803eb64eab1979069ba1f80e7ea474282e28f3"),
        columns={
            "prompt": TEXT,
            "query": TEXT,
            "completion": TEXT,
            "test": TEXT,
            "entry_point": TEXT,
            "meta": OBJECT,
        },
        row=leetcode,
        data_source="codegen__leetcode2k",
        ability="codegen",
        repeats=("original_prompt",),
        splits={"train": Split(), "test": Split(source="test")},
        max_prompt_tokens=_LONGEST,
        tests_references=True,
        licence="Apache-2.0",
    ),
    Preparation(
        name="taco",
        domain="code",
        about="tasks of contests, whose solutions were verified",
        source=Hub(path="likaixin/TACO-verified"),
        columns={
            "question": TEXT,
            "starter_code": TEXT,
            "input_output": TEXT,
            "solutions": LIST,
            "source": TEXT,
        },
        row=taco,
        data_source="codegen__taco",
        ability="codegen",
        repeats=("original_prompt",),
        filters=(
            Filter(
                name="no tasks of geeksforgeeks or leetcode",
                keeps=lambda record: record["source"] not in _UNTESTED_SITES,
            ),
            Filter(
                name=f"at least {_LEAST_CHARS} letters and digits",
                keeps=lambda record: sum(map(str.isalnum, record["question"])) >= _LEAST_CHARS,
            ),
            Filter(
                name="no pictures",
                keeps=lambda record: (
                    "image" not in record["question"].lower() and "\n![" not in record["question"]
                ),
            ),
            _HAS_SOLUTION,
        ),
        leaves_out=(_HAS_TESTS, _SHORT_NUMBERS),
        max_prompt_tokens=_LONGEST,
        tests_references=True,
    ),
    Preparation(
        name="primeintellect",
        domain="code",
        about="PrimeIntellect's part of DeepCoder",
        source=Hub(path=_DEEPCODER, config="primeintellect"),
        columns={"problem": TEXT, "solutions": LIST, "tests": TEXT},
        row=primeintellect,
        data_source="codegen__primeintellect",
        ability="codegen",
        repeats=("original_prompt",),
        filters=(_no_picture("problem"), Filter(name="says what to do", keeps=_has_task), _HAS_SOLUTION),
        leaves_out=(_HAS_TESTS, _NAMES_FUNCTION, _SHORT_NUMBERS),
        max_prompt_tokens=_LONGEST,
        tests_references=True,
    ),
    Preparation(
        name="livecodebench",
        domain="code",
        about="LiveCodeBench, version 5; it has no solutions to test",
        source=Hub(path=_DEEPCODER, config="lcbv5"),
        columns={"problem": TEXT, "starter_code": MAYBE_TEXT, "tests": TEXT, "metadata": (dict, NoneType)},
        row=livecodebench,
        data_source="codegen__livecodebench",
        ability="codegen",
        repeats=("original_prompt",),
        splits={"train": Split(), "test": Split(source="test")},
        leaves_out=(_HAS_TESTS, _NAMES_FUNCTION, _SHORT_NUMBERS),
        max_prompt_tokens=_LONGEST,
    ),
)
