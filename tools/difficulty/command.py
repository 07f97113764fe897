"""`millrace difficulty CONFIG`: measure pass rates of models on the rows of a data set, and select rows by bounds.

In: a configuration with data, sampling, generators and scorers, and one or several models. Out: a folder with the rows
and their rates as parquet, the rows within the bounds, a histogram and a manifest. Each model has its own run without
training (`tools.collect`): more generators and scorers may join it, and the same command continues after any crash.
Files get their names when complete.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import RunFailed
from broker.messages import ScoredGroup
from config.explanations import ConfigError
from config.loading import load_run
from config.run import Run
from generators.decoding import open_decoder
from learner.collect.results import Results, RowResult
from learner.collect.rows import Rows, open_rows
from learner.collect.settings import collecting
from learner.data.prompts import load_tokenizer
from tools.arguments import UsageError, add_config, add_workers, given_config, number_of
from tools.collect.launch import collected, plan_of
from tools.difficulty.bounds import Bound, parse_bounds
from tools.difficulty.files import DifficultyRequest, Measured, write_files
from tools.difficulty.rates import Rate, RateKey, RateSummary
from tools.doctor.light import check_light
from tools.rescore.command import Rescorer

EPILOG: Final = (
    "Interrupted or killed, the same command goes on. With REDIS_URL set, generators and scorers join a model's run "
    "from any machine, as they join a learner's: python -m generators --run NAME. In the learner's place is python -m "
    "learner.collect --config FILE; --dry-run shows it. A sample that no scorer could judge is left out of its row's "
    "rate; a row with no other sample has no rate, and is not kept. Exit code: 0 done; 1 some rows have no outcome "
    "yet; 2 bad usage."
)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Model:
    """A model to measure."""

    name: str  # of its columns
    run: Run  # the run that samples it
    words: tuple[str, ...]  # arguments from which `run` was loaded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace difficulty`."""
    add_config(parser)
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a model, once for each (the configuration's)",
    )
    parser.add_argument("--data", metavar="FILE", help="rows in place of those of data.train")
    parser.add_argument(
        "-n", "--samples", type=number_of("samples"), metavar="N", help="of a row (sampling.group_size)"
    )
    parser.add_argument(
        "--full", type=float, default=1.0, metavar="SCORE", help="from which score on a sample passes (1)"
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="BOUNDS",
        help="rows to keep, by rates: 'strong>0,weak<0.9'; every bound must hold",
    )
    parser.add_argument(
        "--rescore",
        action="store_true",
        help="put what was sampled through the scorers again; sample nothing",
    )
    add_workers(parser)
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help="where files go (NAME-difficulty)")
    parser.add_argument(
        "--dry-run", action="store_true", help="show the commands of each model; start nothing"
    )


def run(options: argparse.Namespace) -> int:
    """Measure every model and write the files. Raises UsageError, ConfigError, PipelineError."""
    if not 0 < options.full <= 1:
        raise UsageError(f"--full {options.full:g}: a score lies between 0 and 1")
    given = _given(options)
    config = load_run(given)
    models = _models(options.model, config, given)
    bounds = parse_bounds(options.keep, [model.name for model in models])
    for model in models:  # before hours are spent on the first
        check_light(collecting(model.run), model.words)
    if options.dry_run:
        for model in models:
            sys.stdout.write("".join(f"{command}\n" for command in plan_of(model.run, model.words, "train")))
        return 0
    out = options.out or Path(f"{config.name}-difficulty")
    _check_folder(out)
    measured = [_measure(model, options) for model in models]
    request = DifficultyRequest(full=options.full, is_rescored=options.rescore, bounds=tuple(bounds))
    _say(measured, write_files(out, config, measured, request), bounds)
    return 0


def _given(options: argparse.Namespace) -> list[str]:
    """Return the arguments of the configuration, followed by those of the options."""
    words = given_config(options)
    if options.samples is not None:
        words.append(f"sampling.group_size={options.samples}")
    if options.data is not None:
        train = load_run(words).data.train
        if isinstance(train, Sequence) or train.type != "dataset":
            words.append(f"data.train={{type: dataset, path: {options.data}}}")
        else:
            words.append(f"data.train.path={options.data}")
    return words


def _models(named: Sequence[str], config: Run, given: Sequence[str]) -> list[Model]:
    """Return the models with their runs. Raises UsageError."""
    found: dict[str, str | None] = {}
    for text in named:
        name, equals, path = text.partition("=")
        if not equals or not path or _NAME.fullmatch(name) is None:
            raise UsageError(
                f"--model {text!r}: write NAME=PATH; a name has letters, digits, `.`, `_` and `-`"
            )
        if name in found:
            raise UsageError(f"--model: two models are named {name!r}")
        found[name] = path
    if not found:
        found[
            re.sub(r"[^A-Za-z0-9._-]", "_", config.model.path.rstrip("/").rpartition("/")[2]) or "model"
        ] = None
    models = []
    for name, place in found.items():
        own = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        words = (
            *given,
            f"name={config.name}-difficulty-{own}",
            *([] if place is None else [f"model.path={place}"]),
        )
        models.append(Model(name, load_run(words), words))
    if len({model.run.name for model in models}) < len(models):
        raise UsageError(
            "--model: two names differ in nothing but `.` and `_`, and their runs would have one name"
        )
    return models


def _check_folder(out: Path) -> None:
    """Make the folder before hours are spent. Raises ConfigError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out}: {error.strerror}") from error


def _measure(model: Model, options: argparse.Namespace) -> Measured:
    """Sample the missing rows of a model, and count."""
    results = collected(model.run, model.words, "train", scores_again=options.rescore)
    rows = open_rows(collecting(model.run), "train", load_tokenizer(model.run))
    if rows.fingerprint != results.fingerprint:
        raise RunFailed(
            f"the rows of run {model.run.name} are no longer those that were sampled (fingerprint {rows.fingerprint}, "
            f"then {results.fingerprint}): bring them back, or remove the run: millrace rm {model.run.name}"
        )
    found = results.rows()
    scored = (
        _rescored(model.run, found, options.workers)
        if options.rescore
        else ((row, row.scores) for row in found)
    )
    rates = {_key(row, results, rows): Rate.of(scores, full=options.full) for row, scores in scored}
    dead = len(rates) - sum(rate.samples > 0 for rate in rates.values())
    return Measured(
        name=model.name,
        run=model.run,
        rates=rates,
        unsampled=dead,
        summary=RateSummary.of(rates),
        sets=results.sets,
    )


def _key(row: RowResult, results: Results, rows: Rows) -> RateKey:
    """Return the source and row of a result."""
    number = next(number for number, each in enumerate(results.sets) if row.ordinal < each.first + each.rows)
    place, _ = rows.sets[number].source.place(row.ordinal - results.sets[number].first)
    return number, place.row


def _rescored(
    run: Run, rows: Iterator[RowResult], workers: int
) -> Iterator[tuple[RowResult, list[float | None]]]:
    """Yield each row with the configured scorers' scores of its stored samples. Raises RunFailed."""
    decoder = open_decoder(run)
    by_id: dict[str, RowResult] = {}
    never: list[RowResult] = []

    def groups() -> Iterator[tuple[int, ScoredGroup]]:
        for row in rows:
            if row.group is None:
                never.append(row)
                continue
            by_id[row.group.group_id] = row
            yield row.ordinal, decoder.with_text(row.group)

    with Rescorer(run.scorers, lambda group: _task(run, group), workers) as rescorer:
        for _, group, rescored in rescorer.rescored(groups()):
            values = [None if one.score is None else one.score.value for one in rescored]
            yield by_id.pop(group.group_id), values
    for row in never:
        yield row, []


def _task(run: Run, group: ScoredGroup) -> str:
    """Return the task of a group. Raises RunFailed where the configuration has no such task."""
    task = group.rollout.prompt.task
    if task not in run.scorers.tasks:
        raise RunFailed(f"scorers.tasks has no {task!r}, and row {group.rollout.prompt.row} is of that task")
    return task


def _say(measured: Sequence[Measured], files: Sequence[str], bounds: Sequence[Bound]) -> None:
    """Print each model's histogram, and the files."""
    write = sys.stdout.write
    for one in measured:
        summary = one.summary
        mean = "no row has a rate" if summary.mean is None else f"mean pass rate {summary.mean:.4f}"
        write(f"\n{one.name}: {summary.rows} rows, {summary.samples} samples, {mean}\n")
        write("\n".join(summary.histogram.lines()) + "\n")
        if summary.unscorable:
            write(f"{summary.unscorable} samples could not be scored, and count in no rate\n")
        if one.unsampled:
            write(f"{one.unsampled} rows could not be sampled: millrace dead list {one.run.name}\n")
    if bounds:
        write(f"\nkept where {', '.join(map(str, bounds))}\n")
    write("\n" + "\n".join(files) + "\n")
