"""The protocol without one of its rules: does the machine see it?

Each rule is taken out of what runs, never out of the product's files: a line of a script is replaced as it is loaded,
or a method for the time of a test. `test_random_runs.py` runs the machine without the one that PROTOCOL_WITHOUT names.

What failed first, and after how many actions, with PROTOCOL_SEED=1 on Redis 6.2, at commit e340b2b (2026-11-24);
another seed or commit draws other runs:
    announce before retire              132   4: a slot was freed before the step's version was told
    trained groups keep their slots     242   4: the same, by whoever met the group in a stream
    the position compare                258   a lost reply's group is issued twice, and the learner ends
    the floor inside issue           12,039   10: a group's floor is not the newest version announced
    rule 3                            4,620   8: groups in flight that can't be trained in time
    the fence                         3,276   14: an older learner's scripts take effect
    the ledger asked at every read      554   1: groups have two outcomes
"""

from __future__ import annotations

import sys

import pytest

from learner.groups import outcomes
from learner.groups.buffer import GroupBuffer
from learner.groups.outcomes import Outcomes
from learner.groups.reconciliation import Reconciliation
from learner.groups.selection import Selection
from learner.journal.writer import Journal
from learner.weight_sync.publisher import Publisher
from tests.support.edited_scripts import Break, without_line


def retires_before_it_announces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slots are free before the next version is told."""

    announce = Publisher._announce

    def tell_first(self: Publisher) -> None:
        if self._last is not None:
            self._tell(self._last.version)
        announce(self)

    monkeypatch.setattr(Publisher, "_announce", tell_first)


def retires_what_it_has_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trained group that intake meets keeps no slot until its version is told."""
    monkeypatch.setattr(outcomes, "keeps_its_slot", lambda *_, **__: False)


def takes_whatever_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Selection, "_rest_can_make_it", lambda *_: True)


def has_no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in Redis nor in the journal."""
    without_line("guard", "if tonumber(ARGV[1]) < fence then return {'fenced', fence} end")(monkeypatch)
    monkeypatch.setattr(Journal, "check_fence", lambda _: None)


def asks_the_ledger_in_recovery_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when a group is read nor when it is taken."""
    real = Journal.has
    askers = {
        sys.modules[asker.__module__].__file__ for asker in (Outcomes, Reconciliation, Selection, GroupBuffer)
    }

    def has(self: Journal, group_id: str) -> bool:
        return sys._getframe(1).f_code.co_filename not in askers and real(self, group_id)

    monkeypatch.setattr(Journal, "has", has)
    monkeypatch.setattr(Journal, "ended", lambda *_: set())


POSITION = "if position ~= tonumber(ARGV[3]) then return {'moved', position} end"
FLOOR = "local floor = math.max(tonumber(redis.call('HGET', RUN, 'version') or '0'), tonumber(ARGV[6]))"
# What the issue names, in its order.
RULES: dict[str, Break] = {
    "announce before retire": retires_before_it_announces,
    "trained groups keep their slots": retires_what_it_has_trained_on,
    "the position compare": without_line("issue", POSITION),
    "the floor inside issue": without_line("issue", FLOOR, "local floor = tonumber(ARGV[6])"),
    "rule 3": takes_whatever_is_there,
    "the fence": has_no_fence,
    "the ledger asked at every read": asks_the_ledger_in_recovery_alone,
}
