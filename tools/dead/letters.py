"""The letters of the stream `dead`, as an operator sees them: what could not be processed, where, and why.

In: a run's keys and its ledger. Out: `Letter`s, the oldest first, each with what may be done about it. Reads only, a
page at a time; a letter's payload, which may be a whole group, is kept only where it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from broker import codec, group_ids
from broker.connection import RedisLink
from broker.errors import Permanent
from broker.keys import DEAD as STREAM
from broker.keys import Keys
from broker.protocol import dead_letters
from learner.groups.evaluation import version_of
from learner.journal.ledger import Ledger, read_ledger

_ENTRY = re.compile(r"\d+-\d+")
PAGE = 50  # letters read at once: each may carry a whole group


class NoRun(Permanent):
    """There is no such run here."""


class NoLetter(Permanent):
    """A letter that was named is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter."""

    entry: str  # its id in the stream
    group: str  # "?": it is nobody's
    stage: str  # prompts | rollouts | scored: where it was
    reason: str
    attempts: int  # times that work on it began
    traceback: str
    at: float  # Unix seconds, by the clock of Redis
    bytes: int  # of the payload that could not be processed
    state: str  # for people; see `Records.state`
    raw: codec.Raw  # the entry; without its payload unless that was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which letters are meant. Nothing given: all of them."""

    entries: tuple[str, ...] = ()
    stage: str | None = None
    reason: str | None = None  # part of it, in capitals or not
    group: str | None = None

    def takes(self, letter: Letter) -> bool:
        """Whether a letter is meant."""
        return (
            (not self.entries or letter.entry in self.entries)
            and (self.stage is None or letter.stage == self.stage)
            and (self.reason is None or self.reason.lower() in letter.reason.lower())
            and (self.group is None or letter.group == self.group)
        )


@dataclass(frozen=True, slots=True)
class Records:
    """What is known of dead groups beside their letters."""

    ledger: Ledger | None  # None: the journal is not on this machine
    requests: Mapping[str, str]  # group that an operator wants again -> entry of its letter
    retries: Mapping[int, int]  # ordinal -> times that it was begun anew

    def is_recorded(self, group: str) -> bool:
        """Whether the ledger has the group's outcome, so that its letter is needed no more."""
        if self.ledger is None:
            return False
        if (version := version_of(group)) >= 0:
            return group in self.ledger.evaluations.get(version, {"ids": ()})["ids"]
        return group in self.ledger.outcomes

    def state(self, entry: str, group: str) -> str:
        """What may be done about a letter, in a few words."""
        if version_of(group) >= 0:
            return "evaluation"
        if not group_ids.is_training(group):
            return "foreign"
        if self.requests.get(group) == entry:
            return "asked again"
        if self.ledger is None:
            return "no journal here"
        outcome = self.ledger.outcomes.get(group)
        return "not recorded" if outcome is None else outcome.kind

    def next_id(self, group: str) -> str:
        """What a group is called when it is begun anew."""
        return group_ids.retried(group, self.retries.get(group_ids.ordinal_of(group), 0) + 1)


def open_records(link: RedisLink, keys: Keys, folder: Path, *, strict: bool) -> Records:
    """Read what is known of the run's dead groups.

    Args:
        folder: the run's journal.
        strict: a damaged ledger is an error.
    Raises:
        NoRun: neither Redis nor the disk knows the run.
    """
    found = dead_letters.read_retries(link, keys)
    if not found.is_known and not folder.is_dir():
        raise NoRun(
            f"no run {keys.name} in redis at {link.address}, and no journal in {folder}; `millrace runs` lists "
            "what is there, --runs-dir says where else"
        )
    return Records(
        ledger=read_ledger(folder, strict=strict) if folder.is_dir() else None,
        requests=found.requests,
        retries=found.counts,
    )


def read_letters(
    link: RedisLink, keys: Keys, records: Records, choice: Choice, *, with_payload: bool = False
) -> Iterator[Letter]:
    """The letters that are meant, the oldest first.

    Raises:
        NoLetter: one was named by its entry and is not there.
    """
    missing = set(choice.entries)
    for entry, raw in _entries(link, keys, choice.entries):
        missing.discard(entry)
        letter = _letter(entry, raw, records, with_payload=with_payload)
        if choice.takes(letter):
            yield letter
    if missing:
        raise NoLetter(
            f"no letter {', '.join(sorted(missing))} in {keys.stream(STREAM)}: `millrace dead list {keys.name}` "
            "names those that are there"
        )


def _entries(link: RedisLink, keys: Keys, wanted: Sequence[str]) -> Iterator[tuple[str, codec.Raw]]:
    page = partial(dead_letters.read_page, link, keys, count=PAGE)
    if wanted:
        for entry in dict.fromkeys(wanted):
            if _ENTRY.fullmatch(entry):
                yield from page(entry, entry)
        return
    first = "-"
    while found := page(first, "+"):
        yield from found
        first = f"({found[-1][0]}"


def _letter(entry: str, raw: codec.Raw, records: Records, *, with_payload: bool) -> Letter:
    letter = codec.decode_dead(raw)
    kept = raw if with_payload else {field: value for field, value in raw.items() if field != b"payload"}
    return Letter(
        entry=entry,
        group=letter.group_id,
        stage=letter.stage,
        reason=letter.reason,
        attempts=letter.attempts,
        traceback=letter.traceback,
        at=int(entry.partition("-")[0]) / 1000,
        bytes=len(letter.original),
        state=records.state(entry, letter.group_id),
        raw=kept,
    )
