"""Restore the ground truth that a row of verl stores, from the row's canonical form.

In: a `verification_info`. Out: `reward_model.ground_truth` as in the row. Readers of verl's dumps compare it with their
own rows. Programs' tests are JSON text in a row and an object in a message; they are converted to the text that
Python's `json.dumps` writes, as verl's and Reasoning360's preparation scripts do. Pure function; called by the
learner's dumps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

# Row types whose ground truth is JSON text -> keys that `tasks` adds to it from the rest of the row.
_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "code": ("prefix",),
    "cruxeval": ("predict", "input", "output"),
}


def ground_truth(info: Mapping[str, Any]) -> Any:
    """Return the ground truth that a row stores; if no verl row has such an answer, the answer itself."""
    answer, row_type = info.get("answer"), str(info.get("type"))
    if not isinstance(answer, Mapping):
        return answer
    if "value" in answer:
        return answer["value"]
    if row_type in _TEXTS:
        return json.dumps({key: value for key, value in answer.items() if key not in _TEXTS[row_type]})
    return answer["kwargs"] if row_type == "ifeval" and "kwargs" in answer else answer
