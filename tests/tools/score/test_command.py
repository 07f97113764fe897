"""`millrace score`: what goes in, what comes out, and what a user sees when something is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.support.forked_program import fork_verb
from tests.support.told import Millrace, Patch
from tests.support.waiting import wait_until
from tools import row_file
from tools.main import main

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

INFO = {"type": "math", "answer": {"value": "72"}}
MTH = {"llm_output": "x", "verification_info": {"type": "mth", "answer": {}}}
KEYS = ["line", "status", "value", "reason", "components", "seconds", "scorer", "version", "task"]
WAITER = """
import os, signal, time
from scorers.custom import SimpleScorer

class Waiter(SimpleScorer):
    name = "waiter"
    version = "1"

    def score(self, text, verification_info):
        with open("begun", "a") as file:
            file.write("x")
        while os.path.getsize("begun") < int(text):
            time.sleep(0.01)
        return self.scored(1.0, "waited")
"""


Captured = pytest.CaptureFixture[bytes]


def row(text: str, value: str = "72") -> dict[str, Any]:
    return {"llm_output": text, "verification_info": INFO | {"answer": {"value": value}}}


def write(path: Path, *lines: Mapping[str, Any] | bytes) -> Path:
    data = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(line + b"\n" for line in data))
    return path


@contextlib.contextmanager
def process_of(*words: object, **options: Any) -> Iterator[tuple[subprocess.Popen[bytes], Any, Any]]:
    """Yield the verb as a process, its input or errors, and its output: pipes, where the options say no other thing."""
    variables = {"TERM": "xterm", "COLUMNS": "100"}
    with fork_verb(
        "score", *words, cwd=Path.cwd(), stdout=subprocess.PIPE, **options, **variables
    ) as process:
        yield process, process.stdin or process.stderr, process.stdout


def results(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.decode().splitlines()]


@pytest.fixture
def waiter(tmp_path: Path, monkeypatch: Patch) -> list[str]:
    """Options for rows of a scorer that waits until as many rows were begun as the response says."""
    (tmp_path / "waiter.py").write_text(WAITER)
    recipe = yaml.safe_load((ROOT / "config/recipes/demo_cpu.yaml").read_text())
    recipe["scorers"] = {"tasks": {"waiter": {"scorer": {"type": "custom", "import_path": "waiter:Waiter"}}}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(recipe))
    monkeypatch.chdir(tmp_path)
    return ["--config", "run.yaml"]


def waiting(count: int) -> dict[str, Any]:
    return {"llm_output": str(count), "verification_info": {"type": "waiter"}}


def waits(*counts: int) -> Path:
    return write(Path("rows.jsonl"), *map(waiting, counts))


REFUSED: list[tuple[dict[str, Any] | bytes, str]] = [
    (b"nope", "not JSON: Expecting value at character 1"),
    (b"\xff\xfe", "not UTF-8: byte 0 is 0xff"),
    (b"[1]", "a row must be an object, got list"),
    ({"output": "x"}, "no key 'llm_output' with the response"),
    ({"llm_output": None}, "llm_output must be text, got NoneType"),
    ({"llm_output": "x"}, "a row of no known shape"),
    (MTH, "no scorer for rows of type 'mth'; did you mean math?"),
    (row("x", value=""), "no answer to check against"),
    (b'{"llm_output": "x", "verification_info": ' + b"[" * 50_000, "not JSON: maximum recursion"),
]


def test_every_line_has_its_result(tmp_path: Path, capfdbinary: Captured) -> None:
    verl: dict[str, Any] = {"llm_output": "\\boxed{72}", "data_source": "x_mathverify"}
    verl["reward_model"] = {"ground_truth": [72]}
    right, wrong, late = row("so \\boxed{72}"), row("\\boxed{71}"), row("the last line")
    bad = [line for line, _ in REFUSED]
    rows = [right, wrong, b"", verl, *bad, row("\\boxed{1}", value="\\frac{"), late]
    words = [str(write(tmp_path / "rows.jsonl", *rows)), "--workers", "1"]
    assert main(["score", *words]) == 3, "nine lines were refused"
    output, errors = capfdbinary.readouterr()
    found = results(output)
    assert [list(result) for result in found] == [KEYS] * 14
    assert [(result["line"], result["status"], result["value"]) for result in found] == [
        *((1, "scored", 1.0), (2, "scored", 0.0), (4, "scored", 1.0)),
        *((line, "error", None) for line in range(5, 14)),
        *((14, "unscorable", None), (15, "scored", 0.0)),
    ]
    for number, (_, reason) in enumerate(REFUSED, 5):
        (result,) = [result for result in found if result["line"] == number]
        assert result["reason"].startswith(f"line {number}: {reason}"), result["reason"]
    said = errors.decode().splitlines()
    counted = r"14 lines in [\d.]+ s: 4 scored, mean value 0\.5000, 1 unscorable, 9 errors"
    assert re.fullmatch(counted, said[0])
    assert re.fullmatch(r"seconds of the scorers: math [\d.]+", said[1])
    assert said[2:] == ["first error: line 5: not JSON: Expecting value at character 1"]


def test_an_empty_file_is_no_error(tmp_path: Path, capfdbinary: Captured) -> None:
    assert main(["score", str(write(tmp_path / "rows.jsonl"))]) == 0
    output, errors = capfdbinary.readouterr()
    assert output == b""
    assert errors.startswith(b"0 lines in ")


@pytest.mark.usefixtures("scored_here")
@pytest.mark.parametrize(
    "shape",
    [
        {"verification_info": {"type": "letter", "answer": {"value": "B"}}},
        {"data_source": "letter", "reward_model": {"ground_truth": "B"}},
    ],
)
def test_a_custom_tasks_row_without_its_config_is_told_of_it(
    shape: Mapping[str, Any], waiter: Sequence[str], capfdbinary: Captured
) -> None:
    rows = write(Path("rows.jsonl"), {"llm_output": "<answer>B</answer>", **shape})
    for options, is_told in (([], True), (waiter, False)):
        assert main(["score", str(rows), "--workers", "1", *options]) == 3
        (result,) = results(capfdbinary.readouterr().out)
        told = result["reason"].endswith(", or a custom task's with --config CONFIG")
        assert (result["status"], told) == ("error", is_told), result


@pytest.mark.prove
def test_a_program_behind_two_pipes_gets_each_result_before_it_asks_again(waiter: Sequence[str]) -> None:
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with process_of("-", *waiter, **pipes) as (process, asked, answered):
        for number in (1, 2):
            asked.write(json.dumps(waiting(0)).encode() + b"\n")
            asked.flush()
            assert json.loads(answered.readline())["line"] == number
        asked.close()
        assert process.wait(20) == 0


@pytest.mark.prove
def test_results_are_in_order(waiter: Sequence[str], capfdbinary: Captured) -> None:
    """The first line waits until the last one is begun."""
    assert main(["score", str(waits(4, 0, 0, 0)), "--workers", "2", *waiter]) == 0
    found = results(capfdbinary.readouterr().out)
    assert [(one["line"], one["value"]) for one in found] == [(line, 1.0) for line in range(1, 5)]


def test_a_kill_costs_no_line(waiter: Sequence[str], capfdbinary: Captured) -> None:
    """Each line's process is killed once, between the start of its work and its end."""
    once = "if not os.path.exists(text):\n            open(text, 'x')\n            os.kill(os.getpid(), signal.SIGKILL)"
    Path("waiter.py").write_text(WAITER.replace("        while", f"        {once}\n        while"))
    assert main(["score", str(waits(0, 1)), "--workers", "1", *waiter]) == 0
    assert [result["value"] for result in results(capfdbinary.readouterr().out)] == [1.0, 1.0]
    assert Path("begun").read_text() == "x" * 4


@pytest.mark.prove
def test_ctrl_c_prints_what_is_done(waiter: Sequence[str]) -> None:
    """One thread is at line 2; the other has the results of 3 and 4 once it is at line 5."""
    words = (waits(0, 99, 0, 0, 99, 0), "--workers", "2", *waiter)
    with process_of(*words, stderr=subprocess.PIPE) as (process, errors, output):
        first = output.readline()
        wait_until(lambda: Path("begun").stat().st_size >= 5)
        process.send_signal(signal.SIGINT)
        rest, said = output.read(), errors.read()
        assert process.wait(20) == 130
    assert [result["line"] for result in results(first + rest)] == [1, 3, 4], said
    assert said.startswith(b"interrupted; 3 lines in ")


@pytest.mark.prove
def test_a_reader_that_has_seen_enough_is_no_error(waiter: Sequence[str]) -> None:
    words = (waits(*[0] * 3000), "--workers", "1", *waiter)
    with process_of(*words, stderr=subprocess.PIPE) as (process, errors, output):
        assert json.loads(output.readline())["line"] == 1
        output.close()
        assert errors.read() == b""
        assert process.wait(20) == 141


@pytest.mark.parametrize(("words", "said"), [
    ("nowhere.jsonl", "nowhere.jsonl: No such file or directory"),
    (".", ".: Is a directory"),
    ("{rows} --out {rows}", "is the input itself"),
    ("{rows} --out no/such/folder", "no folder"),
    ("{rows} --workers 0", "it must be at least 1"),
    ("{rows} scorers.credit=all",
        "'scorers.credit=all' sets a key of a configuration: give --config too"),
    ("{rows} --config nowhere.yaml", "nowhere.yaml: No such file"),
    ("", "the following arguments are required: FILE"),
])  # fmt: skip
def test_bad_usage_is_answered_with_why(words: str, said: str, tmp_path: Path, millrace: Millrace) -> None:
    rows = write(tmp_path / "rows.jsonl", row("x"))
    told = millrace("score", *words.format(rows=rows).split())
    assert (told.code, said in told.err) == (2, True)
    assert rows.read_bytes()


@pytest.mark.prove
def test_a_terminal_shows_a_bar_and_then_the_summary(waiter: Sequence[str]) -> None:
    ours, theirs = pty.openpty()
    shown = b""
    words = (waits(*[0] * 20), "--workers", "1", "--out", "scores.jsonl", *waiter)
    with process_of(*words, stderr=theirs) as (process, _, _):
        os.close(theirs)
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(ours, 4096):
                shown += piece
        os.close(ours)
        assert process.wait(20) == 0
    assert b"lines, 0 without a score" in shown
    assert b"20 lines in " in shown.splitlines()[-2]
    assert len(Path("scores.jsonl").read_bytes().splitlines()) == 20


@pytest.mark.usefixtures("scored_here")
def test_a_line_that_is_too_long_is_an_error(waiter: Sequence[str], monkeypatch: Patch) -> None:
    monkeypatch.setattr(row_file, "MAX_LINE_BYTES", 1 << 20)
    lines = write(Path("rows.jsonl"), row("x" * (1 << 20)), waiting(0))
    assert main(["score", str(lines), "--workers", "1", "--out", "scores.jsonl", *waiter]) == 3
    found = results(Path("scores.jsonl").read_bytes())
    assert [(result["status"], result["value"]) for result in found] == [("error", None), ("scored", 1.0)]
    assert found[0]["reason"] == "line 1: longer than 1 MiB"


@pytest.mark.prove(after=6)
@pytest.mark.usefixtures("scored_here")
@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([row("\\boxed{72}")], 0),
        ([row("\\boxed{71}")], 0),
        ([row("\\boxed{1}", value="\\frac{")], 0),  # unscorable: the row was read
        ([row("\\boxed{72}"), b"nope"], 3),
        ([b"nope"], 3),
        ([MTH], 3),
    ],
)
def test_the_exit_code_tells_of_lines_that_were_refused(
    tmp_path: Path, capfdbinary: Captured, rows: list[Any], code: int
) -> None:
    assert main(["score", str(write(tmp_path / "rows.jsonl", *rows)), "--workers", "1"]) == code
    capfdbinary.readouterr()
