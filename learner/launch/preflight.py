"""This module checks that configured files and folders are here: a mistyped path is named before anything starts.

In: a resolved run, in the `millrace up`, `chaos` or `python -m learner` that starts it on this machine. Out: nothing,
or a `ConfigError` with the key. The check is no part of loading: a process that joins from another machine, or reads an
old run's configuration, needs no such file.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from config.data import DatasetSource
from config.explanations import ConfigError
from config.places import is_path, is_pattern, lacks_model
from config.run import Run
from learner.reporting.build import missing_loggers
from learner.reporting.dumps.places import in_the_way
from learner.status import read_status

FILES = frozenset({".jsonl", ".json", ".parquet", ".csv"})


def single_answers(run: Run) -> str:
    """Say that a group of one answer trains nothing, whose baseline is the answer itself; "" where there are more."""
    if run.sampling.group_size > 1:
        return ""
    return (
        "sampling.group_size=1: a group of one answer has an advantage of 0, whatever its reward, and nothing of it "
        "trains"
    )


def check_places(run: Run) -> None:
    """Check that the files and folders that `run` needs are on this machine's disk.

    Raises:
        ConfigError: a file or folder is missing; the message has a line for each key.
    """
    if missing := list(_missing(run)):
        raise ConfigError("\n".join(missing))


def _missing(run: Run) -> Iterator[str]:
    resume = run.learner.resume
    if lacks_model(run.model):
        yield f"model.path={run.model.path}: there is no such folder, and no name on the hub is so"
    kl = run.learner.objective.kl
    if kl.coef and kl.reference is not None and is_path(kl.reference) and not Path(kl.reference).is_dir():
        yield f"learner.objective.kl.reference={kl.reference}: there is no such folder, and no name on the hub is so"
    serve = run.judge.serve
    if serve is not None and is_path(serve.model) and not Path(serve.model).is_dir():
        yield f"judge.serve.model={serve.model}: there is no such folder, and no name on the hub is so"
    yield from missing_loggers(run)
    yield from in_the_way(run)
    lora = run.learner.lora
    if lora is not None and importlib.util.find_spec("peft") is None:
        yield "learner.lora needs peft: pip install peft"
    if lora is not None and lora.adapter is not None and not lora.adapter.is_dir():
        yield f"learner.lora.adapter={lora.adapter}: there is no such folder"
    for key, source in run.data.keyed_sources().items():
        if not isinstance(source, DatasetSource) or is_pattern(source.path):
            continue
        is_file = Path(source.path).suffix in FILES
        if (is_file or is_path(source.path)) and not Path(source.path).exists():
            yield f"data.{key}.path={source.path}: there is no such file{'' if is_file else ' or folder'}"
    if isinstance(resume, Path) and not resume.is_dir() and not _has_begun(run):
        yield f"learner.resume={resume}: must be auto, never, or a checkpoint's folder that is there"


def _has_begun(run: Run) -> bool:
    """Return whether this run goes on, and so no longer needs the checkpoint that it began from."""
    found = read_status(run.folder)
    return found.get("begun") != "no" and found.get("status", "") not in {"", "finished"}
