"""This module makes rows of a file, a `datasets` name or generated problems: a chat, and what checks its answer.

II-Thought's rows (`messages`, `verification_info` as text or object) and verl's (`prompt`, `data_source`,
`reward_model`, `extra_info`) are read as they are: `tasks.route` says which task they belong to. Others are read by a
column map: `prompt_template` for the question, `answer_column` with `answer_pattern` for the answer. All rows are
looked at when the data are read. What is wrong with a row is said then, by file, row and column, and not after an hour
of training.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.errors import BadMessage, Permanent
from config.data import DatasetSource, ProceduralSource, SourceConfig
from config.run import Run
from tasks.kinds import TASK_OF_TYPE
from tasks.route import route

VERL = ("data_source", "reward_model", "extra_info", "criteria")  # columns; the first two make rows of verl
FIELD = re.compile(r"\{(\w+)\}")  # of a prompt_template


# Columns in which rows of a question and an answer are known to have them.
QUESTIONS = ("question", "problem", "prompt", "instruction", "query")
ANSWERS = ("answer", "final_answer", "ground_truth", "solution", "target", "response", "output")
SHOWN = 3  # bad rows that a message names; the doctor lists all


class RowError(Permanent):
    """A row, or a whole source, that can't be used.

    Attributes:
        rows: a line for each bad row; empty where it is the source that can't be used.
    """

    def __init__(self, *lines: str, of_rows: bool = False) -> None:
        more = len(lines) - SHOWN
        said = [
            *lines[:SHOWN],
            *([f"and {more} more bad rows: `millrace doctor CONFIG` lists all"] * (more > 0)),
        ]
        super().__init__("\n".join(said))
        self.rows = lines if of_rows else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One problem, with its chat and what checks its answer."""

    messages: tuple[Mapping[str, str], ...]
    task: str
    verification_info: Mapping[str, Any]
    data_source: str = ""  # the row's own column of that name; "": it has none


def load_rows(run: Run, source: SourceConfig) -> tuple[list[Row], str]:
    """Return every row of `source`, checked, and the data's fingerprint."""
    match source:
        case ProceduralSource():
            from learner.data.digits import digit_problems, fingerprint

            try:
                problems = digit_problems(source.split, source.size)
            except ValueError as error:
                raise RowError(str(error)) from None
            return (
                [
                    _chat_row(run, problem["messages"], problem, where=f"problem {index}")
                    for index, problem in enumerate(problems)
                ],
                fingerprint(source.split, source.size),
            )
        case DatasetSource():
            return _dataset_rows(run, source)


def _dataset_rows(run: Run, source: DatasetSource) -> tuple[list[Row], str]:
    _check_pattern(source)
    table = _open(run, source)
    if source.limit is not None:
        table = table.select(range(min(source.limit, len(table))))
    wanted = _columns(source, table.column_names)
    for column in wanted:
        if column not in table.column_names:
            near = difflib.get_close_matches(column, table.column_names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            hint = f"{hint}{_how_to_read(source, table)}"
            raise RowError(f"{source.path}: no column {column!r} among {', '.join(table.column_names)}{hint}")
    rows, bad = [], []
    lines: list[int] = []  # of the rows, once one of them is bad
    for index, record in enumerate(table.select_columns(wanted)):
        where = f"{source.path} row {index}"
        try:
            rows.append(_row(run, source, record, where))
        except RowError as error:
            lines = lines or _lines_of(Path(source.path))
            line = f", line {lines[index]}" if index < len(lines) else ""
            bad.append(str(error).replace(where, f"{where}{line}", 1))
    if bad:
        raise RowError(*bad, of_rows=True)
    return rows, str(table._fingerprint)  # noqa: SLF001 - the one name that datasets gives it


def _lines_of(path: Path) -> list[int]:
    """List the lines of a file of JSON lines that have a row, counted from 1; [] for every other source."""
    if path.suffix != ".jsonl" or not path.is_file():
        return []
    with path.open("rb") as file:
        return [number for number, line in enumerate(file, 1) if line.strip()]


def _bad_line(path: Path) -> str:
    """Say which line of a file of JSON lines is none, and why; "" where every line is, and for every other source."""
    if path.suffix != ".jsonl" or not path.is_file():
        return ""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                is_object = not line.strip() or isinstance(json.loads(line), dict)
            except ValueError as error:
                return f"line {number} is no JSON: {error}"
            if not is_object:
                return f"line {number} is no object of JSON"
    return ""


def _how_to_read(source: DatasetSource, table: Any) -> str:
    """Say with which keys rows of a question and an answer are read; "" where the data are no such rows."""
    names = table.column_names
    asked = next((name for name in QUESTIONS if name in names), None)
    given = next((name for name in ANSWERS if name in names and name != asked), None)
    if (
        asked is None
        or given is None
        or source.prompt_template is not None
        or source.answer_column is not None
    ):
        return ""
    is_gsm8k = len(table) > 0 and "#### " in str(table[0][given])
    pattern = " answer_pattern='#### (.+)'" if is_gsm8k else ""
    return (
        f"; rows of a question and an answer are read with prompt_template='{{{asked}}}' answer_column={given}"
        f"{pattern} beside path"
    )


def _open(run: Run, source: DatasetSource) -> Any:
    import datasets

    datasets.disable_progress_bars()
    token = run.model.hf_token.get_secret_value() if run.model.hf_token else None
    path = Path(source.path)
    kind = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}.get(path.suffix)
    try:
        if path.is_file() and kind:
            return datasets.load_dataset(kind, data_files={source.split: str(path)}, split=source.split)
        if path.is_dir() and ((path / "state.json").exists() or (path / "dataset_dict.json").exists()):
            saved = datasets.load_from_disk(str(path))
            return saved[source.split] if isinstance(saved, datasets.DatasetDict) else saved
        return datasets.load_dataset(
            source.path, source.config_name, split=source.split, revision=source.revision, token=token
        )
    except (OSError, ValueError, KeyError, datasets.exceptions.DatasetsError) as error:
        raise RowError(
            f"{source.path} (split {source.split}) can't be read: {_bad_line(path) or error}"
        ) from error


def _columns(source: DatasetSource, present: Collection[str]) -> list[str]:
    """Return the names of the columns that are read, whether or not the data has them."""
    columns = {"data_source"} & set(present)
    columns |= (
        set(_fields(source.prompt_template)) if source.prompt_template else {_prompt_column(source, present)}
    )
    if source.answer_column is not None:
        return sorted(columns | {source.answer_column})
    if _is_verl(present):
        columns |= {*VERL, source.verification_column} & set(present)
    else:
        columns.add(source.verification_column)
    if source.task_column is not None and source.task_column in present:
        columns.add(source.task_column)
    return sorted(columns)


def _data_source(record: Mapping[str, Any]) -> str:
    """Return the source that the row names; "" where it has no such text."""
    value = record.get("data_source")
    return value if isinstance(value, str) else ""


def _is_verl(present: Collection[str]) -> bool:
    return set(VERL[:2]) <= set(present)


def _prompt_column(source: DatasetSource, present: Collection[str]) -> str:
    """Return the configured prompt column; verl's own where the data lacks it and the rows are verl's."""
    return "prompt" if source.prompt_column not in present and _is_verl(present) else source.prompt_column


def _fields(template: str) -> list[str]:
    return FIELD.findall(template)


def _row(run: Run, source: DatasetSource, record: Mapping[str, Any], where: str) -> Row:
    prompt: Any = record.get(_prompt_column(source, record))
    if source.prompt_template is not None:
        empty = [column for column in _fields(source.prompt_template) if record[column] is None]
        if empty:
            raise RowError(f"{where}: prompt_template needs {empty[0]}, and it is empty")
        prompt = FIELD.sub(lambda found: str(record[found.group(1)]), source.prompt_template)
    if isinstance(prompt, str) and prompt.strip():
        prompt = [{"role": "user", "content": prompt}]
    if source.system_prompt and isinstance(prompt, list):
        prompt = [{"role": "system", "content": source.system_prompt}, *prompt]
    if source.answer_column is not None:
        answer = _answer(source, record[source.answer_column], where)
        given = _of_answer(run, source.task, answer)
        return _chat_row(run, prompt, given, where=where, data_source=_data_source(record))
    column = source.verification_column
    given = {name: record.get(name) for name in VERL} if _is_verl(record) else {}
    given |= {"verification_info": record.get(column), "task": record.get(source.task_column or "")}
    if column != "verification_info":
        where = f"{where}, column {column}"
    return _chat_row(run, prompt, given, where=where, data_source=_data_source(record))


def _of_answer(run: Run, name: str, answer: str) -> dict[str, Any]:
    """Return a row of a column map as `route` reads it; `name` is a task's, or that of a type of rows."""
    task = run.scorers.tasks.get(name)
    row_type = (
        name
        if task is None or task.scorer.takes_rows_as_they_are or name in TASK_OF_TYPE
        else task.scorer.type
    )
    return {
        "task": None if task is None else name,
        "verification_info": {"type": row_type, "answer": {"value": answer}},
    }


def _check_pattern(source: DatasetSource) -> None:
    try:
        groups = re.compile(source.answer_pattern or "()").groups
    except re.error as error:
        raise RowError(
            f"answer_pattern {source.answer_pattern!r} is no regular expression: {error}"
        ) from None
    if not groups:
        raise RowError(
            f"answer_pattern {source.answer_pattern!r} has no group: put the answer in parentheses, as in "
            "'#### (.+)'"
        )


def _answer(source: DatasetSource, value: Any, where: str) -> str:
    if source.answer_pattern is not None:
        found = re.search(source.answer_pattern, "" if value is None else str(value))
        if found is None:
            raise RowError(
                f"{where}: {source.answer_column} does not match answer_pattern {source.answer_pattern!r}: "
                f"{str(value)[-80:]!r}"
            )
        value = found.group(1)
    if value is None or not str(value).strip():
        raise RowError(f"{where}: no answer in column {source.answer_column}")
    return str(value).strip()


def _chat_row(run: Run, turns: Any, record: Mapping[str, Any], *, where: str, data_source: str = "") -> Row:
    """Make a row of its chat and of what `route` reads, all checked."""
    if turns is None:
        raise RowError(
            f"{where}: no prompt: the row has nothing in the column that its source's prompt_column names"
        )
    if (
        not isinstance(turns, list)
        or not turns
        or not all(
            isinstance(turn, dict)
            and isinstance(turn.get("role"), str)
            and isinstance(turn.get("content"), str)
            for turn in turns
        )
    ):
        raise RowError(
            f"{where}: the prompt must be a text or a list of role and content, got {str(turns)[:80]!r}"
        )
    try:
        task, info = route({**record, "prompt": turns}, run.scorers.tasks)
    except BadMessage as error:
        raise RowError(f"{where}: {error}") from None
    return Row(
        messages=tuple({"role": turn["role"], "content": turn["content"]} for turn in turns),
        task=task,
        verification_info=info,
        data_source=data_source,
    )
