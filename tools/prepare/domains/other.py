"""Prepare Reasoning360's evaluations outside its six domains: verifiable instructions, and LiveBench.

In: records of IFEval, of IF_multi_constraints_upto5, and of three categories of LiveBench. Out: drafts whose prompt is
the publisher's own, verbatim, since its instructions are verified. Pure; called by `tools.prepare.stages`.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping
from types import NoneType
from typing import Final

from tools.prepare.preparation import (
    LIST,
    TEXT,
    BadRecord,
    Draft,
    Filter,
    Hub,
    Preparation,
    Record,
    Split,
    tokens_below,
)

_LONGEST: Final = tokens_below(4096)
_FIRST: Final = dt.date(2024, 6, 1)  # of the kept releases of LiveBench
_LAST: Final = dt.date(2024, 7, 31)


def ifeval(record: Record, _: random.Random) -> Draft:
    """Return the draft of a prompt of IFEval; a missing argument of an instruction is null, as published."""
    kwargs = record["kwargs"]
    if not all(isinstance(one, Mapping) for one in kwargs):
        raise BadRecord(f", column kwargs: objects are wanted, got {kwargs!r:.80}")
    if len(kwargs) != len(record["instruction_id_list"]):
        raise BadRecord(
            f", column kwargs: {len(kwargs)} of them for {len(record['instruction_id_list'])} instructions"
        )
    return Draft(
        prompt=record["prompt"],
        ground_truth=kwargs,
        extra={"instruction_id_list": record["instruction_id_list"], "prompt": record["prompt"]},
    )


def ifbench(record: Record, _: random.Random) -> Draft:
    """Return the draft of a prompt with up to five constraints, which are text in the ground truth."""
    first = record["messages"][0] if record["messages"] else None
    if not isinstance(first, Mapping) or not isinstance(first.get("content"), str):
        raise BadRecord(f", column messages: a chat is wanted, got {record['messages']!r:.80}")
    return Draft(prompt=first["content"], ground_truth=record["ground_truth"])


def livebench(record: Record, _: random.Random) -> Draft:
    """Return the draft of a question of LiveBench, whose task determines the scoring rule."""
    turns = record["turns"]
    return Draft(
        prompt=turns[0],
        ground_truth=record["ground_truth"],
        extra={
            "category": record["category"],
            "task": record["task"],
            "prompt": turns,
            "date": _date(record).isoformat(),
        },
    )


def _date(record: Record) -> dt.date:
    value = record["livebench_release_date"]
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    try:
        return dt.date.fromisoformat(value[:10])
    except ValueError:
        raise BadRecord(f", column livebench_release_date: a date is wanted, got {value!r}") from None


def _livebench_set(category: str) -> Preparation:
    return Preparation(
        name=f"livebench_{category}",
        domain="other",
        about=f"LiveBench's questions of {category.replace('_', ' ')}, of June and July 2024",
        source=Hub(path=f"livebench/{category}"),
        columns={
            "turns": LIST,
            "ground_truth": (str, NoneType),
            "category": TEXT,
            "task": TEXT,
            "livebench_release_date": (str, dt.datetime, dt.date),
        },
        row=livebench,
        data_source="ood__livebench",
        ability="ood",
        splits={"test": Split(source="test")},
        filters=(
            Filter(
                name="released in June or July 2024", keeps=lambda record: _FIRST <= _date(record) <= _LAST
            ),
            Filter(name="one turn", keeps=lambda record: len(record["turns"]) == 1),
            Filter(name="has an answer", keeps=lambda record: bool((record["ground_truth"] or "").strip())),
        ),
        max_prompt_tokens=_LONGEST,
        file=f"ood__livebench_{category}",
    )


PREPARATIONS: Final = (
    Preparation(
        name="ifeval",
        domain="other",
        about="prompts whose instructions can be verified",
        source=Hub(path="google/IFEval"),
        columns={"prompt": TEXT, "instruction_id_list": LIST, "kwargs": LIST},
        row=ifeval,
        data_source="ood__ifeval",
        ability="ood",
        splits={"test": Split()},
        filters=(Filter(name="has instructions", keeps=lambda record: bool(record["instruction_id_list"])),),
        max_prompt_tokens=_LONGEST,
        licence="Apache-2.0",
    ),
    Preparation(
        name="ifbench",
        domain="other",
        about="prompts with up to five constraints",
        source=Hub(path="allenai/IF_multi_constraints_upto5"),
        columns={"messages": LIST, "ground_truth": (str, NoneType)},
        row=ifbench,
        data_source="ood__ifbench",
        ability="ood",
        splits={"test": Split()},
        filters=(Filter(name="has constraints", keeps=lambda record: bool(record["ground_truth"])),),
        max_prompt_tokens=_LONGEST,
        licence="ODC-BY",
    ),
    *map(_livebench_set, ("reasoning", "data_analysis", "language")),
)
