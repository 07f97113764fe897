"""Checkpoints: DeepSpeed's whole state, written aside and renamed, the newest few kept.

In: the policy after a step. Out: `checkpoints/step-000050/`. Runs in rank 0 (all ranks write their parts).
"""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from broker.errors import RunFailed
from config.run import Run

if TYPE_CHECKING:
    from learner.policy import Policy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where training stands, beside the weights."""

    version: int            # optimizer steps done
    first_row: int          # draw of the data's order that a run from here begins with
    fingerprint: str        # of those data


class Checkpoints:
    """The run's checkpoints."""

    def __init__(self, run: Run) -> None:
        self._folder = run.folder / "checkpoints"
        self._config = run.learner.checkpoint

    def is_due(self, version: int) -> bool:
        """Whether one is written after step `version`."""
        return bool(self._config.every) and version % self._config.every == 0

    def save(self, policy: Policy, progress: Progress) -> Path:
        """Write one. Raises RunFailed where the disk refuses it."""
        started = time.monotonic()
        final = self._folder / f"step-{progress.version:06d}"
        aside = self._folder / f"{final.name}.tmp"
        try:
            shutil.rmtree(aside, ignore_errors=True)
            self._folder.mkdir(parents=True, exist_ok=True)
            policy.save_checkpoint(aside, asdict(progress))
            shutil.rmtree(final, ignore_errors=True)
            aside.rename(final)
        except (OSError, RuntimeError) as error:
            raise RunFailed(f"the checkpoint {final} can't be written: {error}") from error
        for old in sorted(self._folder.glob("step-??????"))[: -self._config.keep]:
            shutil.rmtree(old, ignore_errors=True)
        log.info("checkpoint path=%s took_s=%.1f", final, time.monotonic() - started)
        return final


def load(policy: Policy, folder: Path) -> Progress:
    """Go on from a checkpoint. Raises RunFailed if it is none."""
    if not folder.is_dir():
        raise RunFailed(f"learner.resume={folder}: there is no such folder")
    return Progress(**policy.load_checkpoint(folder.absolute()))
