"""Write the journal: the ledger of the whole run, and the groups of every step.

In: each batch before the optimizer step, and each group that ended without training. Out: files with the permanent
outcome of every group. Written by rank 0 of the learner, read by `learner.journal.ledger`; needs no torch. A failed
write ends the learner before anything is acknowledged, so the groups are still in Redis.

Files, in `runs/NAME/journal/`; each incarnation of the learner creates its own exclusively, named by its fence (its
first record is of kind `life`):
    ledger-FENCE.log         records; each is length, CRC-32 (u32 little-endian both) and msgpack
    payload-FENCE-NNN.bin    for each step, in msgpack, the scored groups, in order; for a run without training the
                             groups that it has collected
    untrained-FENCE-NNN.bin  dropped and held-out groups, for people (`learner.journal.untrained`)
Records are numbered within their incarnation (`n`), which shows a missing or a duplicated record, and dated for people
(`at`, Unix seconds). The first record names the previous ledger and its valid length: an older learner that wakes up
writes past that mark, without effect. An incarnation writes only its own files. `notes.jsonl` next to them records what
operators did, and decides nothing.
"""

from __future__ import annotations

import logging
import os
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from broker.errors import Fenced, RunFailed
from broker.messages import ScoredGroup
from config.learner.journal import JournalConfig
from learner.journal.disk import make_folder, sync, write_all
from learner.journal.ledger import DROPPED, GroupOutcome, Ledger, fence_of, ledgers, read_ledger
from learner.journal.payloads import MIB, Advantages, PayloadWriter, StepEncoder, payload_files
from learner.journal.records import framed, step_number
from learner.journal.retention import removable
from learner.journal.untrained import EVALUATED, UntrainedWriter

log = logging.getLogger(__name__)

DEFAULTS = JournalConfig()
NOTHING: Mapping[int, str] = {}
NO_DEATHS: Mapping[str, str] = {}


class FenceTaken(RunFailed):
    """Another incarnation of the learner has a ledger with this fence."""


class Journal:
    """Write this incarnation's files, and hold the ledger of all incarnations.

    Args:
        folder: made if missing.
        fence: this incarnation's, unique for ever.
        run: the run's name, for the record.
        facts: further fields of the first record: the configuration, and where the incarnation began.
        config: the size and the retention of payload files.
    Raises:
        FenceTaken: another incarnation has this fence.
        RunFailed: the files can't be created or written.
        JournalError: an older incarnation's ledger is damaged.
    """

    def __init__(
        self,
        folder: Path,
        fence: int,
        *,
        run: str,
        facts: Mapping[str, Any] | None = None,
        config: JournalConfig = DEFAULTS,
    ) -> None:
        self.folder = folder
        self.fence = fence
        self._config = config
        self._failure: str | None = None
        self._number = 0
        self._log = self._create_ledger()
        self._encoder = StepEncoder()
        self._beside = ThreadPoolExecutor(1, "checksum")
        self._payloads = PayloadWriter(folder, fence, segment_mb=config.segment_mb)
        self._untrained = UntrainedWriter(folder, fence, keep_mb=config.untrained_mb)
        try:
            self.ledger: Ledger = read_ledger(folder, before=fence)
            previous = self.ledger.previous
            self._sync_last_incarnation(previous)
            self._write(
                [
                    {
                        "kind": "life",
                        "fence": fence,
                        "run": run,
                        "previous": previous,
                        "previous_end": self.ledger.end if previous else None,
                        **(facts or {}),
                    }
                ]
            )
        except BaseException:
            self.close()
            raise

    def has(self, group_id: str) -> bool:
        """Return whether the group has an outcome."""
        return group_id in self.ledger.outcomes

    def ended(self, group_ids: Iterable[str]) -> set[str]:
        """Return those of the groups that have an outcome."""
        return {group_id for group_id in group_ids if group_id in self.ledger.outcomes}

    def prepare(self, group: ScoredGroup) -> None:
        """Encode a group when it arrives, which leaves less to do in `append`. Writes nothing."""
        self._encoder.prepare(group)

    def append(
        self,
        step: int,
        groups: Sequence[ScoredGroup],
        advantages: Advantages,
        *,
        published: Mapping[int, str] = NOTHING,
        kl: Mapping[str, float] | None = None,
    ) -> None:
        """Write a step: payload, fsync, record, fsync. Afterwards the step can be replayed.

        Args:
            step: the version that it starts from.
            advantages: a list per group, a number per completion, as used in the step.
            published: checksums of the weights published since the last step, by version.
            kl: `coef`, the weight of the divergence to the reference in this step, and `divergence`, its mean per token
                where it was measured before the step; None: there is no reference.
        Raises:
            RunFailed: the step could not be written; nothing may be acknowledged or written any more.
            Fenced: a newer learner has opened the journal.
            ValueError: another step is next.
        """
        if self.ledger.steps and step != self.ledger.steps[-1]["step"] + 1:
            raise ValueError(
                f"a step from version {step} can't follow step {step_number(self.ledger.steps[-1])}"
            )
        self.check_fence()
        placed = self._put_payload(step, groups, advantages)
        self._write(
            [
                {
                    "kind": "step",
                    "step": step,
                    "ids": [group.group_id for group in groups],
                    "tokens": sum(group.rollout.num_tokens for group in groups),
                    "published": [[version, checksum] for version, checksum in published.items()],
                    **placed,
                    **({} if kl is None else {"kl": dict(kl)}),
                }
            ]
        )
        self._encoder.discard(group.group_id for group in groups)

    def collect(self, groups: Sequence[ScoredGroup], *, dead: Mapping[str, str] = NO_DEATHS) -> None:
        """Record groups of a run without training: payload, fsync, record, fsync. The record is their outcome.

        Args:
            groups: with their scores.
            dead: the reasons of those that ended in `dead`, by id; their outcome is `dead`.
        Raises:
            RunFailed, Fenced: as `append` does.
        """
        self.check_fence()
        placed = self._put_payload(0, groups, [[None] * len(group.rewards) for group in groups])
        self._write(
            [
                {
                    "kind": "collected",
                    "ids": [group.group_id for group in groups],
                    "dead": dict(dead),
                    "tokens": sum(group.rollout.num_tokens for group in groups),
                    **placed,
                }
            ]
        )
        self._encoder.discard(group.group_id for group in groups)
        self.check_fence()  # as in `end`

    def _put_payload(
        self, step: int, groups: Sequence[ScoredGroup], advantages: Advantages
    ) -> dict[str, Any]:
        """Write a payload to disk, and return the record's fields for its place."""
        self._refuse_after_failure()
        payload = self._encoder.encode(step, groups, advantages)
        checksum = self._beside.submit(zlib.crc32, payload)  # while the disk is writing
        try:
            file, offset = self._payloads.append(payload)
        except OSError as error:
            raise self._failed(error, len(payload)) from error
        return {
            "fence": self.fence,
            "file": file,
            "offset": offset,
            "length": len(payload),
            "crc32": checksum.result(),
        }

    def end(self, ends: Mapping[str, GroupOutcome]) -> None:
        """Record groups that ended without training; one write and fsync for all. Raises as `append` does."""
        self.check_fence()
        ended = [(outcome.group, outcome.detail) for outcome in ends.values()]
        groups, reasons = [group for group, _ in ended if group], [why for group, why in ended if group]
        self._untrained.write(DROPPED, self._next_step, groups, reasons)
        self._write(
            [
                {
                    "kind": "end",
                    "id": group_id,
                    "outcome": outcome.kind,
                    "reason": outcome.detail,
                    "tokens": outcome.tokens,
                    **({"facts": outcome.facts} if outcome.facts else {}),
                }
                for group_id, outcome in ends.items()
            ]
        )
        self._encoder.discard(ends)
        self.check_fence()  # records after a newer incarnation's start are void: nothing may rely on them

    def retry(self, group_id: str, number: int) -> None:
        """Record the retry of a group that died or was over, its `number`th. Raises as `append` does."""
        self.check_fence()
        self._write([{"kind": "retry", "id": group_id, "number": number}])

    def evaluation(
        self, version: int, results: Mapping[str, Any], groups: Sequence[ScoredGroup] = ()
    ) -> None:
        """Record an evaluation round, which is its groups' outcome. Raises as `append` does.

        Args:
            version: of the round.
            results: the round's result.
            groups: those that returned, for `learner.journal.untrained`.
        """
        self.check_fence()
        self._untrained.write(EVALUATED, version, groups, [""] * len(groups))
        self._write([{"kind": "evaluation", "version": version, **results}])
        self.check_fence()

    def retain(self, covered: int) -> None:
        """Remove payload files by the settings, and log each.

        Args:
            covered: steps below this one are covered by the oldest kept checkpoint; later payloads stay.
        Raises:
            Fenced: a newer learner has opened the journal.
        """
        self.check_fence()
        for payload_file in removable(
            payload_files(self.folder),
            self.ledger,
            self._config,
            covered=covered,
            now=time.time(),
            writing=self._payloads.current,
        ):
            size = payload_file.path.stat().st_size
            steps = [
                step_number(record)
                for record in self.ledger.steps
                if record["file"] == payload_file.path.name
            ]
            try:
                payload_file.path.unlink()
            except OSError as error:
                log.warning("payload_not_removed file=%s reason=%s", payload_file.path, error.strerror)
                continue
            log.info(
                "payload_removed file=%s steps=%s mb=%.1f covered=%d",
                payload_file.path,
                f"{steps[0]}-{steps[-1]}" if steps else "none",
                size / MIB,
                covered,
            )

    def check_fence(self) -> None:
        """Raise Fenced if a newer learner has opened this journal: Redis may have lost that learner's fence."""
        newest = max((fence_of(path) for path in ledgers(self.folder)), default=self.fence)
        if newest > self.fence:
            raise Fenced(
                f"{self.folder}: a newer learner (fence {newest}) has taken this run over from fence "
                f"{self.fence}"
            )

    def close(self) -> None:
        """Close the files."""
        self._beside.shutdown()
        self._log.close()
        self._payloads.close()
        self._untrained.close()

    @property
    def _next_step(self) -> int:
        """The next step to train, as its record will number it: the version that it starts from."""
        if self.ledger.steps:
            return int(self.ledger.steps[-1]["step"]) + 1
        return 0

    def _create_ledger(self) -> BinaryIO:
        path = self.folder / f"ledger-{self.fence:06d}.log"
        try:
            make_folder(self.folder)
            stream = path.open("xb", buffering=0)
            sync(self.folder)
        except FileExistsError:
            raise FenceTaken(f"{path} is another incarnation's") from None
        except OSError as error:
            raise RunFailed(f"{path} can't be created: {error.strerror}") from error
        return stream

    def _sync_last_incarnation(self, ledger: str | None) -> None:
        """Sync the files that the previous incarnation was writing when it was killed: from now on they count."""
        if ledger is None:
            return
        path = self.folder / ledger
        for file in (
            path,
            *(
                payload_file.path
                for payload_file in payload_files(self.folder)
                if payload_file.fence == fence_of(path)
            ),
        ):
            try:
                sync(file)
            except OSError as error:
                raise RunFailed(f"{file} can't be put on the disk: {error.strerror}") from error

    def _write(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records in one write, and add them to the ledger in memory once they are on disk."""
        self._refuse_after_failure()
        at = time.time()
        numbered = [
            {"kind": record["kind"], "n": number, "at": at, **record}
            for number, record in enumerate(records, start=self._number)
        ]
        data = b"".join(map(framed, numbered))
        try:
            write_all(self._log, data)
            os.fsync(self._log.fileno())
        except OSError as error:
            raise self._failed(error, len(data)) from error
        self._number += len(numbered)
        for record in numbered:
            self.ledger.add(record)

    def _refuse_after_failure(self) -> None:
        """Raise RunFailed after a failed write: a record after a torn one would turn the torn one into damage."""
        if self._failure is not None:
            raise RunFailed(f"{self._failure} (a write before this one; nothing is written after it)")

    def _failed(self, error: OSError, size: int) -> RunFailed:
        self._failure = (
            f"the journal in {self.folder} can't be written ({size} bytes): {error.strerror}. Nothing of "
            "this step was acknowledged; its groups are still in Redis"
        )
        return RunFailed(self._failure)
