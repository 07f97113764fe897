"""Read information from the prompts of Reasoning360's CodeI/O and CRUXEval rows that their other fields lack.

In: `reward_model.ground_truth`, and `extra_info` with the text of the prompt. Out: the answer of a `codeio` or
`cruxeval` row. Called by `tasks.verl`. The ground truth of CodeI/O is one input or output. Only the prompt has the
program, which also accepts other inputs, and the output that they must give. The ground truth of CRUXEval is the
program, and only the prompt has the call or the output. Names and sentences are those of Reasoning360's own scripts
(`data_preprocess/simulation` at commit 1315834). A CRUXEval row without a known question raises `BadMessage`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from broker.errors import BadMessage
from tasks.values import to_object

_CODE_AFTER: Final = (
    "\nTip: Here is a reference code snippet for this question."  # up to the end of that line
)
_CODE_BEFORE: Final = "Please output the final answer within ```json```"
_GIVEN_AFTER: Final = "\nGiven the following output: \n"
_GIVEN_BEFORE: Final = "\nCan you predict a feasible input without writing any code?"
_ANY_INPUT: Final = "??) == "
_ANY_OUTPUT: Final = ") == ??"


def codeio(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CodeI/O row's answer: the reference's text and, for an input, the program and the output where known."""
    answer: dict[str, Any] = {"value": truth}
    if not isinstance(truth, str) or not truth.startswith('"input"'):
        return answer
    prompt = _prompt(extra)
    code = extra.get("refcode") or _between(prompt, _CODE_AFTER, _CODE_BEFORE).partition("\n")[2].strip("\n")
    if not code:
        return answer
    answer["code"] = code
    if extra.get("funcname"):
        answer["entry"] = extra["funcname"]
    try:
        output = json.loads(_between(prompt, _GIVEN_AFTER, _GIVEN_BEFORE))
    except (ValueError, RecursionError):
        return answer  # the program's own output for the reference input is then required
    return answer if output is None else {**answer, "output": output}


def cruxeval(truth: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a CRUXEval row. Raises BadMessage."""
    answer = to_object(truth, "reward_model.ground_truth")
    reference = extra.get("reference")
    asked = _prompt(extra).rpartition("\nassert f(")[2].partition("\n```")[0].strip()
    if asked.startswith(_ANY_INPUT):
        return {**answer, "predict": "input", "output": reference or asked.removeprefix(_ANY_INPUT)}
    if asked.endswith(_ANY_OUTPUT):
        known = {"output": reference} if reference else {}
        return {**answer, "predict": "output", "input": asked.removesuffix(_ANY_OUTPUT), **known}
    raise BadMessage(
        "a row of CRUXEval that does not say what is asked: neither extra_info.original_prompt nor the "
        "prompt ends in `assert f(...) == ??` or `assert f(??) == ...`"
    )


def _prompt(extra: Mapping[str, Any]) -> str:
    prompt = extra.get("original_prompt") or extra.get("prompt")
    return prompt if isinstance(prompt, str) else ""


def _between(text: str, after: str, before: str) -> str:
    """Return the text between the last `after` and the last `before` that follows it; "" without both."""
    _, found, rest = text.rpartition(after)
    inside, closed, _ = rest.rpartition(before)
    return inside if found and closed else ""
