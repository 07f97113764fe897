"""For each preparation, a few records in its publisher's shape, written here by hand, and what should become of them.

`left` has the stage that leaves a record out, with how many it does. `answer` is a right answer to each kept row, for
rows of which the gold test can write none. Columns and types are the publishers'; the contents are made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.task_folders import task_folder

Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Published:
    records: Records
    split: str = "train"
    kept: int = 1
    left: Mapping[str, int] = field(default_factory=dict)
    answer: str | None = None
    says: Sequence[str] = ()  # what stands in the first row's prompt
    writes: Callable[[Path, Records], Path] | None = None

    def write(self, folder: Path) -> Path:
        """The source on the disk: lines of JSON, unless the set has a shape of its own."""
        folder.mkdir(parents=True)
        if self.writes is not None:
            return self.writes(folder, self.records)
        path = folder / "rows.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in self.records))
        return path


def arc_folder(folder: Path, records: Records) -> Path:
    for split in ("training", "evaluation"):
        (folder / "data" / split).mkdir(parents=True)
        for number, record in enumerate(records):
            (folder / "data" / split / f"{number:08x}.json").write_text(json.dumps(record))
    return folder


def harbor_folder(folder: Path, records: Records) -> Path:
    for number, _ in enumerate(records):
        task_folder(folder / f"task-{number}")
    return folder


def hitab_folder(folder: Path, records: Records) -> Path:
    (folder / "tables" / "raw").mkdir(parents=True)
    for record in records:
        table = {"title": "t", "texts": record["texts"], "merged_regions": []}
        (folder / f"tables/raw/{record['table_id']}.json").write_text(json.dumps(table))
    lines = [
        json.dumps({key: value for key, value in record.items() if key != "texts"}) for record in records
    ]
    for split in ("train", "test"):
        (folder / f"{split}_samples.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def multihier_folder(folder: Path, records: Records) -> Path:
    for split in ("train", "dev"):
        (folder / f"{split}.json").write_text(json.dumps(records))
    return folder


def problem(answer: Any, **more: Any) -> dict[str, Any]:
    return {"problem": "What is half of 84?", "answer": answer, "solution": "Divide.", **more}


GRID = {"input": [[0, 1], [1, 0]], "output": [[1, 0], [0, 1]]}
FORTY_TWO = Published(records=[problem("42")], split="test", says=["half of 84", "\\boxed{}"])
MBPP = {
    "text": "Write a function to add two numbers.", "code": "def add(a, b):\r\n  return a + b",
    "test_setup_code": "",
    "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0", "assert add(-1, 1) == 0"],
    "challenge_test_list": ["assert add(10 ** 9, 1) == 1000000001"],
}  # fmt: skip
HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": 'from typing import List\n\n\ndef total(xs: List[int]) -> int:\n    """ Add them up. """\n',
    "canonical_solution": "    return sum(xs)\n",
    "test": "METADATA = {}\n\n\ndef check(candidate):\n    assert candidate([1, 2]) == 3\n    assert candidate([]) == 0\n",
    "entry_point": "total",
}
LEETCODE = {
    "prompt": "from typing import *\nimport math\n",
    "query": "### Question:\nDouble n.\n\n### Format: Use this code.\n```python\nclass Solution:\n    def double(self, n: int) -> int:\n```\n\n"
    "### Answer: (use the provided format with backticks)\n\n",
    "completion": "class Solution:\n    def double(self, n: int) -> int:\n        return 2 * n\n",
    "test": "def check(candidate):\n    assert candidate(n=2) == 4\n    assert candidate(n=-1) == -2\n",
    "entry_point": "Solution().double",
    "meta": {"question_title": "Double", "difficulty": "Easy", "question_id": 1},
}
LONG = "Read two whole numbers, each in a line of its own, and print their sum. The numbers are at most a billion, and never below nought."
TACO_STDIO = {
    "question": LONG, "starter_code": "",
    "input_output": json.dumps({"inputs": ["1\n2\n", ["3", "4"]], "outputs": ["3\n", ["7"]]}),
    "solutions": ["wrong", "print(int(input()) + int(input()))"], "source": "codeforces", "difficulty": "EASY",
}  # fmt: skip
TACO_CALLS = {
    **TACO_STDIO, "starter_code": "def add(a, b):\n\t",
    "input_output": json.dumps({"fn_name": "add", "inputs": [[1, 2], [0.1, 0.2]], "outputs": [[3], [0.3]]}),
    "solutions": ["def add(a, b):\n    return a + b"], "source": "codewars",
}  # fmt: skip
CALLS = [
    {"type": "function_call", "fn_name": "flip", "input": [value], "output": [not value]}
    for value in (True, False)
]
LCB_CALL = {
    "problem": "Is n even?", "starter_code": "class Solution:\n    def even(self, n: int) -> bool:\n        ",
    "tests": json.dumps([{"input": "4", "output": "true", "testtype": "functional"},
        {"input": "3", "output": "false", "testtype": "functional"}]),
    "metadata": {"func_name": "even"},
}  # fmt: skip
LCB_STDIN = {
    "problem": "Print n + 1.", "starter_code": "",
    "tests": json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}]), "metadata": {"func_name": None},
}  # fmt: skip
CODEIO = {
    "problem_description": "How often does a letter stand in a text?",
    "io_requirements": "Input:\n  `text` (str)\nOutput:\n  `return` (dict)",
    "refcode": "def main_solution(text):\n    return {'count': text.count('a')}\n", "funcname": "main_solution",
    "ios": [{"input": {"text": "banana"}, "output": {"count": 3}}], "source": "PythonEdu",
}  # fmt: skip
CRUXEVAL = {
    "id": "sample_0", "code": "def f(xs):\n    return sorted(xs)", "input": "[2, 1]", "output": "[1, 2]",
}  # fmt: skip
HITAB = {
    "id": "a", "table_id": "1", "question": "what share of women live in towns and villages respectively?",
    "answer": [12.5, 9.1], "aggregation": ["none"],
    "texts": [["place", "men", "women"], ["town", "10", "12.5"], ["village", "8|9", "9.1"]],
}  # fmt: skip
HTML = "<table><tr><td>year</td><td colspan='2'>sales</td></tr><tr><td>2019</td><td>4</td><td>5</td></tr></table>"
GPQA = {
    "Question": "Which gas is heaviest?", "Correct Answer": "radon [title] (Rn) [note]",
    "Incorrect Answer 1": "neon", "Incorrect Answer 2": "argon", "Incorrect Answer 3": "krypton",
    "Subdomain": "Chemistry",
}  # fmt: skip
WEB = {
    "id": 1, "question": "How much heat?", "answer": "4.5 J", "category": "Physics", "difficulty": "University",
    "answer_type": "Float",
}  # fmt: skip


def livebench(task: str, truth: str | None, **more: Any) -> dict[str, Any]:
    return {
        "question_id": "q", "category": "reasoning", "turns": ["Who lies? End with **yes** or **no**."],
        "ground_truth": truth, "task": task, "livebench_release_date": "2024-07-26T00:00:00", **more,
    }  # fmt: skip


CRITERIA = "1. Divides by two (5 points)\n2. States 42 (5 points)"
GRADED = {"question": "What is half of 84?", "criteria": CRITERIA, "solution": "84 / 2 = 42", "points": 7}

PUBLISHED: dict[str, Published] = {
    "gsm8k": Published(records=[{"question": "How much is 1,000 + 24?",
        "answer": "It is <<1000+24=1024>>1,024.\n#### 1,024"}], says=["####"]),
    "math_500": Published(records=[{"problem": "How much is a half?", "solution": "s", "answer": "\\frac{1}{2}",
        "subject": "Algebra", "level": 1, "unique_id": "t/1"}], split="test", says=["\\boxed{}"]),
    "merged_deduped_dapo_or1_dataset": Published(records=[problem(["42"]), problem(None), problem("x" * 101),
        problem("7")], kept=2, left={"has an answer": 1, "an answer of at most 100 characters": 1}),
    "deepscaler_preview": Published(records=[problem("42"), problem("")], left={"has an answer": 1}),
    **dict.fromkeys(("aime_repeated_8x", "amc_repeated_4x", "minerva", "olympiad_bench", "math",
        "aime2025_repeated_8x"), FORTY_TWO),
    "mbpp": Published(records=[MBPP | {"task_id": 601}, MBPP | {"task_id": 11},
        MBPP | {"task_id": 602, "code": "def add(a, b):\r\n  return a"}],
        left={"tasks 601 to 974, the split's": 1, "its reference is right": 1}, says=["assert add(1, 2) == 3"]),
    "mbppplus": Published(records=[{"task_id": 2, "prompt": "Write a function to add two numbers.",
        "code": MBPP["code"], "source_file": "x.ipynb", "test_imports": ["import math"], "test_list": MBPP["test_list"],
        "test": "inputs = [[1, 2], [3, 4]]\nresults = [3, 7]\nfor inp, exp in zip(inputs, results):\n    assert math.isclose(add(*inp), exp)\n"}],
        split="test", says=["assert add(-1, 1) == 0"]),
    "humaneval": Published(records=[HUMANEVAL], split="test", says=["def total", "docstring"]),
    "humanevalplus": Published(records=[HUMANEVAL], split="test"),
    "leetcode2k": Published(records=[LEETCODE,
        LEETCODE | {"completion": "class Solution:\n    def double(self, n):\n        return n\n"}],
        left={"its reference is right": 1}, says=["### Format:\nUse this code."]),
    "taco": Published(records=[TACO_STDIO, TACO_CALLS, TACO_STDIO | {"source": "leetcode"},
        TACO_STDIO | {"question": "Add."}, TACO_STDIO | {"question": LONG + "\n![](a.png)"},
        TACO_STDIO | {"solutions": []}, TACO_STDIO | {"input_output": json.dumps({"inputs": [], "outputs": []})},
        TACO_STDIO | {"solutions": ["print(3)"]},
        TACO_CALLS | {"input_output": '{"fn_name": "add", "inputs": [[1, ' + "9" * 4301 + ']], "outputs": [[0]]}'}],
        kept=2, left={"no tasks of geeksforgeeks or leetcode": 1, "at least 100 letters and digits": 1,
        "no pictures": 1, "has a solution": 1, "has tests": 1, "numbers of at most 4300 digits": 1,
        "its reference is right": 1}, says=["standard input"]),
    "primeintellect": Published(records=[{"problem": "Turn a truth value round.",
        "solutions": ["```python\ndef flip(x):\n    return not x\n```"], "tests": json.dumps(CALLS)},
        {"problem": "Print n + 1.", "solutions": ["print(int(input()) + 1)"],
        "tests": json.dumps([{"type": "stdin_stdout", "input": "1\n", "output": "2\n"}])},
        {"problem": "Solve the following coding problem using the programming language python:\n\nExample 1",
        "solutions": ["x"], "tests": "[]"}, {"problem": "See [image].", "solutions": ["x"], "tests": "[]"},
        {"problem": "Nothing is tested.", "solutions": ["x"], "tests": "[]"}], kept=2,
        left={"no pictures": 1, "says what to do": 1, "has tests": 1},
        says=["Turn a truth value round.", "called flip"]),
    "livecodebench": Published(records=[LCB_CALL, LCB_CALL | {"metadata": {}}], left={"names its function": 1},
        answer="```python\nclass Solution:\n    def even(self, n):\n        return n % 2 == 0\n```",
        says=["def even(self"]),
    "arcagi1": Published(records=[{"train": [GRID] * 8, "test": [GRID, GRID]}, {"train": [], "test": [GRID]}],
        left={"has pairs": 1}, says=["Pair 6\nBefore: [[0, 1], [1, 0]]", "<answer>"], writes=arc_folder),
    "arcagi2": Published(records=[{"train": [GRID], "test": [GRID]}], split="test", writes=arc_folder),
    "barc": Published(records=[{"examples": [[[[0.0, 1.0]], [[1.0, 0.0]]]] * 3, "source": "def main(): ..."},
        {"examples": []}] * 5, kept=4, left={"in the split's share": 2, "has two pairs": 4}),
    "codeio": Published(records=[CODEIO, CODEIO, CODEIO | {"ios": []}], split="test", kept=2,
        left={"has an input and an output": 1}, says=["```json", "def main_solution"]),
    "cruxeval-i": Published(records=[CRUXEVAL], split="test", answer="```python\nassert f([1, 2]) == [1, 2]\n```",
        says=["assert f(??) == [1, 2]"]),
    "cruxeval-o": Published(records=[CRUXEVAL], split="test", says=["assert f([2, 1]) == ??"]),
    "hitab": Published(records=[HITAB, HITAB | {"table_id": "2", "answer": []}], left={"has an answer": 1},
        writes=hitab_folder, says=["| place | men | women |\n|---|---|---|", "8/9", "part them by |"]),
    "multihier": Published(records=[{"tables": [HTML], "paragraphs": [],
        "qa": {"question": "sales in 2019?", "answer": 9, "text_evidence": [], "program": ""}},
        {"tables": [HTML], "paragraphs": [], "qa": {"question": "why?", "answer": "x", "text_evidence": [3],
        "program": ""}}], left={"answered by the tables alone": 1}, writes=multihier_folder,
        says=["| year | sales |  |", "| 2019 | 4 | 5 |"]),
    "finqa": Published(records=[{"pre_text": ["Sales rose."], "post_text": ["All in dollars."],
        "table": [["", "2019"], ["sales", "$ 1,141"]], "question": "by what share?",
        "answer": answer} for answer in ("14.1%", "yes")], split="test", left={"the answer is a number": 1},
        says=["Sales rose.", "| sales | $ 1,141 |"]),
    "webinstruct": Published(records=[WEB, WEB | {"answer": "B"}, WEB | {"category": "Mathematics"},
        WEB | {"difficulty": "Junior High School"}, WEB | {"answer_type": "Boolean"}, WEB | {"answer": "3.14159 J"}],
        left={"an answer, and not one letter": 1, "no mathematics": 1, "of a university, or above": 1,
        "neither yes or no, nor a choice": 1, "at most three decimals": 1}, answer="\\boxed{4.5 J}",
        says=["How much heat?", "step by step"]),
    "gpqa": Published(records=[GPQA, GPQA | {"Incorrect Answer 1": "argon"}], split="test",
        left={"its options differ": 1}, says=["radon. (Rn)", "`Answer: X`"]),
    "gpqa_diamond": Published(records=[GPQA], split="test", says=["\\boxed{}"]),
    "supergpqa": Published(records=[{"uuid": "u", "question": "Which is a metal?", "options": ["neon", "iron", "salt"],
        "answer": "iron", "answer_letter": "B", "discipline": "Science"}], split="test", says=["(B) iron"]),
    "ifeval": Published(records=[{"key": 1, "prompt": "Write three words or more, without commas.",
        "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
        "kwargs": [{"num_words": None, "relation": None}, {"num_words": 3, "relation": "at least"}]},
        {"key": 2, "prompt": "x", "instruction_id_list": [], "kwargs": []}], split="test", left={"has instructions": 1},
        answer="Rain falls on every roof here"),
    "ifbench": Published(records=[{"key": "k", "messages": [{"role": "user", "content": "Name a bird. Use no commas."}],
        "ground_truth": "[{'instruction_id': ['punctuation:no_comma'], 'kwargs': [None]}]", "constraint": "no commas"},
        {"key": "k", "messages": [{"role": "user", "content": "x"}], "ground_truth": None, "constraint": ""}],
        split="test", left={"has constraints": 1}, answer="The wren is a small bird"),
    "livebench_reasoning": Published(records=[livebench("web_of_lies_v2", "yes, no, yes"),
        livebench("web_of_lies_v2", "yes", livebench_release_date="2024-11-25T00:00:00"),
        livebench("web_of_lies_v2", None), livebench("web_of_lies_v2", "yes", turns=["a", "b"]),
        livebench("a_task_of_the_future", "yes")], split="test",
        left={"released in June or July 2024": 1, "one turn": 1, "has an answer": 1, "its scorer can read it": 1},
        answer="So **yes, no, yes**"),
    "livebench_data_analysis": Published(records=[livebench("cta", "city", category="data_analysis")], split="test",
        answer="city"),
    "livebench_language": Published(records=[livebench("typos", "a clean text", category="language")], split="test",
        answer="a clean text"),
    "polaris_tinyv": Published(records=[problem("42", difficulty="3/8", criteria=CRITERIA),
        problem("42", difficulty="8/8", criteria=" ")], left={"has criteria": 1}),
    "grade": Published(records=[GRADED, GRADED | {"solution": " "}, GRADED | {"criteria": None}],
        left={"has criteria": 1, "has a solution": 1}, says=[CRITERIA, "84 / 2 = 42", "Total Score: N/10"]),
    "harbor": Published(records=[{}, {}], kept=2, says=["Write the number"], writes=harbor_folder),
}  # fmt: skip
