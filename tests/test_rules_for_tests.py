"""The rules of the tests themselves: what they share lies in tests/support, and they wait in one way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import FilesTogether
from tests.support.paths import ROOT
from tests.support.sources import nodes_of
from tests.support.tiers import PLACES, PROOFS, SAMPLED, TIERS, proof_of, tier_of

TESTS = ROOT / "tests"
MAY_SLEEP_IN_A_LOOP = {
    TESTS / "support" / "waiting.py",
    TESTS / "compatibility" / "make_files.py",  # runs beside older code, which has no waiting.py
}


def modules() -> Iterator[tuple[Path, tuple[ast.AST, ...]]]:
    for path in sorted(TESTS.rglob("*.py")):
        yield path, nodes_of(path)


def test_no_test_imports_a_test() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {node.module}"
        for path, nodes in modules()
        for node in nodes
        if isinstance(node, ast.ImportFrom) and re.search(r"^tests\.(.*\.)?test_\w+$", str(node.module))
    ]
    assert found == [], "what tests share belongs in tests/support"


def test_whoever_waits_in_a_loop_asks_the_one_module_for_it() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, nodes in modules()
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


@pytest.mark.parametrize("place", sorted({*PLACES, *PROOFS, *SAMPLED}))
def test_what_the_tables_name_is_there(place: str) -> None:
    path, _, name = place.partition("::")
    assert (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file()
    assert not name or f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("nodeid", "markers", "fixtures", "tier"),
    [
        ("tests/broker/test_x.py::test_x", [], [], "unit"),
        ("tests/broker/test_x.py::test_x[a/b]", ["timeout"], ["_shared_redis", "link"], "redis"),
        ("tests/e2e/test_x.py::test_x", [], ["_shared_redis"], "e2e"),
        ("tests/benchmarks/test_x.py::test_x", [], [], "process"),
        ("tests/benchmarks/test_exact_resume.py::test_x", [], [], "e2e"),
        ("tests/e2e/test_x.py::test_x", ["unit"], [], "unit"),
    ],
)
def test_the_mark_comes_before_the_place_and_the_place_before_the_fixtures(
    nodeid: str, markers: list[str], fixtures: list[str], tier: str
) -> None:
    assert tier_of(nodeid, markers, fixtures) == tier


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("tests/broker/test_x.py::test_x[a::b]", "tests/broker/test_x.py"),
        ("tests/e2e/test_x.py::test_x", "whole runs"),
        ("tests/compatibility/test_x.py::test_y", "whole runs"),
    ],
)
def test_one_worker_has_a_file_and_one_has_all_whole_runs(nodeid: str, scope: str) -> None:
    assert FilesTogether._split_scope(object.__new__(FilesTogether), nodeid) == scope


@pytest.mark.parametrize("cases", [1, 2, 3, 7])
def test_of_many_cases_one_in_so_many_stays_in_the_suite_and_never_none(cases: int) -> None:
    kept = set()
    file = "tests/scorers/code/test_breaking.py"
    for number in range(50):
        test = f"{file}::test_{number}"
        stays = [case for case in range(cases) if proof_of(f"{test}[{case}]", case, cases) is None]
        assert stays == list(range(stays[0], cases, SAMPLED[file]))
        kept.add(stays[0])
    assert len(kept) == min(SAMPLED[file], cases), "not the first case of every test"
    assert proof_of("tests/broker/test_x.py::test_x[1]", 1, cases) is None


def test_two_tiers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"more than one tier: \['e2e', 'unit'\]"):
        tier_of("tests/test_x.py::test_x", ["unit", "e2e"], [])
