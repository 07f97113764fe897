"""Rows of verl, and of all who took its format over: the name of a data source says how they are scored.

In: `data_source`, `reward_model.ground_truth`, `extra_info`. Out: the `verification_info` that `tasks.route` goes
on with. Nothing has a default: a name that nobody knows raises `BadMessage` with the nearest known ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np

from broker.errors import BadMessage
from config.scorers import TaskConfig
from tasks.reasoning360 import codeio, cruxeval
from tasks.values import UnknownType, hint, listed, shown, to_object

# verl's data sources and the type that their rows have here, None where this version has no scorer. The first that fits
# decides. TinyV, RRM and Reasoning360 route by these names; where two of them differ, a comment says whose is kept.
DATA_SOURCES: Final[tuple[tuple[str, str | None], ...]] = (
    ("openai/gsm8k", "gsm8k"),
    ("math", "hendrycks_math"),  # RRM's; Reasoning360 has no set of this bare name
    ("lighteval/MATH", "hendrycks_math"),
    ("DigitalLearningGmbH/MATH-lighteval", "hendrycks_math"),
    ("simplelr_qwen", "hendrycks_math"),
    ("*_mathverify*", "math"),
    ("numina_aops_forum", "prime_math"),
    ("numina_synthetic_math", "prime_math"),
    ("numina_amc_aime", "prime_math"),
    ("numina_synthetic_amc", "prime_math"),
    ("numina_cn_k12", "prime_math"),
    ("numina_olympiads", "prime_math"),
    ("codecontests", "code"),
    ("apps", "code"),
    ("codeforces", "code"),
    ("taco", "code"),
    ("codegen__*", "code"),  # before `*_prime*`, which codegen__primeintellect fits too
    ("grade", "grade"),
    ("*_tinyv*", "rubric"),
    ("*HardVerify-Math*", "rubric"),  # or `tinyv`, see `_verifier`
    # Reasoning360 files ARC under simulation, and its puzzles have no prefix before its last step; users write both.
    ("logic__zebra_puzzle*", "zebra"),
    ("zebra_puzzle*", "zebra"),
    ("logic__ordering_puzzle*", "ordering"),
    ("ordering_puzzle*", "ordering"),
    ("logic__graph*", "graph"),
    ("graph_logical*", "graph"),
    ("simulation__arcagi*", "arc"),
    ("simulation__barc*", "arc"),
    ("logic__arcagi*", "arc"),
    ("logic__barc*", "arc"),
    ("simulation__codeio*", "codeio"),
    ("simulation__cruxeval*", "cruxeval"),
    ("simulation__*", None),
    ("logic__*", None),
    ("table__hitab", "hitab"),
    ("table__multihier", "multihier"),
    ("table__finqa", "finqa"),
    ("stem__gpqa*", "choice"),
    ("stem__supergpqa*", "choice"),
    ("stem_web*", "stem_llm_judge"),
    ("stem__web*", "stem_llm_judge"),
    ("stem__*", None),
    ("ood__ifeval", "ifeval"),
    ("ood__ifbench", "ifbench"),
    ("ood__livebench*", "livebench"),
    ("ood__*", None),
    ("reasoning_gym*", "reasoning_gym"),
    ("hiyouga/geometry3k", "math"),
    *(
        (f"searchR1_{name}", "qa_em")
        for name in ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
    ),
    ("math__*", "prime_math"),
    ("math_dapo", "prime_math"),
    ("aime*", "prime_math"),
    ("*_prime*", "prime_math"),
    ("OLYMPIAD_BENCH", "prime_math"),
    ("MINERVA", "prime_math"),
    ("MATH", "prime_math"),
    ("AMC", "prime_math"),
    ("AIME", "prime_math"),
)
# `extra_info.reward_metric` of Reasoning360's math rows: only the judge has a type of its own.
_JUDGED: Final = "math_llm_judge"
_METRICS: Final = (None, "default", "prime_math", _JUDGED)

# RRM and TinyV have the same names for data sources; RRM's rows have criteria.
_GRADED, _VERIFIED = "rubric", "tinyv"
_SETUP: Final = {"tinyv_setup": "mode", "tinyv_weight": "weight"}  # their settings, as a scorer's here

# How a type's answer is made of `reward_model.ground_truth` and `extra_info`, which has the text of the row's prompt
# under "prompt" where it brings no other; of a type that is not here it is `{"value": ground_truth}`.
Importer = Callable[[Any, Mapping[str, Any]], dict[str, Any]]


def of_verl(record: Mapping[str, Any], tasks: Mapping[str, TaskConfig]) -> dict[str, Any]:
    """The verification_info of a row of verl.

    Args:
        record: the row.
        tasks: the run's; a data source that is the name of a custom scorer's task keeps its ground truth as it is.
    Raises:
        BadMessage: naming what the row lacks, or the data source that has no scorer.
    """
    source = record.get("data_source")
    if not isinstance(source, str) or not source:
        raise BadMessage(f"data_source must be a name, got {shown(source)}")
    model = to_object(record.get("reward_model"), "reward_model")
    extra = {} if record.get("extra_info") is None else to_object(record["extra_info"], "extra_info")
    truth = model.get("ground_truth")
    if truth is None:
        raise BadMessage(f"no answer: reward_model has no ground_truth, only {listed(model) or 'nothing'}")
    if source in tasks and tasks[source].scorer.type == "custom":
        return {"type": source, "answer": {"value": truth}, "extra_info": extra}
    extra = {"prompt": _prompt(record), **extra, "criteria": extra.get("criteria") or record.get("criteria")}
    row_type = _type_of_source(source, extra)
    if row_type == _GRADED:
        row_type = _verifier(source, extra, tasks)
        _check_setup(model, row_type, tasks)
    answer = _ANSWER_OF[row_type](truth, extra) if row_type in _ANSWER_OF else {"value": truth}
    return {"type": row_type, "answer": answer}


def _prompt(record: Mapping[str, Any]) -> str:
    """The last message of a row's prompt, or Reasoning360's `raw_prompt`; "" where it has neither."""
    messages = record.get("prompt")
    last = messages[-1] if isinstance(messages, list | tuple | np.ndarray) and len(messages) else None
    text = last.get("content") if isinstance(last, Mapping) else record.get("raw_prompt")
    return text if isinstance(text, str) else ""


def _type_of_source(source: str, extra: Mapping[str, Any]) -> str:
    row_type = next((row_type for pattern, row_type in DATA_SOURCES if fnmatchcase(source, pattern)), "")
    if row_type is None:
        raise BadMessage(f"rows of data_source {source!r} are not scored by this version")
    if not row_type:
        known = [pattern for pattern, row_type in DATA_SOURCES if row_type]
        raise UnknownType(
            f"unknown data_source {source!r}{hint(source, known)}; known are {listed(known)}. With "
            "`verification_info` in its rows, data of any name can be scored"
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
    """Whom a row is for: a rubric model where it has criteria, else TinyV's judge; in a run with one of them, that."""
    criteria = extra["criteria"]
    if criteria is not None and not isinstance(criteria, str):
        raise BadMessage(f"criteria must be text, got {shown(criteria)}")
    if criteria and criteria.strip():
        return _VERIFIED if _VERIFIED in tasks and _GRADED not in tasks else _GRADED
    if _GRADED in tasks and _VERIFIED not in tasks:
        raise BadMessage(
            f"no criteria to grade by: a row of data_source {source!r} has them in extra_info.criteria or "
            "beside it, in criteria. TinyV's judge needs none, and is a task of its own: "
            "`scorers.tasks.tinyv: {scorer: {type: tinyv}}`"
        )
    return _VERIFIED


def _check_setup(model: Mapping[str, Any], row_type: str, tasks: Mapping[str, TaskConfig]) -> None:
    """How rule and verifier meet is a setting of the run, there and here; a row that says it has to say the same."""
    section = tasks[row_type].scorer if row_type in tasks else None
    for key, ours in _SETUP.items():
        said, has = model.get(key), getattr(section, ours, None)
        if said is not None and has is not None and said != has:
            raise BadMessage(
                f"reward_model.{key} is {shown(said)}, which a row can't choose: scorers.tasks.{row_type}."
                f"scorer.{ours} says it for all rows, and is {has!r}"
            )


def _code(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    answer = to_object(truth, "reward_model.ground_truth")
    return {**answer, "prefix": extra["prefix"]} if "functional" in answer and extra.get("prefix") else answer


def _ifeval(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The ground truth is the list of kwargs; the instructions are beside it."""
    ids = extra.get("instruction_id_list")
    if not ids:
        raise BadMessage(
            f"no answer: rows of IFEval need extra_info.instruction_id_list, got {listed(extra) or 'nothing'}"
        )
    return {"instruction_id_list": ids, "kwargs": truth, "prompt": extra["prompt"]}


def _ifbench(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    return {"value": truth, "prompt": extra["prompt"]}


# What in a question makes 54.8, 54.8% and 0.548 one answer: the tables have their shares in all three forms.
_PERCENT: Final = re.compile(
    r"per\s*cent|%|\bpct\b|\b(?:proportion|share|rate|probabilit(?:y|ie)|likelihood)s?\b", re.IGNORECASE
)
_QUESTION: Final = "The question is:"  # after the tables, in Reasoning360's prompts


def _table(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the question asks for a percentage, or for several answers in its own order, stands in its text alone."""
    question = str(extra["prompt"]).rpartition(_QUESTION)
    answer = {"value": truth}
    if question[1] and _PERCENT.search(question[2]):
        answer["percent"] = True
    if question[1] and "respectively" in question[2].lower():
        answer["ordered"] = True
    return answer


_WITH_PROMPT: Final = ("tablereformat", "plot_unscrambling")  # tasks of LiveBench whose rules read it


def _livebench(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The task decides; `extra_info.prompt` is a list of one turn, and goes along where the rule needs it."""
    task, prompt = extra.get("task"), extra.get("prompt")
    answer = {"value": truth, "task": task, "category": extra.get("category")}
    prompt = prompt[-1] if isinstance(prompt, list) and prompt else prompt
    return {**answer, "prompt": prompt} if task in _WITH_PROMPT else answer


def _qa_em(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The ground truth of Search-R1 is `{"target": [...]}`, or the JSON text of it."""
    del extra
    if isinstance(truth, str) and not truth.lstrip().startswith("{"):
        return {"value": [truth]}
    value = truth if isinstance(truth, list) else to_object(truth, "reward_model.ground_truth").get("target")
    return {"value": value if isinstance(value, list) else [value]}


def _reasoning_gym(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Reasoning360's `extra_info` names the task beside the ground truth; reasoning-gym's own is the entry as JSON."""
    is_text = isinstance(truth, str) and "task" not in extra and truth.lstrip().startswith("{")
    if is_text or isinstance(truth, Mapping):
        entry = to_object(truth, "reward_model.ground_truth")
    else:
        entry = to_object(extra["entry"], "extra_info.entry") if extra.get("entry") else {"answer": truth}
    metadata = {
        **to_object(entry.get("metadata") or {}, "the entry's metadata"),
        **to_object(extra.get("metadata") or {}, "extra_info.metadata"),
    }
    return {
        "dataset": extra.get("task") or entry.get("task") or metadata.get("source_dataset"),
        "entry": {
            "question": entry.get("question", extra["prompt"]),
            "answer": entry.get("answer"),
            "metadata": metadata,
        },
    }


def _judged(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """A judge wants the question: as the row has it without its instructions, else the prompt."""
    question = extra.get("question") or extra.get("original_question") or extra["prompt"]
    return {"value": truth, "question": question} if question else {"value": truth}


def _graded(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    return {**_judged(truth, extra), "criteria": extra["criteria"]}


_ANSWER_OF: Final[Mapping[str, Importer]] = {
    "stem_llm_judge": _judged,
    _JUDGED: _judged,
    _GRADED: _graded,
    _VERIFIED: _judged,
    "code": _code,
    "ifeval": _ifeval,
    "ifbench": _ifbench,
    "codeio": codeio,
    "cruxeval": cruxeval,
    "hitab": _table,
    "multihier": _table,
    "finqa": _table,
    "qa_em": _qa_em,
    "livebench": _livebench,
    "reasoning_gym": _reasoning_gym,
}
