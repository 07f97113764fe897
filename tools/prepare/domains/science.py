"""Prepare science: free answers that a judge compares, and multiple choice.

In: records of WebInstruct-verified, GPQA and SuperGPQA. Out: drafts whose answer belongs in a box: a short text, or one
letter. Pure; called by `tools.prepare.stages`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tools.prepare.domains.mathematics import BOXED
from tools.prepare.preparation import (
    LIST,
    MAYBE_TEXT,
    TEXT,
    BadRecord,
    Draft,
    Filter,
    Hub,
    LeftOut,
    Preparation,
    Record,
    Split,
)

_LETTERS: Final = "ABCDEFGHIJ"
_MOST_ANSWER_TOKENS: Final = 30
_MANY_DECIMALS: Final = re.compile(r"\d\.\d{4}")
_BRACKETS: Final = re.compile(r"\[.*?\]")  # in GPQA's options: notes of its sources
_LETTER: Final = r"Reason step by step, and put the letter of the one right option alone in \boxed{}."
_DIFFER: Final = "its options differ"


def webinstruct(record: Record, _: random.Random) -> Draft:
    """Return the draft of a question of WebInstruct, which a served judge compares with the answer."""
    question, answer = record["question"].strip(), record["answer"].strip()
    return Draft(
        prompt=f"{question}\n\nThink step by step. {BOXED}",
        ground_truth=answer,
        extra={
            "idx": record.get("id"),
            "question": question,
            "category": record["category"],
            "difficulty": record["difficulty"],
            "answer_type": record["answer_type"],
        },
        columns={"raw_prompt": question, "response": answer},
    )


def gpqa(record: Record, draw: random.Random) -> Draft:
    """Return the draft of a question of GPQA, with its options in random order."""
    return _gpqa(
        record, draw, "Reason step by step. End with a line of the form `Answer: X`, X the letter alone."
    )


def gpqa_diamond(record: Record, draw: random.Random) -> Draft:
    """Return the draft of a question of GPQA Diamond, whose letter belongs in a box."""
    return _gpqa(record, draw, _LETTER)


def _gpqa(record: Record, draw: random.Random, form: str) -> Draft:
    right = tidy(record["Correct Answer"])
    options = [tidy(record[f"Incorrect Answer {number}"]) for number in (1, 2, 3)] + [right]
    if len(set(options)) < len(options):
        raise LeftOut(_DIFFER)
    draw.shuffle(options)
    return Draft(
        prompt=f"{record['Question'].strip()}\n\n{lettered(options)}\n\n{form}",
        ground_truth=_LETTERS[options.index(right)],
        extra={"dataset": "Idavidrein/gpqa"},
    )


def tidy(text: str) -> str:
    """Return an option of GPQA without the marks of its source pages."""
    return " ".join(_BRACKETS.sub("", text.replace(" [title]", ". ")).split())


def lettered(options: Sequence[str]) -> str:
    """Return options, each after its letter."""
    return "\n".join(f"({letter}) {option}" for letter, option in zip(_LETTERS, options, strict=False))


def supergpqa(record: Record, _: random.Random) -> Draft:
    """Return the draft of a question of SuperGPQA, whose up to ten options keep their order."""
    options, letter = record["options"], record["answer_letter"].strip()
    if len(letter) != 1 or letter not in _LETTERS[: len(options)]:
        raise BadRecord(f", column answer_letter: {letter!r} is none of {len(options)} options")
    return Draft(
        prompt=f"{record['question'].strip()}\n\n{lettered(options)}\n\n{_LETTER}",
        ground_truth=letter,
        extra={"dataset": "m-a-p/SuperGPQA"},
    )


def _is_told_apart(record: Record) -> bool:
    answer = record["answer"].strip()
    return bool(answer) and not (len(answer) == 1 and answer.isalpha())


_GPQA: Final = Preparation(
    name="gpqa",
    domain="science",
    about="GPQA's main set; the hub asks for an account",
    source=Hub(path="Idavidrein/gpqa", config="gpqa_main"),
    columns={
        "Question": TEXT,
        "Correct Answer": TEXT,
        **{f"Incorrect Answer {number}": TEXT for number in (1, 2, 3)},
    },
    row=gpqa,
    data_source="stem__gpqa",
    ability="stem",
    repeats=("original_prompt",),
    splits={"test": Split()},
    leaves_out=(_DIFFER,),
    licence="CC-BY-4.0",
)

PREPARATIONS: Final = (
    Preparation(
        name="webinstruct",
        domain="science",
        about="questions of university courses; a judge compares the answers",
        source=Hub(path="TIGER-Lab/WebInstruct-verified"),
        columns={
            "question": TEXT,
            "answer": TEXT,
            "category": MAYBE_TEXT,
            "difficulty": MAYBE_TEXT,
            "answer_type": MAYBE_TEXT,
            "id": (str, int, type(None)),
        },
        row=webinstruct,
        data_source="stem_web",
        ability="QA",
        filters=(
            Filter(name="an answer, and not one letter", keeps=_is_told_apart),
            Filter(name="no mathematics", keeps=lambda record: record["category"] != "Mathematics"),
            Filter(
                name="of a university, or above",
                keeps=lambda record: record["difficulty"] in {"University", "PhD"},
            ),
            Filter(
                name="neither yes or no, nor a choice",
                keeps=lambda record: record["answer_type"] not in {"Boolean", "Multiple Choice"},
            ),
            Filter(
                name="at most three decimals",
                keeps=lambda record: _MANY_DECIMALS.search(record["answer"]) is None,
            ),
        ),
        max_answer_tokens=_MOST_ANSWER_TOKENS,
        licence="Apache-2.0",
    ),
    _GPQA,
    replace(
        _GPQA,
        name="gpqa_diamond",
        about="GPQA's hardest questions; the hub asks for an account",
        source=Hub(path="Idavidrein/gpqa", config="gpqa_diamond"),
        row=gpqa_diamond,
        data_source="stem__gpqa_diamond_no_box",
    ),
    Preparation(
        name="supergpqa",
        domain="science",
        about="questions of 285 subjects, with up to ten options",
        source=Hub(path="m-a-p/SuperGPQA"),
        columns={"question": TEXT, "options": LIST, "answer_letter": TEXT},
        row=supergpqa,
        data_source="stem__supergpqa",
        ability="stem",
        repeats=("original_prompt",),
        splits={"test": Split(size=1000)},
        licence="ODC-BY",
    ),
)
