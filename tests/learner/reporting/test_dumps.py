"""Dumps have the shapes that verl's and II-VERL's readers know; each file is written once, and costs the run nothing."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from transformers import AutoTokenizer

from broker.errors import RunFailed
from broker.messages import JsonObject, Prompt, ScoredGroup
from config.explanations import ConfigError
from config.loading import build_run
from config.run import Run
from learner.journal.payloads import StepEncoder, decode_step
from learner.journal.writer import Journal
from learner.launch.preflight import check_places
from learner.reporting.dumps import writer
from learner.reporting.dumps.places import in_the_way
from learner.reporting.dumps.writer import Dumps, decoder_of
from learner.reporting.metrics import Metrics
from learner.training.batch import pack
from tasks.route import route
from tests.learner.conftest import MakeChain, Train
from tests.support.chain import make_prompt, make_run, make_scored
from tests.support.episodes import MESSAGES, episodes
from tests.support.made_up_step import made_up_step
from tests.support.paths import ROOT

pytestmark = pytest.mark.model

MODEL = ROOT / "config/recipes/demo_model"
MakeRun = Callable[..., Run]
OpenDumps = Callable[..., Dumps]
Caplog = pytest.LogCaptureFixture


def letters(ids: Sequence[Sequence[int]], has_special: bool) -> list[str]:
    """Make a letter of each id, and of 9, a special token, a mark: a tokenizer on paper."""
    marks = {9: "<end>" if has_special else ""}
    return ["".join(marks.get(one, chr(ord("a") + one)) for one in some) for some in ids]


@pytest.fixture
def run_of(tmp_path: Path) -> MakeRun:
    """Make a run with dumps in folders below one; keywords are keys of `learner.dumps`."""

    def run_of(**dumps: Any) -> Run:
        where = {name: tmp_path / "dumps" / name for name in ("rollouts", "held_out", "parquet")}
        return make_run(tmp_path / "runs", learner={"dumps": where | dumps}, model={"path": str(MODEL)})

    return run_of


@pytest.fixture
def rollouts(tmp_path: Path) -> Path:
    return tmp_path / "dumps" / "rollouts"


@pytest.fixture
def open_dumps() -> Iterator[OpenDumps]:
    opened: list[Dumps] = []

    def open_dumps(run: Run, decode: Any = letters) -> Dumps:
        opened.append(Dumps(run, decode))
        return opened[-1]

    yield open_dumps
    for dumps in opened:
        dumps.close()


@pytest.fixture
def dump(run_of: MakeRun, open_dumps: OpenDumps) -> Callable[..., Dumps]:
    """Dump groups as a step, and wait for the files; keywords are keys of `learner.dumps`."""

    def dump(step: int, groups: Sequence[ScoredGroup], **keys: Any) -> Dumps:
        dumps = open_dumps(run_of(**keys))
        dumps.step(step, groups)
        dumps.settle()
        return dumps

    return dump


def group(group_id: str, rewards: Sequence[float | None], **prompt: Any) -> ScoredGroup:
    """Return a group of prompt `cde` whose completions are `h<end>`."""
    made = make_scored(replace(make_prompt(group_id, n=len(rewards)), **prompt), rewards)
    scores = tuple(replace(score, components={"content": score.value or 0.0}) for score in made.scores)
    return replace(made, scores=scores)


def prompt_facts(**more: Any) -> dict[str, Any]:
    info = {"type": "math", "answer": {"value": "½"}}
    said = {"token_ids": make_ids(2, 3, 4), "verification_info": info} | more
    as_json = {name: JsonObject(said[name]) for name in said.keys() & {"verification_info", "columns"}}
    return said | as_json


def make_ids(*ids: int) -> Any:
    return pa.array(ids, pa.int32()).to_numpy()


GROUPS = [
    group("7", [1.0, None], **prompt_facts(data_source="numina", columns={"id": "a-17", "level": 3})),
    group("8", [0.25], **prompt_facts(columns={"id": "a-18"})),
]


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def names(folder: Path) -> list[str]:
    """Return the names of all files of a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def test_a_step_is_read_as_verls_dump(dump: Callable[..., Dumps], rollouts: Path) -> None:
    dump(3, GROUPS)
    assert names(rollouts) == ["3.jsonl"]
    first, second, third = lines_of(rollouts / "3.jsonl")
    assert list(first)[:5] == ["input", "output", "gts", "score", "step"]
    assert first == {
        "input": "cde",
        "output": "h",
        "gts": "½",
        "score": 1.0,
        "step": 3,
        "groundtruth": "½",
        "acc": 1.0,
        "data_source": "numina",
        "group": "7",
        "completion": 0,
        "finish_reason": "stop",
        "status": "scored",
        "reason": "5",
        "id": "a-17",
        "level": 3,
        "content": 1.0,
    }
    assert (second["score"], second["acc"], second["status"]) == (None, None, "unscorable")
    assert (third["data_source"], third["id"], third["level"]) == (None, "a-18", None)
    assert first.keys() == second.keys() == third.keys()  # as a table, column by column
    table = pa_json.read_json(rollouts / "3.jsonl")
    assert table.column("score").to_pylist() == [1.0, None, 0.25]


STORED = {
    "math__deepscaler_preview": ("\\frac{1}{2}", {}),
    "codegen__primeintellect": (json.dumps({"inputs": ["1\n"], "outputs": ["½"]}), {}),
    "codegen__leetcode2k": (json.dumps({"functional": "assert f() == 1"}), {"prefix": "import math"}),
    "apps": (json.dumps({"fn_name": "f", "inputs": [[1, 0.1]], "outputs": [True]}), {}),
    "logic__zebra_puzzle_dataset": ({"header": ["Position"], "rows": [["1"]]}, {}),
    "simulation__codeio": ('"output": {"count": 4}', {}),
    "simulation__cruxeval-i": (
        json.dumps({"functional": "def f(x):\n    return x"}),
        {"reference": "1", "original_prompt": "```python\nassert f(??) == 1\n```"},
    ),
    "ood__ifeval": ([{"num_words": 3}], {"instruction_id_list": ["length_constraints:number_words"]}),
}


@pytest.mark.parametrize("source", STORED)
def test_the_ground_truth_is_as_the_row(source: str, dump: Callable[..., Dumps], rollouts: Path) -> None:
    truth, extra = STORED[source]
    _, info = route({"data_source": source, "reward_model": {"ground_truth": truth}, "extra_info": extra})
    dump(1, [group("7", [1.0], **prompt_facts(verification_info=info))])
    (row,) = lines_of(rollouts / "1.jsonl")
    assert (row["gts"], row["groundtruth"]) == (truth, truth)


def test_episodes_have_their_num_turns(dump: Callable[..., Dumps], rollouts: Path, tmp_path: Path) -> None:
    dump(3, [episodes("7")], parquet_every=3)
    episode, answer = lines_of(rollouts / "3.jsonl")
    said = [{"role": "user", "content": "2 + 3?"}, *MESSAGES]
    assert (episode["messages"], episode["num_turns"]) == (said, 6)
    assert (answer["messages"], answer["num_turns"]) == (None, None)
    assert [*episode][-3:] == [*answer][-3:] == ["reason", "messages", "num_turns"]
    columns = pq.read_table(tmp_path / "dumps" / "parquet" / "train" / "3.parquet").to_pydict()
    assert (json.loads(columns["messages"][0]), columns["num_turns"]) == (said, [6, None])
    dump(6, GROUPS, parquet_every=3)
    assert "num_turns" not in lines_of(rollouts / "6.jsonl")[0]


def test_a_step_is_read_as_ii_verls_parquet(run_of: MakeRun, open_dumps: OpenDumps, tmp_path: Path) -> None:
    dumps = open_dumps(run_of(parquet_every=2))
    for step in (1, 2, 3, 4):
        dumps.step(step, GROUPS)
    dumps.round(0, GROUPS)
    dumps.settle()
    folder = tmp_path / "dumps" / "parquet"
    assert names(folder / "train") == ["2.parquet", "4.parquet"]
    assert names(folder / "val") == ["0.parquet"]
    table = pq.read_table(folder / "train" / "2.parquet")
    assert table.column_names[:5] == ["llm_output", "verification_info", "score", "id", "data_source"]
    columns = table.to_pydict()
    assert columns["llm_output"] == ["cdeh<end>"] * 3
    infos = [json.loads(info) for info in columns["verification_info"]]
    assert infos == [{"type": "math", "answer": {"value": "½"}}] * 3
    assert table.schema.field("score").type == pa.float64()
    assert columns["score"] == [1.0, None, 0.25]
    assert columns["id"] == ["a-17", "a-17", "a-18"]
    assert columns["data_source"] == ["numina", "numina", None]
    assert (columns["step"], columns["group"], columns["completion"]) == ([2] * 3, ["7", "7", "8"], [0, 1, 0])


def test_any_column_and_none_are_written(dump: Callable[..., Dumps], rollouts: Path, tmp_path: Path) -> None:
    values: list[Any] = [3, "three", [3, "3"], {"3": None}, "\ud800", 2**70]
    columns_of = [{"kind": value, "none": None, "score": "theirs"} for value in values]
    dump(1, [group(str(at), [None], **prompt_facts(columns=own)) for at, own in enumerate(columns_of)])
    rows = lines_of(rollouts / "1.jsonl")
    assert [row["kind"] for row in rows] == values
    assert [row["score"] for row in rows] == [None] * 6  # a column does not stand for a key of the shape
    columns = pq.read_table(tmp_path / "dumps" / "parquet" / "train" / "1.parquet").to_pydict()
    assert [json.loads(kind) for kind in columns["kind"]] == values
    assert columns["none"] == columns["score"] == [None] * 6
    assert "id" not in columns
    assert "data_source" not in columns


def test_the_runs_own_tokenizer_gives_the_texts_that_verls_would(run_of: MakeRun) -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    text = "<|im_start|>user\n1 + 1<|im_end|>\n"
    ids: Any = tokenizer.encode(text)
    decode = decoder_of(run_of())
    assert decode([ids], True) == [text]
    assert decode([ids], False) == tokenizer.batch_decode([ids], skip_special_tokens=True)
    assert "<|im" not in decode([ids], False)[0]


def test_a_step_that_is_trained_again_is_written_once_and_as_it_was(
    run_of: MakeRun, open_dumps: OpenDumps, rollouts: Path, tmp_path: Path
) -> None:
    run = run_of()
    first = open_dumps(run)
    first.step(1, GROUPS)
    first.step(2, GROUPS)
    first.close()
    files = [rollouts / "2.jsonl", tmp_path / "dumps" / "parquet" / "train" / "2.parquet"]
    was = [file.read_bytes() for file in files]
    payload = bytes(StepEncoder().encode(1, GROUPS, [[0.0] * len(one.rewards) for one in GROUPS]))
    replayed, _ = decode_step(payload, "here")  # as the journal has them: without text
    again = open_dumps(run)
    again.step(2, [*replayed, *replayed], is_replayed=True)  # whatever it is: the file is there
    again.settle()
    assert [file.read_bytes() for file in files] == was
    for file in files:  # a kill came before the file
        file.unlink()
        file.with_name(f".{file.name}.part").write_text("half")
    once_more = open_dumps(run)
    once_more.step(2, replayed, is_replayed=True)
    once_more.settle()
    assert [file.read_bytes() for file in files] == was
    assert names(rollouts) == ["1.jsonl", "2.jsonl"]


def test_nothing_that_is_there_is_written_over(
    run_of: MakeRun, open_dumps: OpenDumps, rollouts: Path, caplog: Caplog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "a file system without hard links")

    file = rollouts / "1.jsonl"
    dumps = open_dumps(run_of(parquet=None))
    file.write_text("theirs")
    dumps.step(1, GROUPS)
    dumps.settle()
    assert f"dump_not_written what={file} reason=it is there already" in caplog.text
    monkeypatch.setattr(os, "link", no_links)
    dumps.step(2, GROUPS)
    dumps.settle()
    assert file.read_text() == "theirs"
    assert len(lines_of(file.with_name("2.jsonl"))) == 3
    assert names(file.parent) == ["1.jsonl", "2.jsonl"]


# ---------------------------------------------------------------------------------------------------------- the folders


def test_another_runs_dumps_are_refused(run_of: MakeRun, open_dumps: OpenDumps, rollouts: Path) -> None:
    run = run_of()
    dumps = open_dumps(run)
    dumps.step(1, GROUPS)
    dumps.close()
    assert list(in_the_way(run)) == []
    open_dumps(run)  # goes on
    other = run.model_copy(update={"name": "other"})
    refused = r"learner\.dumps\.rollouts=.*rollouts: 1 dumps are there that this run has not written \(1\."
    with pytest.raises(RunFailed, match=refused):
        open_dumps(other)
    with pytest.raises(ConfigError, match=refused):  # before anything starts
        check_places(other)
    (rollouts / "1.jsonl").rename(rollouts / "notes.jsonl")
    in_ways = [line.partition(":")[0] for line in in_the_way(other)]
    assert in_ways == [f"learner.dumps.parquet={rollouts.parent}/parquet/train"]


def test_unwritable_folders_are_refused(run_of: MakeRun, open_dumps: OpenDumps, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = run_of(held_out=tmp_path / "file" / "below", rollouts=Path("/proc/dumps"))
    with pytest.raises(ConfigError, match=r"learner\.dumps\.held_out=.*below: .*file is no folder"):
        check_places(run)
    # The system refuses root, and the check refuses anybody else.
    with pytest.raises(RunFailed, match=r"learner\.dumps(: |\.rollouts=)/proc/dumps: "):
        open_dumps(run_of(rollouts=Path("/proc/dumps")))


def test_a_tokenizer_that_cant_be_loaded_costs_the_dumps_and_two_kinds_share_no_folder(
    run_of: MakeRun, open_dumps: OpenDumps, caplog: Caplog
) -> None:
    run = run_of()
    nowhere = run.model_copy(update={"model": run.model.model_copy(update={"path": "./nowhere"})})
    dumps = open_dumps(nowhere, None)
    dumps.step(1, GROUPS)
    dumps.settle()
    assert "reason=model.path=./nowhere: its tokenizer can't be loaded" in caplog.text
    tree = {"name": "t", "model": {"path": "m"}, "data": {"train": {"type": "procedural"}}}
    shared = {"learner": {"dumps": {"rollouts": "a", "held_out": "./a"}}}
    with pytest.raises(ConfigError, match=r"learner\.dumps\.held_out in here: is the folder of rollouts: bo"):
        build_run([("here", tree | shared)])


# ------------------------------------------------------------------------------------------------- what it costs the run


def test_a_full_disk_costs_its_dumps_and_is_named_once(
    run_of: MakeRun, open_dumps: OpenDumps, rollouts: Path, caplog: Caplog
) -> None:
    dumps = open_dumps(run_of(parquet=None))
    for step in (1, 2):
        (rollouts / f".{step}.jsonl.part").symlink_to("/dev/full")
        dumps.step(step, GROUPS)
    dumps.step(3, GROUPS)
    dumps.settle()
    assert names(rollouts) == ["3.jsonl"]
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    why = "reason=No space left on device: training goes on"
    assert warned == [f"dump_not_written what={rollouts}/1.jsonl {why}"]


def test_the_training_waits_for_no_dump_and_not_for_ever_for_room(
    run_of: MakeRun, open_dumps: OpenDumps, rollouts: Path, caplog: Caplog, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    def slow(ids: Sequence[Sequence[int]], has_special: bool) -> list[str]:
        assert goes_on.wait(20)
        return letters(ids, has_special)

    monkeypatch.setattr(writer, "PATIENCE_S", 0.05)
    dumps = open_dumps(run_of(parquet=None, held_out=None), slow)
    for step in range(1, 8):  # 1 is being written, 2 and 3 wait; 4 waited for room
        dumps.step(step, GROUPS)
    dumps.settle(0.05)
    assert "dump_not_written what=" in caplog.text
    assert "2 others wait for the disk" in caplog.text
    assert "dumps_late waited_s=0 for=the disk of learner.dumps waiting=3" in caplog.text
    goes_on.set()
    dumps.settle()
    dumps.step(8, GROUPS)
    dumps.close()
    dumps.close()  # harmless
    first, second, *others = names(rollouts)
    assert (first, second, others[-1], len(others)) == ("1.jsonl", "2.jsonl", "8.jsonl", 2)


# ------------------------------------------------------------------------------------------------------- the whole loop


def scores_by_step(folder: Path) -> Mapping[int, list[float]]:
    files = sorted(folder.glob("*.jsonl"))
    return {int(file.stem): [line["score"] for line in lines_of(file)] for file in files}


def test_every_step_and_round_has_its_file(make_chain: MakeChain, train: Train, tmp_path: Path) -> None:
    where = {"rollouts": tmp_path / "a", "held_out": tmp_path / "b", "parquet": tmp_path / "c"}
    train(
        make_chain(
            learner={"steps": 4, "dumps": where, "checkpoint": {"every": 2}},
            model={"path": str(MODEL)},
            evaluation={"every": 2, "prompts": 4, "samples": 4},
        )
    )
    assert scores_by_step(tmp_path / "a") == {step: [1.0, 0.0, 1.0, 0.0] for step in (1, 2, 3, 4)}
    rounds = scores_by_step(tmp_path / "b")
    assert {version: len(scores) for version, scores in rounds.items()} == {0: 16, 2: 16, 4: 16}
    assert {line["step"] for line in lines_of(tmp_path / "b" / "2.jsonl")} == {2}
    assert names(tmp_path / "c" / "train") == [f"{step}.parquet" for step in (1, 2, 3, 4)]
    assert names(tmp_path / "c" / "val") == [f"{version}.parquet" for version in (0, 2, 4)]


def test_a_kills_dumps_are_written_next(run_of: MakeRun, open_dumps: OpenDumps, rollouts: Path) -> None:
    run = run_of(parquet=None)
    held_out: list[Prompt] = [replace(make_prompt(f"eval-2-{number}"), **prompt_facts()) for number in (0, 1)]
    rounds = [make_scored(prompt, [1.0, 0.0], version=2) for prompt in held_out]
    journal = Journal(run.folder / "journal", 1, run=run.name)
    journal.evaluation(2, {"ids": ["eval-2-0", "eval-2-1"]}, rounds)
    journal.close()
    live = open_dumps(run, decoder_of(run))
    live.step(1, GROUPS)
    live.round(2, rounds)
    live.close()
    files = [rollouts / "1.jsonl", rollouts.parent / "held_out" / "2.jsonl"]
    was = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    again = Metrics(run)
    again.recall({2: {"version": 2, "pass_rate": 0.5, "prompts": 2, "samples": 4}})
    batch = pack(GROUPS, [[0.5, 0.0], [0.5]], tokens_per_micro_batch=64, truncated="mask", policy_version=1)
    again.replayed({"step": 0, "at": 7.0}, GROUPS, batch, {"loss": 0.5, "tokens": 4.0, "seconds": 0.1})
    again.step(made_up_step(2), GROUPS)
    again.flush()  # a checkpoint: what is behind it is on the disk
    assert [file.read_bytes() for file in files] == was
    assert len(lines_of(files[0].with_name("2.jsonl"))) == 3
    again.close()
