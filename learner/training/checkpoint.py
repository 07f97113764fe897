"""Write checkpoints under a temporary name, seal them with checksums and rename them; keep the newest few.

In: the backend after a step. Out: `checkpoints/step-000050/` with every rank's parts and `manifest.json`, which lists
each file with its size and sha256 and is written last. Runs in rank 0 (all ranks write their parts). An interrupted
save leaves a `.tmp` that is never read, and the next save removes it. A checkpoint that does not match its manifest, or
that holds other steps than the journal, is named in a warning, and the learner uses the one before. Finding a good
checkpoint needs no torch.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.checksums import file_checksum
from broker.errors import RunFailed
from config.run import Run
from learner.journal.disk import make_folder, sync
from learner.journal.records import step_number

if TYPE_CHECKING:
    from learner.journal.ledger import Ledger
    from learner.training.backend import HoldsState

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
STATE = "state.json"  # next to the backend's files: the learner's shape, and the progress
ASIDE = ".tmp"
MODELS = "models"  # in the run's folder: `learner.checkpoint.export`
# A RuntimeError of torch's writers with one of these words means a full or broken disk.
_TORCH_WRITES = ("inline_container.cc", "PytorchStreamWriter", "iostream error", "write(): fd")
HASHED_AT_ONCE = 8  # files: each rank has one, and a disk reads several faster than one


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of training, except the weights."""

    version: int  # optimizer steps done
    first_row: int  # position in the data's order at which a run from here begins
    fingerprint: str  # of the data
    fence: int = 0  # of the incarnation that wrote the newest step; 0: no step of this run
    kl: Mapping[str, Any] | None = None  # state of an adaptive KL coefficient, see `KlCoefficient`


class Checkpoints:
    """Write, find and remove the checkpoints of a run."""

    def __init__(self, run: Run) -> None:
        self.folder = run.folder / "checkpoints"
        self._config = run.learner.checkpoint
        self._broken: set[str] = set()  # names that `newest_good` has warned about

    def is_due(self, version: int) -> bool:
        """Return whether a checkpoint is written after step `version`."""
        return bool(self._config.every) and version % self._config.every == 0

    def save(self, policy: HoldsState, progress: Progress) -> Path:
        """Write a checkpoint, and remove old ones. A complete checkpoint of this version is not replaced.

        Raises:
            RunFailed: the disk refuses the checkpoint.
            RuntimeError: something else went wrong; where a rank has died, torch's message says so.
        """
        started = time.monotonic()
        final = self.folder / f"step-{progress.version:06d}"
        aside = self.folder / f"{final.name}{ASIDE}"
        try:
            make_folder(self.folder)
            for leftover in self.folder.glob(f"*{ASIDE}"):
                shutil.rmtree(leftover)
            # Replacing a complete checkpoint would leave a moment without any, and the journal may have removed older
            # steps.
            if final.is_dir() and what_is_wrong(final) is None and _holds_the_same(final, progress):
                self._export(policy, final.name)
                return final
            policy.save_checkpoint(aside, asdict(progress))
            size = _seal(aside)
            if final.exists():
                shutil.rmtree(final)
            aside.rename(final)
            sync(self.folder)
            self._export(policy, final.name)
        except (OSError, RuntimeError) as error:
            if not isinstance(error, OSError) and not any(words in str(error) for words in _TORCH_WRITES):
                raise
            raise RunFailed(
                f"the checkpoint {final} can't be written: {error}. Make room or mend the disk: started "
                "again, the run goes on from the last checkpoint and its journal"
            ) from error
        self._broken.discard(final.name)
        self._remove_old()
        log.info("checkpoint path=%s bytes=%d took_s=%.1f", final, size, time.monotonic() - started)
        return final

    def _export(self, policy: HoldsState, name: str) -> None:
        """Write the weights as a Hugging Face folder under `models`, if configured. It is never removed."""
        final = self.folder.parent / MODELS / name
        if not self._config.export or final.exists():
            return
        aside = final.with_name(f"{name}{ASIDE}")
        shutil.rmtree(aside, ignore_errors=True)
        policy.save_model(aside)
        aside.rename(final)
        sync(final.parent)
        log.info("exported path=%s", final)

    def newest_good(self, *, at_most: int | None = None, ledger: Ledger | None = None) -> Path | None:
        """Find the newest checkpoint that matches its manifest; None for none.

        Each broken checkpoint is named in a warning. Every byte is read.

        Args:
            at_most: the newest version to consider.
            ledger: consider only checkpoints whose steps the ledger has. A learner that lost the run during a save
                leaves a checkpoint of void steps.
        """
        for folder in reversed(self._kept()):
            if at_most is not None and version_of(folder) > at_most:
                continue
            wrong, event = what_is_wrong(folder), "checkpoint_broken"
            if wrong is None and ledger is not None:
                wrong, event = _why_not_of(ledger, folder), "checkpoint_of_other_steps"
            if wrong is None:
                return folder
            log.warning(
                "%s path=%s reason=%s: an older one is used, and the journal's later steps are trained again",
                event,
                folder,
                wrong,
            )
            self._broken.add(folder.name)
        return None

    def oldest_version(self) -> int | None:
        """Count the steps that every kept checkpoint includes: recovery does not need their payloads.

        None while there are fewer checkpoints than `checkpoint.keep`: then the run's beginning must replace a broken
        checkpoint, and every payload is needed. Missing and truncated files are noticed here, flipped bits are not:
        this is called after every save, and reads no checksums.
        """
        good = self._seemingly_good()
        return version_of(good[0]) if len(good) >= self._config.keep else None

    def _kept(self) -> list[Path]:
        """List the checkpoints with a final name, the oldest first."""
        return sorted(
            (path for path in self.folder.glob("step-*") if path.name.removeprefix("step-").isdigit()),
            key=version_of,
        )

    def _seemingly_good(self) -> list[Path]:
        """List the checkpoints that count as kept, the oldest first."""
        return [
            folder
            for folder in self._kept()
            if folder.name not in self._broken and what_is_wrong(folder, sizes_only=True) is None
        ]

    def _remove_old(self) -> None:
        stay = self._seemingly_good()[-self._config.keep :]
        for folder in self._kept():
            if folder not in stay:
                shutil.rmtree(folder, ignore_errors=True)
                self._broken.discard(folder.name)


def load(policy: HoldsState, folder: Path, *, is_checked: bool = False) -> Progress:
    """Continue from a checkpoint.

    Args:
        folder: of the checkpoint; every rank must see it.
        is_checked: `newest_good` has just verified it.
    Raises:
        RunFailed: the folder is no checkpoint, it is broken, or it does not fit this run.
    """
    if not folder.is_dir():
        raise RunFailed(f"the checkpoint {folder}: there is no such folder")
    wrong = None if is_checked else what_is_wrong(folder)
    if wrong is not None:
        raise RunFailed(f"the checkpoint {folder} is broken: {wrong}")
    return Progress(**policy.load_checkpoint(folder.absolute()))


def read_progress(folder: Path) -> Progress:
    """Read a checkpoint's progress without loading it. Raises RunFailed if the folder is no checkpoint."""
    try:
        return Progress(**json.loads((folder / STATE).read_text(encoding="utf-8"))["state"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise RunFailed(f"the checkpoint {folder} can't be read: {error}") from error


def write_state(folder: Path, state: Mapping[str, Any], *, fits: Mapping[str, Any]) -> None:
    """Write the caller's state next to the backend's files.

    Args:
        folder: of the checkpoint.
        state: JSON.
        fits: `ranks`, `zero_stage` and `dtype` of the learner that the checkpoint fits.
    """
    (folder / STATE).write_text(json.dumps({"fits": fits, "state": state}, indent=1), encoding="utf-8")


def read_state(folder: Path, *, fits: Mapping[str, Any]) -> dict[str, Any]:
    """Read the caller's state.

    Raises:
        RunFailed: the state is missing, or of a learner of another shape. With ZeRO 0 any number of ranks fits: each
            rank holds the whole optimizer state, and so does the file.
    """
    file = folder / STATE
    if not file.is_file():
        raise RunFailed(f"{folder} holds no whole checkpoint: {STATE} is missing")
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    of = dict(content["fits"])
    if of != {**fits, "ranks": of["ranks"] if fits["zero_stage"] == 0 else fits["ranks"]}:
        raise RunFailed(f"{folder} is a checkpoint of {of}, and this learner is {dict(fits)}")
    state: dict[str, Any] = content["state"]
    return state


def version_of(folder: Path) -> int:
    """Read a checkpoint's number of optimizer steps from its folder's name."""
    return int(folder.name.removeprefix("step-"))


def what_is_wrong(folder: Path, *, sizes_only: bool = False) -> str | None:
    """Return why a checkpoint can't be used, for people; None if it matches its manifest. Reads every byte.

    Args:
        folder: of the checkpoint.
        sizes_only: compare only sizes, and read only the manifest.
    """
    try:
        files: dict[str, dict[str, Any]] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))[
            "files"
        ]
        if not files:
            return f"{MANIFEST} names no file"
        return _other_size(folder, files) or (None if sizes_only else _other_checksum(folder, files))
    except FileNotFoundError as error:
        return f"{Path(error.filename).relative_to(folder)} is missing"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        return f"{MANIFEST} can't be read: {type(error).__name__}: {error}"


def _why_not_of(ledger: Ledger, folder: Path) -> str | None:
    """Return why a complete checkpoint does not hold the ledger's steps, for people; None if it does."""
    try:
        progress = read_progress(folder)
    except RunFailed as error:
        return str(error)
    if progress.fence == 0:  # no step: the start of the run
        return None
    step = progress.version  # the last one it includes
    writer = next((record["fence"] for record in reversed(ledger.steps) if step_number(record) == step), None)
    if writer is None:
        return f"it holds step {step} of incarnation {progress.fence}, which the journal does not have"
    if writer != progress.fence:
        return (
            f"it holds step {step} of incarnation {progress.fence}, and the journal has that step of "
            f"incarnation {writer}"
        )
    return None


def _holds_the_same(folder: Path, progress: Progress) -> bool:
    """Return whether `folder` has a complete checkpoint of the same steps: an incarnation writes each step once."""
    try:
        return read_progress(folder).fence == progress.fence
    except RunFailed:
        return False


def _other_size(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> str | None:
    for name, expected in files.items():
        size = (folder / name).stat().st_size
        if size != expected["size"]:
            return f"{name} has {size} bytes, and had {expected['size']}"
    return None


def _other_checksum(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> str | None:
    with ThreadPoolExecutor(HASHED_AT_ONCE) as pool:
        checksums = pool.map(lambda name: file_checksum(folder / name), files)
        for name, checksum in zip(files, checksums, strict=True):
            if checksum != files[name]["sha256"]:
                return f"{name} has another checksum than when it was written"
    return None


def _seal(folder: Path) -> int:
    """Sync every file and name of `folder`, the manifest last. Returns the files' total bytes."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor(HASHED_AT_ONCE) as pool:
        checksums = list(pool.map(_synced_checksum, paths))
    files = {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": checksum}
        for path, checksum in zip(paths, checksums, strict=True)
    }
    for inner in folder.rglob("*"):
        if inner.is_dir():
            sync(inner)
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps({"files": files}, indent=1), encoding="utf-8")
    sync(manifest)
    sync(folder)
    return sum(entry["size"] for entry in files.values())  # type: ignore[misc]  # sizes are numbers


def _synced_checksum(file: Path) -> str:
    sync(file)
    return file_checksum(file)
