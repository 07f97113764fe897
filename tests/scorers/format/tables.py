r"""Answers and their shapes, by the row that they answer.

A line of RIGHT and WRONG is the type of the row and a text; `ROWS` has a row of each. NULLS are right for no row. The
attacks have the shape that they pretend to have nowhere where it counts.
"""

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "math": {"type": "math", "answer": {"value": "5"}},
    "gsm8k": {"type": "gsm8k", "answer": {"value": "5"}},
    "code": {"type": "code", "answer": {"tests": ["assert f(1) == 2"]}},
    "cpp": {
        "type": "code_verifiable",
        "answer": {"language": "cpp", "test_cases": [{"input": "1", "output": "2"}]},
    },
    "file": {"type": "swe", "answer": {"input": "a", "ground_truth": "b"}},
    "edits": {
        "type": "swe",
        "answer": {"code_context": {"a.py": "a\n"}, "oracle_new_content": {"a.py": "b\n"}},
    },
    "patch": {
        "type": "swe",
        "answer": {"oracle_patches": {"a.py": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n"}},
    },
    "zebra": {"type": "zebra", "answer": {"value": {"header": ["Position"], "rows": [["1"]]}}},
    "hitab": {"type": "hitab", "answer": {"value": "5"}},
    "choice": {"type": "choice", "answer": {"value": "C"}},
    "codeio": {"type": "codeio", "answer": {"value": '"output": 5'}},
    "grade": {"type": "grade", "answer": {"value": 0.7}},
}
RIGHT: list[tuple[str, str]] = [
    ("math", "\\boxed{5}"),
    ("math", "<think>2 + 3</think> \\boxed{5}"),
    ("math", "\\boxed{\\frac{1}{2}}<|im_end|>"),
    ("math", "2 + 3</think>so \\boxed{wrong}"),
    ("math", "\\boxed{1} no, \\boxed{5}"),
    ("gsm8k", "so #### 5"),
    ("gsm8k", "<think>a</think>\n#### 1,234"),
    ("code", "```python\nprint(1)\n```"),
    ("code", "```\nprint(1)\n```"),
    ("code", "~~~py\nprint(1)\n~~~"),
    ("cpp", "```cpp\nint main() {}\n```"),
    ("cpp", "```c++\nint main() {}\n```"),
    ("file", "```python\nb\n```"),
    ("patch", "```diff\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n```"),
    (
        "edits",
        "<solution>\n```python\n### a.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```\n</solution>",
    ),
    ("zebra", "<answer>{}</answer>"),
    ("zebra", "<think>x</think>\n<answer>\nanything\n</answer>"),
    ("hitab", "\\boxed{a|b}"),
    ("choice", "\\boxed{C}"),
    ("choice", "Reasons.\nAnswer: C"),
    ("choice", "<answer>C</answer>"),
    ("choice", "Reasons.\n**(C)**"),
    ("codeio", '\\boxed{"output": 5}'),
    ("codeio", '```json\n{"output": 5}\n```'),
    ("codeio", '{"output": 5}'),
    ("codeio", 'So it is {"output": {"a": 5}}.'),
    ("grade", "Total Score: 3/10"),
]
WRONG: list[tuple[str, str]] = [
    ("math", "5"),
    ("math", "\\boxed{5"),
    ("math", "\\boxed{}"),
    ("math", "\\boxed{5} or \\boxed{"),
    ("math", "<answer>5</answer>"),
    ("math", "<think>\\boxed{5}"),
    ("gsm8k", "5"),
    ("gsm8k", "####"),
    ("gsm8k", "\\boxed{5}"),
    ("gsm8k", "#### 5 ####"),
    ("code", "print(1)"),
    ("code", "```python\nprint(1)"),
    ("code", "```python\n\n```"),
    ("code", "`print(1)`"),
    ("code", "```cpp\nint main() {}\n```"),
    ("cpp", "```python\nprint(1)\n```"),
    ("file", "```\nb\n```"),
    ("patch", "b"),
    ("edits", "<solution></solution>"),
    ("zebra", "{}"),
    ("zebra", "<answer>{}"),
    ("zebra", "<answer></answer>"),
    ("hitab", "a|b"),
    ("choice", "I think it is C, or D"),
    ("choice", "C and D"),
    ("codeio", '"output": 5'),
    ("codeio", '{"output": 5'),
    ("codeio", "It is {}."),
    ("grade", "Score: good"),
]
NULLS: list[str] = [
    "",
    "\n",
    "I don't know",
    "</think>",
    "pass",
    "<think>so it is 5",
    "\\boxed{}",
    "<answer></answer>",
]
ATTACKS: list[tuple[str, str]] = [
    ("math", "<think>\\boxed{5}</think> see above"),
    ("math", "<think>x</think>\\boxed{5}<think>"),
    ("math", "\\boxed{5}</think>"),
    ("math", "\\boxed{ \n }"),
    ("math", "\\boxed\\{5\\}"),
    ("math", "x\\boxed{" * 1000),
    ("gsm8k", "#### 5</think>"),
    ("zebra", "</answer>{}<answer>"),
    ("zebra", "<answer>{}</answer></think>"),
    ("code", "<think>```python\nprint(1)\n```</think>"),
    ("code", "```python\nprint(1)\n```</think>"),
    ("grade", "<think>Total Score: 3/10</think>"),
    ("math", "\\boxed{5}" + " " * 1_000_001),
    ("choice", "Answer: C</think>"),
]
