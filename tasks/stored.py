"""What a row of verl stores as its ground truth is told here from what became of it.

In: a `verification_info`. Out: `reward_model.ground_truth` as the row has it. Readers of verl's dumps compare it with
their own rows. Programs' tests are JSON text in a row and an object in a message: they become the text again that
Python's `json.dumps` writes, as the preparations of verl and Reasoning360 do. Pure; called by the learner's dumps.
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
    """Return the ground truth that a row stores; where no row of verl has such an answer, the answer itself."""
    answer, row_type = info.get("answer"), str(info.get("type"))
    if not isinstance(answer, Mapping):
        return answer
    if "value" in answer:
        return answer["value"]
    if row_type in _TEXTS:
        return json.dumps({key: value for key, value in answer.items() if key not in _TEXTS[row_type]})
    return answer["kwargs"] if row_type == "ifeval" and "kwargs" in answer else answer
