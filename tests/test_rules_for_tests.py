"""The rules of the tests themselves: what they share lies in tests/support, and they wait in one way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

TESTS = ROOT / "tests"
MAY_SLEEP_IN_A_LOOP = {
    TESTS / "support" / "waiting.py",
    TESTS / "compatibility" / "make_files.py",  # runs beside older code, which has no waiting.py
}


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(TESTS.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def test_no_test_imports_a_test() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {node.module}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and re.search(r"^tests\.(.*\.)?test_\w+$", str(node.module))
    ]
    assert found == [], "what tests share belongs in tests/support"


def test_whoever_waits_in_a_loop_asks_the_one_module_for_it() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in modules()
        if path not in MAY_SLEEP_IN_A_LOOP
        for node in ast.walk(tree)
        if isinstance(node, ast.While | ast.AsyncFor)
        if any(
            isinstance(call, ast.Call)
            and ast.unparse(call.func) in {"time.sleep", "asyncio.sleep"}
            and ast.unparse(call.args[0]) != "0"  # gives way and waits for nothing
            for call in ast.walk(node)
        )
    ]
    assert found == [], "tests.support.waiting.wait_until has a deadline and says for what it waited"
