"""From a row, in the shape in which its users have it, to the task that scores it and a canonical `verification_info`.

In: a record: II-Thought's (`verification_info`, text or object), verl's (`data_source`, `reward_model.ground_truth`,
`extra_info`), or ours (`task` beside `verification_info`). Out: the task, a key of `scorers.tasks`, and
`{"type": ..., "answer": {...}}` of JSON's types only. Called by the learner when it reads its data and by whoever
scores rows without a run, so that a row means the same everywhere.

Nothing has a default: an unknown type, an unknown data source, an answer that no scorer could use raise `BadMessage`
naming the known ones. What is inside an answer (are its tests text?) is the scorer's `check_row` to say.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np

from broker.errors import BadMessage
from config.scorers import TaskConfig

TASK_OF_TYPE: Final[Mapping[str, str]] = {
    "math": "math", "math_verifiable": "math", "gsm8k": "math", "hendrycks_math": "math", "prime_math": "math",
    "code": "code", "code_verifiable": "code",
    "swe": "swe", "swe_verifiable": "swe",
}
KNOWN_SHAPES: Final = ('{"verification_info": {"type": ..., "answer": {...}}}, or '
                       '{"data_source": ..., "reward_model": {"ground_truth": ...}}')

# What an answer of each task must hold: all names of one of these.
ANSWERS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "math": (("value",),),
    "code": (("test_cases",), ("inputs", "outputs"), ("functional",), ("tests",), ("pytest",)),
    "swe": (("input", "ground_truth"), ("code_context", "oracle_new_content"), ("oracle_patches",)),
}
_BY_PATH: Final = ("code_context", "oracle_new_content", "oracle_patches", "files")     # objects keyed by file names

# verl's data sources and the type that their rows have here, None where this version has no scorer. The first that fits
# decides. TinyV, RRM and Reasoning360 route by these names; where two of them differ, a comment says whose is kept.
DATA_SOURCES: Final[tuple[tuple[str, str | None], ...]] = (
    ("openai/gsm8k", "gsm8k"),
    ("math", "hendrycks_math"),                 # RRM's; Reasoning360 has no set of this bare name
    ("lighteval/MATH", "hendrycks_math"), ("DigitalLearningGmbH/MATH-lighteval", "hendrycks_math"),
    ("simplelr_qwen", "hendrycks_math"),
    ("*_mathverify*", "math"),
    ("numina_aops_forum", "prime_math"), ("numina_synthetic_math", "prime_math"), ("numina_amc_aime", "prime_math"),
    ("numina_synthetic_amc", "prime_math"), ("numina_cn_k12", "prime_math"), ("numina_olympiads", "prime_math"),
    ("codecontests", "code"), ("apps", "code"), ("codeforces", "code"), ("taco", "code"),
    ("codegen__*", "code"),                     # before `*_prime*`, which codegen__primeintellect fits too
    ("grade", None), ("*_tinyv*", None), ("*HardVerify-Math*", None),
    ("simulation__*", None), ("logic__*", None), ("zebra_puzzle*", None), ("ordering_puzzle*", None),
    ("graph_logical*", None), ("table__*", None), ("stem__*", None), ("stem_web*", None), ("ood__*", None),
    ("reasoning_gym", None), ("hiyouga/geometry3k", None), ("searchR1_*", None),
    ("math__*", "prime_math"), ("math_dapo", "prime_math"), ("aime*", "prime_math"),
    ("*_prime*", "prime_math"), ("OLYMPIAD_BENCH", "prime_math"), ("MINERVA", "prime_math"), ("MATH", "prime_math"),
    ("AMC", "prime_math"), ("AIME", "prime_math"),
)
# `extra_info.reward_metric` of Reasoning360's math rows, and whether this version scores it.
_METRICS: Final[Mapping[str | None, bool]] = {None: True, "default": True, "prime_math": True, "math_llm_judge": False}
_NOT_YET: Final = frozenset({"llm_judge"})      # types that others know and this version does not
_MAX_DEPTH: Final = 100                         # of lists and objects in one another: what travels has to be unpacked
_SHOWN_CHARS: Final = 120                       # of a value in a message


class UnknownType(BadMessage):
    """No scorer has such rows; the message names the types or data sources that have one."""


def route(record: Mapping[str, Any], tasks: Mapping[str, TaskConfig] | None = None) -> tuple[str, dict[str, Any]]:
    """The task that scores `record`, and its canonical verification_info.

    Args:
        record: one row; keys other than those above are not looked at.
        tasks: the run's `scorers.tasks`. A type or a data source that is the name of a task belongs to that task, and
            one that a custom scorer judges keeps its answer as it is. None: the types of this version alone.
    Raises:
        BadMessage: naming the shape, type, data source or part of the answer that is wrong, and what is known.
    """
    info = _info(record, tasks or {})
    row_type = info.get("type")
    if not isinstance(row_type, str) or not row_type:
        raise BadMessage(f"verification_info needs a type, one of {_listed(TASK_OF_TYPE)}; got {_shown(row_type)}")
    task = _task(record.get("task") if record.get("verification_info") is not None else None, row_type, tasks)
    judge = TASK_OF_TYPE.get(row_type) if tasks is None else tasks[task].scorer.type
    if judge == "custom":
        return task, info
    if judge is None or TASK_OF_TYPE.get(row_type) != judge:
        fitting = [known for known, its_task in TASK_OF_TYPE.items() if judge in {None, its_task}]
        raise BadMessage(f"task {task!r} takes rows of type {_listed(fitting)}; got {row_type!r}")
    return task, {**info, "answer": _answer(info.get("answer"), row_type, judge)}


def _info(record: Mapping[str, Any], tasks: Mapping[str, TaskConfig]) -> dict[str, Any]:
    """The row's verification_info, of JSON's types, whatever its shape."""
    if record.get("verification_info") is not None:
        return _object(record["verification_info"], "verification_info")
    if record.get("data_source") is not None or record.get("reward_model") is not None:
        return _of_verl(record, tasks)
    if "verification_info" in record:
        raise BadMessage("verification_info must be an object, got NoneType")
    raise BadMessage(f"a row of no known shape, with the keys {_listed(record) or 'none'}; known are {KNOWN_SHAPES}")


def _task(given: Any, row_type: str, tasks: Mapping[str, TaskConfig] | None) -> str:
    """The key of scorers.tasks; checked against `tasks` where there are any."""
    if given is not None and not isinstance(given, str):
        raise BadMessage(f"task must be a name, got {_shown(given)}")
    task = given or (row_type if row_type in (tasks or {}) else TASK_OF_TYPE.get(row_type))
    if task is None:
        if row_type in _NOT_YET:
            raise BadMessage(f"rows of type {row_type!r} are not scored by this version; it scores "
                             f"{_listed(TASK_OF_TYPE)}")
        known = dict.fromkeys([*TASK_OF_TYPE, *(tasks or {})])
        raise UnknownType(f"no scorer for rows of type {row_type!r}{_hint(row_type, known)}; known are "
                          f"{_listed(known)}")
    if tasks is not None and task not in tasks:
        remedy = f"add `scorers.tasks.{task}: {{scorer: {{type: {TASK_OF_TYPE.get(row_type, 'custom')}}}}}`"
        raise BadMessage(f"no scorer for task {task!r}{_hint(task, tasks)}; scorers.tasks has {_listed(tasks)}: "
                         f"{remedy}")
    return task


def _of_verl(record: Mapping[str, Any], tasks: Mapping[str, TaskConfig]) -> dict[str, Any]:
    """The verification_info of a row of verl."""
    source = record.get("data_source")
    if not isinstance(source, str) or not source:
        raise BadMessage(f"data_source must be a name, got {_shown(source)}")
    model = _object(record.get("reward_model"), "reward_model")
    extra = {} if record.get("extra_info") is None else _object(record["extra_info"], "extra_info")
    truth = model.get("ground_truth")
    if truth is None:
        raise BadMessage(f"no answer: reward_model has no ground_truth, only {_listed(model) or 'nothing'}")
    if source in tasks and tasks[source].scorer.type == "custom":
        return {"type": source, "answer": {"value": truth}, "extra_info": extra}
    row_type = _type_of_source(source, extra)
    if TASK_OF_TYPE[row_type] == "math":
        return {"type": row_type, "answer": {"value": truth}}
    answer = _object(truth, "reward_model.ground_truth")
    if "functional" in answer and extra.get("prefix"):
        answer = {**answer, "prefix": extra["prefix"]}
    return {"type": row_type, "answer": answer}


def _type_of_source(source: str, extra: Mapping[str, Any]) -> str:
    row_type = next((row_type for pattern, row_type in DATA_SOURCES if fnmatchcase(source, pattern)), "")
    if row_type is None:
        raise BadMessage(f"rows of data_source {source!r} are not scored by this version")
    if not row_type:
        known = [pattern for pattern, row_type in DATA_SOURCES if row_type]
        raise UnknownType(f"unknown data_source {source!r}{_hint(source, known)}; known are {_listed(known)}. With "
                          "`verification_info` in its rows, data of any name can be scored")
    if source.startswith("math__"):
        metric = extra.get("reward_metric")
        if metric not in _METRICS:
            raise BadMessage(f"unknown extra_info.reward_metric {_shown(metric)} of data_source {source!r}; known are "
                             f"{_listed(str(name) for name in _METRICS if name)}")
        if not _METRICS[metric]:
            raise BadMessage(f"rows of data_source {source!r} with extra_info.reward_metric {metric!r} are not scored "
                             "by this version")
    return row_type


def _answer(answer: Any, row_type: str, task: str) -> dict[str, Any]:
    """The row's answer with all that its task needs."""
    if task == "math" and not isinstance(answer, dict):
        answer = {"value": answer}
    if not isinstance(answer, dict):
        raise BadMessage(f"no answer: a row of type {row_type!r} needs an object with {_needs(task)}; "
                         f"got {_shown(answer)}")
    # In a column of objects every row has the keys of all rows, null where it had none itself.
    found: dict[str, Any] = {key: value for key, value in answer.items() if value is not None}
    for key in _BY_PATH:
        if isinstance(found.get(key), dict):
            found[key] = {path: text for path, text in found[key].items() if text is not None}
    if task == "math":
        found["value"] = _reference(found.get("value"))
    elif not any(all(name in found for name in names) for names in ANSWERS[task]):
        raise BadMessage(f"no answer: a row of type {row_type!r} needs {_needs(task)}; its answer has "
                         f"{_listed(found) or 'nothing'}")
    return found


def _reference(value: Any) -> str:
    """A mathematical reference as text: numbers are written, a list of one is that one, space around it goes."""
    if isinstance(value, list):
        if len(value) != 1:
            raise BadMessage(f"no answer: a reference must be one value, got a list of {len(value)}: {_shown(value)}")
        return _reference(value[0])
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return str(value)
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise BadMessage(f"no answer to check against in verification_info: the value is {_shown(value)}")
    return text


def _object(value: Any, name: str) -> dict[str, Any]:
    """A mapping, or the JSON text of one, as a dict of JSON's types."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise BadMessage(f"{name} is not JSON: {error}: {_shown(value)}") from None
    if not isinstance(value, Mapping):
        raise BadMessage(f"{name} must be an object, got {type(value).__name__}")
    return {_text(key, name): _plain(item, name) for key, item in value.items()}


def _plain(value: Any, name: str, depth: int = 1) -> Any:
    """`value` in JSON's types: what parquet gives as arrays and tuples become lists."""
    if depth > _MAX_DEPTH:
        raise BadMessage(f"{name} is nested more than {_MAX_DEPTH} deep")
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {_text(key, name): _plain(item, name, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, name, depth + 1) for item in value]
    if isinstance(value, str):
        return _text(value, name)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise BadMessage(f"{name} can't be written as JSON: {type(value).__name__} {_shown(value)}")


def _text(text: Any, name: str) -> str:
    if not isinstance(text, str):
        raise BadMessage(f"{name} can't be written as JSON: the key {_shown(text)} is no text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadMessage(f"{name} holds text that is no Unicode: {_shown(text)}") from None
    return text


def _needs(task: str) -> str:
    return ", or ".join(" and ".join(names) for names in ANSWERS[task])


def _hint(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name.lower(), [other.lower() for other in known], n=1, cutoff=0.5)
    found = [other for other in known if other.lower() in near]
    return f"; did you mean {found[0]}?" if found else ""


def _listed(names: Any) -> str:
    return ", ".join(map(str, names))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
