"""Prepare tasks for agents: Harbor's task directories.

In: a folder of task directories, or one of them. Out: drafts whose prompt is the task's instruction; the ground truth
is the directory with its digest, so that a later change of the task is noticed. Nothing of a task is run here. Called
by `tools.prepare.stages`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.errors import BadMessage
from tasks.harbor import SETTINGS, digest_of, read_task
from tools.prepare.preparation import TEXT, BadRecord, Draft, Files, Preparation, Record


def settings_of(path: Path, split: str) -> list[Path]:  # noqa: ARG001 - task directories have no splits
    """Return the task.toml of a task directory, or of each one below a folder, in order."""
    if (path / SETTINGS).is_file():
        return [path / SETTINGS]
    return sorted(found for found in path.rglob(SETTINGS) if found.is_file())


def tasks_of(path: Path, split: str) -> Iterator[tuple[str, Record]]:
    """Yield the record of each task directory. Raises BadRecord for an unplayable one."""
    for settings in settings_of(path, split):
        folder = settings.parent.absolute()
        try:
            task = read_task(folder)
            digest = digest_of(folder)
        except BadMessage as error:
            raise BadRecord(str(error)) from error
        name = str(folder.relative_to(path.absolute().parent))
        yield (
            str(settings),
            {"folder": str(folder), "digest": digest, "name": name, "instruction": task.instruction},
        )


def harbor(record: Record, _: random.Random) -> Draft:
    """Return the draft of a task directory."""
    return Draft(
        prompt=record["instruction"],
        ground_truth={"folder": record["folder"], "digest": record["digest"]},
        extra={"name": record["name"]},
    )


PREPARATIONS: Final = (
    Preparation(
        name="harbor",
        domain="agents",
        about="task directories of Harbor's, which agents work at",
        source=Files(
            address="https://harborframework.com, or your own: a folder of task directories",
            files=settings_of,
            records=tasks_of,
        ),
        columns={"folder": TEXT, "digest": TEXT, "name": TEXT, "instruction": TEXT},
        row=harbor,
        data_source="harbor",
        ability="agents",
        is_played=True,
    ),
)
