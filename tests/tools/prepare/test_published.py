"""Every preparation, on records in its publisher's shape: what is kept, what is left out, and that its answers are right.

The sources are those of `tests.tools.prepare.published`. Each row's own reference is scored by the row's own scorer, as
the gold test does; a row of which it can write no right answer is scored with one that is written there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scorers.api import all_tasks
from scorers.child.row_worker import RowScorer
from scorers.gold.rendering import gold_response
from tasks.route import route
from tests.support.told import Capsys, Millrace
from tests.tools.prepare.published import PUBLISHED, Published
from tools.main import main
from tools.prepare.catalogue import PREPARATIONS
from tools.prepare.preparation import Made, Preparation
from tools.prepare.spool import Spool
from tools.prepare.stages import PreparedRows, PrepareRequest, prepare

pytestmark = pytest.mark.process

SETS = sorted(name for name, one in PREPARATIONS.items() if not isinstance(one.source, Made))
FILES = (
    "arcagi1",
    "arcagi2",
    "hitab",
    "multihier",
    "polaris_tinyv",
    "grade",
    "harbor",
)  # that no hub has as they are
JUDGED = {"webinstruct": "stem_llm_judge", "polaris_tinyv": "rubric"}  # by a served model, of which task
REFERENCE = "its reference is right"
CONFIG = all_tasks()


@dataclass(frozen=True)
class Outcome:
    """What became of a set's source."""

    prepared: PreparedRows
    rows: list[dict[str, Any]]


Outcomes = Mapping[str, Outcome]


def untested(preparation: Preparation) -> Preparation:
    """The same without its test of references: one gold test here does it for all sets."""
    return replace(preparation, tests_references=False)


def rows_of(spool: Spool, prepared: PreparedRows, path: Path) -> list[dict[str, Any]]:
    spool.write(path, prepared.chosen)
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Outcome]:
    found = {}
    for name in SETS:
        folder = tmp_path_factory.mktemp(name)
        published = PUBLISHED[name]
        request = PrepareRequest(split=published.split, path=published.write(folder / "source"))
        with Spool(folder) as spool:
            prepared = prepare(untested(PREPARATIONS[name]), request, spool)
            found[name] = Outcome(prepared, rows_of(spool, prepared, folder / "rows.parquet"))
    return found


def gold_of(row: Mapping[str, Any]) -> str | None:
    """The right answer that the gold test writes for a row; None where it can write none."""
    task, info = route(row, CONFIG.tasks)
    return gold_response(info, row["extra_info"].get("reference") or "", CONFIG.tasks[task].scorer)


def score(scorer: RowScorer, row: Mapping[str, Any], text: str) -> Any:
    result = scorer.result(json.dumps({"llm_output": text, **row}).encode())
    return result["value"] if result["value"] is not None else result


def test_each_set_of_the_catalogue_has_records_here_and_each_of_here_is_a_set() -> None:
    assert sorted(PUBLISHED) == SETS


@pytest.mark.parametrize("name", SETS)
def test_what_the_filters_leave_out_is_counted_under_their_names(name: str, outcomes: Outcomes) -> None:
    published, outcome = PUBLISHED[name], outcomes[name]
    left = {stage: count for stage, count in outcome.prepared.tally.left_out.items() if count}
    wrong = published.left.get(REFERENCE, 0)
    assert left == {stage: count for stage, count in published.left.items() if stage != REFERENCE}
    assert len(outcome.rows) == published.kept + wrong
    assert outcome.prepared.tally.read == len(published.records)


@pytest.mark.parametrize("name", SETS)
def test_the_prompt_shows_the_record_and_says_the_form_of_the_answer(name: str, outcomes: Outcomes) -> None:
    row = outcomes[name].rows[0]
    text = row["prompt"][-1]["content"]
    assert [part for part in PUBLISHED[name].says if part not in text] == [], text
    assert {*row} >= {"data_source", "prompt", "ability", "apply_chat_template", "reward_model", "extra_info"}


# Keys of `extra_info` beside split and index, of the scripts of Reasoning360 that give any.
CODE_KEYS = {"reference", "original_prompt", "dataset"}
TASK_ID = CODE_KEYS | {"task_id"}
EXTRA: Mapping[str, set[str]] = {
    "merged_deduped_dapo_or1_dataset": {"reward_metric", "original_question"},
    "deepscaler_preview": {"original_question"},
    "leetcode2k": CODE_KEYS | {"prefix", "question_title", "difficulty"},
    "taco": CODE_KEYS | {"source"},
    "primeintellect": CODE_KEYS | {"function_name"},
    "livecodebench": CODE_KEYS | {"function_name"},
    **dict.fromkeys(("mbpp", "mbppplus", "humaneval", "humanevalplus", "cruxeval-i", "cruxeval-o"), TASK_ID),
    **{name: {"original_prompt", "dataset"} for name in ("gpqa", "gpqa_diamond", "supergpqa")},
    "webinstruct": {"idx", "question", "category", "difficulty", "answer_type", "token_length"},
    "ifeval": {"instruction_id_list", "prompt"},
    "livebench_reasoning": {"category", "task", "prompt", "date"},
}
DATASETS = {  # what they write in `extra_info.dataset` where it is no part of the source's name
    "mbpp": "mbpp", "mbppplus": "mbpp", "humaneval": "openai_humaneval", "humanevalplus": "evalplus_humanevalplus",
    "leetcode2k": "LeetCodeDataset", "taco": "likaixin/TACO-verified", "primeintellect": "PrimeIntellect",
    "livecodebench": "LiveCodeBench", "cruxeval-i": "cruxeval-i", "cruxeval-o": "cruxeval-o",
    "gpqa": "Idavidrein/gpqa", "gpqa_diamond": "Idavidrein/gpqa", "supergpqa": "m-a-p/SuperGPQA",
}  # fmt: skip


class Letters:
    """A tokenizer without a chat template: each letter is one token."""

    chat_template = None

    def encode(self, text: str, **_: bool) -> list[int]:
        return [*text.encode()]


@pytest.mark.parametrize("name", EXTRA)
def test_a_row_has_the_keys_that_reasoning360_gives_it(name: str, outcomes: Outcomes, tmp_path: Path) -> None:
    row = outcomes[name].rows[0]
    if name == "webinstruct":  # whose answers are counted by a tokenizer
        tokenizer: Any = Letters()
        request = PrepareRequest(path=PUBLISHED[name].write(tmp_path / "source"), tokenizer=tokenizer)
        with Spool(tmp_path) as spool:
            prepared = prepare(PREPARATIONS[name], request, spool)
            row = rows_of(spool, prepared, tmp_path / "rows.parquet")[0]
        assert row["extra_info"]["token_length"] == len("4.5 J")
    extra = row["extra_info"]
    assert EXTRA[name] - {*extra} == set()
    assert extra.get("original_prompt", row["prompt"][0]["content"]) == row["prompt"][0]["content"]
    assert DATASETS.get(name) == extra.get("dataset")


@pytest.mark.prove
def test_a_prediction_of_cruxeval_passes_the_gold_test_without_a_program_to_test(tmp_path: Path) -> None:
    """Its `reference` is the output, as Reasoning360's is, and no program of its own."""
    path = PUBLISHED["cruxeval-i"].write(tmp_path / "source")
    with Spool(tmp_path) as spool:
        request = PrepareRequest(split="test", path=path, is_gold_tested=True)
        prepared = prepare(PREPARATIONS["cruxeval-i"], request, spool)
    assert (prepared.chosen, prepared.quarantined) == ([0], [])


@pytest.mark.parametrize(
    "name", [name for name in SETS if PUBLISHED[name].answer is None and name not in {*JUDGED, "harbor"}]
)
def test_the_reference_of_each_row_scores_1_at_its_own_scorer(
    name: str, outcomes: Outcomes, scorer: RowScorer
) -> None:
    """A reference that is made wrong is wrong."""
    found = [score(scorer, row, gold_of(row) or "") for row in outcomes[name].rows]
    wrong = PUBLISHED[name].left.get(REFERENCE, 0)
    assert sorted(found) == [0.0] * wrong + [1.0] * PUBLISHED[name].kept


@pytest.mark.parametrize(
    "name", [name for name in SETS if PUBLISHED[name].answer is not None and name not in JUDGED]
)
def test_a_right_answer_scores_1_where_no_reference_can_be_written(
    name: str, outcomes: Outcomes, scorer: RowScorer
) -> None:
    row = outcomes[name].rows[0]
    assert gold_of(row) is None
    assert score(scorer, row, str(PUBLISHED[name].answer)) == 1.0
    assert score(scorer, row, "") == 0.0


@pytest.mark.parametrize("name", sorted(JUDGED))
def test_what_a_served_model_judges_reaches_its_task_with_the_question(name: str, outcomes: Outcomes) -> None:
    task, info = route(outcomes[name].rows[0], CONFIG.tasks)
    assert task == JUDGED[name]
    assert info["answer"]["question"] == PUBLISHED[name].records[0].get("question", "What is half of 84?")


@pytest.mark.prove
def test_a_row_whose_reference_fails_lies_in_a_file_with_its_reason(tmp_path: Path, capsys: Capsys) -> None:
    source = PUBLISHED["mbpp"].write(tmp_path / "source")
    assert main(["prepare", "mbpp", "--source", str(source), "-o", str(tmp_path / "rows.parquet")]) == 0
    (line,) = (tmp_path / "rows.quarantine.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert (found["record"], found["stage"]) == (2, REFERENCE)
    assert found["where"].endswith("rows.jsonl row 2, line 3")
    assert found["reason"].startswith("its reference scores 0: ")
    assert found["row"]["extra_info"]["task_id"] == "602"
    assert "rows.quarantine.jsonl: 1 rows" in capsys.readouterr().out


def test_prompts_of_mbpp_to_train_hold_tests_back(outcomes: Outcomes) -> None:
    row = outcomes["mbpp"].rows[0]
    assert row["prompt"][0]["content"].count("assert add(") == 1
    assert json.loads(row["reward_model"]["ground_truth"])["functional"].count("assert add(") == 4


def test_files_that_no_hub_has_are_asked_for_with_their_address(tmp_path: Path, millrace: Millrace) -> None:
    for name in FILES:
        for words, said in (
            (["-o", tmp_path / "rows.parquet"], f"{name} is no data set of the hub: get it from "),
            (["--source", tmp_path / "nowhere"], "nowhere"),
        ):
            told = millrace("prepare", name, "--any-length", *words)
            assert (told.code, said in told.err) == (1, True)
    assert list(tmp_path.iterdir()) == []


def bad(name: str, **columns: Any) -> Published:
    """The first record of a set with other values."""
    records = [{**PUBLISHED[name].records[0], **columns}]
    return Published(records=records, split=PUBLISHED[name].split, writes=PUBLISHED[name].writes)


BROKEN = {
    "tests that are no JSON": ("primeintellect", {"tests": "[{"}, "row 0, line 1, column tests: it is no JSON"),
    "a case without output": ("livecodebench", {"tests": '[{"input": "1", "testtype": "stdin"}]'},
        "column tests: a case needs input and output"),
    "a ragged grid": ("arcagi1", {"test": [{"input": [[1], [1, 2]], "output": [[1]]}]},
        "00000000.json, column test: a grid of whole numbers"),
    "a letter that is no option": ("supergpqa", {"answer_letter": "D"},
        "column answer_letter: 'D' is none of 3 options"),
    "no table": ("multihier", {"tables": ["<p>none</p>"]}, "column tables: a table of HTML is wanted"),
    "points beyond ten": ("grade", {"points": 11}, "column points: a number from 0 to 10 is wanted, got 11"),
    "fewer kwargs than instructions": ("ifeval", {"kwargs": [{}]}, "column kwargs: 1 of them for 2 instructions"),
    "no date": ("livebench_language", {"livebench_release_date": "soon"},
        "column livebench_release_date: a date is wanted"),
    "a pair without output": ("codeio", {"ios": [{"input": {}}]}, "column ios: pairs of input and output are wanted"),
    "an option that is null": ("gpqa", {"Incorrect Answer 1": None},
        "column Incorrect Answer 1: text is wanted, got null"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "columns", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_record_that_is_not_what_its_publisher_says_is_named(
    name: str, columns: dict[str, Any], reason: str, tmp_path: Path, millrace: Millrace
) -> None:
    published = bad(name, **columns)
    source = published.write(tmp_path / "source")
    words = ["--split", published.split, "--any-length", "-o", str(tmp_path / "out/rows.parquet")]
    told = millrace("prepare", name, "--source", source, *words)
    assert (told.code, reason in told.err, list((tmp_path / "out").iterdir())) == (1, True, [])
