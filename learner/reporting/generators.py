"""Group a step's metrics by generator, and end a run whose generator is too far from the learner.

In: the metrics that a backend returns. Out: the same as fields of a step's record. Used by the learner's loop in rank
0; needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.errors import RunFailed
from config.learner.reporting import MismatchConfig
from learner.training.backend import MISMATCH_KL, OF, RATIO_BIN, RATIO_EDGES
from learner.training.batch import Batch


def as_record(metrics: Mapping[str, float], batch: Batch) -> dict[str, Any]:
    """Return a step's metrics as fields of its record, with those of generators under `generators`.

    Args:
        metrics: what the backend returned.
        batch: the step's batch.
    """
    generators: dict[str, dict[str, float]] = lag_by_generator(batch)
    for name, facts in by_generator(metrics).items():
        generators.setdefault(name, {}).update(facts)
    return {
        **{name: value for name, value in metrics.items() if OF not in name},
        "generators": generators,
        "histograms": _ratio_histogram(metrics),
    }


def merged(facts: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the results of `batch_facts` and `as_record`; both have histograms."""
    return {**facts, **record, "histograms": {**facts["histograms"], **record.get("histograms", {})}}


def _ratio_histogram(metrics: Mapping[str, float]) -> dict[str, dict[str, list[float]]]:
    """Return the histogram of importance ratios, as `learner.reporting.group_facts` makes others; {} for none."""
    counts = [metrics.get(f"{RATIO_BIN}{OF}{index}") for index in range(len(RATIO_EDGES) + 1)]
    if None in counts:
        return {}
    return {"ratio": {"edges": list(RATIO_EDGES), "counts": [int(count or 0) for count in counts]}}


def by_generator(metrics: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the metrics of generators, by generator, then by metric."""
    found: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        name, mark, generator = key.partition(OF)
        if mark and name != RATIO_BIN:
            found.setdefault(generator, {})[name] = value
    return found


def lag_by_generator(batch: Batch) -> dict[str, dict[str, float]]:
    """Return the mean and the largest lag of each generator's trained tokens, versions."""
    trained = batch.loss_mask
    of_token, lags = batch.generator_ids[batch.sequence_ids[trained]], batch.lags[trained]
    found: dict[str, dict[str, float]] = {}
    for index, name in enumerate(batch.generators):
        own = lags[of_token == index]
        if len(own):
            found[name] = {"lag_mean": float(own.mean()), "lag_max": int(own.max()), "tokens": len(own)}
    return found


def check_mismatch(config: MismatchConfig, generators: Mapping[str, Mapping[str, float]]) -> None:
    """Check the step that was just committed.

    Args:
        config: the bounds.
        generators: as `by_generator` returns it.
    Raises:
        RunFailed: a generator is beyond `stop_above`.
    """
    bound = config.stop_above
    for name, facts in generators.items():
        if bound is not None and facts.get(MISMATCH_KL, 0.0) > bound:
            raise RunFailed(
                f"generator {name} has mismatch_kl={facts[MISMATCH_KL]:.4f}, above "
                f"learner.mismatch.stop_above={bound}: with the same weights its log-probabilities are not the "
                "learner's. Look for weights that were loaded in part, a stale cache, or another precision "
                "(model.head_dtype, model.dtype). Started again, the run goes on"
            )
