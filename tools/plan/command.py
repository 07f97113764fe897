"""`millrace plan CONFIG`: compute the hardware and the rates that a run needs, before using any.

In: a configuration, and the user's assumptions on GPUs, answers and steps. Out: a table for people, or one JSON object
for programs: memory of each role, groups in flight, lag, rates, Redis and disk, senseless combinations, what would
change the figures, and their assumptions. It starts nothing and queries no GPU, Redis or network: a model's shape is
read from a folder or the hub's cache. Exit code 0, or 1 where a finding is a problem.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from config.loading import file_of, load_run
from config.logs import mask
from config.run import Run
from tools.arguments import UsageError, add_config, add_json, given_config
from tools.doctor.findings import WIDTH, Check, CheckFinding, Level, lines_of, readable
from tools.estimates.needs import Size, size_of
from tools.estimates.operations import PEAKS, peak_of
from tools.estimates.rank_memory import GIB, shape_of
from tools.plan.assumptions import ASSUMPTIONS
from tools.plan.cards import planned
from tools.plan.changes import Change, changes
from tools.plan.combinations import findings
from tools.plan.figures import Figure, Plan, figures
from tools.printable import aligned

EPILOG = (
    "Memory of each role, groups in flight, expected lag, tokens a second that each role needs, Redis and disk, "
    "combinations that make no sense, and what would change the figures. Letters behind a figure name the assumptions "
    "that it rests on, and what measures them. Starts nothing; no GPU, Redis or network is asked. Exit code: 0 no "
    "problem; 1 there is one; 2 a configuration that can't be used."
)
STEP_S = 60.0
MODEL, CARDS = (Check("combinations", name) for name in ("model", "cards"))
COLUMNS = ("rank GiB", "side by side", "in flight", "lag", "Redis")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace plan`."""
    add_config(parser)
    parser.add_argument(
        "--gpu-memory",
        type=_positive,
        metavar="GB",
        help="memory of each GPU (as the file's first lines have it)",
    )
    parser.add_argument(
        "--gpu", default="", metavar="NAME", help="name of the GPUs, for the share of their peak: H100"
    )
    parser.add_argument(
        "--answer-tokens", type=_positive, metavar="N", help="mean tokens of an answer (sampling.max_tokens)"
    )
    parser.add_argument(
        "--step-s",
        type=_positive,
        default=STEP_S,
        metavar="S",
        help=f"seconds that a step shall take ({STEP_S:g})",
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the plan. Raises ConfigError for an invalid configuration."""
    planned_run = load_run(given_config(options))
    plan = plan_of(planned_run, options)
    made, found, rows = list(figures(plan)), [*_unknown(plan), *findings(plan)], list(changes(plan))
    if options.json:
        sys.stdout.write(mask(json.dumps(_object(plan, made, found, rows))) + "\n")
    else:
        sys.stdout.write(mask("\n".join(_page(plan, made, found, rows))) + "\n")
    return 1 if any(one.level is Level.PROBLEM for one in found) else 0


def plan_of(run: Run, options: argparse.Namespace) -> Plan:
    """Return the inputs of the figures. Raises UsageError: too long answers, an unknown GPU."""
    most = run.sampling.max_tokens
    answer_tokens = most if options.answer_tokens is None else int(options.answer_tokens)
    if not 1 <= answer_tokens <= most:
        raise UsageError(
            f"--answer-tokens {answer_tokens}: answers have 1 to sampling.max_tokens={most} tokens"
        )
    if options.gpu and peak_of(options.gpu) is None:
        raise UsageError(
            f"--gpu {options.gpu}: no peak is known of it; of {', '.join(peak.name for peak in PEAKS)}"
        )
    size = size_of(run.model)
    return Plan(
        run=run,
        size=size,
        shape=None if size is None else shape_of(run.model, size),
        cards=planned(file_of(options.config), memory_gb=options.gpu_memory, name=options.gpu),
        answer_tokens=answer_tokens,
        step_s=options.step_s,
    )


def _unknown(plan: Plan) -> Iterator[CheckFinding]:
    """Yield what the plan lacks, and what to do about it."""
    path = plan.run.model.path
    if plan.size is None:
        yield MODEL.problem(
            f"how large {path} is can't be told without its files: what it needs is left out",
            do=f"hf download {path}, or model.path=FOLDER",
        )
    elif plan.is_on_gpus and plan.cards.bytes is None:
        yield CARDS.note(
            "the memory of a GPU is not known: whether it all fits is left out", do="--gpu-memory 80"
        )


def _page(
    plan: Plan, made: Sequence[Figure], found: Sequence[CheckFinding], rows: Sequence[Change]
) -> Iterator[str]:
    yield from _head(plan)
    for section, some in groupby(made, key=lambda figure: figure.section):
        yield f"\n{section}"
        for figure in some:
            yield from _lines(figure.name, figure.text, "".join(sorted(figure.rests_on)))
    yield ""
    if found:
        yield from lines_of(found)
    else:
        yield from ("combinations", "  ok       all settings make sense together")
    yield from _table(rows)
    yield "\nassumptions, and what measures them"
    used = sorted({letter for figure in made for letter in figure.rests_on})
    for letter in used:
        text, check = ASSUMPTIONS[letter]
        yield from textwrap.wrap(
            f"{text} -> {check}", WIDTH, initial_indent=f"  {letter}  ", subsequent_indent="     "
        )


def _head(plan: Plan) -> Iterator[str]:
    run = plan.run
    yield (
        f"plan of {run.name}: {run.learner.steps} steps of {run.learner.groups_per_step} groups x "
        f"{run.sampling.group_size} completions; nothing was started"
    )
    yield from _lines("model", _model_text(plan.size, plan), "")
    if plan.cards.bytes is not None:
        yield from _lines("cards", f"{plan.cards.bytes / GIB:.1f} GiB each: {plan.cards.source}", "")
    mean = (
        "all at their longest" if plan.answer_tokens == run.sampling.max_tokens else "on average, as you say"
    )
    yield from _lines("answers", f"{plan.answer_tokens} tokens, {mean}; a step each {plan.step_s:g} s", "")


def _model_text(size: Size | None, plan: Plan) -> str:
    path = plan.run.model.path
    if size is None or plan.shape is None:
        return f"{path}: not seen"
    return (
        f"{path}: {plan.shape.parameters / 1e6:,.4g} million parameters in {plan.run.model.dtype}, {size.source}; "
        f"shape {plan.shape.source}"
    )


def _lines(name: str, text: str, letters: str) -> Iterator[str]:
    head = f"  {name:<16} "
    said = f"{text}  [{letters}]" if letters else text
    yield from textwrap.wrap(
        said, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )


def _table(rows: Sequence[Change]) -> Iterator[str]:
    """Yield the figures under each single change of a setting, as aligned columns."""
    cells = [("", *COLUMNS)]
    for row in rows:
        rank = "-" if row.rank_bytes is None else f"{row.rank_bytes / GIB:.1f}"
        lag = f"{row.least_lag:.2g} to {row.most_lag:g}"
        cells.append(
            (
                row.setting or "as it is",
                rank,
                str(row.completions),
                str(row.groups),
                lag,
                readable(row.redis_bytes),
            )
        )
    yield "\nwhat would change it, each by itself"
    yield from (f"  {line}" for line in aligned(cells))


def _object(
    plan: Plan, made: Sequence[Figure], found: Sequence[CheckFinding], rows: Sequence[Change]
) -> dict[str, Any]:
    used = sorted({letter for figure in made for letter in figure.rests_on})
    return {
        "run": plan.run.name,
        "model": {
            "path": plan.run.model.path,
            "size": None if plan.size is None else asdict(plan.size),
            "shape": None if plan.shape is None else asdict(plan.shape),
        },
        "cards": asdict(plan.cards),
        "answer_tokens": plan.answer_tokens,
        "step_s": plan.step_s,
        "figures": [asdict(figure) for figure in made],
        "findings": [asdict(one) for one in found],
        "changes": [asdict(row) for row in rows],
        "assumptions": {letter: ASSUMPTIONS[letter]._asdict() for letter in used},
    }


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return number
