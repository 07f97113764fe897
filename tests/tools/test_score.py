"""`millrace score`: what goes in, what comes out, and what a user sees when something is wrong."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tools import score as score_module
from tools.main import main
from tools.score import Line, read_lines

INFO = {"type": "math", "answer": {"value": "72"}}
KEYS = ["line", "status", "value", "reason", "components", "seconds", "scorer", "version", "task"]
SLEEPER = """
import os, signal, time
from scorers.custom import SimpleScorer

class Sleeper(SimpleScorer):
    name = "sleeper"
    version = "1"

    def score(self, text, verification_info):
        time.sleep(float(text))
        with open("slept", "a") as file:
            file.write("x")
        return self.scored(1.0, "slept")
"""


def row(text: str, value: str = "72") -> dict[str, Any]:
    return {"llm_output": text, "verification_info": INFO | {"answer": {"value": value}}}


def write(path: Path, *lines: Mapping[str, Any] | bytes) -> Path:
    path.write_bytes(b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n"
                              for line in lines))
    return path


def millrace(*words: str | Path, cwd: Path = ROOT, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "tools.main", "score", *map(str, words)], cwd=cwd, check=False,
                          timeout=100, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, **options)


def results(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.decode().splitlines()]


@pytest.fixture
def sleepers(tmp_path: Path) -> list[str | Path]:
    """Options for rows of a scorer that sleeps as many seconds as the response says."""
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    recipe = yaml.safe_load((ROOT / "config/recipes/demo_cpu.yaml").read_text())
    recipe["scorers"] = {"tasks": {"sleeper": {"scorer": {"type": "custom", "import_path": "sleeper:Sleeper"}}}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(recipe))
    return ["--config", tmp_path / "run.yaml"]


def naps(path: Path, *seconds: float) -> Path:
    return write(path, *({"llm_output": str(nap), "verification_info": {"type": "sleeper"}} for nap in seconds))


def test_every_line_has_a_result_in_its_place(tmp_path: Path) -> None:
    lines = write(
        tmp_path / "rows.jsonl",
        row("so \\boxed{72}"), row("\\boxed{71}"), b"",
        {"llm_output": "\\boxed{72}", "data_source": "x_mathverify", "reward_model": {"ground_truth": [72]}},
        b"nope", b"\xff\xfe", b"[1]", {"output": "x"}, {"llm_output": None}, {"llm_output": "x"},
        {"llm_output": "x", "verification_info": {"type": "mth", "answer": {}}},
        {"llm_output": "x", "verification_info": {"type": "math", "answer": {"value": ""}}},
        b'{"llm_output": "x", "verification_info": ' + b"[" * 50_000, row("\\boxed{1}", value="\\frac{"),
        row("the last line"))
    done = millrace(lines, "--workers", "2")
    found = results(done.stdout)
    assert done.returncode == 0, done.stderr
    assert [list(result) for result in found] == [KEYS] * 14
    assert [(result["line"], result["status"], result["value"]) for result in found] == [
        (1, "scored", 1.0), (2, "scored", 0.0), (4, "scored", 1.0), *((line, "error", None) for line in range(5, 14)),
        (14, "unscorable", None), (15, "scored", 0.0)]
    for line, reason in {5: "not JSON: Expecting value at character 1", 6: "not UTF-8: byte 0 is 0xff",
                         7: "a line must be an object, got list", 8: "no key 'llm_output' with the response",
                         9: "llm_output must be text, got NoneType", 10: "a row of no known shape",
                         11: "no scorer for rows of type 'mth'; did you mean math?", 12: "no answer to check against",
                         13: "not JSON: maximum recursion"}.items():
        result = next(result for result in found if result["line"] == line)
        assert result["reason"].startswith(f"line {line}: {reason}"), result["reason"]
    said = done.stderr.decode().splitlines()
    assert re.fullmatch(r"14 lines in [\d.]+ s: 4 scored, mean value 0\.5000, 1 unscorable, 9 errors", said[0])
    assert re.fullmatch(r"seconds of the scorers: math [\d.]+", said[1])
    assert said[2:] == ["first error: line 5: not JSON: Expecting value at character 1"]


def test_an_empty_file_is_no_error(tmp_path: Path) -> None:
    done = millrace(write(tmp_path / "rows.jsonl"))
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(b"0 lines in ")


def test_standard_input_in_and_a_file_out(tmp_path: Path) -> None:
    done = millrace("-", "--out", tmp_path / "scores.jsonl", input=json.dumps(row("\\boxed{72}")).encode())
    assert (done.returncode, done.stdout) == (0, b"")
    assert [result["value"] for result in results((tmp_path / "scores.jsonl").read_bytes())] == [1.0]


def test_results_come_as_soon_as_they_are_known() -> None:
    """A program at the other end of two pipes gets its answer before it asks again."""
    with subprocess.Popen([sys.executable, "-m", "tools.main", "score", "-"], cwd=ROOT, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text, value in (("\\boxed{72}", 1.0), ("\\boxed{71}", 0.0)):
            process.stdin.write(json.dumps(row(text)).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["value"] == value
        process.stdin.close()
        assert process.wait(20) == 0


def test_results_are_in_order_whatever_each_takes(tmp_path: Path, sleepers: Sequence[str | Path]) -> None:
    done = millrace(naps(tmp_path / "rows.jsonl", 1.5, 0, 0, 0), "--workers", "2", *sleepers, cwd=tmp_path)
    assert [(result["line"], result["value"], result["task"]) for result in results(done.stdout)] == [
        (line, 1.0, "sleeper") for line in range(1, 5)], done.stderr


def test_a_killed_process_costs_no_line(tmp_path: Path, sleepers: Sequence[str | Path]) -> None:
    """Each line's process is killed once, between the start of its work and its end."""
    (tmp_path / "sleeper.py").write_text(SLEEPER.replace(
        "time.sleep(float(text))",
        "if not os.path.exists(text):\n            open(text, 'x')\n            os.kill(os.getpid(), signal.SIGKILL)"))
    lines = write(tmp_path / "rows.jsonl", *({"llm_output": f"tried-{number}", "verification_info": {"type": "sleeper"}}
                                             for number in range(3)))
    done = millrace(lines, "--workers", "1", *sleepers, cwd=tmp_path)
    assert [result["value"] for result in results(done.stdout)] == [1.0, 1.0, 1.0], done.stderr


def test_ctrl_c_prints_what_is_done(tmp_path: Path, sleepers: Sequence[str | Path]) -> None:
    lines = naps(tmp_path / "rows.jsonl", 0, 600, 0, 0)
    command = [sys.executable, "-m", "tools.main", "score", lines, "--workers", "2", *sleepers]
    with subprocess.Popen(list(map(str, command)), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        deadline = time.monotonic() + 30
        while len((tmp_path / "slept").read_bytes()) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)             # for the results of lines 3 and 4, behind the one that sleeps, to come back
        process.send_signal(signal.SIGINT)
        rest, said = process.stdout.read(), process.stderr.read()
        assert process.wait(20) == 130
    assert [result["line"] for result in results(first + rest)] == [1, 3, 4], said
    assert said.startswith(b"interrupted; 3 lines in ")


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    lines = write(tmp_path / "rows.jsonl", *[row("x")] * 3000)
    done = subprocess.run(f"{sys.executable} -m tools.main score {lines} --workers 1 | head -n 1", shell=True, cwd=ROOT,
                          check=False, capture_output=True, timeout=60)
    assert (len(results(done.stdout)), done.stderr) == (1, b"")


@pytest.mark.parametrize(("words", "said"), [
    (["nowhere.jsonl"], "nowhere.jsonl: No such file or directory"),
    (["."], ".: Is a directory"),
    (["{rows}", "--out", "{rows}"], "is the input itself"),
    (["{rows}", "--out", "no/such/folder"], "no folder"),
    (["{rows}", "--workers", "0"], "--workers must be at least 1"),
    (["{rows}", "scorers.credit=all"], "'scorers.credit=all' sets a key of a configuration: give --config too"),
    (["{rows}", "--config", "nowhere.yaml"], "nowhere.yaml: No such file"),
    ([], "the following arguments are required: FILE"),
])
def test_bad_usage_is_answered_with_2_and_the_reason(words: Sequence[str], said: str, tmp_path: Path,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    rows = str(write(tmp_path / "rows.jsonl", row("x")))
    try:
        code: object = main(["score", *(word.format(rows=rows) for word in words)])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert said in capsys.readouterr().err
    assert Path(rows).read_bytes()


def test_a_terminal_shows_a_bar_and_then_the_summary(tmp_path: Path) -> None:
    lines = write(tmp_path / "rows.jsonl", *[row("\\boxed{72}")] * 20)
    ours, theirs = pty.openpty()
    done = subprocess.Popen([sys.executable, "-m", "tools.main", "score", str(lines), "--out", str(tmp_path / "out")],
                            cwd=ROOT, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"})
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:                 # the other end is closed
        pass
    os.close(ours)
    assert done.wait(20) == 0
    assert b"lines, 0 without a score" in shown
    assert b"20 lines in " in shown.splitlines()[-2]
    assert len((tmp_path / "out").read_bytes().splitlines()) == 20


def test_a_line_that_is_too_long_is_skipped_without_being_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_module, "MAX_LINE_BYTES", 10)
    stream = io.BytesIO(b"\xef\xbb\xbf{1}\n" + b"x" * 35 + b"\n\n \r\n0123456789\n012345678\n" + b"y" * 11)
    assert list(read_lines(stream)) == [
        Line(1, b"{1}\n", 7), Line(2, None, 43), Line(5, None, 58), Line(6, b"012345678\n", 68), Line(7, None, 79)]


def test_a_line_that_is_too_long_is_an_error(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_module, "MAX_LINE_BYTES", 1 << 20)
    lines = write(tmp_path / "rows.jsonl", row("x" * (1 << 20)), row("\\boxed{72}"))
    assert main(["score", str(lines), "--out", str(tmp_path / "out")]) == 0
    found = results((tmp_path / "out").read_bytes())
    assert [(result["status"], result["value"]) for result in found] == [("error", None), ("scored", 1.0)]
    assert found[0]["reason"] == "line 1: longer than 1 MiB"
