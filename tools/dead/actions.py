"""What an operator does about dead letters: ask for their groups again, or throw them away.

In: letters that were chosen. Out: requests in the hash `retries`, which the learner turns into new groups (17 becomes
17-r1); or letters deleted, with a note in the journal that is on the disk before. Neither touches an outcome: a group
that died stays dead in the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker import group_ids
from broker.connection import RedisLink
from broker.errors import Permanent
from broker.joining import FINISHED, has_learner, state_of
from broker.keys import Keys
from broker.protocol import dead_letters
from learner.groups.evaluation import version_of
from learner.journal.ledger import DEAD
from tools.audit.notes import write_note
from tools.dead.letters import Letter, Records

POLL_S = 0.2


class NotIssued(Permanent):
    """Nobody has issued what was asked for."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Letters that something may be done about, and why not about the others."""

    good: Sequence[Letter]
    refused: Mapping[str, str]  # entry -> reason


def for_retry(letters: Sequence[Letter], records: Records) -> Sorted:
    """Those whose groups may be begun anew: training groups that are dead in the ledger."""
    return _sorted(letters, [_why_not_again(letter, records) for letter in letters])


def for_purge(letters: Sequence[Letter], records: Records) -> Sorted:
    """Those that may be thrown away: of groups that have an outcome, and of nobody's."""
    return _sorted(letters, [_why_not_away(letter, records) for letter in letters])


def ask_again(link: RedisLink, keys: Keys, letters: Sequence[Letter], records: Records) -> list[str]:
    """Ask the learner for the letters' groups. Returns the ids that they will have; none for a letter that is gone."""
    asked = dead_letters.request(link, keys, [(letter.group, letter.entry) for letter in letters])
    return [records.next_id(group) for group in asked]


def wait_until_issued(
    link: RedisLink, keys: Keys, ids: Sequence[str], *, deadline_s: float
) -> dict[str, str]:
    """Wait until a learner has issued every id. Returns where each is now; "" for one that has an outcome already.

    Raises:
        NotIssued: `deadline_s` seconds were not enough.
    """
    deadline = time.monotonic() + deadline_s
    while True:
        issued, places = dead_letters.read_issued(link, keys, ids)
        late = [group_id for group_id in ids if group_id not in issued]
        if not late:
            return places
        if time.monotonic() >= deadline:
            raise NotIssued(
                f"{deadline_s:g} s: no learner has issued {' '.join(late)}. {who_issues(link, keys)}"
            )
        time.sleep(min(POLL_S, deadline_s))


def who_issues(link: RedisLink, keys: Keys) -> str:
    """Whether a learner is there to issue what was asked for."""
    if has_learner(link, keys):
        return "A learner runs and issues them as slots become free"
    if state_of(link, keys).status == FINISHED:
        return "The run is finished: they are issued only if a learner goes on with it"
    return "No learner runs: they are issued when one starts"


def purge(link: RedisLink, keys: Keys, letters: Sequence[Letter], folder: Path) -> int:
    """Write a note into the journal in `folder`, then delete the letters, and requests for them. Returns how many.

    Raises:
        RunFailed: the note can't be written; no letter was deleted.
    """
    write_note(
        folder,
        "purge",
        count=len(letters),
        letters=[
            {"entry": letter.entry, "group": letter.group, "stage": letter.stage, "reason": letter.reason}
            for letter in letters
        ],
    )
    asked = [letter.group for letter in letters if letter.state == "asked again"]
    return dead_letters.remove(link, keys, [letter.entry for letter in letters], requests=asked)


def _sorted(letters: Sequence[Letter], reasons: Sequence[str]) -> Sorted:
    pairs = list(zip(letters, reasons, strict=True))
    return Sorted(
        good=[letter for letter, reason in pairs if not reason],
        refused={letter.entry: reason for letter, reason in pairs if reason},
    )


def _why_not_again(letter: Letter, records: Records) -> str:
    if version_of(letter.group) >= 0:
        return f"{letter.group} is of an evaluation round, which the learner asks for again by itself"
    if not group_ids.is_training(letter.group):
        return "a foreign entry, of no group of this run"
    outcome = records.ledger.outcomes.get(letter.group) if records.ledger else None
    if outcome is None:
        return (
            f"group {letter.group} has no outcome yet: the learner has not recorded it; one that starts does"
        )
    if outcome.kind != DEAD:
        return f"group {letter.group} is {outcome.kind} in the ledger, not dead"
    return ""


def _why_not_away(letter: Letter, records: Records) -> str:
    if version_of(letter.group) < 0 and not group_ids.is_training(letter.group):
        return ""
    if records.is_recorded(letter.group):
        return ""
    return f"group {letter.group} has no outcome yet: the learner has not recorded it; one that starts does"
