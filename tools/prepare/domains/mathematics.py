"""Prepare mathematics: a problem, and an answer that a rule compares.

In: records of GSM8K, MATH-500, DeepScaleR and Reasoning360's training and evaluation sets. Out: drafts whose answer
belongs in a box, or after `####` for GSM8K. Pure; called by `tools.prepare.stages`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from tools.prepare.preparation import (
    LIST,
    NUMBER,
    TEXT,
    BadRecord,
    Draft,
    Filter,
    Hub,
    Preparation,
    Record,
    Split,
    Types,
)

BOXED: Final = r"Give your final answer in \boxed{}."
_HASHED: Final = 'Reason step by step, and end with the result in a line of its own, after "####".'
_RESULT: Final = re.compile(r"####\s*(\S[^\n]*?)\s*\Z")
_LONGEST: Final = 100  # characters of an answer: longer ones are proofs and texts, which no rule can compare
_ANSWER: Final[Types] = (*TEXT, *NUMBER, *LIST, NoneType)

HAS_ANSWER: Final = Filter(name="has an answer", keeps=lambda record: bool(answer_of(record["answer"])))
IS_SHORT: Final = Filter(
    name=f"an answer of at most {_LONGEST} characters",
    keeps=lambda record: len(answer_of(record["answer"])) <= _LONGEST,
)


def answer_of(value: Any) -> str:
    """Return an answer as text: the first of a list, "" for none."""
    if isinstance(value, list):
        value = value[0] if value else None
    return "" if value is None else str(value).strip()


def boxed(record: Record, _: random.Random) -> Draft:
    """Return the draft of a record with `problem` and `answer`."""
    problem = record["problem"].strip()
    return Draft(
        prompt=f"{problem}\n\n{BOXED}",
        ground_truth=answer_of(record["answer"]),
        extra={"original_question": problem, "reward_metric": "default"},
    )


def hashed(record: Record, _: random.Random) -> Draft:
    """Return the draft of a record of GSM8K, whose answer ends in `#### 72`."""
    found = _RESULT.search(record["answer"])
    if found is None:
        raise BadRecord(f", column answer: it ends in no `#### RESULT`: {record['answer'][-60:]!r}")
    question = record["question"].strip()
    return Draft(
        prompt=f"{question}\n\n{_HASHED}",
        ground_truth=found[1].replace(",", ""),
        extra={"question": question, "answer": record["answer"]},
    )


def _problems(
    name: str,
    path: str,
    about: str,
    *,
    splits: Mapping[str, Split],
    filters: tuple[Filter, ...] = (HAS_ANSWER,),
    licence: str = "",
) -> Preparation:
    return Preparation(
        name=name,
        domain="math",
        about=about,
        source=Hub(path=path),
        columns={"problem": TEXT, "answer": _ANSWER},
        row=boxed,
        data_source=f"math__{name}",
        ability="math",
        splits=splits,
        filters=filters,
        licence=licence,
    )


_TEST: Final = {"test": Split(source="test")}

PREPARATIONS: Final = (
    Preparation(
        name="gsm8k",
        domain="math",
        about="word problems of grade school; the set that people begin with",
        source=Hub(path="openai/gsm8k", config="main"),
        columns={"question": TEXT, "answer": TEXT},
        row=hashed,
        data_source="openai/gsm8k",
        ability="math",
        splits={"train": Split(), "test": Split(source="test")},
        licence="MIT",
    ),
    _problems(
        "math_500",
        "HuggingFaceH4/MATH-500",
        "500 problems of MATH, for evaluation",
        splits=_TEST,
        licence="MIT",
    ),
    _problems(
        "merged_deduped_dapo_or1_dataset",
        "SDSB/merged_deduped_dapo_or1_dataset",
        "Reasoning360's mathematics: Skywork-OR1 and DAPO, merged",
        splits={"train": Split()},
        filters=(HAS_ANSWER, IS_SHORT),
    ),
    _problems(
        "deepscaler_preview",
        "agentica-org/DeepScaleR-Preview-Dataset",
        "problems of AIME, AMC, Omni-MATH and STILL",
        splits={"train": Split()},
        licence="MIT",
    ),
    _problems(
        "aime_repeated_8x", "SDSB/aime_repeated_8x", "AIME 2024, each problem eight times", splits=_TEST
    ),
    _problems("amc_repeated_4x", "SDSB/amc_repeated_4x", "AMC, each problem four times", splits=_TEST),
    _problems("minerva", "nanoverl/minerva", "Minerva's problems of science courses", splits=_TEST),
    _problems("olympiad_bench", "nanoverl/olympiad_bench", "problems of olympiads", splits=_TEST),
    _problems("math", "nanoverl/math", "Reasoning360's MATH-500", splits=_TEST),
    _problems(
        "aime2025_repeated_8x",
        "nanoverl/aime2025_repeated_8x",
        "AIME 2025, each problem eight times",
        splits=_TEST,
    ),
)
