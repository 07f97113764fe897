"""Keep the budget full: one thread of rank 0 that issues prompts.

In: the prompt source and how much room there is. Out: entries of `prompts`. A slot is freed only by the learner's commit,
a drop or a death, so the number of groups in flight, and with the floor their lag, is bounded by admission.
Consumes: free slots. Waits for: the learner's commits. An error here ends the run: the trainer looks at `failure`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from broker.codec import encode_prompt
from broker.messages import Prompt
from broker.ownership import NewGroup, Ownership
from config.run import Run
from learner.prompts import PromptSource

log = logging.getLogger(__name__)

CHUNK = 32                   # groups of one `issue`
POLL_S = 0.1
MEMORY_SHARE = 0.8           # of maxmemory: beyond it nothing new is let in, so that what is there can leave


class Feeder:
    """Issues training prompts while there is room, and evaluation rounds when asked.

    Args:
        known: asked for each ordinal: True if the ledger has it already, and it is passed over.
    """

    def __init__(self, run: Run, ownership: Ownership, train: PromptSource, held_out: PromptSource | None, *,
                 first_row: int, known: Callable[[str], bool]) -> None:
        self.run = run
        self.ownership = ownership
        self.train = train
        self.held_out = held_out
        self.position = 0
        self.failure: BaseException | None = None
        self.state = "not started"
        self._first_row = first_row
        self._known = known
        self._version = 0
        self._rounds: list[int] = []
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self, version: int) -> None:
        """Begin at the policy version that is announced."""
        self._version = version
        self._thread.start()

    def advance(self, version: int) -> None:
        """Tell it that `version` is announced and slots were freed."""
        self._version = version
        self._wake.set()

    def evaluate(self, version: int) -> None:
        """Ask for an evaluation round of `version`; what is already out is not sent again."""
        self._rounds.append(version)
        self._wake.set()

    def stop(self) -> None:
        """Issue nothing more."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30.0)

    def evaluation_ids(self, version: int) -> list[str]:
        """Ids of the round for `version`."""
        if self.held_out is None:
            return []
        return [f"eval-{version}-{index}" for index in range(min(self.run.evaluation.prompts, len(self.held_out)))]

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._wake.clear()
                while self._rounds and not self._stop.is_set():
                    self._issue_round(self._rounds.pop(0))
                if not self._issue_some():
                    self._wake.wait(POLL_S)
        except BaseException as error:      # noqa: BLE001 - the trainer raises it in its own thread
            self.failure = error

    def _issue_round(self, version: int) -> None:
        if self.held_out is None:
            return
        groups = [_entry(self.held_out.evaluation_prompt(version, index))
                  for index in range(len(self.evaluation_ids(version)))]
        for some in _chunks(groups, CHUNK):
            self.ownership.issue_eval(version, some)

    def _issue_some(self) -> bool:
        """Issue up to one chunk. False: there is no room now."""
        remaining = (self.run.learner.steps - self._version) * self.run.learner.groups_per_step
        budget = min(self.run.budget, remaining)
        slots = int(self.ownership.link(lambda client: client.zcard(self.ownership.keys("slots"))))
        room = min(budget - slots, CHUNK)
        if room <= 0 or self._memory_is_short():
            self.state = f"{slots} of {budget} groups are out"
            return False
        ordinals: list[int] = []
        end = self.position
        while len(ordinals) < room:
            if not self._known(str(end)):
                ordinals.append(end)
            end += 1
        groups = [_entry(self.train.training_prompt(ordinal, row=self._first_row + ordinal)) for ordinal in ordinals]
        issued = self.ownership.issue(self.position, end, budget, self._version, groups)
        self.position = issued.position
        if issued.floor is not None:
            log.debug("issued first=%s count=%d floor=%d", ordinals[0], len(ordinals), issued.floor)
        return not issued.full

    def _memory_is_short(self) -> bool:
        memory = self.ownership.link(lambda client: client.info("memory"))
        limit = int(memory.get("maxmemory", 0))
        if limit and memory["used_memory"] > MEMORY_SHARE * limit:
            self._say_memory(int(memory["used_memory"]), limit)
            return True
        return False

    def _say_memory(self, used: int, limit: int) -> None:
        state = f"redis holds {used >> 20} of {limit >> 20} MiB; nothing new is issued beyond {MEMORY_SHARE:.0%}"
        if self.state != state:
            log.warning("waiting for=memory %s", state)
            self.state = state


def _entry(prompt: Prompt) -> NewGroup:
    return prompt.group_id, encode_prompt(prompt)


def _chunks(groups: list[NewGroup], size: int) -> Iterable[list[NewGroup]]:
    return (groups[start:start + size] for start in range(0, len(groups), size))
