"""Make rows, each a chat with its reference, from a table's records, generated problems, or seeds.

II-Thought's rows (`messages`, `verification_info` as text or object) and verl's (`prompt`, `data_source`,
`reward_model`, `extra_info`) are read as they are; `tasks.route` finds their task. Rows of NeMo Gym
(`responses_create_params`) travel whole to their source's task. Others are read by a column map: `prompt_template` for
the question, `answer_column` with `answer_pattern` for the answer. A row whose task has an environment that makes the
prompt needs no chat. All rows are checked when the data are read, so that errors are reported then, by file, row and
column, and not after an hour of training. Called by `learner.data.ingest`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from broker.errors import BadMessage
from config.data import DatasetSource, EnvironmentSource, ProceduralSource
from config.run import Run
from learner.data.file_formats import RowTable
from learner.data.row import Row, RowError
from tasks.chat import chat_of
from tasks.kinds import TASK_OF_TYPE
from tasks.route import route
from tasks.seeds import SEED, seed_of
from tasks.values import as_object, plain, shown

VERL = ("data_source", "reward_model", "extra_info", "criteria")  # the first two identify verl rows
NEMO_GYM = "responses_create_params"  # a column that identifies rows of NeMo Gym
RAW = ("apply_chat_template", "raw_prompt")  # Reasoning360's: whether the second is the prompt as it is
PROGRAMS = ("code", "code_verifiable")  # types of rows that have tests
SOLUTIONS = ("reference", "gold_standard_solution", "canonical_solution")  # columns, or keys of extra_info
FIELD = re.compile(r"\{(\w+)\}")  # of a prompt_template

# Columns of known data sets of questions and answers.
QUESTIONS = ("question", "problem", "prompt", "instruction", "query")
ANSWERS = ("answer", "final_answer", "ground_truth", "solution", "target", "response", "output")


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that can't be used."""

    index: int  # in its table
    reason: str  # with the file, the row and the column
    data_source: str  # from the row; "": the row has none


class RowReader:
    """Make the rows of one table, after checking its columns.

    Args:
        run: has the tasks, and the settings of `data` for all sources.
        source: maps the columns.
        table: of that source.
    Raises:
        RowError: a required column is missing.
    """

    def __init__(self, run: Run, source: DatasetSource, table: RowTable) -> None:
        _check_pattern(source)
        self._run = run
        self._source = source
        self._table = table
        self._present = set(table.columns())
        self._wanted = _columns(run, source, self._present)
        self._check(sorted(self._present, key=list(table.columns()).index))

    def rows(self) -> Iterator[Row | BadRow]:
        """Yield each row in order, or its error. Raises RowError where the table can't be read."""
        name = self._table.name
        for index, record in enumerate(self._table.records(self._wanted)):
            if not self._present.issuperset(record.values):  # a line of a file has a key that its head lacks
                self._present.update(record.values)
                self._wanted = _columns(self._run, self._source, self._present)
            values = {column: record.values.get(column) for column in self._wanted}
            where = record.where(name, index)
            try:
                if record.wrong:
                    raise RowError(f"{where}: {record.wrong}")
                row = _row(self._run, self._source, values, where)
                said = tuple(f"{where}: {text}" for text in record.changed)
                yield replace(row, changed=said) if said else row
            except RowError as error:
                yield BadRow(index, str(error), _data_source(values))

    def _check(self, present: Sequence[str]) -> None:
        for column in self._wanted:
            if column not in present:
                near = difflib.get_close_matches(column, present, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                hint = f"{hint}{_how_to_read(self._run.data.key_of(self._source), self._source, self._table, present)}"
                raise RowError(f"{self._table.name}: no column {column!r} among {', '.join(present)}{hint}")


def procedural_rows(run: Run, source: ProceduralSource) -> tuple[list[Row], str]:
    """Return the problems of `source` and their fingerprint. Raises RowError for an invalid size."""
    try:
        problems, fingerprint = made_problems(source)
    except ValueError as error:
        raise RowError(str(error)) from None
    rows = [
        _chat_row(run, problem["messages"], problem, where=f"problem {index}")
        for index, problem in enumerate(problems)
    ]
    return rows, fingerprint


def made_problems(source: ProceduralSource) -> tuple[list[dict[str, object]], str]:
    """Return the problems of `source` as a data set's rows, and their fingerprint. Raises ValueError for its size."""
    from learner.data import digits
    from tasks import boxes

    if source.problem == "boxes":
        return boxes.box_problems(source.split, source.size), boxes.fingerprint(source.split, source.size)
    return digits.digit_problems(source.split, source.size), digits.fingerprint(source.split, source.size)


def seed_records(source: EnvironmentSource) -> Iterator[dict[str, Any]]:
    """Yield a row for each seed of an environment, as a data set would have it."""
    chat = {"messages": [_system(source.system_prompt)]} if source.system_prompt else {}
    for seed in range(source.first_seed, source.first_seed + source.size):
        yield {**chat, "verification_info": {"type": source.task, SEED: seed}}


def seed_rows(run: Run, source: EnvironmentSource) -> tuple[list[Row], str]:
    """Return a row for each seed of an environment, and their fingerprint."""
    rows = [
        _chat_row(run, record.get("messages"), {"task": source.task, **record}, where=f"seed {number}")
        for number, record in enumerate(seed_records(source), source.first_seed)
    ]
    facts = json.dumps([source.task, source.first_seed, source.size, source.system_prompt])
    return rows, hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()


def _how_to_read(key: str, source: DatasetSource, table: RowTable, names: Sequence[str]) -> str:
    """Explain how to read rows of a question and an answer; "" where the data have no such rows."""
    asked = next((name for name in QUESTIONS if name in names), None)
    given = next((name for name in ANSWERS if name in names and name != asked), None)
    if (
        asked is None
        or given is None
        or source.prompt_template is not None
        or source.answer_column is not None
    ):
        return ""
    first = next(iter(table.records([given])), None)
    is_gsm8k = first is not None and "#### " in str(first.values.get(given))
    pattern = f" {key}.answer_pattern='#### (.+)'" if is_gsm8k else ""
    return (
        f"; rows of a question and an answer are read with {key}.prompt_template='{{{asked}}}' "
        f"{key}.answer_column={given}{pattern}"
    )


def _columns(run: Run, source: DatasetSource, present: Collection[str]) -> list[str]:
    """Return the names of the columns to read, whether or not the data has them."""
    travelling, needs_prompt = run.columns, not any(map(run.makes_prompt, run.scorers.tasks))
    optional = {"data_source", *RAW, *SOLUTIONS, *(name.partition(".")[0] for name in travelling)}
    columns = optional & set(present)
    columns |= (
        set(_fields(source.prompt_template)) if source.prompt_template else {_prompt_column(source, present)}
    )
    if not needs_prompt and not source.prompt_template:
        columns &= set(present)
    if source.answer_column is not None:
        return sorted(columns | {source.answer_column})
    if _is_nemo_gym(source, present):
        return sorted(present)
    if _is_verl(present):
        columns |= {*VERL, source.verification_column} & set(present)
    else:
        columns.add(source.verification_column)
    if source.task_column is not None and source.task_column in present:
        columns.add(source.task_column)
    return sorted(columns)


def _data_source(record: Mapping[str, Any]) -> str:
    """Return the row's data source; "" where it has no such text."""
    value = record.get("data_source")
    return value if isinstance(value, str) else ""


def _is_verl(present: Collection[str]) -> bool:
    return set(VERL[:2]) <= set(present)


def _is_nemo_gym(source: DatasetSource, present: Collection[str]) -> bool:
    return NEMO_GYM in present and source.verification_column not in present


def _prompt_column(source: DatasetSource, present: Collection[str]) -> str:
    """Return the configured prompt column; verl's own where the data lacks it and the rows are verl's."""
    return "prompt" if source.prompt_column not in present and _is_verl(present) else source.prompt_column


def _fields(template: str) -> list[str]:
    return FIELD.findall(template)


def _row(run: Run, source: DatasetSource, record: Mapping[str, Any], where: str) -> Row:
    raw = _raw_prompt(record, where)
    turns = _turns(source, record, raw, where)
    if source.answer_column is not None:
        answer = _answer(source, record[source.answer_column], where)
        given = _of_answer(run, source.task, answer)
    elif _is_nemo_gym(source, record):
        if not run.makes_prompt(source.task):
            raise RowError(
                f"{where}: a row with {NEMO_GYM} is for a task whose environment is of type nemo_gym, and the task of "
                f"its source is {shown(source.task)}"
            )
        whole = {name: value for name, value in record.items() if value is not None}
        given = {"task": source.task, "verification_info": {"type": source.task, "row": whole}}
    else:
        column = source.verification_column
        given = {name: record.get(name) for name in VERL} if _is_verl(record) else {}
        given |= {"verification_info": record.get(column), "task": record.get(source.task_column or "")}
        if column != "verification_info":
            where = f"{where}, column {column}"
    row = _chat_row(run, turns, given, where=where, data_source=_data_source(record))
    if raw and run.plays(row.task):
        raise RowError(
            f"{where}: apply_chat_template is false, and the prompts of task {shown(row.task)} are rendered by the "
            "chat template: agents play it"
        )
    if not row.messages and source.system_prompt:
        row = replace(row, messages=(_system(source.system_prompt),))
    columns = _travelling(run.columns, record, where)
    solution = _solution(record) if row.verification_info.get("type") in PROGRAMS else ""
    if not (raw or columns or solution):
        return row
    return replace(row, raw_prompt=raw, columns=columns, solution=solution)


def _solution(record: Mapping[str, Any]) -> str:
    """Return the reference program of a row with tests; "" where it has none."""
    extra = as_object(record.get("extra_info"))
    found = (record.get(name) or extra.get(name) for name in SOLUTIONS)
    return next((text for text in found if isinstance(text, str) and text.strip()), "")


def _turns(source: DatasetSource, record: Mapping[str, Any], raw: str, where: str) -> Any:
    """Return the row's chat, unchecked."""
    prompt: Any
    if source.prompt_template is not None:
        empty = [column for column in _fields(source.prompt_template) if record[column] is None]
        if empty:
            raise RowError(f"{where}: prompt_template needs {empty[0]}, and it is empty")
        prompt = FIELD.sub(lambda found: str(record[found.group(1)]), source.prompt_template)
    else:
        try:
            prompt = chat_of(record.get(_prompt_column(source, record)))
        except BadMessage as error:
            raise RowError(f"{where}: {error}") from None
    if raw and not prompt:
        prompt = raw  # scorers that need the question find it in the chat
    if isinstance(prompt, str) and prompt.strip():
        prompt = [{"role": "user", "content": prompt}]
    if source.system_prompt and isinstance(prompt, list) and not raw:
        prompt = [_system(source.system_prompt), *prompt]
    return prompt


def _system(content: str) -> dict[str, str]:
    return {"role": "system", "content": content}


def _raw_prompt(record: Mapping[str, Any], where: str) -> str:
    """Return the text that is a row's whole prompt; "" where the chat template makes the prompt."""
    applies = record.get(RAW[0])
    if applies is None or applies is True:
        return ""
    if applies is not False:
        raise RowError(f"{where}: apply_chat_template must be true or false, got {applies!r}")
    raw = record.get(RAW[1])
    if not isinstance(raw, str) or not raw.strip():
        raise RowError(f"{where}: apply_chat_template is false, and raw_prompt has no text: got {raw!r:.80}")
    return raw


def _travelling(names: Collection[str], record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the values of the columns that travel; a dot enters an object, or the JSON text of one."""
    found = {}
    for name in names:
        value: Any = record
        for key in name.split("."):
            value = as_object(value).get(key)
        if value is not None:
            try:
                found[name] = plain(value, name)
            except BadMessage as error:
                raise RowError(f"{where}: {error}") from None
    return found


def _of_answer(run: Run, name: str, answer: Any) -> dict[str, Any]:
    """Return a row of a column map in the form that `route` reads; `name` is a task or a type of rows."""
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


def _answer(source: DatasetSource, value: Any, where: str) -> Any:
    """Return a row's reference: text, or a list or an object if its scorer accepts them."""
    try:
        value = plain(value, str(source.answer_column))
    except BadMessage as error:
        raise RowError(f"{where}: {error}") from None
    if isinstance(value, list | dict) and value:
        if source.answer_pattern is not None:
            raise RowError(
                f"{where}: answer_pattern reads text, and {source.answer_column} has {str(value)[:80]!r}"
            )
        return value
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
    """Make a row from its chat and the fields that `route` reads, all checked."""
    given = turns
    try:
        turns = [_turn(turn) for turn in turns or ()] if isinstance(turns, list | None) else None
    except BadMessage as error:
        raise RowError(f"{where}: {error}") from None
    if turns is None or not (turns or any(map(run.makes_prompt, run.scorers.tasks))):
        raise RowError(f"{where}: {_no_prompt(given)}")
    try:
        task, info = route(
            {**record, "prompt": turns},
            run.scorers.tasks,
            unknown_source=run.data.unknown_source,
            source_types=run.data.source_types,
        )
        if run.plays(task):
            seed_of(info)
    except BadMessage as error:
        raise RowError(f"{where}: {error}") from None
    if not turns and not run.makes_prompt(task):
        raise RowError(f"{where}: {_no_prompt(given)}")
    return Row(messages=tuple(turns), task=task, verification_info=info, data_source=data_source)


def _no_prompt(given: Any) -> str:
    if given is None:
        return "no prompt: the row has nothing in the column that its source's prompt_column names"
    return f"the prompt must be a text or a list of role and content, got {str(given)[:80]!r}"


def _turn(turn: Any) -> dict[str, Any]:
    """Return a turn with all fields that a chat template may use. Raises BadMessage.

    A turn that calls tools may have no content; null fields are dropped.
    """
    if not isinstance(turn, Mapping) or not isinstance(turn.get("role"), str):
        raise BadMessage(f"the prompt must be a text or a list of role and content, got {shown(turn)}")
    found = {key: plain(value, f"{key} of a turn") for key, value in turn.items() if value is not None}
    if found.get("tool_calls"):
        found.setdefault("content", "")
    if not isinstance(found.get("content"), str):
        raise BadMessage(
            f"the prompt must be a text or a list of role and content, got {shown(turn)}, whose content is no text"
        )
    return {"role": found.pop("role"), "content": found.pop("content"), **found}
