"""Prepare table questions: about one or several tables, answered from their content.

In: the files of HiTab and MultiHiertt, and records of FinQA. Out: drafts whose answer belongs in a box. HTML tables are
converted to Markdown with the standard library's parser, and the numbers of FinQA are parsed, not evaluated. Pure,
except for reading files; called by `tools.prepare.stages`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

from broker.errors import BadMessage
from tasks.lines import parse_object
from tools.prepare.domains.mathematics import BOXED
from tools.prepare.preparation import (
    LIST,
    NUMBER,
    OBJECT,
    TEXT,
    BadRecord,
    Draft,
    Files,
    Filter,
    Hub,
    LeftOut,
    Preparation,
    Record,
    Split,
    tokens_below,
)
from tools.prepare.source import table_records

_LONGEST: Final = tokens_below(4096)
_BAR: Final = "|"
_ASKED: Final = "The question is:"  # by which `tasks.verl_answers` detects questions for a percentage
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_IS_NUMBER: Final = "the answer is a number"


def markdown(rows: Sequence[Sequence[Any]]) -> str:
    """Return a table; its first row is the header."""
    cells = [[str(cell).replace(_BAR, "/").replace("\n", " ").strip() for cell in row] for row in rows]
    width = max((len(row) for row in cells), default=0)
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in cells]
    return "\n".join([*lines[:1], f"|{'---|' * width}", *lines[1:]])


def asked(tables: str, question: str, *, more: str = "") -> str:
    """Return the prompt of a question about tables."""
    return f"Answer from what is given here.\n\n{tables}\n\n{_ASKED} {question.strip()}\n\n{BOXED}{more}"


def hitab(record: Record, _: random.Random) -> Draft:
    """Return the draft of a question of HiTab, whose answers are separated by bars."""
    answers = [str(answer).strip() for answer in record["answer"]]
    if not answers or not all(answers) or any(_BAR in answer for answer in answers):
        raise LeftOut(_HAS_ANSWERS)
    return Draft(
        prompt=asked(
            markdown(record["table"]), record["question"], more=" Where there are several, part them by |."
        ),
        ground_truth=_BAR.join(answers),
    )


def multihier(record: Record, _: random.Random) -> Draft:
    """Return the draft of a question of MultiHiertt that its tables alone answer."""
    qa = record["qa"]
    answer = str(qa["answer"]).strip()
    if not answer:
        raise LeftOut(_HAS_ANSWERS)
    tables = "\n\n".join(markdown(rows_of_html(str(table))) for table in record["tables"])
    return Draft(prompt=asked(tables, str(qa["question"])), ground_truth=answer)


def finqa(record: Record, _: random.Random) -> Draft:
    """Return the draft of a question of FinQA, with the text around its table."""
    number = number_of(str(record["answer"]))
    if number is None:
        raise LeftOut(_IS_NUMBER)
    context = "\n".join([*record["pre_text"], "", markdown(record["table"]), "", *record["post_text"]])
    return Draft(prompt=asked(context, record["question"], more=" It is a number."), ground_truth=number)


def number_of(text: str) -> float | None:
    """Parse the number in an answer of FinQA: `$1,024.5`, `14.1%`, `3 : 4`; None for anything else."""
    plain = text.replace(",", "").replace("$", "").strip()
    parts = [part.strip() for part in re.split(r"[:/]", plain)]
    scale = Decimal(1)
    if len(parts) == 1 and parts[0].endswith("%"):
        parts, scale = [parts[0][:-1].strip()], Decimal(100)
    if len(parts) > 2 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    top, bottom = Decimal(parts[0]), Decimal(parts[1]) if len(parts) == 2 else Decimal(1)
    return None if bottom == 0 else float(top / bottom / scale)


class _Tables(HTMLParser):
    """Parse the rows of a table; a cell that spans several columns is followed by empty ones."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._span = 0  # columns of the open cell; 0: none

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"} and self.rows:
            span = dict(attrs).get("colspan") or "1"
            self._span = int(span) if span.isdecimal() and int(span) else 1
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"} and self._span:
            self.rows[-1][-1] = self.rows[-1][-1].strip()
            self.rows[-1].extend([""] * (self._span - 1))
            self._span = 0

    def handle_data(self, data: str) -> None:
        if self._span:
            self.rows[-1][-1] += data


def rows_of_html(text: str) -> list[list[str]]:
    """Return the rows of an HTML table. Raises BadRecord where there are none."""
    parser = _Tables()
    parser.feed(text)
    parser.close()
    rows = [row for row in parser.rows if row]
    if not rows:
        raise BadRecord(f", column tables: a table of HTML is wanted, got {text!r:.80}")
    return rows


def _inside(root: Path, name: str) -> Path:
    """Return a file of a folder, or of its single subfolder of data."""
    found = (root / name, *(root / folder / name for folder in ("data", "MultiHiertt_dataset")))
    return next((path for path in found if path.exists()), root / name)


def _hitab_files(root: Path, split: str) -> list[Path]:
    samples = _inside(root, f"{split}_samples.jsonl")
    return [samples, *sorted((samples.parent / "tables" / "raw").glob("*.json"))] if samples.exists() else []


def _hitab_records(root: Path, split: str) -> Iterator[tuple[str, Record]]:
    samples = _inside(root, f"{split}_samples.jsonl")
    for where, sample in table_records(samples, split):
        table = samples.parent / "tables" / "raw" / f"{sample.get('table_id')}.json"
        if not table.is_file():
            raise BadRecord(f"{where}, column table_id: {table} is not there")
        try:
            yield where, {**sample, "table": parse_object(table.read_bytes()).get("texts")}
        except BadMessage as error:
            raise BadRecord(f"{table}: {error}") from error


def _multihier_files(root: Path, split: str) -> list[Path]:
    file = root if root.is_file() else _inside(root, f"{split}.json")
    return [file] if file.is_file() else []


def _multihier_records(root: Path, split: str) -> Iterator[tuple[str, Record]]:
    (file,) = _multihier_files(root, split)
    for where, found in table_records(file, split):
        qa = found.get("qa")
        if isinstance(qa, dict) and (lacks := {"question", "answer", "text_evidence"} - qa.keys()):
            raise BadRecord(f"{where}, column qa: it has no {', '.join(sorted(lacks))}")
        yield where, found


_HAS_ANSWERS: Final = "has an answer"

PREPARATIONS: Final = (
    Preparation(
        name="hitab",
        domain="table",
        about="questions about tables with headers of several levels",
        source=Files(
            address="https://github.com/microsoft/HiTab (data.zip)",
            files=_hitab_files,
            records=_hitab_records,
        ),
        columns={"question": TEXT, "answer": LIST, "table": LIST},
        row=hitab,
        data_source="table__hitab",
        ability="table",
        splits={"train": Split(), "test": Split(source="test")},
        leaves_out=(_HAS_ANSWERS,),
        max_prompt_tokens=_LONGEST,
        licence="C-UDA 1.0",
    ),
    Preparation(
        name="multihier",
        domain="table",
        about="questions of MultiHiertt about several tables of reports",
        source=Files(
            address="https://github.com/psunlpgroup/MultiHiertt (its data set's folder)",
            files=_multihier_files,
            records=_multihier_records,
        ),
        columns={"tables": LIST, "qa": OBJECT},
        row=multihier,
        data_source="table__multihier",
        ability="table",
        splits={"train": Split(), "test": Split(source="dev", size=500)},
        filters=(
            Filter(
                name="answered by the tables alone", keeps=lambda record: not record["qa"]["text_evidence"]
            ),
        ),
        leaves_out=(_HAS_ANSWERS,),
        max_prompt_tokens=_LONGEST,
        licence="MIT",
    ),
    Preparation(
        name="finqa",
        domain="table",
        about="questions about reports of companies, answered by a number",
        source=Hub(path="nanoverl/finqa"),
        columns={
            "pre_text": LIST,
            "post_text": LIST,
            "table": LIST,
            "question": TEXT,
            "answer": (*TEXT, *NUMBER),
        },
        row=finqa,
        data_source="table__finqa",
        ability="table",
        splits={"test": Split(source="test")},
        leaves_out=(_IS_NUMBER,),
    ),
)
