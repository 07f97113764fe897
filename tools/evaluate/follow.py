"""Yield the versions of a running or finished run, one after the other, each as a fixed model.

In: a run's folder, in which its learner publishes weights. Out: a copy of the newest version as a folder that
transformers and vLLM load, then of the version that is newest when that one was evaluated, until the run has ended. So
the generators of an evaluation keep one version for a whole round, and the run never waits. `RUN/evaluations` has a
result for each evaluated version, and the copy of a version whose evaluation was interrupted, which the next call
yields first. Used by `millrace evaluate RUN --follow`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import PipelineError
from config.explanations import ConfigError
from config.run import Run
from learner.weight_sync.version_folder import folder_of, numbers_of, published
from tools.export.command import copy_published

POLL_S: Final = 1.0
SAYS_HOW: Final = "config.json"  # a folder with this file is a model


class StandsStill(PipelineError):
    """The followed run has published nothing for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """One version.

    Args:
        version: of the policy.
        model: its folder, removed once `result` exists.
        result: the file for the evaluation's result.
    """

    version: int
    model: Path
    result: Path


def versions(run: Run, *, every: int, patience_s: float) -> Iterator[Followed]:
    """Yield the newest version repeatedly, until the run has ended and its last one was yielded.

    Args:
        run: to follow, from its folder.
        every: least number of optimizer steps between two versions; the last one is always yielded.
        patience_s: seconds without a new version after which the run counts as stalled.
    Raises:
        ConfigError: the run publishes adapters, which are no model.
        StandsStill: nothing was published for `patience_s`.
    """
    if run.learner.lora is not None:
        raise ConfigError(
            f"run {run.name} trains an adapter, and --follow needs whole models: use `millrace export`"
        )
    folder = run.folder / "evaluations"
    for rest in filter(None, (_rest(folder, model) for model in sorted(folder.glob("v*")))):
        yield rest
        shutil.rmtree(rest.model)
    last = max((int(file.stem.removeprefix("v")) for file in folder.glob("v*.json")), default=-every)
    since = time.monotonic()
    while True:
        has_ended, newest = _has_ended(run), _newest(run)
        if newest is not None and newest >= last + (1 if has_ended else every):
            if (followed := _copied(run, folder, newest)) is not None:
                yield followed
                shutil.rmtree(followed.model)
                last, since = newest, time.monotonic()
            continue  # removed while it was copied: there is a newer one then
        if has_ended:
            return
        if time.monotonic() - since > patience_s:
            raise StandsStill(
                f"waited {patience_s:.0f} s for run {run.name} to publish a version after "
                f"{max(last, 0)} in {published(run)}: `millrace status {run.name}` says what it does; the same command "
                "goes on"
            )
        time.sleep(POLL_S)


def _rest(folder: Path, model: Path) -> Followed | None:
    """Return a version whose evaluation was interrupted; None for anything else; remove useless folders."""
    number = model.name.removeprefix("v")
    if not model.is_dir():
        return None
    result = folder / f"{model.name}.json"
    if not number.isdigit() or result.exists():
        shutil.rmtree(model)
        return None
    return Followed(version=int(number), model=model, result=result)


def _newest(run: Run) -> int | None:
    return max(numbers_of(published(run)).values(), default=None)


def _copied(run: Run, folder: Path, version: int) -> Followed | None:
    """Copy a published version to a temporary name and rename it; None if the learner removed it meanwhile."""
    model = folder_of(folder, version)
    aside = model.with_name(f"{model.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        copy_published(run, version, aside)
    except FileNotFoundError:
        return None
    aside.rename(model)
    return Followed(version=version, model=model, result=folder / f"{model.name}.json")


def _has_ended(run: Run) -> bool:
    """Return whether the run's learner has saved its last model, and has published nothing since."""
    model, newest = run.folder / "model" / SAYS_HOW, _newest(run)
    if not model.is_file():
        return False
    try:
        return newest is None or model.stat().st_mtime >= folder_of(published(run), newest).stat().st_mtime
    except FileNotFoundError:
        return False
