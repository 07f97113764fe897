"""`millrace journal`: the journal for people and for other programs."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from broker.messages import Completion, FinishReason, SampledGroup, ScoredGroup, Span
from config.loading import to_yaml
from config.run import Run
from learner.groups.facts.episodes import as_tree
from learner.journal.ledger import DEAD, DROPPED, GroupOutcome, read_step
from learner.journal.writer import Journal
from learner.reporting.conversations import told_as_text
from tests.conftest import ROOT
from tests.support.chain import make_prompt
from tests.support.episodes import MESSAGES, an_episode, episodes
from tests.support.journals import flip
from tests.support.scores import a_score
from tests.support.told import Millrace, Patch, Told
from tests.tools.conftest import MakeRun
from tools.journal.rows import open_journal

pytestmark = pytest.mark.process


def said(text: str, *spans: tuple[int, int]) -> Completion:
    """Return what the fake engine says: bytes, and a NUL behind; (version, number of tokens) each span."""
    ids = [*text.encode(), 0]
    firsts = [sum(count for _, count in spans[:place]) for place in range(len(spans))]
    return Completion.of_one_segment(
        token_ids=np.array(ids, np.int32),
        logprobs=np.full(len(ids), -0.5, np.float32),
        text=text,
        policy_spans=tuple(
            Span(version=version, first=first, count=count)
            for (version, count), first in zip(spans, firsts, strict=True)
        ),
        finish_reason=FinishReason.STOP,
    )


def group(group_id: str) -> ScoredGroup:
    """One right answer of two versions, and one that could not be scored."""
    prompt = make_prompt(group_id)
    shares = {"math": 1.0, "format": 0.5}
    right = a_score(1.0, "5 is 5", version="3", seconds=0.25, components=shares)
    lost = a_score(None, "no sandbox", version="3")
    completions = (said("né\x1b[2J\n5", (3, 4), (4, 6)), said("", (4, 1)))
    rollout = SampledGroup(prompt=prompt, completions=completions, generator="g-1", seconds=1.5)
    return ScoredGroup(rollout=rollout, scores=(right, lost), rewards=(0.5, None), worker="w-2", seconds=0.5)


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    """Five steps of two groups in two incarnations; one group dropped, one dead and issued anew."""
    run = make_run(generators={"engine": {"type": "fake"}})
    run.folder.mkdir()
    (run.folder / "config.yaml").write_text(to_yaml(run))
    for fence, steps in ((1, (0, 1, 2)), (2, (3, 4))):
        journal = Journal(run.folder / "journal", fence, run=run.name)
        for step in steps:
            trained = [group(str(2 * step)), group(str(2 * step + 1))]
            journal.append(step, trained, [[0.25, None]] * 2, published={step: "beef" * 16})
        journal.close()
    journal = Journal(run.folder / "journal", 3, run=run.name)
    journal.end(
        {
            "10": GroupOutcome(DROPPED, "zero_variance: all 0", 40),
            "11": GroupOutcome(DEAD, "deadline"),
            "12": GroupOutcome(DROPPED, "pass_rate", 22, group=group("12")),
        }
    )
    journal.retry("11", 1)
    journal.evaluation(5, {"ids": ["eval-5-0"], "pass_rate": 1.0}, [group("eval-5-0")])
    journal.close()
    return run


Ask = Callable[..., Told]


@pytest.fixture
def ask(run: Run, millrace: Millrace) -> Ask:
    def ask(verb: str, *words: object) -> Told:
        return millrace("journal", verb, run.name, "--runs-dir", run.runs_dir, *words)

    return ask


def payload(run: Run, fence: int) -> Path:
    return run.folder / "journal" / f"payload-{fence:06d}-000.bin"


def test_ls_has_a_line_a_step_and_says_which_payloads_are_gone(run: Run, ask: Ask) -> None:
    payload(run, 1).unlink()
    told = ask("ls")
    assert told.code == 0
    head, *steps, last = told.lines
    assert head.split() == ["step", "groups", "tokens", "MiB", "incarnation", "trained", "at", "payload"]
    assert [[*line.split()[:3], line.split()[4], *line.split()[7:]] for line in steps] == [
        [str(step), "2", "22", fence, state, "in", f"payload-00000{fence}-000.bin"]
        for step, fence, state in zip(range(1, 6), "11122", [*["gone"] * 3, "there", "there"], strict=True)
    ]
    assert last == "5 steps of 3 incarnations; groups: 1 dead, 2 dropped, 10 trained; 1 evaluations"


def test_ls_names_what_is_wrong_and_says_so_by_its_code(run: Run, ask: Ask) -> None:
    flip(run.folder / "journal" / "ledger-000001.log", 10)
    told = ask("ls")
    assert (told.code, "ledger-000001.log: record 0" in told.err) == (1, True)


def test_a_group_is_shown_with_all_that_is_known_of_it(ask: Ask) -> None:
    code, shown, _ = ask("show", "--group", "5")
    assert code == 0
    for part in (
        "step 3: 2 groups, 22 tokens",
        "by incarnation 1, from weights beefbeefbeef\n",
        "group 5: task math, row 0 of epoch 0, seed 0; sampled by g-1 in 1.50 s, scored by w-2 in 0.50 s",
        "    user: 2 + 3?\n",
        '    to score against: {"type": "math", "answer": {"value": "5"}}\n',
        "  completion 0: reward 0.5, advantage 0.25; stop; versions 3 (4 tokens), 4 (6 tokens)\n",
        "    scored 1 by math 3 in 0.250 s; math 1, format 0.5: 5 is 5\n",
        "    answer: né\\x1b[2J\n      5\n",  # what a terminal would obey is spelt out
        "  completion 1: reward none, advantage none; stop; versions 4 (1 tokens)\n",
        "    unscorable none by math 3 in 0.000 s: no sandbox\n",
    ):
        assert part in shown, part
    assert "group 4" not in shown
    both = ask("show", "--step", "3")
    assert (both.code, "group 4: " in both.out, "group 5: " in both.out) == (0, True, True)


@pytest.fixture
def with_episodes(run: Run) -> Run:
    """The same run with a sixth step, of an episode and an answer of one turn."""
    journal = Journal(run.folder / "journal", 4, run=run.name)
    journal.append(5, [episodes("13")], [[0.5, -0.5]], published={5: "beef" * 16})
    journal.close()
    return run


@pytest.mark.usefixtures("with_episodes")
def test_an_episode_is_shown_turn_by_turn(ask: Ask) -> None:
    code, shown, _ = ask("show", "--group", "13")
    assert code == 0
    assert (
        """
    episode: 3 turns, 2 tool calls, 1 error; 8 tokens sampled and 3 observed in 2 segments; ended by environment: solved
    episode: the environment gave 7.5 of 0 to 10; turn by turn none, -0.5, 8
    assistant (version 3: 1 token, version 4: 3 tokens): I look.
      calls search({"query": "2 + 3"})
    tool search, an error: \\x1b[2Jno such query
    assistant (version 4: 2 tokens, reward -0.5): (thinks) Without blanks.
      calls search({"query": "2+3"})
    tool search: five
    assistant (version 5: 2 tokens, reward 8): <b>5</b>
  completion 1: reward 0, advantage -0.5; stop; versions 0 (2 tokens)
"""
        in shown
    )
    assert "\x1b" not in shown


def test_what_a_tool_says_is_shown_by_its_beginning_and_its_end_and_the_policys_words_whole() -> None:
    long = "".join(map(str, range(2000)))
    messages = ({"role": "assistant", "content": long}, {"role": "tool", "content": long})
    (_, policy), (_, tool) = told_as_text(as_tree(an_episode(messages)))
    assert policy == long
    assert tool == f"{long[:1500]} … ({len(long) - 2000:,} characters more) … {long[-500:]}"


def test_a_group_that_was_not_trained_is_shown_by_its_reason(ask: Ask) -> None:
    assert ask("show", "--group", "10").out == (
        "group 10: dropped, 40 tokens thrown away\n    zero_variance: all 0\n"
        "    its answers are not kept any more, or never were: learner.journal.untrained_mb\n"
    )
    dead = "group 11: dead, 0 tokens thrown away; issued anew as 11-r1\n    deadline\n"
    assert ask("show", "--group", "11") == (0, dead, "")


@pytest.mark.parametrize(
    ("group_id", "said"),
    [
        ("12", "group 12: dropped, 22 tokens thrown away\n    pass_rate\n\ngroup 12: "),
        ("eval-5-0", "\ngroup eval"),
    ],
)
def test_a_group_that_is_kept_is_shown_with_its_answers(ask: Ask, group_id: str, said: str) -> None:
    code, shown, _ = ask("show", "--group", group_id)
    assert code == 0
    assert shown.startswith(said)
    assert "  completion 0: reward 0.5, advantage none; stop" in shown
    assert "    answer: né\\x1b[2J\n      5\n" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--group", "99"), "group 99 has no outcome in "),
        (("--step", "7"), "there is no step 7: the journal has steps 1 to 5"),
        (("--step", "1"), "the payload of step 1 is gone with payload-000001-000.bin"),
        (("--step", "4"), "the payload of step 4 is damaged"),
    ],
)
def test_what_cant_be_shown_is_named(run: Run, ask: Ask, words: tuple[str, str], message: str) -> None:
    payload(run, 1).unlink()
    flip(payload(run, 2), 0)
    told = ask("show", *words)
    assert (told.code, message in told.err) == (1, True)


EXPECTED: dict[str, Any] = {
    "prompt": [{"role": "user", "content": "2 + 3?"}], "answer": "né\x1b[2J\n5", "completion": 0,
    "reward": 0.5, "advantage": 0.25, "status": "scored", "score": 1.0, "reason": "5 is 5",
    "scorer": "math", "scorer_version": "3", "score_seconds": 0.25, "components": {"math": 1.0, "format": 0.5},
    "tokens": 10, "finish_reason": "stop",
    "versions": [{"version": 3, "first": 0, "count": 4}, {"version": 4, "first": 4, "count": 6}],
    "generator": "g-1", "sample_seconds": 1.5, "worker": "w-2",
    "task": "math", "data_source": "", "columns": {}, "row": 0, "epoch": 0, "seed": 0, "fingerprint": "f",
}  # fmt: skip
UNSCORABLE: dict[str, Any] = EXPECTED | {
    "answer": "", "completion": 1, "reward": None, "advantage": None, "status": "unscorable", "score": None,
    "reason": "no sandbox", "score_seconds": 0.0, "components": {}, "tokens": 1,
    "versions": [{"version": 4, "first": 0, "count": 1}],
}  # fmt: skip


def rows_in(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of an exported file, whichever kind it is."""
    if path.suffix == ".jsonl":
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())
        return
    for row in parquet.read_table(path).to_pylist():
        components = {part["name"]: part["value"] for part in row["components"]}
        yield {**row, "components": components, "columns": json.loads(row["columns"])}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_export_has_a_line_a_completion_in_the_order_of_training(ask: Ask, tmp_path: Path, kind: str) -> None:
    out = tmp_path / f"rows.{kind}"
    said = f"12 completions of 3 steps in {out}\n"
    assert ask("export", "--out", out, "--steps", "2-4")[:2] == (0, said)
    assert list(rows_in(out)) == [
        {"outcome": "trained", "why": "", "step": step, "group": str(2 * (step - 1) + place), **row}
        for step in (2, 3, 4)
        for place in (0, 1)
        for row in (EXPECTED, UNSCORABLE)
    ]
    assert [path.name for path in tmp_path.glob("rows*")] == [out.name]


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (["--status", "scored"], [EXPECTED]),
        (["--status", "unscorable"], [UNSCORABLE]),
        (["--min-score", "0.9", "--max-score", "1"], [EXPECTED]),
        (["--max-score", "0.9"], []),
        (["--task", "math", "code"], [EXPECTED, UNSCORABLE]),
        (["--task", "code"], []),
        (["--source", "nowhere"], []),
    ],
)
def test_export_is_of_the_completions_that_are_asked_for(
    ask: Ask, tmp_path: Path, words: list[str], rows: list[dict[str, Any]]
) -> None:
    out = tmp_path / "rows.jsonl"
    assert ask("export", "--out", out, "--steps", "3", *words).code == 0
    assert list(rows_in(out)) == [
        {"outcome": "trained", "why": "", "step": 3, "group": str(4 + place), **row}
        for place in (0, 1)
        for row in rows
    ]


DROPPED_ROW, HELD_OUT = ("dropped", "pass_rate", 6, "12"), ("evaluated", "", 5, "eval-5-0")
TRAINED = [("trained", "", 5, "8"), ("trained", "", 5, "9")]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("words", "groups"),
    [
        ("dropped", [DROPPED_ROW]),
        ("evaluated", [HELD_OUT]),
        ("dropped evaluated", [DROPPED_ROW, HELD_OUT]),
        ("trained dropped --steps 5-9 --status scored", [*TRAINED, DROPPED_ROW]),
        ("dropped --steps 1-5", []),
    ],
)
def test_dropped_and_held_out_completions_are_exported_where_they_are_asked_for(
    ask: Ask, tmp_path: Path, kind: str, words: str, groups: list[tuple[str, str, int, str]]
) -> None:
    out = tmp_path / f"rows.{kind}"
    assert ask("export", "--out", out, "--outcome", *words.split()).code == 0
    found = list(rows_in(out))
    heads = [(row["outcome"], row["why"], row["step"], row["group"]) for row in found]
    assert list(dict.fromkeys(heads)) == groups
    assert {row["answer"] for row in found} <= {EXPECTED["answer"], UNSCORABLE["answer"]}
    assert all(row["advantage"] is None for row in found if row["outcome"] != "trained")


def test_parquet_is_written_in_parts_and_read_by_datasets(
    ask: Ask, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("tools.journal.export.ROWS_AT_ONCE", 8)
    out = tmp_path / "rows.parquet"
    assert ask("export", "--out", out).code == 0
    assert parquet.ParquetFile(out).metadata.num_row_groups == 3  # of 8, 8 and 4 rows
    assert [row["group"] for row in rows_in(out)] == [str(number) for number in range(10) for _ in (0, 1)]
    from datasets import Dataset

    read = Dataset.from_parquet(str(out), cache_dir=str(tmp_path / "cache"))
    assert read[0]["prompt"] == [{"role": "user", "content": "2 + 3?"}]


@pytest.mark.usefixtures("with_episodes")
@pytest.mark.parametrize(("kind", "at_once"), [("jsonl", 8), ("parquet", 8), ("parquet", 1024)])
def test_an_export_has_the_columns_of_episodes_where_there_are_some(
    ask: Ask, tmp_path: Path, monkeypatch: Patch, kind: str, at_once: int
) -> None:
    monkeypatch.setattr("tools.journal.export.ROWS_AT_ONCE", at_once)
    out = tmp_path / f"rows.{kind}"
    assert ask("export", "--out", out).code == 0  # the episode is the 21st of 22 rows
    *before, episode, answer = rows_in(out)
    for name, value in {
        "turns": 3,
        "tool_calls": 2,
        "tool_errors": 1,
        "tokens": 8,
        "observed_tokens": 3,
        "segments": 2,
        "ended_by": "environment",
        "remark": "solved",
        "environment_reward": {"value": 7.5, "low": 0.0, "high": 10.0, "turns": [None, -0.5, 8.0]},
    }.items():
        assert episode[name] == value, name
    said = episode["messages"]
    assert (json.loads(said) if kind == "parquet" else said) == list(MESSAGES)
    assert episode["message_versions"][2] == [{"version": 4, "count": 2}]
    own = episode.keys() - EXPECTED.keys() - {"outcome", "why", "step", "group"}
    for row in (*before, answer):
        assert {name: row.get(name) for name in own} == dict.fromkeys(own)
    plain = {"outcome": "trained", "why": "", "step": 1, "group": "0", **EXPECTED}
    assert {name: before[0][name] for name in plain} == plain
    assert [path.name for path in tmp_path.glob("rows*")] == [out.name]


def test_export_names_what_is_gone_and_fails_for_what_is_damaged(run: Run, ask: Ask, tmp_path: Path) -> None:
    payload(run, 1).unlink()
    out = tmp_path / "rows.jsonl"
    told = ask("export", "--out", out)
    gone = "steps 1-3 are not in it: their payloads are gone (payload-000001-000.bin)"
    assert (told.code, gone in told.err) == (0, True), "retention has removed it: that is no error"
    assert {row["step"] for row in rows_in(out)} == {4, 5}
    flip(payload(run, 2), 0)
    told = ask("export", "--out", out)
    assert (told.code, "payload of step 4 is damaged" in told.err) == (1, True)
    assert {row["step"] for row in rows_in(out)} == {5}
    payload(run, 2).unlink()
    assert ask("export", "--out", out).code == 1  # nothing is left of it


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "rows.csv"), "its name must end with .jsonl or .parquet"),
        (("--out", "nowhere/rows.jsonl"), "nowhere/rows.jsonl.part: No such file or directory"),
        (("--out", "nowhere/rows.parquet"), "nowhere/rows.parquet"),
        (("--out", "rows.jsonl", "--steps", "7-9"), "has no such step; it has 1-5"),
    ],
)
def test_what_cant_be_exported_is_said(
    ask: Ask, words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = ask("export", *words)
    assert (told.code, message in told.err, list(tmp_path.glob("rows*"))) == (1, True, [])


def test_an_export_that_fails_leaves_the_file_before_it_alone(run: Run, ask: Ask, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_text("the last export")
    (run.folder / "config.yaml").unlink()
    told = ask("export", "--out", out)
    why = "config.yaml: No such file or directory; the text of a completion is decoded with"
    assert (told.code, why in told.err, out.read_text()) == (1, True, "the last export")
    assert [path.name for path in tmp_path.glob("rows*")] == ["rows.jsonl"]


def test_a_run_that_is_not_there_is_named(run: Run, millrace: Millrace) -> None:
    told = millrace("journal", "ls", "other", "--runs-dir", run.runs_dir)
    assert told.code == 1
    assert f"no journal in {run.runs_dir / 'other'}: give --runs-dir" in told.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", ""),
        ("show demo", ""),
        ("show demo --step 1 --group 1", ""),
        ("export demo", ""),
        ("show demo --step -1", ""),
        ("show demo --step first", ""),
        ("export demo --out a.jsonl --steps 3-1", ""),
        ("show demo --step 0", "steps are counted from 1"),
        ("export demo --out a.jsonl --steps 0-3", "steps are counted from 1"),
    ],
)
def test_wrong_words_are_answered_with_2(words: str, said: str, millrace: Millrace) -> None:
    told = millrace("journal", *words.split())
    assert (told.code, said in told.err) == (2, True)


@pytest.mark.prove
def test_ls_loads_nothing_heavy(run: Run) -> None:
    probe = textwrap.dedent(f"""
        import sys
        from tools.main import main
        assert main(["journal", "ls", {run.name!r}, "--runs-dir", {str(run.runs_dir)!r}]) == 0
        assert not {{"torch", "transformers", "deepspeed", "datasets", "pyarrow"}} & set(sys.modules)
    """)
    subprocess.run([sys.executable, "-c", probe], cwd=ROOT, check=True)


def test_a_step_is_read_when_it_is_its_turn(run: Run, monkeypatch: Patch) -> None:
    """So that memory does not grow with the journal."""
    begun: list[int] = []

    def noted(folder: Path, record: Mapping[str, Any]) -> Any:
        begun.append(record["step"])
        return read_step(folder, record)

    monkeypatch.setattr("tools.journal.rows.read_step", noted)
    reading = open_journal(run.folder)
    for found in reading.trained(reading.ledger.steps):
        assert begun == list(range(found.step))
    assert begun == [0, 1, 2, 3, 4]
