"""verl scores with the scorers here by this module: `from scorers.export import compute_score`.

In: what verl hands to a reward function: `data_source`, `solution_str`, `ground_truth`, `extra_info`. Out: a number. It
is a `custom_reward_function` as it stands: its `path` is this file, its `name` is `compute_score`, or
`compute_score_batch` with verl's reward manager `batch`, which has many answers scored side by side. The work is done
in processes of their own (`scorers.api`), so a worker of verl's is never forked, and needs no sympy.

verl takes a number for an answer, and nothing else. So where there is none (a judge is away, a row has no usable
reference) `NoScore` is raised: a 0 in its place would teach that a right answer was wrong. verl's manager `naive` stops
there; `prime` takes every exception for a 0.0, and is better not used with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scorers import score, score_many
from scorers.api import ScoringFailed

if TYPE_CHECKING:
    from broker.scores import Score

__all__ = ["NoScore", "compute_score", "compute_score_batch"]


class NoScore(ScoringFailed):
    """This is raised where nobody could tell whether an answer is right; the message is the reason."""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    judge_url: str | None = None,
    **_ignored: Any,
) -> float:
    """Score one answer, as verl's own function of this name does.

    Args:
        data_source: the row's, which says how it is scored: docs/row_types.md has the names.
        solution_str: the answer without its prompt.
        ground_truth: the row's `reward_model.ground_truth`.
        extra_info: the row's.
        judge_url: where a judge answers, for rows that one scores.
        _ignored: what verl hands to every function beside these, such as a sandbox's address.
    Raises:
        ValueError: a data source that nobody knows, or a row that lacks something; the message says what.
        NoScore: nobody could tell.
    """
    return _value(score(solution_str, _row(data_source, ground_truth, extra_info), judge_url))


def compute_score_batch(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None],
    *,
    judge_url: str | None = None,
    workers: int | None = None,
    **_ignored: Any,
) -> list[float]:
    """Score many answers side by side, as a function of verl's manager `batch` does.

    Args:
        data_sources, solution_strs, ground_truths, extra_infos: of each answer, as for `compute_score`.
        judge_url: as of `compute_score`.
        workers: processes that score; unset: as many as CPUs.
        _ignored: as of `compute_score`.
    Raises:
        ValueError, NoScore: as `compute_score`, for the first answer that has no number.
    """
    rows = map(_row, data_sources, ground_truths, extra_infos)
    return list(map(_value, score_many(zip(solution_strs, rows, strict=True), judge_url, workers)))


def _row(data_source: str, ground_truth: Any, extra_info: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"data_source": data_source, "ground_truth": ground_truth, "extra_info": extra_info or {}}


def _value(found: Score) -> float:
    if found.value is None:
        raise NoScore(found.reason)
    return found.value
