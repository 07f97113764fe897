"""The rules of the tests themselves: what they share lies in tests/support, and they wait in one way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.sources import nodes_of
from tests.support.tiers import TIERS, is_left_to_prove, scope_of, tier_of, tier_of_file

pytestmark = [pytest.mark.process, pytest.mark.together("the source")]

TESTS = ROOT / "tests"
# `make_files` runs beside older code, which has no waiting.py.
MAY_SLEEP_IN_A_LOOP = {TESTS / "support" / "waiting.py", TESTS / "compatibility" / "make_files.py"}


def modules_with(*words: str) -> Iterator[tuple[Path, tuple[ast.AST, ...]]]:
    """Yield the modules that have one of the words somewhere, since only these are worth a look at their trees."""
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in words):
            yield path, nodes_of(path)


def test_no_test_imports_a_test() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {node.module}"
        for path, nodes in modules_with(".test_", "tests.test_")
        for node in nodes
        if isinstance(node, ast.ImportFrom) and re.search(r"^tests\.(.*\.)?test_\w+$", str(node.module))
    ]
    assert found == [], "what tests share belongs in tests/support"


def test_whoever_waits_in_a_loop_asks_the_one_module_for_it() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, nodes in modules_with("time.sleep", "asyncio.sleep")
        if path not in MAY_SLEEP_IN_A_LOOP
        for node in nodes
        if isinstance(node, ast.While | ast.AsyncFor)
        if any(
            isinstance(call, ast.Call)
            and ast.unparse(call.func) in {"time.sleep", "asyncio.sleep"}
            and ast.unparse(call.args[0]) != "0"  # gives way and waits for nothing
            for call in ast.walk(node)
        )
    ]
    assert found == [], "tests.support.waiting.wait_until has a deadline and says for what it waited"


def test_each_test_of_this_run_has_exactly_one_tier(request: pytest.FixtureRequest) -> None:
    tiers = {
        item.nodeid: {marker.name for marker in item.iter_markers()} & TIERS.keys()
        for item in request.session.items
    }
    assert {name: found for name, found in tiers.items() if len(found) != 1} == {}


@pytest.mark.parametrize(
    ("marker", "kept"),
    [
        (None, "abc"),
        (pytest.mark.prove, ""),
        (pytest.mark.prove(after=2), "ab"),
        (pytest.mark.prove(after=4), "abc"),
        (pytest.mark.prove(cases=("b",)), "ac"),
        (pytest.mark.prove(keep=True), "abc"),
    ],
)
def test_what_is_marked_is_left_to_the_long_tests(marker: pytest.MarkDecorator | None, kept: str) -> None:
    mark = None if marker is None else marker.mark
    assert [case for before, case in enumerate("abc") if not is_left_to_prove(mark, case, before)] == [*kept]


def test_a_mark_that_says_what_nobody_knows_is_refused() -> None:
    for marker in (pytest.mark.prove(before=3), pytest.mark.prove(3)):
        with pytest.raises(ValueError, match="and not "):
            is_left_to_prove(marker.mark, "", 0)


@pytest.mark.parametrize(
    ("text", "tier", "scope"),
    [
        ("def test_x(): ...", None, "a.py"),
        ("pytestmark = pytest.mark.process", "process", "a.py"),
        ("pytestmark = pytest.mark.e2e", "e2e", "whole runs"),
        ('pytestmark = [\n    pytest.mark.model,\n    pytest.mark.together("x y"),\n]', "model", "x y"),
        ("pytestmark = pytest.mark.timeout(3)\n@pytest.mark.process\ndef test_x(): ...", None, "a.py"),
    ],
)
def test_a_file_says_its_tier_and_what_runs_beside_it(
    tmp_path: Path, text: str, tier: str | None, scope: str
) -> None:
    file = tmp_path / "a.py"
    file.write_text(f"import pytest\n\n{text}\n", encoding="utf-8")
    assert tier_of_file(file) == tier
    assert scope_of(file, "a.py") == scope


def test_two_tiers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"more than one tier: \['e2e', 'unit'\]"):
        tier_of("tests/test_x.py::test_x", ["unit", "e2e"], [])
