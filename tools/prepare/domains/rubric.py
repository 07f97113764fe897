r"""Prepare data of the rubric reward model: rows to train it, and rows of a policy that it grades.

In: problems with the grading criteria of their solutions; solutions with their points. Out: drafts of `_tinyv` rows,
whose criteria are in `extra_info` and in a column, and of `grade` rows, whose prompt is that of the served model
(`scorers.rubric.prompt`). Criteria and points are made by a model or by people; no data set on the hub with them is
known here. Pure; called by `tools.prepare.stages`.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import NoneType
from typing import Final

from broker.errors import PipelineError
from config.data import DatasetSource
from learner.data.file_formats import files_of
from scorers.rubric.prompt import RubricCase, messages_of
from scorers.text.totals import OUT_OF
from tools.prepare.domains.mathematics import BOXED, answer_of
from tools.prepare.preparation import (
    MAYBE_TEXT,
    NUMBER,
    TEXT,
    BadRecord,
    Draft,
    Files,
    Filter,
    Preparation,
    Record,
    Split,
    Types,
)
from tools.prepare.source import table_records

_STEPS: Final = f"Reason step by step, and show how you get to the result. {BOXED}"
_ANSWER: Final[Types] = (*TEXT, *NUMBER)
_HAS_CRITERIA: Final = Filter(
    name="has criteria", keeps=lambda record: bool((record["criteria"] or "").strip())
)


def graded_problem(record: Record, _: random.Random) -> Draft:
    """Return the draft of a problem of Polaris with its criteria: the instruction is the system message."""
    problem, criteria = record["problem"].strip(), record["criteria"].strip()
    answer = answer_of(record["answer"])
    known = {name: record[name] for name in ("difficulty", "query_id") if record.get(name) is not None}
    return Draft(
        prompt=[{"role": "system", "content": _STEPS}, {"role": "user", "content": problem}],
        ground_truth=answer,
        extra={"question": problem, "answer": answer, "criteria": criteria},
        columns={"criteria": criteria, **{name: str(value) for name, value in known.items()}},
    )


def grading(record: Record, _: random.Random) -> Draft:
    """Return the draft of a solution to grade; the ground truth is its points, from 0 to 1."""
    points = float(record["points"])
    if not 0.0 <= points <= OUT_OF:
        raise BadRecord(f", column points: a number from 0 to {OUT_OF:g} is wanted, got {record['points']!r}")
    case = RubricCase(record["question"].strip(), record["criteria"].strip(), record["solution"].strip())
    return Draft(prompt=messages_of(case), ground_truth=points / OUT_OF)


def _table_files(path: Path, split: str) -> list[Path]:
    try:
        return files_of(DatasetSource(path=str(path), split=split)) or []
    except PipelineError as error:
        raise BadRecord(str(error)) from error


PREPARATIONS: Final = (
    Preparation(
        name="polaris_tinyv",
        domain="rubric",
        about="problems with criteria, whose solutions a rubric model grades",
        source=Files(
            address="POLARIS-Project/Polaris-Dataset-53K on the hub, with a column of criteria made for each problem",
            files=_table_files,
            records=table_records,
        ),
        columns={
            "problem": TEXT,
            "answer": _ANSWER,
            "criteria": MAYBE_TEXT,
            "difficulty": MAYBE_TEXT,
            "query_id": (str, int, NoneType),
        },
        row=graded_problem,
        data_source="polaris_tinyv",
        ability="math",
        splits={"train": Split(), "test": Split(source="test")},
        filters=(
            _HAS_CRITERIA,
            Filter(name="has an answer", keeps=lambda record: bool(answer_of(record["answer"]))),
        ),
    ),
    Preparation(
        name="grade",
        domain="rubric",
        about="solutions with their points, to train a rubric model with",
        source=Files(
            address="solutions of your own that were graded: question, criteria, solution, and points out of ten",
            files=_table_files,
            records=table_records,
        ),
        columns={"question": TEXT, "criteria": MAYBE_TEXT, "solution": TEXT, "points": NUMBER},
        row=grading,
        data_source="grade",
        ability="grading",
        splits={"train": Split(), "test": Split(source="test")},
        filters=(
            _HAS_CRITERIA,
            Filter(name="has a solution", keeps=lambda record: bool(record["solution"].strip())),
        ),
    ),
)
