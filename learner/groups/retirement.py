"""Free the slots of trained groups once their step's version is announced.

In: an announced version, from the publisher's thread. Out: the groups of the steps up to it are retired, and the feeder
looks for room. Until then a trained group keeps its slot: a group issued into the slot would get the floor of an older
version. Where Redis went back halfway, the recovery retires the rest by the ledger.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.protocol.run_owner import RunOwner
from learner.journal.ledger import TRAINED, Ledger
from learner.policy_version import PolicyVersion


class Retirement:
    """Retire groups by the ledger's steps.

    Args:
        version: the learner's policy version, whose `announced` is set here.
        wake: called after slots are freed.
    """

    def __init__(
        self, run_owner: RunOwner, ledger: Ledger, version: PolicyVersion, *, wake: Callable[[], None]
    ) -> None:
        self._run_owner = run_owner
        self._ledger = ledger
        self._version = version
        self._wake = wake

    def __call__(self, announced: int) -> None:
        """Note `announced` as the newest announced version, and retire the groups trained for it."""
        before, self._version.announced = self._version.announced, announced
        ended: list[str] = []
        for record in reversed(self._ledger.steps):
            if record["step"] < before:
                break
            if record["step"] < announced:
                ended += record["ids"]
        self._run_owner.retire(ended)
        self._wake()


def keeps_its_slot(group_id: str, ledger: Ledger, *, announced: int) -> bool:
    """Return whether a step trained on the group and its version is not announced yet."""
    outcome = ledger.outcomes.get(group_id)
    return outcome is not None and outcome.kind == TRAINED and int(outcome.detail) > announced
