"""Convert `reward_model.ground_truth` and `extra_info` of verl's rows to an `answer`.

In: the ground truth, and `extra_info`, with the text of the row's prompt under "prompt" unless it has its own. Out: the
`answer` of a `verification_info`. `tasks.kinds` names one of these functions for each row type that needs one; other
types have the answer `{"value": ground_truth}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.errors import BadMessage
from tasks.values import listed, texts_of, to_object

Importer = Callable[[Any, Mapping[str, Any]], dict[str, Any]]


def code(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Read an object of tests, maybe with a function's prefix."""
    answer = to_object(truth, "reward_model.ground_truth")
    return {**answer, "prefix": extra["prefix"]} if "functional" in answer and extra.get("prefix") else answer


def ifeval(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Read the ground truth as the list of kwargs; `extra_info` has the instructions. Raises BadMessage."""
    ids = extra.get("instruction_id_list")
    if not ids:
        raise BadMessage(
            f"no answer: rows of IFEval need extra_info.instruction_id_list, got {listed(extra) or 'nothing'}"
        )
    return {"instruction_id_list": ids, "kwargs": truth, "prompt": extra["prompt"]}


def ifbench(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Read the instructions unchanged, and the prompt that some of them repeat."""
    return {"value": truth, "prompt": extra["prompt"]}


# Words in a question that make 54.8, 54.8% and 0.548 the same answer: the tables have shares in all three forms.
_PERCENT: Final = re.compile(
    r"per\s*cent|%|\bpct\b|\b(?:proportion|share|rate|probabilit(?:y|ie)|likelihood)s?\b", re.IGNORECASE
)
_QUESTION: Final = "The question is:"  # after the tables, in Reasoning360's prompts


def table(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Find out from the question's text whether it asks for a percentage, or for several answers in order."""
    question = str(extra["prompt"]).rpartition(_QUESTION)
    answer = {"value": truth}
    if question[1] and _PERCENT.search(question[2]):
        answer["percent"] = True
    if question[1] and "respectively" in question[2].lower():
        answer["ordered"] = True
    return answer


_WITH_PROMPT: Final = ("tablereformat", "plot_unscrambling")  # tasks of LiveBench whose rules read the prompt


def livebench(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Read the task, which selects the rule; include the prompt if that rule needs it."""
    task, prompt = extra.get("task"), extra.get("prompt")
    answer = {"value": truth, "task": task, "category": extra.get("category")}
    prompt = prompt[-1] if isinstance(prompt, list) and prompt else prompt
    return {**answer, "prompt": prompt} if task in _WITH_PROMPT else answer


def qa_em(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Read the ground truth of Search-R1: `{"target": [...]}`, or its JSON text."""
    del extra
    if isinstance(truth, str) and not truth.lstrip().startswith("{"):
        aliases = texts_of(truth)
        return {"value": [truth] if aliases is None else aliases}
    value = truth if isinstance(truth, list) else to_object(truth, "reward_model.ground_truth").get("target")
    return {"value": value if isinstance(value, list) else [value]}


def reasoning_gym(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Read Reasoning360's rows, whose `extra_info` names the task, and reasoning-gym's own: the entry as JSON."""
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


def judged(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Read the reference and the question: the row's own without instructions, else the prompt."""
    question = extra.get("question") or extra.get("original_question") or extra["prompt"]
    return {"value": truth, "question": question} if question else {"value": truth}


def graded(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Read what a judge needs, and the criteria of the row."""
    return {**judged(truth, extra), "criteria": extra["criteria"]}
