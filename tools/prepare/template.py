"""Write a contributor's starting file: a preparation with its test.

In: a name. Out: `NAME.py`, which `pytest NAME.py` tests and `millrace prepare NAME:PREPARATION` runs. An existing file
is not changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.arguments import UsageError
from tools.prepare.output import NotWritten


def write_template(name: str, out: Path | None) -> Path:
    """Write the file, and return its path. Raises UsageError, NotWritten."""
    if not name.isidentifier() or not name.islower():
        raise UsageError(f"{name!r} is no name for a module; write lower case, digits and _")
    path = out or Path(f"{name}.py")
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise UsageError(f"-o {path}: a module's file is wanted, such as {name}.py")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.replace("NAME", name))
    except FileExistsError as error:
        raise NotWritten(f"{path} is there already; -o names another file") from error
    except OSError as error:
        raise NotWritten(f"{path} can't be written: {error.strerror or error}") from error
    return path


TEMPLATE: Final = '''"""Preparation of NAME: say what the set is, who published it, and what an answer looks like.

    millrace prepare NAME:PREPARATION --source rows.jsonl -o NAME.parquet
    pytest NAME.py
"""

import json
import random

import pytest

from tools.main import main
from tools.prepare.preparation import TEXT, Draft, Filter, Hub, Preparation, Record, Split


def row(record: Record, draw: random.Random) -> Draft:
    """One record of the source becomes one row. `draw` is for what is chosen by chance: the same for the same seed."""
    return Draft(
        prompt=f"{record['problem']}\\n\\nGive your final answer in \\\\boxed{{}}.",
        ground_truth=record["answer"],
        extra={"level": record["level"]},
    )


PREPARATION = Preparation(
    name="NAME",
    domain="math",
    about="what it is, in a line",
    source=Hub(path="your-name/NAME"),
    columns={"problem": TEXT, "answer": TEXT, "level": TEXT},  # of a record, with their types
    row=row,
    data_source="math__NAME",  # decides who scores: docs/row_types.md has the names
    ability="math",
    splits={"train": Split(), "test": Split(source="test", size=500)},
    filters=(Filter(name="has an answer", keeps=lambda record: bool(record["answer"].strip())),),
)


def test_each_record_becomes_a_row_whose_own_reference_scores_1(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        {"problem": "How much is 2 + 3?", "answer": "5", "level": "easy"},
        {"problem": "How much is nothing?", "answer": "", "level": "hard"},
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(record) + "\\n" for record in records))
    words = ["--source", str(source), "-o", str(tmp_path / "out.parquet"), "--gold-test", "--json"]
    assert main(["prepare", f"{__name__.rpartition('.')[2]}:PREPARATION", *words]) == 0
    stages = json.loads(capsys.readouterr().out)["stages"]
    rows = {line["stage"]: line["rows"] for line in stages}
    assert (rows["read"], rows["has an answer"], rows["its reference is right"]) == (2, 1, 1)
'''
