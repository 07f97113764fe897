"""Read rows in verl's format, in which the name of a data source decides how a row is scored.

In: `data_source`, `reward_model.ground_truth` and `extra_info`; or `data_source`, `ground_truth` and `extra_info`, the
arguments of verl's own `compute_score`. Out: the `verification_info` for `tasks.route`. There are no defaults: an
unknown name raises `BadMessage` with the nearest known ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from broker.errors import BadMessage
from config.scorers import TaskConfig
from tasks.chat import chat_of
from tasks.kinds import DATA_SOURCES, ROW_TYPES, TASK_OF_TYPE
from tasks.values import UnknownType, hint, listed, shown, to_object

FUNCTION: Final = "verl_function"  # the scorer with the same arguments as verl's own functions

# `extra_info.reward_metric` of Reasoning360's math rows: only the judge has its own type.
_JUDGED: Final = "math_llm_judge"
_METRICS: Final = (None, "default", "prime_math", _JUDGED)

# Data sources that two systems read differently -> the type of their rows here, and the other system's type.
IN_DOUBT: Final[Mapping[str, tuple[str, str]]] = {
    "math": (
        "hendrycks_math",
        (
            "read as the rubric paper (RRM) reads it, the last box by Hendrycks' spelling; verl from 0.6.0 on as "
            "math_dapo, by a line `Answer: ...`: data.source_types.math=prime_math takes both, and "
            "data.source_types.math=hendrycks_math says that it is RRM's"
        ),
    )
}

# RRM and TinyV use the same names for data sources; only RRM's rows have criteria.
_GRADED, _VERIFIED = "rubric", "tinyv"
_SETUP: Final = {"tinyv_setup": "mode", "tinyv_weight": "weight"}  # their settings -> the scorer's here


def of_verl(
    record: Mapping[str, Any],
    tasks: Mapping[str, TaskConfig],
    *,
    unknown_source: str | None = None,
    source_types: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the verification_info of a row of verl.

    Args:
        record: the row.
        tasks: the run's; if a data source is the name of a custom scorer's task, its ground truth is not changed.
        unknown_source: type of the rows with an unknown data source; None: they are refused.
        source_types: type of the rows by data source; takes precedence over the known ones. `*` matches any text.
    Raises:
        BadMessage: names what the row lacks, or the data source that has no scorer.
    """
    source = record.get("data_source")
    if not isinstance(source, str) or not source:
        raise BadMessage(f"data_source must be a name, got {shown(source)}")
    model = _reward_model(record)
    extra = {} if record.get("extra_info") is None else to_object(record["extra_info"], "extra_info")
    truth = model.get("ground_truth")
    said = _said_type(source, source_types or {})
    if (taker := _taker(source, tasks, said)) is not None and tasks[taker].scorer.type == FUNCTION:
        return {"type": taker, "answer": {"value": truth}, "data_source": source, "extra_info": extra}
    if truth is None:
        raise BadMessage(f"no answer: reward_model has no ground_truth, only {listed(model) or 'nothing'}")
    if source in tasks and tasks[source].scorer.takes_rows_as_they_are:
        return {"type": source, "answer": {"value": truth}, "extra_info": extra}
    # In a column of objects every row has the keys of all rows, with null for its missing ones.
    extra = {key: value for key, value in extra.items() if value is not None}
    extra = {"prompt": _prompt(record), **extra, "criteria": extra.get("criteria") or record.get("criteria")}
    row_type = said or _type_of_source(source, extra, unknown_source)
    if row_type == _GRADED:
        row_type = _verifier(source, extra, tasks)
        _check_setup(model, row_type, tasks)
    answer_of = ROW_TYPES[row_type].answer_of
    answer = answer_of(truth, extra) if answer_of else {"value": truth}
    return {"type": row_type, "answer": answer}


def taker_of_others(tasks: Mapping[str, TaskConfig]) -> str | None:
    """Return the task whose scorer takes every row that names no other task of the run; None if there is none."""
    return next((name for name, task in tasks.items() if task.scorer.takes_other_rows), None)


def _said_type(source: str, source_types: Mapping[str, str]) -> str | None:
    """Return the type that the configuration sets for a data source; None if it sets none. Raises UnknownType."""
    said = next(
        ((name, row_type) for name, row_type in source_types.items() if fnmatchcase(source, name)), None
    )
    return None if said is None else _known_type(f"data.source_types.{said[0]}", said[1])


def _known_type(key: str, row_type: str) -> str:
    if row_type not in ROW_TYPES:
        raise UnknownType(
            f"{key}={row_type} is no type of rows{hint(row_type, ROW_TYPES)}; known are {listed(ROW_TYPES)}"
        )
    return row_type


def _taker(source: str, tasks: Mapping[str, TaskConfig], said: str | None) -> str | None:
    """Return the task of a data source: the one with its name, else with its type, else the one that takes others."""
    if source in tasks:
        return source
    row_type = said or next((known for pattern, known in DATA_SOURCES if fnmatchcase(source, pattern)), None)
    own = None if row_type is None else TASK_OF_TYPE[row_type]
    return own if own in tasks else taker_of_others(tasks)


def _reward_model(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's `reward_model`, or one made of a top-level `ground_truth`. Raises BadMessage."""
    if record.get("reward_model") is not None or "ground_truth" not in record:
        return to_object(record.get("reward_model"), "reward_model")
    if record["ground_truth"] is None:
        raise BadMessage("no answer: ground_truth is None, and there is no reward_model")
    return to_object({"ground_truth": record["ground_truth"]}, "ground_truth")


def _prompt(record: Mapping[str, Any]) -> str:
    """Return the last message of a row's prompt, or Reasoning360's `raw_prompt`; "" if it has neither."""
    try:
        messages = chat_of(record.get("prompt"))
    except BadMessage:
        messages = None
    last = messages[-1] if isinstance(messages, list) and messages else None
    text = last.get("content") if isinstance(last, Mapping) else record.get("raw_prompt")
    return text if isinstance(text, str) else ""


def _type_of_source(source: str, extra: Mapping[str, Any], unknown_source: str | None) -> str:
    row_type = next((row_type for pattern, row_type in DATA_SOURCES if fnmatchcase(source, pattern)), "")
    if row_type is None:
        raise BadMessage(f"rows of data_source {source!r} are not scored by this version")
    if not row_type and unknown_source is not None:
        return _known_type("data.unknown_source", unknown_source)
    if not row_type:
        known = [pattern for pattern, row_type in DATA_SOURCES if row_type]
        raise UnknownType(
            f"unknown data_source {source!r}{hint(source, known)}; known are {listed(known)}. With "
            "`verification_info` in its rows, data of any name can be scored; `data.source_types` gives a name its "
            "type, and `data.unknown_source` all unknown ones"
        )
    if source.startswith("math__"):
        metric = extra.get("reward_metric")
        if metric not in _METRICS:
            raise BadMessage(
                f"unknown extra_info.reward_metric {shown(metric)} of data_source {source!r}; known are "
                f"{listed(name for name in _METRICS if name)}"
            )
        if metric == _JUDGED:
            return _JUDGED
    return row_type


def _verifier(source: str, extra: Mapping[str, Any], tasks: Mapping[str, TaskConfig]) -> str:
    """Return the row's verifier: a rubric model if the row has criteria, unless the run has only TinyV; else TinyV."""
    criteria = extra["criteria"]
    if criteria is not None and not isinstance(criteria, str):
        raise BadMessage(f"criteria must be text, got {shown(criteria)}")
    if criteria and criteria.strip():
        return _VERIFIED if _VERIFIED in tasks and _GRADED not in tasks else _GRADED
    if _GRADED in tasks and _VERIFIED not in tasks:
        raise BadMessage(
            f"no criteria to grade by: a row of data_source {source!r} has them in extra_info.criteria or "
            "beside it, in criteria. TinyV's judge needs none, and is a task of its own: "
            "scorers.tasks.tinyv.scorer.type=tinyv"
        )
    return _VERIFIED


def _check_setup(model: Mapping[str, Any], row_type: str, tasks: Mapping[str, TaskConfig]) -> None:
    """Check that a row's setting for combining rule and verifier is the same as the run's, which decides."""
    section = tasks[row_type].scorer if row_type in tasks else None
    for key, ours in _SETUP.items():
        said, has = model.get(key), getattr(section, ours, None)
        if said is not None and has is not None and said != has:
            raise BadMessage(
                f"reward_model.{key} is {shown(said)}, which a row can't choose: scorers.tasks.{row_type}."
                f"scorer.{ours} says it for all rows, and is {has!r}"
            )
