"""`millrace judge-check`: a judge with known mistakes, and labels that are worth nothing unless they are read right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from config.explanations import ConfigError
from scorers.api import RowWorkerClient, all_tasks
from scorers.child.frames import failure
from tests.conftest import ROOT
from tests.support.endpoint_server import FAILING, Call, Saying, ScriptedEndpoint
from tests.support.scripted_judge import says, server
from tests.support.told import Millrace, Patch
from tools.judge_check import command
from tools.judge_check.agreement import Agreement, CountedShare
from tools.judge_check.labelled_rows import Labelled, read_labelled
from tools.row_file import RowFile

__all__ = ["server"]

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

HARD = {
    "source": "hard",
    "question": "Find f.",
    "ground_truth": "$f(x)=2 x$",
    "fn_output": "YES f(x)=2x",
    "tn_output": "YES f(x)=x",
}
LABELS = (("fn", 1.0), ("tn", 0.0))
QUESTION = [{"role": "user", "content": "How many?"}]


def judged(text: str, label: object, source: str = "easy") -> dict[str, Any]:
    info = {"type": "llm_judge", "answer": {"value": "72", "question": "6 x 12?"}}
    return {"llm_output": text, "label": label, "source": source, "verification_info": info}


def write(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_mistakes_are_counted_by_source(tmp_path: Path, server: ScriptedEndpoint, millrace: Millrace) -> None:
    """Of the easy rows: right and right, a false negative, a false positive, right, unscorable, and one at a 500."""
    troubled: set[str] = set()

    def says_at_the_second_time(call: Call) -> Saying:
        if "ONCE" in call.prompt and not troubled:
            troubled.add(call.prompt)
            return FAILING
        return says(call)

    server.script = says_at_the_second_time
    rows = write(
        tmp_path / "rows.jsonl", judged("YES a", True), judged("NO b", 1), judged("YES c", False),
        judged("NO d", 0.0), judged("HUH", True), judged("YES ONCE", True), HARD,
    )  # fmt: skip
    told = millrace("judge-check", rows, "--task", "judge", "--json", "--out", tmp_path / "out.jsonl")
    found = told.json
    assert told.code == 0
    kinds = ("agreement", "false_positives", "false_negatives", "unscorable")
    for counts, wanted in (
        (found["overall"], [(4, 7), (2, 3), (1, 4), (1, 8)]),
        (found["sources"]["easy"], [(3, 5), (1, 2), (1, 3), (1, 6)]),
    ):
        assert [(counts[kind]["count"], counts[kind]["of"]) for kind in kinds] == wanted
    assert (found["sources"]["hard"]["agreement"]["count"], found["sources"]["hard"]["rows"]) == (1, 2)
    wrong = [(one["line"], one["part"], one["label"], one["value"]) for one in found["disagreements"]]
    assert wrong == [(3, "", 0.0, 1.0), (7, "tn_output", 0.0, 1.0), (2, "", 1.0, 0.0)]
    assert list(found["verifiers"].values()) == [8]
    assert found["overall"]["median_seconds"] >= 0.1  # of calls; most were over when they were waited for
    assert found["not_judged"] == {}
    assert server.most_at_once == 7  # the eighth failed at once
    verdicts = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    values = [1.0, 0.0, 1.0, 0.0, None, 1.0, 1.0, 1.0]
    agreeing = [True, False, False, True, None, True, True, False]
    assert [(one["value"], one["agrees"]) for one in verdicts] == list(zip(values, agreeing, strict=True))
    lines = [(1, ""), (2, ""), (3, ""), (4, ""), (5, ""), (6, ""), (7, "fn_output"), (7, "tn_output")]
    assert [(one["line"], one["part"]) for one in verdicts] == lines
    assert all(verdict["reason"] and verdict["task"] == "judge" for verdict in verdicts)


@pytest.mark.usefixtures("scored_here")
def test_a_judge_that_is_away_is_given_up(
    tmp_path: Path, server: ScriptedEndpoint, millrace: Millrace
) -> None:
    server.script = lambda _: FAILING
    rows = write(tmp_path / "rows.jsonl", *(judged(f"YES {number}", True) for number in range(20)))
    told = millrace("judge-check", rows)
    assert (told.code, told.out) == (1, "")
    assert re.fullmatch(r"millrace judge-check: nothing could be scored: .*HTTP 500.*\n", told.err)
    assert len(server.calls) == 20  # nobody asks a second time


def test_rows_of_every_shape_and_file_are_read_with_their_source_and_label(tmp_path: Path) -> None:
    verl: dict[str, Any] = {"llm_output": "\\boxed{5}", "human_score": 0.75, "prompt": QUESTION}
    verl |= {"data_source": "numina_olympiads", "reward_model": {"ground_truth": "5"}}
    info = json.dumps({"type": "math", "answer": {"value": "5"}})
    bare = {"llm_output": "5", "label": False, "messages": QUESTION, "verification_info": info}
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
        *((f"line {line} {part}_output", "hard", mark) for line in (3, 4) for part, mark in LABELS),
    ]
    asked = [json.loads(row.line) for row in found]
    assert {(row["task"], row["verification_info"]["type"]) for row in asked} == {("judge", "judge")}
    answers = [(row["verification_info"]["answer"]) for row in asked[:3]]
    wanted = [*[("5", "How many?")] * 2, ("$f(x)=2 x$", "Find f.")]
    assert [(one["value"], one["question"]) for one in answers] == wanted
    outputs = ["\\boxed{YES f(x)=2x}", "\\boxed{YES f(x)=x}", "so \\boxed{2x}"]
    assert [row["llm_output"] for row in asked[2:5]] == outputs
    assert [row.task for row in read(tmp_path / "rows.json", None)] == ["math", "math", *["judge"] * 4]
    assert [row.task for row in read(tmp_path / "rows.json", "math")] == ["math"] * 6
    assert [row.line for row in read(tmp_path / "rows.parquet", "judge")] == [row.line for row in found[:4]]
    (tmp_path / "lines.json").write_text("\n".join(map(json.dumps, (verl, bare))))
    assert [row.line for row in read(tmp_path / "lines.json", "judge")] == [row.line for row in found[:2]]
    with pytest.raises(ConfigError, match=r"nothing.parquet has no rows"):
        read(tmp_path / "nothing.parquet", None)


def read(path: Path, only: str | None) -> list[Labelled]:
    with path.open("rb") as stream:
        return read_labelled(RowFile(str(path), stream), all_tasks().tasks, only)


RANGE = "must be true, false or a number from 0 to 1, got"


@pytest.mark.parametrize(("text", "said"), [
    ('{"llm_output": "x"', "not JSON"),
    ("[1]", "a row must be an object, got list"),
    ('{"label": 1}',
        "no response: 'llm_output' beside a label, or HardVerify-Math's fn_output and tn_output"),
    ('{"llm_output": "x"}', "no label: none of label and human_score"),
    ('{"llm_output": "x", "label": 1, "human_score": 1}', "both of label and human_score"),
    ('{"llm_output": "x", "label": "yes"}', f"label {RANGE} 'yes'"),
    ('{"llm_output": "x", "human_score": 7}', f"human_score {RANGE} 7"),
    ('{"llm_output": "x", "label": NaN}', "label must be"),
    ('{"llm_output": "x", "label": 1}', "a row of no known shape"),
    ('{"llm_output": 5, "label": 1}', "llm_output must be text, got int"),
    ('{"fn_output": "5", "question": "?"}', "no answer to check against"),
    ("{}\n" * 7, ""),
])  # fmt: skip
def test_a_file_that_cant_be_used_is_refused_by_its_lines_before_anybody_is_asked(
    text: str, said: str, tmp_path: Path, server: ScriptedEndpoint, millrace: Millrace
) -> None:
    path = write(tmp_path / "rows.jsonl", judged("YES", True))
    path.write_text(path.read_text() + text)
    told = millrace("judge-check", path)
    assert (told.code, f"line 2: {said}" in told.err, server.calls) == (2, True, [])
    assert ("\nand 2 more lines" in told.err) is (said == "")


BAD_FILES = {"empty.jsonl": "\n", "cut.json": "[{}", "one.json": "[{}, 7]", "none.parquet": "PAR"}
NO_SERVER = (
    "no server to ask for task 'judge': set LLM_JUDGE_BASE_URL, or scorers.tasks.judge.scorer.endpoint.urls"
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rows.jsonl", NO_SERVER),
        ("rows.jsonl --task juge", "--task 'juge': the tasks of `scorers` are"),
        ("rows.jsonl --threshold 0", "--threshold must be above 0"),
        ("rows.jsonl --samples -1", "'-1' is no number of samples"),
        ("rows.jsonl scorers.retries=0", "give --config too"),
        ("rows.jsonl --out rows.jsonl", "is the input itself"),
        ("rows.jsonl --out .", "is a folder"),
        ("empty.jsonl", "empty.jsonl has no rows"),
        ("cut.json", "cut.json can't be read: Expecting"),
        ("one.json", "line 2: a row must be an object, got int"),
        ("none.parquet", "none.parquet can't be read: "),
    ],
)
def test_bad_usage_is_answered_with_2_and_the_reason(
    words: str, said: str, tmp_path: Path, monkeypatch: Patch, millrace: Millrace
) -> None:
    for name in ("LLM_JUDGE_BASE_URL", "STEM_LLM_JUDGE_URL", "MATH_LLM_JUDGE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.jsonl", judged("YES", True))
    for name, text in BAD_FILES.items():
        (tmp_path / name).write_text(text)
    told = millrace("judge-check", *words.split())
    assert (told.code, said in told.err) == (2, True)


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


@pytest.mark.usefixtures("scored_here")
def test_ones_own_graded_verifier_has_an_error(
    tmp_path: Path, monkeypatch: Patch, millrace: Millrace
) -> None:
    (tmp_path / "grader.py").write_text(GRADER)
    recipe = yaml.safe_load((ROOT / "config/recipes/demo_cpu.yaml").read_text())
    recipe["scorers"] = {"tasks": {"grader": {"scorer": {"type": "custom", "import_path": "grader:Grader"}}}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(recipe))
    monkeypatch.chdir(tmp_path)
    graded = [("0.75", 1.0, "x"), ("0.25", 0.5, "x"), ("1", 0.25, "x"), ("1", 1.0, "")]
    lines = [
        {
            "llm_output": text,
            "label": label,
            "verification_info": {"type": "grader", "answer": {"value": value}},
        }
        for text, label, value in graded
    ]
    rows = write(tmp_path / "rows.jsonl", *lines)
    words = ("--config", "run.yaml", "--task", "grader", "--threshold", "0.6")
    told = millrace("judge-check", rows, *words)
    assert told.code == 0
    shown = told.lines
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
    assert CountedShare(number, of).interval() == pytest.approx((low, high), abs=5e-5)
    assert CountedShare(0, 0).interval() is None
    assert str(CountedShare(0, 0)) == "-"


SCORED: dict[str, Any] = {"status": "scored", "value": 1.0, "reason": "", "components": {}, "seconds": 0.0}
SCORED |= {"scorer": "judge", "version": "1"}


def test_the_worst_disagreements_come_first_and_of_equals_the_false_positives() -> None:
    agreement = Agreement(0.5, samples=3)
    pairs = [(1.0, 0.25), (1.0, 0.0), (0.25, 0.75), (0.0, 1.0), (0.75, 0.5)]
    for number, (label, value) in enumerate(pairs, 1):
        agreement.add(Labelled(number, "", "s", label, "t", b""), SCORED | {"value": value})
    agreement.add(Labelled(6, "", "s", 1.0, "t", b""), failure("it broke", fault="machine"))
    agreement.add(Labelled(7, "", "s", 1.0, "t", b""), None)
    assert [found.row.number for found in agreement.worst()] == [4, 2, 1]
    assert agreement.not_judged == {"it broke": 1, "not asked": 1}
    error = (0.75 + 1 + 0.5 + 1 + 0.25) / 5
    assert agreement.overall.as_json()["mean_absolute_error"] == pytest.approx(error)


class FakeProcess(RowWorkerClient):
    """No process: the text of a response says what becomes of it."""

    asked: ClassVar[list[str]] = []

    def prefetch(self, line: bytes) -> None:
        """Nothing is under way."""

    def result(self, line: bytes) -> dict[str, Any]:
        text = json.loads(line)["llm_output"]
        self.asked.append(text)
        if text == "INTERRUPT":
            raise KeyboardInterrupt
        if text in {"row", "machine"}:
            return failure(f"the {text} is to blame", fault=text)
        broken = {"components": {"second.failed_tries": 1.0}}
        match text:
            case "part":  # one of `extra_scorers` that counts
                return (
                    SCORED
                    | {"status": "unscorable", "value": None, "reason": "a part was not scored"}
                    | broken
                )
            case "aside":  # one that does not
                return SCORED | broken
            case _:
                return SCORED


@pytest.fixture
def fake(monkeypatch: Patch) -> type[FakeProcess]:
    monkeypatch.setenv("LLM_JUDGE_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(command, "RowWorkerClient", FakeProcess)
    monkeypatch.setattr(command, "LONGEST_WAIT_S", 0.0)
    monkeypatch.setattr(FakeProcess, "asked", [])
    return FakeProcess


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [  # the exit code, rows judged, others by reason, questions
        ("YES INTERRUPT YES", (130, 1, {"not asked": 2}, 2)),  # what was judged before is shown
        ("row " * 20 + "YES", (0, 1, {"the row is to blame": 20}, 21)),  # refused, and nobody is away
        # 3 retries
        ("machine YES row", (0, 1, {"the machine is to blame": 1, "the row is to blame": 1}, 6)),
        ("machine " * 20, (1, 0, {"the machine is to blame": 16, "not asked": 4}, 16)),
        ("machine", (1, 0, {"the machine is to blame": 1}, 1)),
        ("part YES aside", (0, 2, {"a part was not scored": 1}, 6)),
    ],
)
def test_what_failed_is_asked_again_unless_everything_fails(
    texts: str, wanted: object, tmp_path: Path, fake: type[FakeProcess], millrace: Millrace
) -> None:
    path = write(tmp_path / "rows.jsonl", *(judged(text, True) for text in texts.split()))
    told = millrace("judge-check", path, "--json")
    found = told.json
    assert (told.code, found["overall"]["rows"], found["not_judged"], len(fake.asked)) == wanted
