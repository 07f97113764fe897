"""`millrace judge-check`: a judge with known mistakes, and labels that are worth nothing unless they are read right."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from config.explanations import ConfigError
from scorers.api import RowWorkerClient, all_tasks
from scorers.child.row_worker import failure
from tests.conftest import ROOT
from tests.support.endpoint_server import FAILING, Call, Saying, ScriptedEndpoint, scripted_endpoint
from tools.judge_check import command
from tools.judge_check.agreement import Agreement, Share
from tools.judge_check.labelled_rows import Labelled, read_labelled
from tools.main import main

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

MARK = re.compile(r"\[begin ([0-9a-f]{12})\]")
HARD = {
    "source": "hard",
    "question": "Find f.",
    "ground_truth": "$f(x)=2 x$",
    "fn_output": "YES f(x)=2x",
    "tn_output": "YES f(x)=x",
}
QUESTION = [{"role": "user", "content": "How many?"}]


def judged(text: str, label: object, source: str = "easy") -> dict[str, Any]:
    return {
        "llm_output": text,
        "label": label,
        "source": source,
        "verification_info": {"type": "llm_judge", "answer": {"value": "72", "question": "6 x 12?"}},
    }


def says(call: Call) -> Saying:
    """Return a judge whose verdict stands in the answer; of one with ONCE it has trouble when it is asked first."""
    nonce = MARK.search(call.prompt)
    assert nonce is not None
    if "HUH" in call.prompt:
        return Saying("I can't tell.", delay_s=0.1)
    verdict = "correct" if "YES" in call.prompt else "incorrect"
    return Saying(f'{{"verdict": "{verdict}", "code": "{nonce[1]}"}}', delay_s=0.1)


def write(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedEndpoint]:
    with scripted_endpoint() as running:
        running.script = says
        monkeypatch.setenv("LLM_JUDGE_BASE_URL", running.url)
        yield running


def test_the_mistakes_of_a_judge_are_counted_by_source(
    tmp_path: Path, server: ScriptedEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the easy rows: right and right, a false negative, a false positive, right, unscorable, and one at a 500."""
    troubled: set[str] = set()

    def says_at_the_second_time(call: Call) -> Saying:
        if "ONCE" in call.prompt and not troubled:
            troubled.add(call.prompt)
            return FAILING
        return says(call)

    server.script = says_at_the_second_time
    rows = write(
        tmp_path / "rows.jsonl",
        judged("YES a", True),
        judged("NO b", 1),
        judged("YES c", False),
        judged("NO d", 0.0),
        judged("HUH", True),
        judged("YES ONCE", True),
        HARD,
    )
    assert (
        main(["judge-check", str(rows), "--task", "judge", "--json", "--out", str(tmp_path / "out.jsonl")])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert shares(found["overall"]) == {
        "agreement": (4, 7),
        "false_positives": (2, 3),
        "false_negatives": (1, 4),
        "unscorable": (1, 8),
    }
    assert shares(found["sources"]["easy"]) == {
        "agreement": (3, 5),
        "false_positives": (1, 2),
        "false_negatives": (1, 3),
        "unscorable": (1, 6),
    }
    assert shares(found["sources"]["hard"])["agreement"] == (1, 2)
    assert [
        (wrong["line"], wrong["part"], wrong["label"], wrong["value"]) for wrong in found["disagreements"]
    ] == [(3, "", 0.0, 1.0), (7, "tn_output", 0.0, 1.0), (2, "", 1.0, 0.0)]
    assert list(found["verifiers"].values()) == [8]
    assert found["overall"]["median_seconds"] >= 0.1  # of calls; most were over when they were waited for
    assert found["not_judged"] == {}
    assert server.most_at_once == 7  # the eighth failed at once
    verdicts = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [
        (verdict["line"], verdict["part"], verdict["value"], verdict["agrees"]) for verdict in verdicts
    ] == [
        (1, "", 1.0, True),
        (2, "", 0.0, False),
        (3, "", 1.0, False),
        (4, "", 0.0, True),
        (5, "", None, None),
        (6, "", 1.0, True),
        (7, "fn_output", 1.0, True),
        (7, "tn_output", 1.0, False),
    ]
    assert all(verdict["reason"] and verdict["task"] == "judge" for verdict in verdicts)


def shares(counts: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {name: (share["count"], share["of"]) for name, share in counts.items() if isinstance(share, dict)}


def test_a_judge_that_is_away_is_given_up_and_blamed_for_nothing(
    tmp_path: Path, server: ScriptedEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = lambda _: FAILING
    rows = write(tmp_path / "rows.jsonl", *(judged(f"YES {number}", True) for number in range(20)))
    assert main(["judge-check", str(rows)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"millrace judge-check: nothing could be scored: .*HTTP 500.*\n", said.err)
    assert len(server.calls) == 20  # nobody asks a second time


def test_rows_of_every_shape_and_file_are_read_with_their_source_and_label(tmp_path: Path) -> None:
    verl = {
        "llm_output": "\\boxed{5}",
        "human_score": 0.75,
        "data_source": "numina_olympiads",
        "prompt": QUESTION,
        "reward_model": {"ground_truth": "5"},
    }
    bare = {
        "llm_output": "5",
        "label": False,
        "messages": QUESTION,
        "verification_info": json.dumps({"type": "math", "answer": {"value": "5"}}),
    }
    (tmp_path / "rows.json").write_text(
        json.dumps([verl, bare, HARD, HARD | {"fn_output": "so \\boxed{2x}"}])
    )
    keys = dict.fromkeys([*verl, *bare, *HARD])  # every row of parquet has every key
    pq.write_table(pa.Table.from_pylist([keys | verl, keys | bare, keys | HARD]), tmp_path / "rows.parquet")
    pq.write_table(pa.table({"label": pa.array([], pa.bool_())}), tmp_path / "nothing.parquet")
    found = read(tmp_path / "rows.json", "judge")
    assert [(row.where, row.source, row.label) for row in found] == [
        ("line 1", "numina_olympiads", 0.75),
        ("line 2", "math", 0.0),
        ("line 3 fn_output", "hard", 1.0),
        ("line 3 tn_output", "hard", 0.0),
        ("line 4 fn_output", "hard", 1.0),
        ("line 4 tn_output", "hard", 0.0),
    ]
    asked = [json.loads(row.line) for row in found]
    assert {(row["task"], row["verification_info"]["type"]) for row in asked} == {("judge", "judge")}
    assert [row["verification_info"]["answer"] for row in asked[:3]] == [
        {"value": "5", "question": "How many?"},
        {"value": "5", "question": "How many?"},
        {"value": "$f(x)=2 x$", "question": "Find f."},
    ]
    assert [row["llm_output"] for row in asked[2:5]] == [
        "\\boxed{YES f(x)=2x}",
        "\\boxed{YES f(x)=x}",
        "so \\boxed{2x}",
    ]
    assert [row.task for row in read(tmp_path / "rows.json", None)] == ["math", "math", *["judge"] * 4]
    assert [row.task for row in read(tmp_path / "rows.json", "math")] == ["math"] * 6
    assert [row.line for row in read(tmp_path / "rows.parquet", "judge")] == [row.line for row in found[:4]]
    with pytest.raises(ConfigError, match=r"nothing.parquet has no rows"):
        read(tmp_path / "nothing.parquet", None)


def read(path: Path, only: str | None) -> list[Labelled]:
    with path.open("rb") as stream:
        return read_labelled(stream, str(path), all_tasks().tasks, only)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"llm_output": "x"', "line 2: not JSON"),
        ("[1]", "line 2: a line must be an object, got list"),
        (
            '{"label": 1}',
            "line 2: no response: 'llm_output' beside a label, or HardVerify-Math's fn_output and tn_output",
        ),
        ('{"llm_output": "x"}', "line 2: no label: none of label and human_score"),
        ('{"llm_output": "x", "label": 1, "human_score": 1}', "line 2: both of label and human_score"),
        (
            '{"llm_output": "x", "label": "yes"}',
            "line 2: label must be true, false or a number from 0 to 1, got 'yes'",
        ),
        (
            '{"llm_output": "x", "human_score": 7}',
            "line 2: human_score must be true, false or a number from 0 to 1, got 7",
        ),
        ('{"llm_output": "x", "label": NaN}', "line 2: label must be"),
        ('{"llm_output": "x", "label": 1}', "line 2: a row of no known shape"),
        ('{"llm_output": 5, "label": 1}', "line 2: llm_output must be text, got int"),
        ('{"fn_output": "5", "question": "?"}', "line 2: no answer to check against"),
        ("{}\n" * 7, "\nand 2 more lines"),
    ],
)
def test_a_file_that_cant_be_used_is_refused_by_its_lines_before_anybody_is_asked(
    text: str, said: str, tmp_path: Path, server: ScriptedEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "rows.jsonl", judged("YES", True))
    path.write_text(path.read_text() + text)
    assert main(["judge-check", str(path)]) == 2
    assert said in capsys.readouterr().err
    assert server.calls == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["{rows}"],
            "no server to ask for task 'judge': set LLM_JUDGE_BASE_URL, or scorers.tasks.judge.scorer.endpoint.urls",
        ),
        (["{rows}", "--task", "juge"], "--task 'juge': the tasks of `scorers` are"),
        (["{rows}", "--threshold", "0"], "--threshold must be above 0"),
        (["{rows}", "--samples", "-1"], "--samples can't be negative"),
        (["{rows}", "scorers.retries=0"], "give --config too"),
        (["{rows}", "--out", "{rows}"], "is the input itself"),
        (["{rows}", "--out", "{folder}"], "is a folder"),
        (["{folder}/empty.jsonl"], "empty.jsonl has no rows"),
        (["{folder}/lines.json"], "lines.json: not JSON"),
        (["{folder}/one.json"], "one.json: expected a list of objects"),
        (["{folder}/none.parquet"], "none.parquet: "),
    ],
)
def test_bad_usage_is_answered_with_2_and_the_reason(
    words: Sequence[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("LLM_JUDGE_BASE_URL", "STEM_LLM_JUDGE_URL", "MATH_LLM_JUDGE_URL"):
        monkeypatch.delenv(name, raising=False)
    rows = write(tmp_path / "rows.jsonl", judged("YES", True))
    for name, text in (
        ("empty.jsonl", "\n"),
        ("lines.json", "{}\n{}"),
        ("one.json", "{}"),
        ("none.parquet", "PAR"),
    ):
        (tmp_path / name).write_text(text)
    try:
        code: object = main(["judge-check", *(word.format(rows=rows, folder=tmp_path) for word in words)])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert said in capsys.readouterr().err


GRADER = """
import os
from broker.errors import BadMessage
from scorers.custom import SimpleScorer

class Grader(SimpleScorer):
    name, version = "grader", "1"

    def check_row(self, verification_info):
        if not verification_info["answer"]["value"]:
            raise BadMessage("nothing to grade by")

    def score(self, text, verification_info):
        return self.scored(float(text), "so " + text)
"""


def test_a_graded_verifier_of_ones_own_is_shown_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "grader.py").write_text(GRADER)
    recipe = yaml.safe_load((ROOT / "config/recipes/demo_cpu.yaml").read_text())
    recipe["scorers"] = {"tasks": {"grader": {"scorer": {"type": "custom", "import_path": "grader:Grader"}}}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(recipe))
    monkeypatch.chdir(tmp_path)
    graded = [
        (text, label, {"type": "grader", "answer": {"value": value}})
        for text, label, value in (("0.75", 1.0, "x"), ("0.25", 0.5, "x"), ("1", 0.25, "x"), ("1", 1.0, ""))
    ]
    rows = write(
        tmp_path / "rows.jsonl",
        *({"llm_output": text, "label": label, "verification_info": info} for text, label, info in graded),
    )
    assert (
        main(["judge-check", str(rows), "--config", "run.yaml", "--task", "grader", "--threshold", "0.6"])
        == 0
    )
    shown = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r".*rows.jsonl: 3 of 4 responses judged in [\d.]+ s", shown[0])
    assert shown[1] == "  3 judged by grader 1"
    titles = "source rows agreement false positives false negatives unscorable mean error s each"
    assert " ".join(shown[2].split()) == titles
    wanted = "3 2/3 66.7% (20.8 to 93.9) 1/2 50.0% (9.5 to 90.5) 0/1 0.0% (0.0 to 79.3) 0/3 0.0% (0.0 to 56.1) 0.417"
    assert [" ".join(line.split()[:-1]) for line in shown[3:5]] == [f"grader {wanted}", f"all {wanted}"]
    assert shown[6:] == [
        "  1 not judged: nothing to grade by",
        "  the worst of 1 disagreements:",
        "    line 3 (grader): labelled 0.25, judged 1: so 1",
    ]


@pytest.mark.parametrize(
    ("number", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),  # Newcombe, Statistics in Medicine 17 (1998), table I
    ],
)
def test_an_interval_is_wilsons(number: int, of: int, low: float, high: float) -> None:
    assert Share(number, of).interval() == pytest.approx((low, high), abs=5e-5)
    assert Share(0, 0).interval() is None
    assert str(Share(0, 0)) == "-"


def test_the_worst_disagreements_come_first_and_of_equals_the_false_positives() -> None:
    agreement = Agreement(0.5, samples=3)
    for number, (label, value) in enumerate(
        [(1.0, 0.25), (1.0, 0.0), (0.25, 0.75), (0.0, 1.0), (0.75, 0.5)], 1
    ):
        agreement.add(
            Labelled(number, "", "s", label, "t", b""),
            {
                "status": "scored",
                "value": value,
                "reason": "why",
                "components": {},
                "seconds": 0.0,
                "scorer": "s",
                "version": "1",
            },
        )
    agreement.add(Labelled(6, "", "s", 1.0, "t", b""), failure("it broke", fault="machine"))
    agreement.add(Labelled(7, "", "s", 1.0, "t", b""), None)
    assert [found.row.number for found in agreement.worst()] == [4, 2, 1]
    assert agreement.not_judged == {"it broke": 1, "not asked": 1}
    assert agreement.overall.as_json()["mean_absolute_error"] == pytest.approx(
        (0.75 + 1 + 0.5 + 1 + 0.25) / 5
    )


class FakeProcess(RowWorkerClient):
    """No process: the text of a response says what becomes of it."""

    asked: ClassVar[list[str]] = []

    def begin(self, line: bytes) -> None:
        """Nothing is under way."""

    def result(self, line: bytes) -> dict[str, Any]:
        text = json.loads(line)["llm_output"]
        self.asked.append(text)
        if text == "INTERRUPT":
            raise KeyboardInterrupt
        if text in {"row", "machine"}:
            return failure(f"the {text} is to blame", fault=text)
        scored = {
            "status": "scored",
            "value": 1.0,
            "reason": "",
            "components": {},
            "seconds": 0.0,
            "scorer": "judge",
            "version": "1",
        }
        match text:
            case "part":  # one of `extra_scorers` that counts
                return scored | {
                    "status": "unscorable",
                    "value": None,
                    "reason": "a part was not scored",
                    "components": {"second.failed_tries": 1.0},
                }
            case "aside":  # one that does not
                return scored | {"components": {"second.failed_tries": 1.0}}
            case _:
                return scored


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeProcess]:
    monkeypatch.setenv("LLM_JUDGE_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(command, "RowWorkerClient", FakeProcess)
    monkeypatch.setattr(command, "LONGEST_WAIT_S", 0.0)
    monkeypatch.setattr(FakeProcess, "asked", [])
    return FakeProcess


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [  # the exit code, rows judged, others by reason, questions
        (["YES", "INTERRUPT", "YES"], (130, 1, {"not asked": 2}, 2)),  # what was judged before is shown
        (
            ["row"] * 20 + ["YES"],
            (0, 1, {"the row is to blame": 20}, 21),
        ),  # refused, and nobody is taken to be away
        (
            ["machine", "YES", "row"],
            (0, 1, {"the machine is to blame": 1, "the row is to blame": 1}, 6),
        ),  # 3 retries
        (["machine"] * 20, (1, 0, {"the machine is to blame": 16, "not asked": 4}, 16)),
        (["machine"], (1, 0, {"the machine is to blame": 1}, 1)),
        (["part", "YES", "aside"], (0, 2, {"a part was not scored": 1}, 6)),
    ],
)
def test_what_failed_is_asked_again_unless_everything_fails(
    texts: Sequence[str],
    wanted: tuple[int, int, Mapping[str, int], int],
    tmp_path: Path,
    fake: type[FakeProcess],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(tmp_path / "rows.jsonl", *(judged(text, True) for text in texts))
    code = main(["judge-check", str(path), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["overall"]["rows"], found["not_judged"], len(fake.asked)) == wanted
