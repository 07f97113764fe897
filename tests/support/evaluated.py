"""Results of evaluations for tests: rows by their scores alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.evaluate.results import EvaluatedRow, EvaluationResult

Scores = Sequence[float | None]


def a_row(
    name: str, number: int, scores: Scores, *, digest: str = "", source: str = "a", **more: Any
) -> EvaluatedRow:
    """Return a row of a set; its samples have 10 tokens each."""
    return EvaluatedRow(
        set=name,
        row=number,
        digest=digest or f"{name}-{number}",
        source=source,
        scores=tuple(scores),
        tokens=(10,) * len(scores),
        cut=(False,) * len(scores),
        scorers=more.pop("scorers", ("math 1",)),
        **more,
    )


def a_set(name: str, **sampling: Any) -> Mapping[str, Any]:
    return {"name": name, "rows": 1, "fingerprint": "f", "n": 2, "temperature": 1.0, "top_p": 1.0} | {
        "max_tokens": 8,
        **sampling,
    }


def a_result(rows: Sequence[EvaluatedRow], *sets: Mapping[str, Any]) -> EvaluationResult:
    """Return a result with these rows; without `sets` each set's name is all that is known of it."""
    found = sets or tuple(a_set(name) for name in dict.fromkeys(row.set for row in rows))
    return EvaluationResult(
        model={"path": "m", "revision": None, "weights": "w"},
        sets=list(found),
        rows=list(rows),
        config="name: x\n",
        packages=["millrace 1"],
    )
