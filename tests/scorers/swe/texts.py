"""Rows about patches, and answers to them."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def whole(before: str, after: str) -> Row:
    return {"type": "swe_verifiable", "answer": {"input": before, "ground_truth": after}}


def edits(before: dict[str, str], after: dict[str, str]) -> Row:
    return {"type": "swe", "answer": {"code_context": before, "oracle_new_content": after}}


def patches(*diffs: str) -> Row:
    return {"type": "swe", "answer": {"oracle_patches": list(diffs)}}


def fenced(code: str, tag: str = "python", fence: str = "```") -> str:
    return f"Here it is.\n{fence}{tag}\n{code}\n{fence}"


def edit(path: str, search: str, replace: str) -> str:
    return f"```python\n### {path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n```\n"


def solution(*blocks: str) -> str:
    return "<think>\nLet me see.\n</think>\n<solution>\n" + "\n".join(blocks) + "</solution>"


ADD, ADD_FIXED = "def add(a, b):\n    return a + b", "def add_plus_one(a, b):\n    return a + b + 1"
LARGER, LARGER_FIXED = (
    "def f(a, b):\n    if a > b:\n        return a\n    return a",
    "def f(a, b):\n    if a > b:\n        return a\n    return b",
)
SORT, SORT_FIXED = (
    "def sort_list(lst):\n    return sorted(lst)",
    "def sort_list(lst: list[int]) -> list[int]:\n    return sorted(lst)",
)
SORT_HEAD, SORT_FIXED_HEAD = SORT.partition("\n")[0], SORT_FIXED.partition("\n")[0]
CALC = "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n    return a - b"
CALC_FIXED = CALC.replace("add(a, b)", "add(a: int, b: int) -> int").replace(
    "subtract(a, b)", "subtract(a: float, b: float) -> float"
)
DIFF = """diff --git a/foo.txt b/foo.txt
index 83db48f..f73504f 100644
--- a/foo.txt
+++ b/foo.txt
@@ -1,4 +1,4 @@
-Hello world
+Hello World
 This is a file
-With some lines
+With some changed lines
 End
"""
ADD_ROW, LARGER_ROW, PATCH_ROW = whole(ADD, ADD_FIXED), whole(LARGER, LARGER_FIXED), patches(DIFF)
SORT_ROW = edits({"b.py": SORT}, {"b.py": SORT_FIXED})
BOTH_ROW = edits({"a.py": CALC, "b.py": SORT}, {"a.py": CALC_FIXED, "b.py": SORT_FIXED})
CALC_EDITS = (
    edit("a.py", "def add(a, b):", "def add(a: int, b: int) -> int:"),
    edit("a.py", "def subtract(a, b):", "def subtract(a: float, b: float) -> float:"),
)
RIGHT_EDIT = edit("b.py", SORT_HEAD, SORT_FIXED_HEAD)
