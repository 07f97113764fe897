"""docs/scorers.md and examples/scorer: what is written there works as it is written."""

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

from config.scorer_kinds import SECTIONS
from config.scorers import ScorersConfig
from config.section import Section
from scorers import score
from scorers.__main__ import main as scorers_main
from tests.conftest import ROOT
from tools.main import main

pytestmark = [pytest.mark.process, pytest.mark.prove(after=10)]

PAGE = ROOT / "docs" / "scorers.md"
README = ROOT / "README.md"
EXAMPLE = ROOT / "examples" / "scorer"


class Block(NamedTuple):
    kind: str
    name: str  # of the file that it is; "" for what is no file
    text: str


def blocks(page: Path = PAGE) -> list[Block]:
    text = page.read_text(encoding="utf-8")
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


def test_every_block_of_the_page_is_of_a_kind_that_is_run_here() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(re.findall("^```", text, flags=re.MULTILINE)) == 2 * len(blocks())
    assert {block.kind for block in blocks()} == {"python", "yaml", "jsonl", "console"}


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


def test_readme_shows_the_same_ten_lines_and_the_beginning_of_the_same_rows() -> None:
    page = {block.name: block for block in blocks() if block.name}
    shown = {block.name: block for block in blocks(README) if block.name}
    assert list(shown) == list(page)
    for name in ("my_scorer.py", "run.yaml"):
        assert shown[name] == page[name]
    (row,), first = shown["rows.jsonl"].text.splitlines(), json.loads(page["rows.jsonl"].text.splitlines()[0])
    assert json.loads(row) == {name: value for name, value in first.items() if name != "llm_output"}


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_every_response_of_the_page_is_right(line: str) -> None:
    row = json.loads(line)
    if "reasoning_gym" in line and find_spec("reasoning_gym") is None:
        pytest.skip("reasoning-gym is not installed: pip install 'reasoning-gym==0.1.25'")
    found = score(row["llm_output"], row if "data_source" in row else row["verification_info"])
    assert found.value == 1.0, found


def test_every_section_of_a_run_on_the_page_is_valid() -> None:
    sections = [yaml.safe_load(block.text)["scorers"] for block in blocks() if block.kind == "yaml"]
    tasks = [ScorersConfig.model_validate(section).tasks for section in sections]
    assert [{name: task.scorer.type for name, task in named.items()} for named in tasks] == [
        {"digits": "custom"},
        {"letter": "custom", "essay": "custom"},
        {"judge": "judge", "stem_llm_judge": "judge"},
        {"rubric": "rubric", "tinyv": "tinyv"},
        {"math": "math", "code": "code", "swe": "swe"},
        {"rubric": "rubric"},
        {"math": "math", "essay": "custom"},
    ]


WITH_OPTIONS = ["math", "code", "swe", "simulation", "judge", "logic", "rubric", "tinyv", "grade", "gym"]
WITH_OPTIONS += ["format"]


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_every_option_of_a_scorer_stands_on_the_page_with_its_default(name: str) -> None:
    section = SECTIONS[name]
    _, _, table = PAGE.read_text(encoding="utf-8").partition(f"| option of `type: {name}` | |\n")
    said = dict(re.findall(r"^\| `(\w+)(?:: (.*?))?` \|", table.partition("\n\n")[0], flags=re.MULTILINE))
    defaults = {
        key: None if isinstance(field.default, Section) else field.default
        for key, field in section.model_fields.items()
        if key != "type"
    }
    queue = defaults.pop("queue")
    assert said.pop("queue", queue) == queue
    assert {key: yaml.safe_load(value or "null") for key, value in said.items()} == defaults


def test_the_command_that_serves_a_sandbox_is_as_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(r"`python -m scorers sandbox (.+?)`", PAGE.read_text(encoding="utf-8"))
    with pytest.raises(SystemExit):
        scorers_main(["sandbox", "--help"])
    known = set(re.findall(r"--\w+", capsys.readouterr().out))
    assert commands
    for command in commands:
        assert set(re.findall(r"--\w+", command)) <= known


@pytest.mark.prove
def test_every_program_of_the_page_runs(tmp_path: Path) -> None:
    programs = [block.text for block in blocks() if block.kind == "python" and not block.name]
    assert programs
    for program in programs:
        done = run([sys.executable, "-c", program], tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


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
