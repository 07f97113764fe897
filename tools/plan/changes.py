"""Show what would change a plan: its figures under each single change of a setting, and as it is.

In: a plan. Out: rows of the same figures with one setting changed. The figures are those of `tools.estimates`; the
effect on learning is not considered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pydantic import ValidationError

from config.generators import VllmEngineConfig
from config.run import Run
from tools.doctor.gpu_memory import savings
from tools.estimates.generators import expected_lag
from tools.estimates.learner import rank_memory
from tools.estimates.stores import redis_room
from tools.plan.figures import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The figures under one setting; None where the model's size is unknown, or nothing is on a GPU."""

    setting: str  # "" for the plan as it is
    rank_bytes: int | None
    completions: int  # concurrent, in one generator
    groups: int  # in flight
    least_lag: float
    most_lag: float
    redis_bytes: float


def changes(plan: Plan) -> Iterator[Change]:
    """Yield the plan as it is, then with each setting that changes a figure."""
    before = _row(plan, "")
    yield before
    for setting, run in _settings(plan.run):
        after = _row(replace(plan, run=run), setting)
        if replace(after, setting="") != before:
            yield after


def _row(plan: Plan, setting: str) -> Change:
    rank = None
    if plan.shape is not None and plan.is_on_gpus:
        rank = rank_memory(plan.run, plan.shape, card_bytes=plan.cards.bytes).total
    one = plan.one
    least, most = expected_lag(plan.run, one)
    return Change(
        setting=setting,
        rank_bytes=rank,
        completions=one.completions,
        groups=plan.run.budget,
        least_lag=least,
        most_lag=most,
        redis_bytes=redis_room(plan.run).groups,
    )


def _settings(run: Run) -> Iterator[tuple[str, Run]]:
    """Yield the settings to try, each with its run, without invalid runs."""
    yield from savings(run)
    learner, sampling, engine = run.learner, run.sampling, run.generators.engine
    wanted = [
        ("learner", "max_lag", learner.max_lag + 1),
        ("learner", "max_lag", max(0, learner.max_lag - 1)),
        ("learner", "groups_per_step", 2 * learner.groups_per_step),
        ("sampling", "max_tokens", max(1, sampling.max_tokens // 2)),
        ("sampling", "group_size", 2 * sampling.group_size),
    ]
    for section, key, value in wanted:
        changed = getattr(run, section).model_copy(update={key: value})
        yield from _checked(run, f"{section}.{key}={value}", section, changed)
    gpus = len(run.generators.gpus)
    if isinstance(engine, VllmEngineConfig) and (not gpus or gpus >= 2 * engine.tensor_parallel):
        wider = engine.model_copy(update={"tensor_parallel": 2 * engine.tensor_parallel})
        changed = run.generators.model_copy(update={"engine": wider})
        yield from _checked(
            run, f"generators.engine.tensor_parallel={wider.tensor_parallel}", "generators", changed
        )


def _checked(run: Run, words: str, section: str, changed: object) -> Iterator[tuple[str, Run]]:
    after = run.model_copy(update={section: changed})
    try:
        Run.model_validate(after.model_dump(), context={"reserved": True})
    except ValidationError:
        return
    yield words, after
