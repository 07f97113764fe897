"""Keep versions of the weights as folders on the learner's disk: name, write and remove them.

In: a handle on the weights. Out: `weights/v000007` with their files, renamed to that only when complete. Used by the
transports; the tools ask where the versions of a run are.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from broker.errors import RunFailed
from config.learner.weight_sync import FilesystemTransportConfig
from config.run import Run
from learner.weight_sync.transport import SavedWeights, WeightHandle

KEEP = 2  # versions on disk: the newest, and the one that a generator may be reading


def published(run: Run) -> Path:
    """Return the folder of the versions: the run's own, or one in a folder for all runs (/dev/shm, for example)."""
    weights = run.learner.weights
    elsewhere = weights.directory if isinstance(weights, FilesystemTransportConfig) else None
    return (elsewhere / run.name if elsewhere else run.folder / "weights").absolute()


def folder_of(versions: Path, version: int) -> Path:
    """Return the folder of one version."""
    return versions / f"v{version:06d}"


def numbers_of(versions: Path) -> dict[Path, int]:
    """Return the folders of complete versions, with their numbers."""
    named = {folder: folder.name.removeprefix("v") for folder in versions.glob("v*")}
    return {folder: int(number) for folder, number in named.items() if number.isdigit()}


def write_version(versions: Path, weights: WeightHandle, version: int) -> SavedWeights:
    """Write a version under a temporary name and rename it, replacing an existing folder of that version.

    Raises:
        RunFailed: the disk refuses it.
    """
    final = folder_of(versions, version)
    aside = final.with_name(f"{final.name}.tmp")
    try:
        versions.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        saved = weights.save_weights(aside)
        shutil.rmtree(final, ignore_errors=True)
        aside.rename(final)
    except OSError as error:
        raise RunFailed(
            f"the weights of version {version} can't be written to {versions}: {error.strerror}. Make room or mend the "
            "disk: started again, the run goes on"
        ) from error
    return saved


def remove_old(versions: Path, version: int) -> None:
    """Remove the versions that no generator can need once `version` is announced, and nothing else.

    A generator reads only the newest announcement, and starts again with a newer one if its file is gone.
    """
    for folder in versions.glob("v*"):
        number = folder.name.removeprefix("v").removesuffix(".tmp")
        if number.isdigit() and int(number) <= version - KEEP:
            shutil.rmtree(folder, ignore_errors=True)
