"""Issue prompts to keep the budget full, in a thread of rank 0.

In: the prompt source and the available room. Out: entries of `prompts`. Only the learner's commit, a drop or a death
frees a slot. So issuing bounds the number of groups in flight, and with the floor their lag. Consumes: free slots.
Waits for: the learner's commits. An error here ends the run: the trainer reads `failure`. If that is a Redis that went
back, the feeder pauses until the trainer has recovered and calls `rebase`.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from broker.errors import NoRoom, WentBack
from broker.group_ids import ordinal_of, retry_of
from broker.messages import Prompt
from broker.protocol.run_owner import NewGroup, RunOwner
from broker.protocol.run_reader import MEMORY_SHARE
from config.run import Run
from learner.groups.evaluation import Evaluation, new_group
from learner.groups.lag import likely_needed
from learner.policy_version import PolicyVersion

log = logging.getLogger(__name__)

CHUNK = 32  # groups per `issue`
POLL_S = 0.1
SAY_EVERY_S = 10.0
MEMORY_EVERY_S = 1.0  # between two reads of Redis's memory, unless an issue was tried since the last


class Prompts(Protocol):
    """A source of prompts for groups with slots: `PromptSource`, or the rows of a collected run."""

    fingerprint: str

    def draws(self, epochs: int | None) -> float:
        """Return the number of draws."""
        ...

    def training_prompt(self, group_id: str, *, first_row: int) -> Prompt:
        """Return the prompt of a group id."""
        ...


class Feeder:
    """Issue training prompts while there is room, alternating with requested held-out ones.

    Args:
        known: called for each ordinal; True skips an ordinal that the ledger already has.
        evaluation: has the rounds to issue.
        version: the learner's policy version; issued groups wait for announced ones.
        mean_bytes: mean size of a sampled group in Redis.
        kept_share: the share of recently returned groups that train.
        held: the number of groups that wait for a step.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        run: Run,
        run_owner: RunOwner,
        train: Prompts,
        evaluation: Evaluation,
        version: PolicyVersion,
        *,
        first_row: int,
        known: Callable[[str], bool],
        mean_bytes: Callable[[], float],
        kept_share: Callable[[], float] = lambda: 1.0,
        held: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run = run
        self.run_owner = run_owner
        self.train = train
        self.evaluation = evaluation
        self.version = version
        self.position = 0
        self.failure: BaseException | None = None
        self.is_open = True  # False: no training group is issued; the operator drains or pauses the run
        self._first_row = first_row
        self._last = train.draws(run.learner.epochs)  # the first ordinal that will not be issued
        self._has_reached_end = False
        self._known = known
        self._mean_bytes = mean_bytes
        self._kept_share = kept_share
        self._held = held
        self._clock = clock
        self._retries: list[str] = []
        self._said = -SAY_EVERY_S
        self._short_of_memory = False
        self._memory_looked = -MEMORY_EVERY_S
        self._has_tried = False  # to issue a group since the last read of the memory
        self._turning = threading.RLock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        """Start the thread, after `rebase` has set its position."""
        self._thread.start()

    @property
    def has_died(self) -> bool:
        """Return whether the feeder's thread has ended without a stop."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._stop.is_set()

    @property
    def has_issued_all(self) -> bool:
        """Whether every group of the run's epochs, and every retry, was issued."""
        return self._has_reached_end and not self._retries

    def raise_failure(self) -> None:
        """Raise the error that ended the thread, if any."""
        has_died = self.has_died  # read first: a thread sets its error before it ends
        if self.failure is not None:
            raise self.failure
        if has_died:
            raise RuntimeError("the feeder's thread has ended: this is a bug, please report it")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Suspend the feeder: meanwhile only the caller issues groups."""
        with self._turning:
            yield

    def rebase(self, position: int) -> None:
        """Continue from the position in Redis."""
        self.position = position
        self._has_reached_end = False
        if isinstance(self.failure, WentBack):  # any other error has ended the thread, and ends the run
            self.failure = None
        self.wake()

    def wake(self) -> None:
        """Wake the thread after slots were freed."""
        self._wake.set()

    def stop(self) -> None:
        """Stop issuing."""
        self._stop.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join(timeout=30.0)

    def entries(self, group_ids: Iterable[str]) -> list[NewGroup]:
        """Make training groups for issue: an id always makes the same group."""
        return [
            new_group(self.run, self.train.training_prompt(group_id, first_row=self._first_row))
            for group_id in group_ids
        ]

    def insert(self, group_ids: Sequence[str]) -> None:
        """Issue these retries before further ordinals, when there is room."""
        with self._turning:
            self._retries = list(group_ids)
        self.wake()

    def turn(self) -> bool:
        """Issue some requested held-out groups, or a chunk of training prompts. False: no room now."""
        with self._turning:
            if self._memory_is_short():
                return False
            if held_out := self.evaluation.next_entries(CHUNK):
                return self._issue_held_out(*held_out)
            if self.is_open and self._retries:
                return self._issue_retry(self._retries[0])
            return self.is_open and self._issue_some()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                if self.failure is not None or not self.turn():
                    self._wake.wait(POLL_S)
            except WentBack as error:
                self.failure = error
            except BaseException as error:  # noqa: BLE001 - the trainer raises it in its own thread
                self.failure = error
                return

    def _issue_held_out(self, version: int, groups: Sequence[NewGroup]) -> bool:
        """Issue those of a round's groups that Redis lacks. False: Redis has no room for them now."""
        self._has_tried = True
        try:
            self.run_owner.issue_eval(version, groups)
        except NoRoom as error:
            if self._clock() - self._said > SAY_EVERY_S:
                self._said = self._clock()
                log.warning("waiting for=memory evaluation=%d error=%s", version, error)
            return False
        self.evaluation.note_issued(version, [group.group_id for group in groups])
        return True

    def _issue_retry(self, group_id: str) -> bool:
        if self.run_owner.issued_retry(ordinal_of(group_id)) < retry_of(
            group_id
        ):  # otherwise it was issued before
            self._has_tried = True
            issued = self.run_owner.issue(
                self.position, self.position, self._budget(), self.version.announced, self.entries([group_id])
            )
            if issued.full:
                return False
            if issued.floor is None:  # a reply was lost: the position in Redis differs
                self.position = issued.position
                return True
            log.info("retried group=%s floor=%d", group_id, issued.floor)
        self._retries.remove(group_id)
        return True

    def _issue_some(self) -> bool:
        """Issue up to one chunk. False: no room now."""
        # Slots first: a slot freed after this read only adds room, and its version is announced before it is freed.
        slots = self.run_owner.slot_count()
        version = self.version.announced
        budget = self._budget()
        room = min(budget - slots, CHUNK)
        if room <= 0:
            return False
        ordinals: list[int] = []
        end = self.position
        while len(ordinals) < room and end < self._last:
            if not self._known(str(end)):
                ordinals.append(end)
            end += 1
        if not ordinals:
            self._has_reached_end = True
            return False
        groups = self.entries(map(str, ordinals))
        self._has_tried = True
        issued = self.run_owner.issue(self.position, end, budget, version, groups)
        self.position = issued.position
        if issued.floor is not None:
            log.debug("issued first=%s count=%d floor=%d", ordinals[0], len(ordinals), issued.floor)
        return not issued.full

    def _budget(self) -> int:
        """Return how many groups may be in flight."""
        return likely_needed(
            self.run,
            taken=self.version.taken,
            announced=self.version.announced,
            held=self._held(),
            kept_share=self._kept_share(),
        )

    def _memory_is_short(self) -> bool:
        """Return whether Redis has too little room for the groups in flight, including those yet to be sampled."""
        now = self._clock()
        if not self._has_tried and now - self._memory_looked < MEMORY_EVERY_S:
            return self._short_of_memory
        self._memory_looked, self._has_tried = now, False
        memory, size = self.run_owner.memory(), self._mean_bytes()
        used, limit, to_come = memory.used_bytes, memory.limit_bytes, memory.to_come * size
        is_short = limit > 0 and used + to_come > MEMORY_SHARE * limit
        if is_short and not self._short_of_memory:
            whole = used + to_come + max(0, self.run.budget - memory.slots) * size
            log.warning(
                "waiting for=memory used_mib=%d to_come_mib=%d maxmemory_mib=%d: nothing new is issued beyond "
                "%.0f%%; a full budget of %d groups needs %d MiB more",
                used >> 20,
                int(to_come) >> 20,
                limit >> 20,
                100 * MEMORY_SHARE,
                self.run.budget,
                math.ceil((whole / MEMORY_SHARE - limit) / 2**20),
            )
        self._short_of_memory = is_short
        return is_short
