"""Read the dead letters of the stream `dead`, and retry or purge them.

In: a run's keys and its ledger. Out: `ListedDeadLetter`s, the oldest first, each with the possible actions. They are
read a page at a time; a dead letter's payload, which may be a whole group, is kept only on request. A dead letter's
group may be retried: a request in the hash `retries`, which the learner turns into a new group (17 becomes 17-r1). Or a
dead letter is purged, after a note in the journal that is on disk before. Neither changes an outcome: a group that died
stays dead in the ledger.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from broker import codec, group_ids
from broker.connection import RedisLink
from broker.errors import Permanent
from broker.joining import FINISHED, has_learner, state_of
from broker.keys import DEAD as STREAM
from broker.keys import Keys
from broker.protocol import dead_letters as protocol
from broker.protocol.ledger_view import Cursor, read_cursor
from broker.protocol.run_reader import RunReader
from learner.groups.evaluation import version_of
from learner.journal.ledger import DEAD, Ledger, read_ledger
from tools.audit.notes import write_note

_ENTRY = re.compile(r"\d+-\d+")
POLL_S = 0.2  # between two reads while waiting for groups to be issued
PAGE = 50  # dead letters read at once: each may carry a whole group


class NoRun(Permanent):
    """Neither Redis nor the disk knows the run."""


class NoDeadLetter(Permanent):
    """A named dead letter does not exist."""


class NotIssued(Permanent):
    """No learner has issued the requested groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDeadLetter:
    """A dead letter: what could not be processed, where, and why."""

    entry: str  # the dead letter's id in the stream
    group: str  # "?": the entry belongs to no group
    stage: str  # prompts | rollouts | scored: the stream in which the group died
    reason: str
    attempts: int  # how often work on the group began
    traceback: str
    at: float  # Unix seconds, by the clock of Redis
    bytes: int  # size of the payload that could not be processed
    state: str  # for people; see `Records.state`
    raw: codec.Raw  # the entry; without a payload unless requested


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterChoice:
    """The chosen dead letters; by default all."""

    entries: tuple[str, ...] = ()
    stage: str | None = None
    reason: str | None = None  # a part of the reason, ignoring case
    group: str | None = None

    def takes(self, dead_letter: ListedDeadLetter) -> bool:
        """Return whether a dead letter is chosen."""
        return (
            (not self.entries or dead_letter.entry in self.entries)
            and (self.stage is None or dead_letter.stage == self.stage)
            and (self.reason is None or self.reason.lower() in dead_letter.reason.lower())
            and (self.group is None or dead_letter.group == self.group)
        )


@dataclass(frozen=True, slots=True)
class Records:
    """Facts about dead groups outside their dead letters."""

    ledger: Ledger | None  # None: the journal is not on this machine
    requests: Mapping[str, str]  # group with a requested retry -> entry of its dead letter
    cursor: Cursor  # issued retries

    def is_recorded(self, group: str) -> bool:
        """Return whether the ledger has the group's outcome, so that its dead letter is no longer needed."""
        return self.ledger is not None and bool(self.ledger.state_of(group))

    def state(self, entry: str, group: str) -> str:
        """Describe the possible actions for a dead letter in a few words."""
        if version_of(group) >= 0:
            return "evaluation"
        if not group_ids.is_training(group):
            return "foreign"
        if self.requests.get(group) == entry:
            return "asked again"
        if self.ledger is None:
            return "no journal here"
        return self.ledger.state_of(group) or "not recorded"

    def next_id(self, group: str) -> str:
        """Return the id of a group's next retry."""
        return group_ids.retried(group, self.cursor.retries_of(group) + 1)


def open_records(link: RedisLink, keys: Keys, folder: Path, *, strict: bool) -> Records:
    """Read the facts about the run's dead groups.

    Args:
        folder: the run's journal.
        strict: a damaged ledger is an error.
    Raises:
        NoRun: neither Redis nor the disk knows the run.
    """
    if not protocol.is_known(link, keys) and not folder.is_dir():
        raise NoRun(
            f"no run {keys.name} in redis at {link.address}, and no journal in {folder}; `millrace runs` lists "
            "what is there, --runs-dir says where else"
        )
    return Records(
        ledger=read_ledger(folder, strict=strict) if folder.is_dir() else None,
        requests=protocol.read_requests(link, keys),
        cursor=read_cursor(link, keys),
    )


def read_dead_letters(
    link: RedisLink, keys: Keys, records: Records, choice: DeadLetterChoice, *, with_payload: bool = False
) -> Iterator[ListedDeadLetter]:
    """Yield the chosen dead letters, the oldest first.

    Raises:
        NoDeadLetter: one named by its entry does not exist.
    """
    missing = set(choice.entries)
    for entry, raw in _entries(link, keys, choice.entries):
        missing.discard(entry)
        dead_letter = _dead_letter(entry, raw, records, with_payload=with_payload)
        if choice.takes(dead_letter):
            yield dead_letter
    if missing:
        raise NoDeadLetter(
            f"no letter {', '.join(sorted(missing))} in {keys.stream(STREAM)}: `millrace dead list {keys.name}` "
            "names those that are there"
        )


def _entries(link: RedisLink, keys: Keys, wanted: Sequence[str]) -> Iterator[tuple[str, codec.Raw]]:
    page = partial(protocol.read_page, link, keys, count=PAGE)
    if wanted:
        for entry in dict.fromkeys(wanted):
            if _ENTRY.fullmatch(entry):
                yield from page(entry, entry)
        return
    first = "-"
    while found := page(first, "+"):
        yield from found
        first = f"({found[-1][0]}"


def _dead_letter(entry: str, raw: codec.Raw, records: Records, *, with_payload: bool) -> ListedDeadLetter:
    dead_letter = codec.decode_dead(raw)
    kept = raw if with_payload else {field: value for field, value in raw.items() if field != b"payload"}
    return ListedDeadLetter(
        entry=entry,
        group=dead_letter.group_id,
        stage=dead_letter.stage,
        reason=dead_letter.reason,
        attempts=dead_letter.attempts,
        traceback=dead_letter.traceback,
        at=int(entry.partition("-")[0]) / 1000,
        bytes=len(dead_letter.original),
        state=records.state(entry, dead_letter.group_id),
        raw=kept,
    )


@dataclass(frozen=True, slots=True)
class Sorted:
    """Dead letters that an action applies to, and why it does not apply to the others."""

    good: Sequence[ListedDeadLetter]
    refused: Mapping[str, str]  # entry -> reason


def for_retry(dead_letters: Sequence[ListedDeadLetter], records: Records) -> Sorted:
    """Choose the dead letters whose groups may be retried: training groups that are dead in the ledger."""
    return _sorted(dead_letters, [_why_not_again(dead_letter, records) for dead_letter in dead_letters])


def for_purge(dead_letters: Sequence[ListedDeadLetter], records: Records) -> Sorted:
    """Choose the dead letters that may be deleted: of groups with an outcome, and of no group of the run."""
    return _sorted(dead_letters, [_why_not_away(dead_letter, records) for dead_letter in dead_letters])


def ask_again(
    link: RedisLink, keys: Keys, dead_letters: Sequence[ListedDeadLetter], records: Records
) -> list[str]:
    """Request retries of the dead letters' groups. Returns the new ids; none for a dead letter that is gone."""
    asked = protocol.request(
        link, keys, [(dead_letter.group, dead_letter.entry) for dead_letter in dead_letters]
    )
    return [records.next_id(group) for group in asked]


def wait_until_issued(
    link: RedisLink, keys: Keys, ids: Sequence[str], *, deadline_s: float
) -> dict[str, str]:
    """Wait until a learner has issued every id. Returns the place of each; "" for a group that already has an outcome.

    Raises:
        NotIssued: not within `deadline_s` seconds.
    """
    deadline = time.monotonic() + deadline_s
    while True:
        cursor = read_cursor(link, keys)
        late = [group_id for group_id in ids if not cursor.names(group_id)]
        if not late:
            places = RunReader(link, keys).places(ids)
            return {group_id: str(place or "") for group_id, place in zip(ids, places, strict=True)}
        if time.monotonic() >= deadline:
            raise NotIssued(
                f"{deadline_s:g} s: no learner has issued {' '.join(late)}. {who_issues(link, keys)}"
            )
        time.sleep(min(POLL_S, deadline_s))


def who_issues(link: RedisLink, keys: Keys) -> str:
    """Say whether a learner is there to issue the requests."""
    if has_learner(link, keys):
        return "A learner runs and issues them as slots become free"
    if state_of(link, keys).status == FINISHED:
        return "The run is finished: they are issued only if a learner goes on with it"
    return "No learner runs: they are issued when one starts"


def purge(link: RedisLink, keys: Keys, dead_letters: Sequence[ListedDeadLetter], folder: Path) -> int:
    """Note the dead letters in the journal in `folder`, then delete them and their requests. Returns how many.

    Raises:
        RunFailed: the note can't be written; no dead letter was deleted.
    """
    write_note(
        folder,
        "purge",
        count=len(dead_letters),
        letters=[
            {
                "entry": dead_letter.entry,
                "group": dead_letter.group,
                "stage": dead_letter.stage,
                "reason": dead_letter.reason,
            }
            for dead_letter in dead_letters
        ],
    )
    asked = [dead_letter.group for dead_letter in dead_letters if dead_letter.state == "asked again"]
    return protocol.remove(link, keys, [dead_letter.entry for dead_letter in dead_letters], requests=asked)


def _sorted(dead_letters: Sequence[ListedDeadLetter], reasons: Sequence[str]) -> Sorted:
    pairs = list(zip(dead_letters, reasons, strict=True))
    return Sorted(
        good=[dead_letter for dead_letter, reason in pairs if not reason],
        refused={dead_letter.entry: reason for dead_letter, reason in pairs if reason},
    )


def _why_not_again(dead_letter: ListedDeadLetter, records: Records) -> str:
    if version_of(dead_letter.group) >= 0:
        return f"{dead_letter.group} is of an evaluation round, which the learner asks for again by itself"
    if not group_ids.is_training(dead_letter.group):
        return "a foreign entry, of no group of this run"
    state = records.ledger.state_of(dead_letter.group) if records.ledger else ""
    if not state:
        return _no_outcome(dead_letter)
    return "" if state == DEAD else f"group {dead_letter.group} is {state} in the ledger, not dead"


def _why_not_away(dead_letter: ListedDeadLetter, records: Records) -> str:
    is_foreign = version_of(dead_letter.group) < 0 and not group_ids.is_training(dead_letter.group)
    return "" if is_foreign or records.is_recorded(dead_letter.group) else _no_outcome(dead_letter)


def _no_outcome(dead_letter: ListedDeadLetter) -> str:
    return (
        f"group {dead_letter.group} has no outcome yet: the learner has not recorded it; one that starts does"
    )
