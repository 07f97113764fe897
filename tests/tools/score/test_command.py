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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.support.waiting import wait_until
from tools.main import main
from tools.score import command as score_module
from tools.score.command import Line, read_lines

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

INFO = {"type": "math", "answer": {"value": "72"}}
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


def row(text: str, value: str = "72") -> dict[str, Any]:
    return {"llm_output": text, "verification_info": INFO | {"answer": {"value": value}}}


def write(path: Path, *lines: Mapping[str, Any] | bytes) -> Path:
    path.write_bytes(
        b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    )
    return path


def millrace(*words: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tools.main", "score", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
        **options,
    )


def results(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.decode().splitlines()]


@pytest.fixture
def waiter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options for rows of a scorer that waits until as many rows were begun as the response says."""
    (tmp_path / "waiter.py").write_text(WAITER)
    recipe = yaml.safe_load((ROOT / "config/recipes/demo_cpu.yaml").read_text())
    recipe["scorers"] = {"tasks": {"waiter": {"scorer": {"type": "custom", "import_path": "waiter:Waiter"}}}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(recipe))
    monkeypatch.chdir(tmp_path)
    return ["--config", "run.yaml"]


def waits(*counts: int) -> Path:
    return write(Path("rows.jsonl"), *(waiting(count) for count in counts))


def waiting(count: int) -> dict[str, Any]:
    return {"llm_output": str(count), "verification_info": {"type": "waiter"}}


def test_every_line_has_a_result_in_its_place(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines = write(
        tmp_path / "rows.jsonl",
        row("so \\boxed{72}"),
        row("\\boxed{71}"),
        b"",
        {"llm_output": "\\boxed{72}", "data_source": "x_mathverify", "reward_model": {"ground_truth": [72]}},
        b"nope",
        b"\xff\xfe",
        b"[1]",
        {"output": "x"},
        {"llm_output": None},
        {"llm_output": "x"},
        {"llm_output": "x", "verification_info": {"type": "mth", "answer": {}}},
        {"llm_output": "x", "verification_info": {"type": "math", "answer": {"value": ""}}},
        b'{"llm_output": "x", "verification_info": ' + b"[" * 50_000,
        row("\\boxed{1}", value="\\frac{"),
        row("the last line"),
    )
    assert main(["score", str(lines), "--workers", "1"]) == 3, "nine lines were refused"
    output, errors = capfdbinary.readouterr()
    found = results(output)
    assert [list(result) for result in found] == [KEYS] * 14
    assert [(result["line"], result["status"], result["value"]) for result in found] == [
        (1, "scored", 1.0),
        (2, "scored", 0.0),
        (4, "scored", 1.0),
        *((line, "error", None) for line in range(5, 14)),
        (14, "unscorable", None),
        (15, "scored", 0.0),
    ]
    for line, reason in {
        5: "not JSON: Expecting value at character 1",
        6: "not UTF-8: byte 0 is 0xff",
        7: "a line must be an object, got list",
        8: "no key 'llm_output' with the response",
        9: "llm_output must be text, got NoneType",
        10: "a row of no known shape",
        11: "no scorer for rows of type 'mth'; did you mean math?",
        12: "no answer to check against",
        13: "not JSON: maximum recursion",
    }.items():
        result = next(result for result in found if result["line"] == line)
        assert result["reason"].startswith(f"line {line}: {reason}"), result["reason"]
    said = errors.decode().splitlines()
    assert re.fullmatch(
        r"14 lines in [\d.]+ s: 4 scored, mean value 0\.5000, 1 unscorable, 9 errors", said[0]
    )
    assert re.fullmatch(r"seconds of the scorers: math [\d.]+", said[1])
    assert said[2:] == ["first error: line 5: not JSON: Expecting value at character 1"]


def test_an_empty_file_is_no_error(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["score", str(write(tmp_path / "rows.jsonl"))]) == 0
    output, errors = capfdbinary.readouterr()
    assert output == b""
    assert errors.startswith(b"0 lines in ")


@pytest.mark.parametrize(
    "shape",
    [
        {"verification_info": {"type": "letter", "answer": {"value": "B"}}},
        {"data_source": "letter", "reward_model": {"ground_truth": "B"}},
    ],
)
def test_a_custom_tasks_row_without_its_config_is_told_of_it(
    shape: Mapping[str, Any], waiter: Sequence[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    rows = write(Path("rows.jsonl"), {"llm_output": "<answer>B</answer>", **shape})
    for options, is_told in (([], True), (waiter, False)):
        assert main(["score", str(rows), "--workers", "1", *options]) == 3
        (result,) = results(capfdbinary.readouterr().out)
        assert result["status"] == "error"
        assert result["reason"].endswith(", or a custom task's with --config CONFIG") == is_told, result[
            "reason"
        ]


@pytest.mark.prove
def test_a_program_at_the_other_end_of_two_pipes_gets_each_result_before_it_asks_again(
    waiter: Sequence[str],
) -> None:
    with millrace(
        "-", *waiter, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in (1, 2):
            process.stdin.write(json.dumps(waiting(0)).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["line"] == number
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.mark.prove
def test_results_are_in_order_whatever_each_takes(
    waiter: Sequence[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The first line waits until the last one is begun."""
    assert main(["score", str(waits(4, 0, 0, 0)), "--workers", "2", *waiter]) == 0
    assert [
        (result["line"], result["value"], result["task"]) for result in results(capfdbinary.readouterr().out)
    ] == [(line, 1.0, "waiter") for line in range(1, 5)]


def test_a_killed_process_costs_no_line(
    waiter: Sequence[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Each line's process is killed once, between the start of its work and its end."""
    Path("waiter.py").write_text(
        WAITER.replace(
            "        while",
            (
                "        if not os.path.exists(text):\n"
                "            open(text, 'x')\n"
                "            os.kill(os.getpid(), signal.SIGKILL)\n"
                "        while"
            ),
        )
    )
    assert main(["score", str(waits(0, 1, 2)), "--workers", "1", *waiter]) == 0
    assert [result["value"] for result in results(capfdbinary.readouterr().out)] == [1.0, 1.0, 1.0]
    assert Path("begun").read_text() == "x" * 6


def test_ctrl_c_prints_what_is_done(waiter: Sequence[str]) -> None:
    """One thread is at line 2; the other has the results of 3 and 4 once it is at line 5."""
    with millrace(
        waits(0, 99, 0, 0, 99, 0), "--workers", "2", *waiter, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        wait_until(lambda: Path("begun").stat().st_size >= 5)
        process.send_signal(signal.SIGINT)
        rest, said = process.stdout.read(), process.stderr.read()
        assert process.wait(20) == 130
    assert [result["line"] for result in results(first + rest)] == [1, 3, 4], said
    assert said.startswith(b"interrupted; 3 lines in ")


@pytest.mark.prove
def test_a_reader_that_has_seen_enough_is_no_error(waiter: Sequence[str]) -> None:
    with millrace(
        waits(*[0] * 3000), "--workers", "1", *waiter, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["line"] == 1
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 141


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl: No such file or directory"),
        (["."], ".: Is a directory"),
        (["{rows}", "--out", "{rows}"], "is the input itself"),
        (["{rows}", "--out", "no/such/folder"], "no folder"),
        (["{rows}", "--workers", "0"], "it must be at least 1"),
        (
            ["{rows}", "scorers.credit=all"],
            "'scorers.credit=all' sets a key of a configuration: give --config too",
        ),
        (["{rows}", "--config", "nowhere.yaml"], "nowhere.yaml: No such file"),
        ([], "the following arguments are required: FILE"),
    ],
)
def test_bad_usage_is_answered_with_2_and_the_reason(
    words: Sequence[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = str(write(tmp_path / "rows.jsonl", row("x")))
    try:
        code: object = main(["score", *(word.format(rows=rows) for word in words)])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert said in capsys.readouterr().err
    assert Path(rows).read_bytes()


@pytest.mark.prove
def test_a_terminal_shows_a_bar_and_then_the_summary(waiter: Sequence[str]) -> None:
    ours, theirs = pty.openpty()
    done = millrace(waits(*[0] * 20), "--workers", "1", "--out", "scores.jsonl", *waiter, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert done.wait(20) == 0
    assert b"lines, 0 without a score" in shown
    assert b"20 lines in " in shown.splitlines()[-2]
    assert len(Path("scores.jsonl").read_bytes().splitlines()) == 20


def test_a_line_that_is_too_long_is_skipped_without_being_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_module, "MAX_LINE_BYTES", 10)
    stream = io.BytesIO(b"\xef\xbb\xbf{1}\n" + b"x" * 35 + b"\n\n \r\n0123456789\n012345678\n" + b"y" * 11)
    assert list(read_lines(stream)) == [
        Line(1, b"{1}\n", 7),
        Line(2, None, 43),
        Line(5, None, 58),
        Line(6, b"012345678\n", 68),
        Line(7, None, 79),
    ]


def test_a_line_that_is_too_long_is_an_error(waiter: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_module, "MAX_LINE_BYTES", 1 << 20)
    lines = write(Path("rows.jsonl"), row("x" * (1 << 20)), waiting(0))
    assert main(["score", str(lines), "--workers", "1", "--out", "scores.jsonl", *waiter]) == 3
    found = results(Path("scores.jsonl").read_bytes())
    assert [(result["status"], result["value"]) for result in found] == [("error", None), ("scored", 1.0)]
    assert found[0]["reason"] == "line 1: longer than 1 MiB"


@pytest.mark.prove(cases=("rows1-0", "rows2-0"))
@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([row("\\boxed{72}")], 0),
        ([row("\\boxed{71}")], 0),
        ([row("\\boxed{1}", value="\\frac{")], 0),  # unscorable: the row was read
        ([row("\\boxed{72}"), b"nope"], 3),
        ([b"nope"], 3),
        ([{"llm_output": "x", "verification_info": {"type": "mth", "answer": {}}}], 3),
    ],
)
def test_the_exit_code_tells_of_lines_that_were_refused(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], rows: list[Any], code: int
) -> None:
    assert main(["score", str(write(tmp_path / "rows.jsonl", *rows)), "--workers", "1"]) == code
    capfdbinary.readouterr()
