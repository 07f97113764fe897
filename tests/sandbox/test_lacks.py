"""What a machine lacks makes no zero; the one set of packages for programs, and what a text asks of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from broker.messages import ScoreStatus
from config.scorer_kinds import CodeConfig, SweConfig
from config.scorers import ScorersConfig
from sandbox.choice import LazySandbox
from sandbox.lacks import PROGRAM, Lacks, _lacking
from sandbox.local import environment, toolchain
from sandbox.packages import PACKAGES, absent, imports_of, versions_text
from sandbox.program import Language
from sandbox.remote.fusion import FusionSandbox
from scorers.code.scorer import CodeTests
from scorers.swe.scorer import SwePatch
from tests.support.paths import ROOT
from tests.support.sandbox import fusion_fakes as fake
from tests.support.sandbox.fusion_fakes import FakeServer, fake_servers
from tests.support.tried_again import judged

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

GONE = "sortedcontainers"  # of the machine of these tests


@pytest.fixture(scope="module")
def machine() -> Iterator[None]:
    """A machine without one of the packages."""
    known = metadata.distribution

    def distribution(name: str) -> metadata.Distribution:
        if name == GONE:
            raise metadata.PackageNotFoundError(name)
        return known(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "distribution", distribution)
        environment.versions.cache_clear()
        yield
    environment.versions.cache_clear()


@pytest.fixture(scope="module")
def scorer(machine: None) -> Iterator[CodeTests]:
    built = CodeTests(CodeConfig(case_timeout_s=10.0), ScorersConfig())
    yield built
    built.close()


RUNS = {"test_cases": [{"input": "4\n", "output": "8\n"}, {"input": "5\n", "output": "10\n"}]}
CALLS = {"tests": ["assert f(4) == 8", "assert f(5) == 10"]}
HALF = "def f(x): return 8"


TRIED = "try:\n    import sortedcontainers\nexcept ImportError: "
TWICE = "def f(x): return x * 2"
OF_PYTEST = "from solution import f\n\ndef test_f():\n    assert f(4) == 8\n"
NEEDS_IT = {"tests": ["from sortedcontainers import SortedList\nassert SortedList([f(4)]) == [8]"]}


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("import sortedcontainers\nprint(int(input()) * 2)", RUNS),
        ("from sortedcontainers import SortedList\nprint(int(input()) * 2)", RUNS),
        ("import importlib\nimportlib.import_module('sortedcontainers')\nprint(8)", RUNS),
        (f"{TRIED}print(9)", RUNS),
        ("import sortedcontainers.sortedlist as s\nwhile True: pass", RUNS),
        (f"import sortedcontainers\n{TWICE}", CALLS),
        ("def f(x):\n    from sortedcontainers import SortedDict\n    return x * 2", CALLS),
        ("def f(x):\n    return __import__('sortedcontainers').SortedList([x])[0] * 2", CALLS),
        (f"{TRIED}pass\n{HALF}", CALLS),
        (f"exec('try:\\n import sortedcontainers\\nexcept Exception: pass')\n{HALF}", CALLS),
        (f"import sortedcontainers\n{TWICE}", {"pytest": OF_PYTEST}),
        (TWICE, NEEDS_IT),
        (f"import sortedcontainers\n{TWICE}", {"fn_name": "f", "inputs": [[4]], "outputs": [8]}),
    ],
)
def test_an_answer_that_imports_what_the_machine_lacks_has_no_score(
    scorer: CodeTests, program: str, answer: dict[str, Any]
) -> None:
    for kind in ("code",) if "while True" in program else ("code", "code_verifiable"):
        score = judged(scorer, program, answer, kind)
        assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None), score
        assert f"lacks {GONE}" in score.reason
        assert "millrace[sandbox]" in score.reason
    assert f" {GONE}=none" in score.version
    assert f" numpy={metadata.version('numpy')}" in score.version


@pytest.mark.parametrize(
    ("program", "value", "reason"),
    [
        (f"{TRIED}pass\nprint(int(input()) * 2)", 1.0, ""),
        ("import numpy\nprint(int(numpy.int64(input()) * 2))", 1.0, ""),
        ("print(9)", 0.0, "expected '8'"),
        ("# sortedcontainers\nprint(9)", 0.0, "expected '8'"),
        ("import requests\nprint(int(input()) * 2)", 0.0, "No module named 'requests'"),
        ("import yaml, redis\nprint(int(input()) * 2)", 0.0, "No module named 'yaml'"),
        ("import tkinter_\nprint(8)", 0.0, "No module named"),
        ("import winreg\nprint(8)", 0.0, "No module named 'winreg'"),
        ("from numpy.linalg import no_such_name\nprint(8)", 0.0, "cannot import name"),
        ("import numpy.no_such_part\nprint(8)", 0.0, "No module named 'numpy.no_such_part'"),
        ("from numpy import no_such_name\nprint(8)", 0.0, "cannot import name"),
        ("import numpy\nprint(numpy.no_such_name)", 0.0, "no attribute"),
        ("import numpy\nprint(9)", 0.0, "expected '8'"),
        ("import sortedcontainers as", 0.0, "SyntaxError"),
    ],
)
def test_what_the_machine_lacks_is_no_way_out_of_another_zero(
    scorer: CodeTests, program: str, value: float, reason: str
) -> None:
    score = judged(scorer, program, RUNS)
    assert score.value == value, score
    assert reason in score.reason


def test_a_package_that_is_no_requirement_of_ours_is_on_no_machine(scorer: CodeTests) -> None:
    """Whatever else the interpreter of this machine has: each program's Python begins with the same modules."""
    program = "import sys\nprint(*[path for path in sys.path if 'packages' in path or 'site' in path])"
    score = judged(scorer, program, RUNS)
    assert score.value == 0.0
    assert "dist-packages" not in score.reason


def test_a_patch_that_imports_what_the_machine_lacks_has_no_score(machine: None) -> None:
    before, after = "def f(x):\n    return x\n", "def f(x):\n    return x * 2\n"
    row = {
        "type": "swe_verifiable",
        "answer": {
            "input": before,
            "ground_truth": after,
            "files": {"a.py": before, "test_a.py": OF_PYTEST.replace("solution", "a")},
            "test_command": "pytest test_a.py",
        },
    }
    with closing(SwePatch(SweConfig(), ScorersConfig())) as scorer:
        right, gone, wrong = [
            scorer.score(f"```python\n{text}```", row)
            for text in (after, f"import {GONE}\n{after}", "import requests\n" + after)
        ]
    assert [score.value for score in (right, gone, wrong)] == [1.0, None, 0.0], (right, gone, wrong)
    assert f"lacks {GONE}" in gone.reason


BROKEN = {
    "works/__init__.py": "x = 1",
    "works/part.py": "",
    "works/broken.py": "raise ImportError('libx.so.3: cannot open', path='/x/works/y.cpython-311.so')",
    "works/wraps.py": "try: import works.broken\nexcept ImportError as error: raise RuntimeError('why') from error",
    "works/wants.py": "import pyglet",
    "works/raises.py": "raise ImportError('pyglet is required')",
    "works/__main__.py": "import sys; sys.exit(0)",
    "needs.py": "import no_such_thing",
    "raises.py": "raise ImportError('libz.so')",
    "exits.py": "import sys; sys.exit(0)",
    "prints.py": "print('[]')",
}


def said_of(folder: Path, asked: Iterable[tuple[str, str]], program: bytes = PROGRAM) -> list[str]:
    """Return what the program that imports says of each name, run beside the modules of a folder."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        input=json.dumps(list(asked)).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    return list(json.loads(done.stdout))


def test_what_can_be_imported_is_found_out_by_importing_it(tmp_path: Path) -> None:
    for name, text in BROKEN.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    works = [("works", ""), ("works", "x"), ("works", "part"), ("works.part", ""), ("works.wants", "")]
    works += [("works", "raises"), ("works.__main__", ""), ("works.__main__.deeper", ""), ("prints", "")]
    lacks = [("works.broken", ""), ("works", "broken"), ("works.wraps", ""), ("none", ""), ("none.part", "x")]
    lacks += [("needs", ""), ("raises", "x"), ("exits", "")]
    none = {
        ("works.none", ""): "works.none",
        ("works", "none"): "works.none",
        ("works.part.none", "x"): "works.part.none",
    }
    states = dict.fromkeys(works, "") | dict.fromkeys(lacks, "lacks") | none
    assert dict(zip(states, said_of(tmp_path, states), strict=True)) == states


@pytest.mark.parametrize("end", ["import os; os._exit(1)", "import time; time.sleep(99)", "while True: pass"])
def test_a_part_that_ends_or_hangs_is_no_lack(tmp_path: Path, end: str) -> None:
    (tmp_path / "it").mkdir()
    for name, text in {"__init__": "", "hangs": end, "works": ""}.items():
        (tmp_path / "it" / f"{name}.py").write_text(text, encoding="utf-8")
    program = PROGRAM.replace(b"+ 20", b"+ 1")
    assert program != PROGRAM
    asked = [("it.works", ""), ("it.hangs", ""), ("no_such_package", "")]
    assert said_of(tmp_path, asked, program) == ["", "", "lacks"]


def test_what_an_answer_may_name_of_the_packages_is_no_way_out(scorer: CodeTests) -> None:
    for text in (
        "import pytest.__main__",
        "import numpy.f2py.__main__",
        "from sympy.plotting import pygletplot as p",
    ):
        assert scorer._obstacles.lacks.of(text) == "", text


@pytest.mark.parametrize(
    ("state", "lacking"),
    [
        ("", ""),
        ("lacks", "numpy"),
        ("numpy.linalg", "numpy"),  # numpy says that it has one: half of it is missing
        ("numpy.no_such_part", ""),
        ("sqlite3.no_such_part", ""),
    ],
)
def test_half_a_package_is_lacking(state: str, lacking: str) -> None:
    assert _lacking(("numpy", "linalg"), state) == lacking


def test_a_compiler_without_its_headers_makes_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says its version, and refuses every program."""
    system = tuple(path for path in toolchain.SYSTEM if "include" not in path)
    monkeypatch.setattr(toolchain, "SYSTEM", system)
    program = "#include <iostream>\nint main() { int n; std::cin >> n; std::cout << 2 * n; }"
    with closing(CodeTests(CodeConfig(), ScorersConfig())) as scorer:
        if Language.CPP not in scorer._sandbox.get().languages:
            pytest.skip("this machine has no C++")
        right, wrong = [
            judged(scorer, text, RUNS | {"language": "cpp"}, tag="cpp")
            for text in (program, "int main() { return 0; }")
        ]
    assert [right.value, wrong.value] == [None, None], (right, wrong)
    assert "cpp does not work in the sandbox here" in right.reason


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("language", "program"),
    [
        (Language.CPP, "int main() { return 0; }"),
        (Language.CPP, "#include <no/such/header>\nint main() {}"),
        (Language.JAVASCRIPT, "require('no-such-module')"),
        (Language.JAVASCRIPT, "console.log(9)"),
    ],
)
def test_a_language_that_works_leaves_a_zero_a_zero(
    scorer: CodeTests, language: Language, program: str
) -> None:
    if language not in scorer._sandbox.get().languages:
        pytest.skip(f"this machine has no {language.value}")
    answer = RUNS | {"language": language.value}
    assert judged(scorer, program, answer, tag=language.value).value == 0.0


def speaking(version: str) -> Callable[[fake.Request], fake.Reply]:
    """Return how a server behaves whose probe says this of its packages."""

    def behave(request: fake.Request) -> fake.Reply:
        if not fake.is_probe(request):  # all can be imported, says the one that is asked
            return fake.run(stdout=json.dumps([""] * len(json.loads(request["stdin"]))))
        first, second = map(int, request["stdin"].split())
        return fake.run(return_code=3, stdout=f"{first * second}\n", stderr=version)

    return behave


@pytest.mark.parametrize(
    ("versions", "version", "lacking"),
    [
        (("3.11.2 numpy=1.26.4 scipy=1.2",), "python=3.11.2 numpy=1.26.4 scipy=1.2", ""),
        (("3.11.2 numpy=none",), "python=3.11.2 numpy=none", "lacks numpy"),
        (("3.11.2 numpy=1.26.4", "3.11.2 numpy=none"), "python=3.11.2 numpy=1.26.4,none", "lacks numpy"),
        (("3.11.2 numpy=1.2", "3.12.1 numpy=1.3"), "python=3.11.2,3.12.1 numpy=1.2,1.3", ""),
        (("3.11.2",), "python=3.11.2", ""),  # SandboxFusion of another make: it is asked by a run
        (("3.11.2 numpy=<b> x=1 evil",), "python=3.11.2", ""),
    ],
)
def test_servers_say_what_they_have_and_one_without_it_counts_for_all(
    versions: tuple[str, ...], version: str, lacking: str
) -> None:
    with fake_servers(len(versions)) as servers:
        for server, said in zip(servers, versions, strict=True):
            server.behave = speaking(said)
        with closing(FusionSandbox([server.url for server in servers])) as fusion:
            fusion.self_test()
            assert fusion.version == version
            reason = Lacks(LazySandbox(ScorersConfig(), fusion)).of("import numpy")
    assert lacking in reason if lacking else reason == ""


@pytest.mark.prove
def test_the_probe_tells_the_versions_of_the_packages(servers: list[FakeServer]) -> None:
    servers[0].behave = fake.honest  # without site-packages: it has none of them
    with closing(FusionSandbox([servers[0].url])) as fusion:
        fusion.self_test()
        assert fusion.version.split()[1:] == [f"{name}=none" for name in PACKAGES]


def test_the_extra_declares_what_programs_are_offered() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = project["optional-dependencies"]["sandbox"]
    assert {Requirement(line).name for line in extra} == PACKAGES.keys()


@pytest.mark.prove(keep=True)
@pytest.mark.parametrize("lock", ["cpu", "gpu", "learner", "scorers"])
def test_every_lock_has_them(lock: str) -> None:
    lines = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8").splitlines()
    assert {line.partition("==")[0] for line in lines} >= PACKAGES.keys()


@pytest.mark.prove(keep=True)
@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("import numpy", {("numpy", "")}),
        ("import numpy as np, os", {("numpy", "")}),
        ("from numpy import array, linalg", {("numpy", "array"), ("numpy", "linalg")}),
        ("from numpy import *", {("numpy", "")}),
        ("import scipy.sparse.csgraph as g", {("scipy.sparse.csgraph", "")}),
        ("def f():\n    import sympy\n    return 1", {("sympy", "")}),
        ("class A:\n    from networkx import Graph", {("networkx", "Graph")}),
        ("if False:\n    import pandas", {("pandas", "")}),
        ("try:\n    import mpmath\nexcept ImportError:\n    mpmath = None", {("mpmath", "")}),
        ("import importlib\nm = importlib.import_module('sortedcontainers')", {("sortedcontainers", "")}),
        ("m = __import__('more_itertools')", {("more_itertools", "")}),
        ("exec('import numpy as np')", {("numpy", "")}),
        ("f = lambda: __import__(f'{\"numpy\"}')", {("numpy", "")}),
        ("import sqlite3, bz2", {("sqlite3", ""), ("bz2", "")}),
        ("import sys, tkinter, winreg, requests, antigravity", set()),
        ("from . import numpy\nfrom .numpy import x", set()),
        ("import numpy\nx = '\\d' is 1", {("numpy", "")}),  # of which the parser warns
        ("# import numpy\nx = 1", set()),
        ("import numpy as", set()),
        ("x = " + "(" * 500, set()),
    ],
)
def test_what_a_program_imports_is_read_from_its_text(text: str, imported: set[tuple[str, str]]) -> None:
    assert imports_of(text) == imported


@pytest.mark.prove(keep=True)
@pytest.mark.parametrize(
    ("version", "names"),
    [
        (f"python=3.11.2 {versions_text(dict.fromkeys(PACKAGES, '1.2'))}", ()),
        (f"python=3.11.2 {versions_text({})}", tuple(PACKAGES)),
        ("python=3.11.2,3.12.1 numpy=1.26.4,none scipy=1.2", ("numpy",)),
        ("python=3.11.2", ()),  # nothing is known
        ("0", ()),
    ],
)
def test_a_version_says_what_is_absent(version: str, names: tuple[str, ...]) -> None:
    assert absent(version) == names
