"""A row's reference is written here as an answer, in the form that rows of its type ask for.

In: a canonical `verification_info`, and the reference solution where the row has one beside its answer. Out: a
response that must score 1; None for a type of which no right answer can be written: a served model judges it, it has
no reference, or its reference is none that a policy would write. Pure; used by `scorers.gold.examiner`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from config.scorer_kinds import GradeConfig, ScorerConfig
from scorers.text.totals import OUT_OF
from tasks.kinds import ROW_TYPES, kind_of
from tasks.values import reference

Write = Callable[[Mapping[str, Any], str, ScorerConfig], str | None]

_ANSWERED: Final = "The answer is"


def gold_response(info: Mapping[str, Any], solution: str, scorer: ScorerConfig) -> str | None:
    """Return the response that a row's reference makes; None where none can be written.

    Args:
        info: the row's verification_info.
        solution: a program that the row has beside its tests; "": it has none.
        scorer: the section of the task's own scorer.
    """
    row_type, answer = str(info.get("type")), info.get("answer")
    if row_type not in ROW_TYPES or not isinstance(answer, Mapping):
        return None
    write = _BY_TYPE.get(row_type) or _BY_KIND.get(kind_of(row_type).name)
    return write(answer, solution, scorer) if write is not None else None


def _boxed(answer: Mapping[str, Any], _: str, __: ScorerConfig) -> str:
    return f"{_ANSWERED} \\boxed{{{_text(answer.get('value'))}}}."


def _hashed(answer: Mapping[str, Any], _: str, __: ScorerConfig) -> str:
    return f"#### {_text(answer.get('value'))}"


def _tagged(answer: Mapping[str, Any], _: str, __: ScorerConfig) -> str:
    value = answer.get("value")
    return f"<answer>{value if isinstance(value, str) else json.dumps(value)}</answer>"


def _searched(answer: Mapping[str, Any], _: str, __: ScorerConfig) -> str:
    value = answer.get("value")
    return f"<answer>{value[0] if isinstance(value, list) and value else value}</answer>"


def _program(_: Mapping[str, Any], solution: str, __: ScorerConfig) -> str | None:
    if not solution.strip():
        return None
    return solution if "```" in solution else f"```python\n{solution.strip()}\n```"


def _object(answer: Mapping[str, Any], _: str, __: ScorerConfig) -> str:
    value = answer.get("value")
    text = value if isinstance(value, str) else json.dumps(value)
    return f"```json\n{text if text.lstrip().startswith('{') else f'{{{text}}}'}\n```"


def _assertion(answer: Mapping[str, Any], _: str, __: ScorerConfig) -> str | None:
    """Return the assert of CRUXEval; None where the row does not say the half that is asked for."""
    given, expected = answer.get("input"), answer.get("output")
    return None if given is None or expected is None else f"```python\nassert f({given}) == {expected}\n```"


def _entry(answer: Mapping[str, Any], _: str, __: ScorerConfig) -> str | None:
    entry = answer.get("entry")
    value = entry.get("answer") if isinstance(entry, Mapping) else None
    return None if value is None else f"<answer>{value}</answer>"


def _total(answer: Mapping[str, Any], _: str, scorer: ScorerConfig) -> str | None:
    try:
        value = float(_text(answer.get("value")))
    except ValueError:
        return None
    is_points = isinstance(scorer, GradeConfig) and scorer.gold == "points"
    return f"Total Score: {value if is_points else value * OUT_OF:g}/{OUT_OF:g}"


def _text(value: Any) -> str:
    """Return a reference as text; one that is none is written as it is, and its scorer says what is wrong."""
    return value if isinstance(value, str) else reference(value)


_BY_TYPE: Final[Mapping[str, Write]] = {"gsm8k": _hashed, "cruxeval": _assertion, "codeio": _object}
_BY_KIND: Final[Mapping[str, Write]] = {
    "math": _boxed,
    "table": _boxed,
    "choice": _boxed,
    "logic": _tagged,
    "search": _searched,
    "code": _program,
    "gym": _entry,
    "grade": _total,
}
