"""Find the task that scores a row of any known shape, and its canonical `verification_info`.

In: a record: II-Thought's (`verification_info`, text or object), verl's (`data_source`, `reward_model.ground_truth`,
`extra_info`; or `ground_truth` at the top level), or ours (`task` and `verification_info`). Out: the task, a key of
`scorers.tasks`, and `{"type": ..., "answer": {...}}` with JSON's types only. Called by the learner when it reads its
data and by programs that score rows without a run, so that a row means the same everywhere.

There are no defaults: an unknown type, an unknown data source, or an answer that no scorer can use raises `BadMessage`
with the known ones. The content of an answer (are its tests text?) is checked by the scorer's `check_row`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Final

from broker.errors import BadMessage
from config.scorer_kinds import SECTIONS, reads
from config.scorers import TaskConfig
from tasks.chat import chat_of
from tasks.kinds import BY_NAME, TASK_OF_TYPE, check_answer, kind_of, needs, refuse_unread
from tasks.values import UnknownType, hint, listed, shown, to_object
from tasks.verl import of_verl, taker_of_others

KNOWN_SHAPES: Final = (
    '{"verification_info": {"type": ..., "answer": {...}}}, or '
    '{"data_source": ..., "reward_model": {"ground_truth": ...}}, or {"data_source": ..., "ground_truth": ...}'
)

# Parts of an answer that are objects with file names as keys.
_BY_PATH: Final = ("code_context", "oracle_new_content", "oracle_patches", "files")


def route(
    record: Mapping[str, Any],
    tasks: Mapping[str, TaskConfig] | None = None,
    *,
    unknown_source: str | None = None,
    source_types: Mapping[str, str] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return the task that scores `record`, and its canonical verification_info.

    Args:
        record: one row; other keys than those above are ignored, except the chat in `messages` or `prompt`: a judge or
            a rubric model needs its question.
        tasks: the run's `scorers.tasks`. A type or a data source that is the name of a task belongs to that task, and
            if a custom scorer judges it, its answer is not changed. If one of the tasks is a `verl_function` or a
            `reward_api`, it gets all rows that name no other task. None: only the types of this version.
        unknown_source: type of the rows with an unknown data source; None: they are refused.
        source_types: type of the rows by data source; takes precedence over the known ones.
    Raises:
        BadMessage: names the shape, type, data source or part of the answer that is wrong, and what is known.
    """
    info = _info(record, tasks or {}, unknown_source, source_types or {})
    row_type = info.get("type")
    if not isinstance(row_type, str) or not row_type:
        raise BadMessage(
            f"verification_info needs a type, one of {listed(dict.fromkeys([*(tasks or {}), *TASK_OF_TYPE]))}; "
            f"got {shown(row_type)}"
        )
    task = _task(record.get("task") if record.get("verification_info") is not None else None, row_type, tasks)
    kind = TASK_OF_TYPE.get(row_type)
    judge, *others = [kind] if tasks is None else _judges(tasks[task])
    if judge is not None and SECTIONS[judge].takes_rows_as_they_are:
        return task, info
    if judge is None or kind is None or not reads(judge, kind):
        fitting = [
            known for known, its_kind in TASK_OF_TYPE.items() if judge is None or reads(judge, its_kind)
        ]
        raise BadMessage(f"task {shown(task)} takes rows of type {listed(fitting)}; got {shown(row_type)}")
    if kind == "format":
        return task, {**info, "of": _of(info.get("of"), tasks or {})}
    answer = _answer(info.get("answer"), row_type)
    if not any(name and SECTIONS[name].takes_rows_as_they_are for name in others):
        refuse_unread(answer, row_type)
    wants_question = any(name and BY_NAME[name].wants_question for name in (judge, *others))
    if wants_question and "question" not in answer and (question := _question(record)):
        answer |= to_object({"question": question}, "the prompt")
    return task, {**info, "answer": answer}


def _judges(task: TaskConfig) -> list[str | None]:
    """Return the types of all scorers that judge a task's rows; the task's own scorer is the first."""
    return [scorer.type for scorer in task.all_scorers.values()]


def _info(
    record: Mapping[str, Any],
    tasks: Mapping[str, TaskConfig],
    unknown_source: str | None,
    source_types: Mapping[str, str],
) -> dict[str, Any]:
    """Return the row's verification_info in JSON's types, for any shape."""
    if record.get("verification_info") is not None:
        return to_object(record["verification_info"], "verification_info")
    if record.get("data_source") is not None or record.get("reward_model") is not None:
        return of_verl(record, tasks, unknown_source=unknown_source, source_types=source_types)
    if "verification_info" in record:
        raise BadMessage(
            "verification_info is missing or null; it is an object with the row's type and answer"
        )
    raise BadMessage(
        f"a row of no known shape, with the keys {listed(record) or 'none'}; known are {KNOWN_SHAPES}"
    )


def _task(given: Any, row_type: str, tasks: Mapping[str, TaskConfig] | None) -> str:
    """Return the row's key of scorers.tasks, checked against `tasks` if there are any."""
    if given is not None and not isinstance(given, str):
        raise BadMessage(f"task must be a name, got {shown(given)}")
    task = given or (row_type if row_type in (tasks or {}) else TASK_OF_TYPE.get(row_type))
    if not given and task not in (tasks or {}):
        task = taker_of_others(tasks or {}) or task
    if task is None:
        known = dict.fromkeys([*TASK_OF_TYPE, *(tasks or {})])
        raise UnknownType(
            f"no scorer for rows of type {shown(row_type)}{hint(row_type, known)}; known are {listed(known)}"
        )
    if tasks is not None and task not in tasks:
        key, kind = f"scorers.tasks.{task[:100]}.scorer", TASK_OF_TYPE.get(row_type, "custom")
        remedy = f"add {shlex.quote(f'{key}.type={kind}')}"
        if kind == "custom":
            remedy += f" {shlex.quote(f'{key}.import_path=MODULE:NAME')}"
        raise BadMessage(
            f"no scorer for task {shown(task)}{hint(task, tasks)}; scorers.tasks has {listed(tasks)}: "
            f"{remedy}"
        )
    return task


def _of(value: Any, tasks: Mapping[str, TaskConfig]) -> dict[str, Any]:
    """Return the verification_info that a row of type `format` refers to, of any type that has a scorer."""
    info = to_object(value, "`of` of a row of type 'format', the verification_info whose shape is wanted,")
    row_type = info.get("type")
    if row_type == "format":
        raise BadMessage("a row of type 'format' can't be `of` another one")
    is_own = isinstance(row_type, str) and row_type in tasks and tasks[row_type].scorer.takes_rows_as_they_are
    return info if is_own else route({"verification_info": info})[1]


def _answer(answer: Any, row_type: str) -> dict[str, Any]:
    """Return the row's answer with all that its task needs."""
    if not isinstance(answer, dict) and ("value",) in kind_of(row_type).answers:
        answer = {"value": answer}
    if not isinstance(answer, dict):
        raise BadMessage(
            f"no answer: a row of type {row_type!r} needs an object with {needs(row_type)}; got {shown(answer)}"
        )
    # In a column of objects every row has the keys of all rows, with null for its missing ones.
    found: dict[str, Any] = {key: value for key, value in answer.items() if value is not None}
    for key in _BY_PATH:
        if isinstance(found.get(key), dict):
            found[key] = {path: text for path, text in found[key].items() if text is not None}
    return check_answer(found, row_type)


def _question(record: Mapping[str, Any]) -> str:
    """Return the chat's last user turn, for a scorer that gets no prompt; "" if the row has no chat."""
    chat = record.get("messages") if record.get("messages") is not None else record.get("prompt")
    try:
        chat = chat_of(chat)
    except BadMessage:
        return ""
    if isinstance(chat, str):
        return chat
    asked = [
        turn["content"]
        for turn in (chat if isinstance(chat, Iterable) else ())
        if isinstance(turn, Mapping) and turn.get("role") == "user" and isinstance(turn.get("content"), str)
    ]
    return asked[-1] if asked else ""
