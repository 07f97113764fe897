"""`millrace prepare`: from a source on the disk to one parquet file with its manifest, or to nothing at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scorers.gold.examiner import Candidate, Examined, RowVerdict
from tests.support.told import Millrace, Patch, Told
from tests.tools.prepare.published import PUBLISHED
from tools.prepare.catalogue import find
from tools.prepare.spool import Spool
from tools.prepare.stages import PrepareRequest
from tools.prepare.stages import prepare as carry_out

pytestmark = pytest.mark.process


def question(number: int) -> dict[str, Any]:
    answer = f"{number} + {number} = <<{number}+{number}={2 * number}>>{2 * number}\n#### {2 * number:,}"
    return {"question": f"How much is twice {number}?", "answer": answer}


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "gsm8k.jsonl", [question(number) for number in range(990, 1010)])


Prepare = Callable[..., Told]


@pytest.fixture
def prepare(millrace: Millrace) -> Prepare:
    def call(*words: object) -> Told:
        return millrace("prepare", *words)

    return call


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def left(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_rows_are_verls_and_the_manifest_says_what_was_done(
    source: Path, tmp_path: Path, prepare: Prepare
) -> None:
    out = tmp_path / "out" / "rows.parquet"
    told = prepare("gsm8k", "--source", source, "-o", out)
    assert told.code == 0
    rows = rows_of(out)
    assert len(rows) == 20
    prompt = rows[12]["prompt"]
    assert [turn["role"] for turn in prompt] == ["user"]
    assert prompt[0]["content"].startswith("How much is twice 1002?\n\n")
    assert "####" in prompt[0]["content"]
    assert rows[12] | {"prompt": None} == {
        "data_source": "openai/gsm8k",
        "prompt": None,
        "ability": "math",
        "apply_chat_template": True,
        "reward_model": {"style": "rule", "ground_truth": "2004"},
        "extra_info": {"split": "train", "index": 12, **question(1002)},
    }
    assert left(out.parent) == ["rows.manifest.json", "rows.parquet"]
    manifest = json.loads((out.parent / "rows.manifest.json").read_text())
    assert manifest["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    data = source.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert manifest["source"]["files"] == [{"name": "gsm8k.jsonl", "bytes": len(data), "sha256": digest}]
    assert (manifest["source"]["hub"], manifest["rows"], manifest["seed"]) == ("openai/gsm8k", 20, 42)
    assert "read" in told.out
    assert f"{out}: 20 rows, sha256 {manifest['sha256']}" in told.out


def test_the_same_seed_gives_the_same_bytes_and_another_not(
    source: Path, tmp_path: Path, prepare: Prepare
) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        words = ("--size", 8, "--seed", seed, "-o", tmp_path / f"{name}.parquet")
        assert prepare("gsm8k", "--source", source, *words).code == 0
    first, again, other = ((tmp_path / f"{name}.parquet").read_bytes() for name in "abc")
    assert first == again
    assert first != other
    manifests = [json.loads((tmp_path / f"{name}.manifest.json").read_text()) for name in "ab"]
    assert manifests[0] | {"file": ""} == manifests[1] | {"file": ""}
    drawn = [row["extra_info"]["index"] for row in rows_of(tmp_path / "a.parquet")]
    assert len(drawn) == 8
    assert drawn == sorted(drawn), "in the order of the source"
    assert manifests[0]["stages"][-1] == {"stage": "drawn", "left_out": 12, "rows": 8}


def test_a_file_is_named_by_its_size(
    source: Path, tmp_path: Path, monkeypatch: Patch, prepare: Prepare
) -> None:
    monkeypatch.chdir(tmp_path)
    assert prepare("gsm8k", "--source", source, "--split", "test", "--size", 500).code == 0
    assert left(tmp_path / "data/test") == ["openai_gsm8k_20.manifest.json", "openai_gsm8k_20.parquet"]
    told = prepare("gsm8k", "--source", source, "--split", "test", "--limit", 3)
    there = "openai_gsm8k_20.parquet is there already; --force writes over it"
    assert (told.code, there in told.err) == (1, True)


def test_a_folder_gets_the_file_under_its_usual_name(source: Path, tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("gsm8k", "--source", source, "-o", f"{tmp_path}/new/").code == 0
    words = ("--limit", 3, "-o", tmp_path / "new", "--force")
    assert prepare("gsm8k", "--source", source, *words).code == 0
    assert {"openai_gsm8k_20.parquet", "openai_gsm8k_3.parquet"} < {*left(tmp_path / "new")}


def test_a_name_that_begins_as_anothers_is_no_bar(
    tmp_path: Path, monkeypatch: Patch, prepare: Prepare
) -> None:
    monkeypatch.chdir(tmp_path)
    source = write_lines(tmp_path / "rows.jsonl", [{"problem": "1 + 1?", "answer": "2"}])
    assert [prepare(name, "--source", source).code for name in ("math_500", "math")] == [0, 0]
    assert {"math__math_1.parquet", "math__math_500_1.parquet"} < {*left(tmp_path / "data/test")}


def test_a_file_is_written_over_by_force_alone(source: Path, tmp_path: Path, prepare: Prepare) -> None:
    out = tmp_path / "rows.parquet"
    out.write_bytes(b"mine")
    told = prepare("gsm8k", "--source", source, "-o", out)
    assert (told.code, "rows.parquet is there already" in told.err, out.read_bytes()) == (1, True, b"mine")
    assert prepare("gsm8k", "--source", source, "-o", out, "--force").code == 0
    assert len(rows_of(out)) == 20


class Characters:
    """A tokenizer without a chat template: each character is one token."""

    chat_template = None

    def encode(self, text: str, *, add_special_tokens: bool, verbose: bool) -> list[int]:
        assert not add_special_tokens
        assert not verbose, "a prompt that is too long for the model is counted here, and no news"
        return [*text.encode()]


def test_prompts_longer_than_asked_are_counted_and_left_out(source: Path, tmp_path: Path) -> None:
    tokenizer: Any = Characters()
    write_lines(source, [question(1), {**question(2), "question": "2" * 400}])
    request = PrepareRequest(path=source, tokenizer=tokenizer, max_prompt_tokens=400)
    with Spool(tmp_path) as spool:
        prepared = carry_out(find("gsm8k"), request, spool)
    assert prepared.chosen == [0]
    assert prepared.tally.lines()[-2] == {"stage": "at most 400 tokens", "left_out": 1, "rows": 1}


@pytest.mark.parametrize(("name", "value"), [("HF_HUB_OFFLINE", True), ("ENDPOINT", "http://127.0.0.1:9")])
def test_a_hub_that_can_not_be_reached_names_the_set_and_the_way_without_it(
    name: str, value: Any, tmp_path: Path, monkeypatch: Patch, prepare: Prepare
) -> None:
    monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    told = prepare("gsm8k", "-o", tmp_path / "rows.parquet")
    assert (told.code, left(tmp_path)) == (1, [])
    assert "openai/gsm8k (main), split train, can't be loaded from the hub" in told.err
    assert "--source FILE_OR_FOLDER" in told.err


def test_a_row_that_is_no_unicode_is_quarantined(source: Path, tmp_path: Path, prepare: Prepare) -> None:
    """Half of a surrogate pair: no Unicode text, and JSON has an escape for it."""
    write_lines(source, [question(1), {**question(2), "question": "\ud800?"}])
    assert prepare("gsm8k", "--source", source, "-o", tmp_path / "rows.parquet").code == 0
    found = json.loads((tmp_path / "rows.quarantine.jsonl").read_text())
    assert (found["record"], found["stage"], found["row"]) == (1, "its scorer can read it", None)
    assert "is no Unicode" in found["reason"]
    assert len(rows_of(tmp_path / "rows.parquet")) == 1


class BrokenMachine:
    """A gold test whose machinery fails over these rows, by their number, and finds all others right."""

    def __init__(self, *broken: int) -> None:
        self.broken = broken

    def __call__(self, config: Any, rows: Iterable[Candidate]) -> Iterator[Examined]:
        for number, _ in enumerate(rows):
            failed = number in self.broken
            yield Examined(RowVerdict.UNTESTED, "no sandbox") if failed else Examined(RowVerdict.RIGHT, "")


def test_references_over_which_the_machinery_failed_are_counted_apart_and_if_over_all_nothing_is_written(
    tmp_path: Path, monkeypatch: Patch, prepare: Prepare
) -> None:
    records = [{**PUBLISHED["mbpp"].records[0], "task_id": number} for number in (601, 602)]
    out = tmp_path / "out/rows.parquet"
    words = ("mbpp", "--source", write_lines(tmp_path / "mbpp.jsonl", records), "-o", out)
    monkeypatch.setattr("scorers.gold.examiner.examine", BrokenMachine(0, 1))
    told = prepare(*words)
    assert (told.code, left(out.parent)) == (1, [])
    assert "its reference could not be tested: no sandbox" in told.err
    monkeypatch.setattr("scorers.gold.examiner.examine", BrokenMachine(1))
    assert prepare(*words).code == 0
    found = json.loads((tmp_path / "out/rows.quarantine.jsonl").read_text())
    why = ("its reference can be tested", "no sandbox")
    assert (found["record"], found["stage"], found["reason"]) == (1, *why)


BAD: list[tuple[str, Any, str]] = [
    ("a missing column", [{"question": "2?", "solution": "2"}],
        "bad.jsonl: no column 'answer' among question, solution"),
    ("a column that a later row lacks", [question(1), {"question": "2?"}],
        "bad.jsonl row 1, line 2: no column 'answer'"),
    ("another type", [question(1), {"question": "2?", "answer": 2}],
        "bad.jsonl row 1, line 2, column answer: text is wanted, got a number: 2"),
    ("null", [{"question": None, "answer": "#### 2"}],
        "bad.jsonl row 0, line 1, column question: text is wanted, got null"),
    ("no result", [{"question": "2?", "answer": "two"}],
        "bad.jsonl row 0, line 1, column answer: it ends in no `#### RESULT`"),
    ("no rows", [], "bad.jsonl: no column 'question' among none"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "reason"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_is_wrong_with_a_source_names_file_row_and_column_and_nothing_is_written(
    rows: list[Any], reason: str, tmp_path: Path, prepare: Prepare
) -> None:
    source = write_lines(tmp_path / "bad.jsonl", rows)
    told = prepare("gsm8k", "--source", source, "-o", tmp_path / "out/rows.parquet")
    assert (told.code, reason in told.err, left(tmp_path / "out")) == (1, True, [])


def test_a_truncated_file_is_named_and_nothing_is_written(tmp_path: Path, prepare: Prepare) -> None:
    source = tmp_path / "bad.parquet"
    pq.write_table(pa.Table.from_pylist([question(1)] * 50), source)
    source.write_bytes(source.read_bytes()[:-100])
    told = prepare("gsm8k", "--source", source, "-o", tmp_path / "out/rows.parquet")
    assert (told.code, "bad.parquet" in told.err, left(tmp_path / "out")) == (1, True, [])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("gsm9k", "did you mean gsm8k?"),
        ("", "which one?"),
        ("gsm8k --split dev", "gsm8k has no split 'dev'; it has train, test"),
        ("gsm8k --size 0", "'0' is no number of rows"),
        ("gsm8k --tokenizer x", "add --max-prompt-tokens N"),
        ("gsm8k --source x --revision y", "--revision names a commit of the hub"),
        ("gsm8k -o rows", "name it rows.parquet, or a folder rows/"),
        ("sampler --limit 3", "sampler is made here, and --size says how much"),
    ],
)
def test_wrong_words_are_said_with_the_right_ones(words: str, reason: str, prepare: Prepare) -> None:
    told = prepare(*words.split())
    assert (told.code, reason in told.err) == (2, True)


def test_the_list_has_name_domain_source_licence_and_size_of_each(prepare: Prepare) -> None:
    told = prepare("--list")
    (line,) = [line.split() for line in told.lines if line.startswith("gsm8k ")]
    assert (told.code, line[1:7]) == (0, ["math", "train,", "test", "openai/gsm8k", "main", "MIT"])


@pytest.fixture
def template(tmp_path: Path, monkeypatch: Patch, prepare: Prepare) -> Path:
    """A template in the folder of the start, under a name that no other test imports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    told = prepare("--template", tmp_path.name)
    assert (told.code, f"{tmp_path.name}:PREPARATION" in told.out) == (0, True)
    return tmp_path / f"{tmp_path.name}.py"


def test_a_template_is_found_by_its_module(template: Path, tmp_path: Path, prepare: Prepare) -> None:
    name = template.stem
    record = {"problem": "How much is 2 + 3?", "answer": "5", "level": "easy"}
    source = write_lines(tmp_path / "rows.jsonl", [record])
    assert prepare(f"{name}:PREPARATION", "--source", source, "-o", tmp_path / "out.parquet").code == 0
    (row,) = rows_of(tmp_path / "out.parquet")
    assert row["prompt"][0]["content"] == "How much is 2 + 3?\n\nGive your final answer in \\boxed{}."
    assert row["data_source"] == f"math__{name}"
    for words, said in (
        ((f"{name}:OTHER", "--source", source), "it has PREPARATION"),
        (("--template", name), f"{name}.py is there already"),
        (("no_such_module:PREPARATION",), "importing no_such_module failed"),
    ):
        told = prepare(*words)
        assert (told.code, said in told.err) == (1, True)


@pytest.mark.prove
def test_the_templates_own_test_passes(template: Path) -> None:
    assert pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(template)]) == 0
