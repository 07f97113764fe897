"""docs/scorers.md, scorer_rules.md and examples/scorer: what is written there works as it is written."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from config.scorers import ScorersConfig
from scorers import score
from tests.conftest import ROOT
from tools.main import main

pytestmark = pytest.mark.process

PAGES = (ROOT / "docs" / "scorers.md", ROOT / "docs" / "scorer_rules.md")
EXAMPLE = ROOT / "examples" / "scorer"


class Block(NamedTuple):
    kind: str
    name: str  # of the file that it is; "" for what is no file
    text: str


def blocks() -> list[Block]:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    found = re.findall(r"^```(\w+) ?([\w.]*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [Block(*block) for block in found]


LINES = [
    line
    for block in blocks()
    if (block.kind, block.name) == ("jsonl", "")
    for line in block.text.splitlines()
]


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tools.main", *command[1:]] if command[0] == "millrace" else command
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        words, cwd=cwd, text=True, capture_output=True, timeout=120, check=False, env=variables
    )


def without_times(text: str) -> list[str]:
    return re.sub(r"\d+\.\d(?= s\b)|(?<=digits )\d+\.\d", "N", text).splitlines()


@pytest.mark.prove
def test_the_ten_lines_are_ten_and_score_as_the_page_says(tmp_path: Path) -> None:
    files = [block for block in blocks() if block.name]
    assert [block.name for block in files] == ["my_scorer.py", "run.yaml", "rows.jsonl"]
    assert len(files[0].text.splitlines()) == 10
    for block in files:
        (tmp_path / block.name).write_text(block.text, encoding="utf-8")
    (console,) = [block for block in blocks() if block.kind == "console"]
    command, *output = console.text.splitlines()
    done = run(shlex.split(command.removeprefix("$ ")), tmp_path)
    assert done.returncode == 0
    assert without_times(done.stdout + done.stderr) == without_times("\n".join(output))
    values = [json.loads(line)["value"] for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert values == [1.0, 0.0]


@pytest.mark.prove
@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_every_response_of_the_page_is_right(line: str) -> None:
    row = json.loads(line)
    if "reasoning_gym" in line and find_spec("reasoning_gym") is None:
        pytest.skip("reasoning-gym is not installed: pip install 'reasoning-gym==0.1.25'")
    found = score(row["llm_output"], row if "data_source" in row else row["verification_info"])
    assert found.value == 1.0, found


def test_every_section_of_a_run_on_the_page_is_valid() -> None:
    sections = [yaml.safe_load(block.text)["scorers"] for block in blocks() if block.kind == "yaml"]
    assert sections
    assert all(ScorersConfig.model_validate(section).tasks for section in sections)


@pytest.mark.prove
def test_every_program_of_the_page_runs(tmp_path: Path) -> None:
    programs = [block.text for block in blocks() if block.kind == "python" and not block.name]
    assert programs
    for program in programs:
        done = run([sys.executable, "-c", program], tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.prove
def test_the_templates_own_tests_pass() -> None:
    done = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_scorer.py"], EXAMPLE)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\b2\d passed", done.stdout)


def test_the_templates_rows_score_what_they_expect(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(EXAMPLE)
    assert main(["score", "rows.jsonl", "--config", "run.yaml", "--workers", "1"]) == 0
    rows = [json.loads(line) for line in (EXAMPLE / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    found = [json.loads(line)["value"] for line in capfd.readouterr().out.splitlines()]
    assert found == [row["expected"] for row in rows]
