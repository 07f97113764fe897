"""Train the journal's steps again: after a crash, and offline.

In: a policy at some version, and the ledger. Out: the policy after the ledger's last step (or the requested one),
bit-identical: each step with the groups, the advantages, the settings and the order of its first time. Rank 0 runs it,
before anything is announced. A missing or damaged step is a RunFailed: a run whose steps can't be replayed must not
continue as if they had been.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from broker.checksums import weights_checksum
from broker.errors import RunFailed
from broker.messages import ScoredGroup
from broker.own_folder import OwnFolder
from broker.weight_files import weight_files
from config.explanations import ConfigError
from config.learner import LearnerConfig
from config.learner.objective import KlConfig
from config.other_names.renamed_keys import with_current_names
from config.run import Run
from config.yaml_text import EARLIER, read_yaml_text
from learner.journal.ledger import JournalError, Ledger, read_step
from learner.journal.payloads import Advantages
from learner.journal.records import step_number
from learner.objective.kl_coefficient import KlCoefficient
from learner.training.batch import Batch, pack

if TYPE_CHECKING:
    from learner.training.backend import TrainingBackend

log = logging.getLogger(__name__)


Report = Callable[[Mapping[str, Any], Sequence[ScoredGroup], Batch, Mapping[str, float]], None]


class Interrupted(Exception):
    """A signal came between two steps: the policy is in the middle of the journal, and must not be announced."""


def catch_up(
    run: Run,
    policy: TrainingBackend,
    folder: Path,
    ledger: Ledger,
    version: int,
    *,
    report: Report = lambda *_: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Train every step of the ledger from `version` on.

    The weights at the first and the last of them are compared with the record: another machine, number of threads or of
    ranks rounds differently, with a warning. The run continues nevertheless, since the steps are equally valid. The
    same holds where `tokens_per_micro_batch` is smaller now: otherwise a step that did not fit in memory would end
    every incarnation.

    Args:
        run: the current run; a step is trained with the settings of the incarnation that wrote it, but in micro-batches
            no larger than the current ones.
        policy: at `version`.
        folder: of the journal.
        ledger: from `read_ledger`.
        version: optimizer steps done by the policy.
        report: receives each step's record, its groups and batch, and the policy's metrics of it.
        is_stopped: called before each step; True ends. By rank 0 alone, since the others do what it sends them.
    Returns:
        Optimizer steps done afterwards.
    Raises:
        Interrupted: `is_stopped` returned True. Nothing is lost: the next incarnation begins with the checkpoint again.
        RunFailed: a step is missing, or its payload is missing or damaged; the message says which and what to do.
    """
    records = steps_from(ledger, version)
    if not records:
        return version
    recorded = IncarnationSettings(run, ledger)
    compared, started = _to_compare(records, ledger), time.monotonic()
    _warn_of_smaller_micro_batches(
        run.learner.tokens_per_micro_batch, [(record, recorded.of(record)) for record in records]
    )
    scratch = _own_folder(run)
    try:
        for record in records:
            if is_stopped():
                raise Interrupted(
                    f"a signal came before step {step_number(record)}, and the journal's last is "
                    f"{step_number(records[-1])}: the next incarnation trains them again"
                )
            if record["step"] in compared:
                _compare(policy, record, compared[record["step"]], scratch.path)
            settings = _in_micro_batches_of(run.learner.tokens_per_micro_batch, recorded.of(record))
            groups, advantages = _read(folder, record)
            batch = _packed(record, groups, advantages, settings, by_length=policy.pads)
            report(record, groups, batch, policy.step(batch, settings))
    finally:
        scratch.close()
    reached = version + len(records)
    took_s = time.monotonic() - started
    log.info("replayed steps=%d from=%d to=%d took_s=%.1f", len(records), version, reached, took_s)
    return reached


def _own_folder(run: Run) -> OwnFolder:
    """Return a folder next to the checkpoints for this learner alone, not for an older or newer one of the run."""
    checkpoints = run.folder / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    return OwnFolder("replay-", checkpoints)


def _to_compare(records: Sequence[Mapping[str, Any]], ledger: Ledger) -> dict[int, str]:
    """Return the checksums of the first and the last version that steps start from and a record names."""
    versions = {record["step"] for record in records}
    known = {version: checksum for version, checksum in ledger.checksums.items() if version in versions}
    return {version: known[version] for version in (min(known), max(known))} if known else {}


def steps_from(ledger: Ledger, version: int) -> list[Mapping[str, Any]]:
    """Return the step records from `version` on, in order.

    Raises:
        RunFailed: one is missing, or the ledger ends before `version`.
    """
    records = sorted(
        (record for record in ledger.steps if record["step"] >= version), key=lambda one: one["step"]
    )
    newest = max(map(step_number, ledger.steps), default=None)
    if newest is not None and newest < version:
        raise RunFailed(
            f"the weights have done {version} steps, and the journal ends with step {newest}: records were "
            "lost. Restore the journal's folder; `millrace audit` says what is missing"
        )
    for expected, record in enumerate(records, version + 1):
        if step_number(record) != expected:
            raise RunFailed(
                f"the journal's record of step {expected} is missing (or there twice): step "
                f"{step_number(record)} comes in its place. Restore the journal's folder; `millrace audit` says "
                "what is missing"
            )
    return records


class IncarnationSettings:
    """The learner's settings, by the incarnation that wrote a step."""

    def __init__(self, run: Run, ledger: Ledger) -> None:
        self._now = run.learner
        self._incarnations = {incarnation["fence"]: incarnation for incarnation in ledger.incarnations}
        self._parsed: dict[int, LearnerConfig] = {}

    def of(self, record: Mapping[str, Any]) -> LearnerConfig:
        """Return the settings that a step was trained with. Raises RunFailed if this version can't read them."""
        fence = record["fence"]
        if fence not in self._parsed:
            text = self._incarnations.get(fence, {}).get("config")
            try:
                self._parsed[fence] = (
                    LearnerConfig.model_validate(with_current_names(read_yaml_text(text, EARLIER))["learner"])
                    if text
                    else self._now
                )
            except (ValidationError, ConfigError, TypeError, KeyError) as error:
                what = (
                    "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
                    if isinstance(error, ValidationError)
                    else f"{type(error).__name__}: {error}"
                )
                raise RunFailed(
                    f"step {step_number(record)} was trained with settings that this version can't read "
                    f"(ledger {fence}): {what}. Go on with the version that wrote it up to its next "
                    "checkpoint, then with this one"
                ) from error
        return self._parsed[fence]


def read_batch(folder: Path, record: Mapping[str, Any], settings: LearnerConfig, *, by_length: bool) -> Batch:
    """Return a step's batch, packed as it was.

    Args:
        folder: of the journal.
        record: the step's.
        settings: of the incarnation that wrote it.
        by_length: whether the backend pads.
    Raises:
        JournalError: the payload is missing or damaged.
    """
    return _packed(record, *read_step(folder, record), settings, by_length=by_length)


def kl_after(
    kl: KlConfig, record: Mapping[str, Any], batch: Batch, stepped: Mapping[str, float]
) -> Mapping[str, Any] | None:
    """Return the state of an adaptive KL coefficient after a replayed step; None for a constant one.

    Args:
        kl: the section of the incarnation that wrote the step.
        record: the step's.
        batch: what the step trained on.
        stepped: the policy's metrics of the step.
    """
    written = record.get("kl")
    if written is None:
        return None
    coefficient = KlCoefficient(kl)
    coefficient.value = written["coef"]
    divergence = written.get("divergence", stepped.get("reference_kl", 0.0))
    coefficient.update(divergence=divergence, completions=len(batch.prompts))
    return coefficient.state


def checksum_now(policy: TrainingBackend, scratch: Path, *, like: str = "") -> str:
    """Return the checksum of the weights as they are published.

    Args:
        like: the checksum to compare with, which may be of an older kind.
        scratch: folder for the files, made if missing; the caller removes it.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    saved = policy.gather_weights().save_weights(scratch)
    if len(like) in {0, len(saved.checksum)}:
        return saved.checksum
    return weights_checksum(weight_files(scratch), like=like)


def _in_micro_batches_of(tokens_per_micro_batch: int, settings: LearnerConfig) -> LearnerConfig:
    """Return the settings with micro-batches of at most `tokens_per_micro_batch` tokens."""
    return settings.model_copy(
        update={"tokens_per_micro_batch": min(tokens_per_micro_batch, settings.tokens_per_micro_batch)}
    )


def _warn_of_smaller_micro_batches(
    tokens_per_micro_batch: int, steps: Sequence[tuple[Mapping[str, Any], LearnerConfig]]
) -> None:
    smaller = [
        (step_number(record), settings.tokens_per_micro_batch)
        for record, settings in steps
        if settings.tokens_per_micro_batch > tokens_per_micro_batch
    ]
    if smaller:
        log.warning(
            "smaller_rows steps=%d first=%d tokens_per_micro_batch=%d recorded=%d: these steps are trained again in "
            "smaller micro-batches, which fit where theirs did not but round differently. So the weights may not be "
            "the bits that they were",
            len(smaller),
            smaller[0][0],
            tokens_per_micro_batch,
            smaller[0][1],
        )


def _packed(
    record: Mapping[str, Any],
    groups: Sequence[ScoredGroup],
    advantages: Advantages,
    settings: LearnerConfig,
    *,
    by_length: bool,
) -> Batch:
    return pack(
        groups,
        advantages,
        tokens_per_micro_batch=settings.tokens_per_micro_batch,
        truncated=settings.filters.truncated,
        policy_version=record["step"],
        mini_batches=settings.mini_batches,
        kl_coef=record.get("kl", {}).get("coef", 0.0),
        by_length=by_length,
    )


def _read(folder: Path, record: Mapping[str, Any]) -> tuple[list[ScoredGroup], Advantages]:
    try:
        return read_step(folder, record)
    except JournalError as error:
        raise RunFailed(
            f"step {step_number(record)} can't be trained again: {error}. Restore that file, or begin a run of "
            "another name from a checkpoint (learner.resume=FOLDER)"
        ) from error


def _compare(policy: TrainingBackend, record: Mapping[str, Any], recorded: str, scratch: Path) -> None:
    checksum = checksum_now(policy, scratch, like=recorded)
    if checksum != recorded:
        log.warning(
            "weights_differ step=%d now=%.12s recorded=%.12s: these steps are trained again with other "
            "rounding (another machine, number of threads or ranks, or version of a library). So the weights "
            "are not the bits that they were",
            step_number(record),
            checksum,
            recorded,
        )
