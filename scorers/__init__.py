"""Completion in, score out. No torch.

`from scorers import score, score_many` is the whole Python interface; it loads what it needs when it is first called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.scores import Score

__all__ = ["score", "score_many"]


def score(llm_output: str, verification_info: str | Mapping[str, Any], judge_url: str | None = None) -> Score:
    """Judge one response: `.status`, `.value`, `.reason`.

    Args:
        llm_output: the response of a model, without its prompt. Nothing in it is taken for the end of a prompt.
        verification_info: what it is checked against, an object or its JSON text: `{"type": ..., "answer": {...}}`, a
            row that holds it, a row of verl (`data_source`, `reward_model`, `extra_info`), or what verl's
            `compute_score` gets of one (`data_source`, `ground_truth`, `extra_info`). All: docs/scorers.md.
        judge_url: where a judge answers, for rows that one scores. Unset: where the environment says, docs/scorers.md.

    Returns:
        A value in [0, 1], or unscorable, with the reason, where what should have judged it broke down.

    Raises:
        ValueError: no row of a known shape; the message names the known ones.
        scorers.api.ScoringFailed: this machine can't score such rows (no sandbox, say), or a scorer has a bug.

    It may be called from any thread and in any process; calls of one process are scored one after the other.
    `score_many` has many at once.
    """
    from scorers.api import score_row

    return score_row(llm_output, verification_info, judge_url)


def score_many(
    pairs: Iterable[tuple[str, str | Mapping[str, Any]]],
    judge_url: str | None = None,
    workers: int | None = None,
) -> list[Score]:
    """Judge many responses side by side, each as `score` does.

    Args:
        pairs: responses, each with its row.
        judge_url: as of `score`. Rows that a served model judges have their calls under way together, up to 256.
        workers: processes that score the other rows; unset: as many as CPUs. They stay for the next call with the same
            `judge_url` and `workers`, and end with the program.

    Returns:
        A score for each pair, in their order.

    Raises:
        ValueError: a row of no known shape, by the place of its pair, from 0; what has not begun is given up.
        scorers.api.ScoringFailed: as of `score`.

    It may be called from any thread and in any process.
    """
    from scorers.rows.many import score_pairs

    return score_pairs(pairs, judge_url, workers)
