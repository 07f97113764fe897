"""Flatten a step's record to numbers by name, for loggers that draw curves.

In: the record of one step, with objects and lists in it. Out: `name/inner` -> number. Pure; used by the loggers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

LEFT_OUT = frozenset({"step", "at", "evaluations", "eval_version", "histograms"})  # no curves
LEFT_OUT_INSIDE = frozenset({"by_version", "crashes"})  # unlimited names


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a record by their path, without text, lists and keys that are no curves.

    Args:
        record: of a step, as `Logger.log` gets it.
    """
    return dict(_numbers({name: value for name, value in record.items() if name not in LEFT_OUT}))


def _numbers(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, float]]:
    for name, value in tree.items():
        if name in LEFT_OUT_INSIDE:
            continue
        if isinstance(value, Mapping):
            yield from _numbers(value, (*path, str(name)))
        elif isinstance(value, int | float):  # a bool is 0 or 1
            yield "/".join((*path, str(name))), float(value)


def rounds(record: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield each evaluation round of a record: the policy version, and its numbers under `evaluation/`."""
    for result in record.get("evaluations", ()):
        numbers = dict(_numbers(result, ("evaluation",)))
        version = numbers.pop("evaluation/version", None)
        if version is not None:
            yield int(version), numbers


def with_newest_round(record: Mapping[str, Any]) -> dict[str, float]:
    """Return a record's numbers with those of its newest evaluation round, for loggers with one axis.

    The round's policy version is `evaluation_version`.
    """
    numbers = scalars(record)
    for version, found in rounds(record):
        numbers |= {"evaluation_version": float(version)} | found
    return numbers
