"""`millrace doctor`: its children, its page, its exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from tests.conftest import RedisServer
from tests.support.findings import OK, PROBLEM
from tests.support.told import Millrace, Patch
from tools.doctor import command, machine
from tools.doctor.findings import CheckFinding, lines_of, readable
from tools.doctor.questions import ProbeAnswer, ProbeQuestion, ask

pytestmark = pytest.mark.process


def test_children_that_crash_hang_or_talk_are_told_apart_and_each_answer_is_its_own() -> None:
    def python(text: str) -> ProbeQuestion:
        return ProbeQuestion(name="q", command=(sys.executable, "-c", text))

    talks = "import tools.doctor.probe as p; p.QUESTIONS = {'q': lambda _: print('noise') or {'a': 1}}; p.main(['q'])"
    raises = "import tools.doctor.probe as p; p.QUESTIONS = {'q': lambda _: 1 / 0}; p.main(['q'])"
    dies = "import os, sys; print('last words', file=sys.stderr, flush=True); os.abort()"
    found = [answer for _, answer in ask([python(talks), python(raises), python(dies)], deadline_s=60)]
    assert found[0] == ProbeAnswer({"a": 1})
    assert found[1] == ProbeAnswer(trouble="ZeroDivisionError: division by zero")
    assert found[2].trouble.startswith("its process ended with code -6: last words")
    ((_, late),) = ask([python("import time; time.sleep(60)")], deadline_s=0.2)
    assert late.trouble == "no answer in 0 s"


def test_findings_are_read_in_a_hundred_columns_and_a_command_follows_an_arrow() -> None:
    do = "redis-cli CONFIG SET a b"
    finding = CheckFinding(area="redis", name="persistence", level=PROBLEM, seen="word " * 60, do=do)
    lines = list(lines_of([finding, replace(finding, level=OK, seen="short", do="")]))
    assert (lines[0], lines[-1]) == ("redis", "  ok       persistence   short")
    assert max(map(len, lines)) <= 100
    assert lines[-2].strip() == "-> redis-cli CONFIG SET a b"
    counts = [readable(count) for count in (5, 2048, 3 << 20, 5 << 40)]
    assert counts == ["5 bytes", "2.0 KiB", "3.0 MiB", "5.0 TiB"]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    server = RedisServer(tmp_path / "guarded")
    with redis.Redis.from_url(server.url) as client:
        client.config_set("requirepass", "opensesame")
    yield server.url.replace("//", "//:opensesame@")
    server.kill()


@pytest.fixture
def _only_quick(monkeypatch: Patch) -> None:
    """No child is asked: what they find has tests of its own."""
    late = ProbeAnswer(trouble="no answer in 0 s")
    monkeypatch.setattr(command, "ask", lambda asked: [(one, late) for one in asked])


@pytest.mark.usefixtures("_only_quick")
def test_the_command_says_all_and_its_code_says_whether_there_is_a_problem(
    guarded: str, runs_dir: Path, monkeypatch: Patch, millrace: Millrace
) -> None:
    monkeypatch.setenv("REDIS_URL", guarded)
    monkeypatch.setattr(machine.resource, "getrlimit", lambda _: (4096, 4096))  # type: ignore[attr-defined]
    config = runs_dir.parent / "demo.yaml"
    config.write_text(
        f"name: demo\nruns_dir: {runs_dir}\nmodel: {{path: config/recipes/demo_model}}\n"
        "data: {train: {type: procedural}}\ngenerators: {engine: {type: hf}}\n"
    )
    told = millrace("doctor")
    areas = [line for line in told.lines if not line.startswith(" ")]
    assert (told.code, areas[:-1]) == (0, ["redis", "machine", "sandbox", "libraries"])
    layer = runs_dir.parent / "layer.yaml"
    layer.write_text("model: {path: ./none}\n")
    bad = millrace("doctor", config, "--layer", layer, "--json")
    found = bad.json
    assert bad.code == 1
    assert found["problems"] == sum(one["level"] == "problem" for one in found["findings"]) >= 1
    seen = "model.path=./none: there is no such folder, and no name on the hub is so"
    do = "mend that key, or bring what it names"
    missing = {"area": "run", "name": "paths", "level": "problem", "do": do, "seen": seen}
    assert missing in found["findings"]
    assert "opensesame" not in told.out + bad.out
    codes = [millrace("doctor", *words).code for words in ((config, "learner.stepz=1"), ("--layer", layer))]
    assert codes == [2, 2]
