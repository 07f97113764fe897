"""`millrace audit RUN`: what became of every group that was ever issued, and the proof that none is lost or doubled.

In: the run's ledger on disk, and its keys in Redis. Out: a table, or one JSON object. Reads only, and may be asked of
a run that is going on: groups move forward, and the streams are read in that direction, so each is met at least once.
What seems lost is looked at again before it is said. Exit code 1 unless `lost` and `twice` are 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from broker import embedded
from broker.connection import Link
from broker.errors import Permanent, PipelineError
from broker.keys import WORK_STREAMS, Keys
from learner.ledger import DEAD, DROPPED, TRAINED, Ledger, read_ledger

LOOKS = 3                   # at what seems lost, before it is said
PAUSE_S = 0.2               # between two looks, for what was on its way to arrive
PAGE = 500
OUTAGE_S = 10.0


class NoJournal(Permanent):
    """There is no ledger to compare with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Every group that was ever issued, by what became of it. The sums leave evaluation and foreign entries out."""

    issued: int                             # the feeder's own count
    trained: int
    dropped: int
    dead: int
    in_flight: int                          # without an outcome yet
    lost: int                               # issued, and nowhere
    twice: int                              # in two steps, with two outcomes, or in two entries of one stream
    dropped_by_reason: Mapping[str, int]
    dead_by_reason: Mapping[str, int]
    in_flight_by_stream: Mapping[str, int]
    lost_ids: tuple[str, ...]
    twice_ids: tuple[str, ...]
    foreign: int                            # entries of nobody's, with the dead
    went_back: bool                         # Redis forgot something or was started anew during the last look

    @property
    def is_clean(self) -> bool:
        """Whether nothing is lost and nothing doubled."""
        return not self.lost and not self.twice


@dataclass(frozen=True, slots=True)
class _View:
    issued: int
    position: int
    slots: frozenset[str]
    entries: Mapping[str, list[str]]        # stream -> groups of its entries
    mark: tuple[int, str]                   # seq and Redis's run id


def main(argv: Sequence[str] | None = None) -> int:
    """Print the audit of a run. 0: clean; 1: not, or it could not be read."""
    parser = argparse.ArgumentParser(prog="millrace audit", description="Account for every group of a run.")
    parser.add_argument("run", help="the run's name")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"), help="folder of the runs")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    args = parser.parse_args(argv)
    try:
        with embedded.ensure_readable(args.run, args.runs_dir) as url:
            link = Link(url, outage_s=OUTAGE_S)
            result = audit(link, Keys(args.run), embedded.folder_of(args.run, args.runs_dir) / "journal")
    except PipelineError as error:
        sys.stderr.write(f"millrace audit: {error}\n")
        return 1
    sys.stdout.write(json.dumps(asdict(result)) + "\n" if args.json else as_text(args.run, result))
    return 0 if result.is_clean else 1


def audit(link: Link, keys: Keys, folder: Path) -> Audit:
    """Compare what `keys` holds with the ledger in `folder`.

    Raises:
        NoJournal: there is no such folder; without this, every group would seem lost.
    """
    if not folder.is_dir():
        raise NoJournal(f"no journal in {folder}: give --runs-dir, the folder that the run's own folder is in")
    for look in range(1, LOOKS + 1):
        view = _look(link, keys)
        ledger = read_ledger(folder)
        seq, server = _mark(link, keys)
        result = _compare(view, ledger, went_back=seq < view.mark[0] or server != view.mark[1])
        if look == LOOKS or (result.is_clean and not result.went_back):
            return result
        time.sleep(PAUSE_S)
    raise AssertionError("unreachable")


def as_text(name: str, result: Audit) -> str:
    """The audit for people."""
    def by(reasons: Mapping[str, int]) -> str:
        return "   " + ", ".join(f"{count} {reason}" for reason, count in reasons.items()) if reasons else ""
    lines = [f"run {name}", f"  issued     {result.issued:8}", f"  trained    {result.trained:8}",
             f"  dropped    {result.dropped:8}{by(result.dropped_by_reason)}",
             f"  dead       {result.dead:8}{by(result.dead_by_reason)}",
             f"  in flight  {result.in_flight:8}{by(result.in_flight_by_stream)}",
             f"  lost       {result.lost:8}   {' '.join(result.lost_ids[:10])}".rstrip(),
             f"  twice      {result.twice:8}   {' '.join(result.twice_ids[:10])}".rstrip()]
    if result.foreign:
        lines.append(f"  foreign entries, with the dead: {result.foreign}")
    if result.went_back:
        lines.append("  Redis went back or was started anew during the look: ask again")
    lines.append("nothing lost, nothing twice" if result.is_clean else "NOT CLEAN")
    return "\n".join(lines) + "\n"


def _look(link: Link, keys: Keys) -> _View:
    mark = _mark(link, keys)
    cursor_flat, slots = link.script("ledger_view", keys.scripts())
    cursor = dict(zip(cursor_flat[::2], cursor_flat[1::2], strict=True))
    entries = {stream: list(_groups(link, keys, stream)) for stream in WORK_STREAMS}
    return _View(issued=int(cursor.get(b"issued", 0)), position=int(cursor.get(b"position", 0)),
                 slots=frozenset(slot.decode() for slot in slots), entries=entries, mark=mark)


def _compare(view: _View, ledger: Ledger, *, went_back: bool) -> Audit:
    kinds = Counter(outcome.kind for outcome in ledger.outcomes.values())
    out = view.slots - ledger.outcomes.keys()
    places: dict[str, str] = {}
    doubled: set[str] = set(ledger.twice)
    for stream, groups in view.entries.items():
        counts = Counter(group for group in groups if group != "?")
        doubled |= {group for group, count in counts.items() if count > 1}
        places |= {group: stream for group in counts if group in out}
    named = {str(ordinal) for ordinal in range(view.position)}
    lost = sorted((named | view.slots) - ledger.outcomes.keys() - places.keys(), key=_ordinal)
    return Audit(
        issued=view.issued, trained=kinds[TRAINED], dropped=kinds[DROPPED], dead=kinds[DEAD],
        in_flight=len(out & places.keys()), lost=len(lost), twice=len(doubled),
        dropped_by_reason=_reasons(ledger, DROPPED), dead_by_reason=_reasons(ledger, DEAD),
        in_flight_by_stream=dict(Counter(places.values())), lost_ids=tuple(lost),
        twice_ids=tuple(sorted(doubled, key=_ordinal)), foreign=view.entries["dead"].count("?"),
        went_back=went_back)


def _reasons(ledger: Ledger, kind: str) -> dict[str, int]:
    """Outcomes of a kind, by the first words of their reason."""
    return dict(Counter(outcome.detail.split(":")[0] for outcome in ledger.outcomes.values() if outcome.kind == kind))


def _groups(link: Link, keys: Keys, stream: str) -> Iterator[str]:
    first = "-"
    while True:
        page = [word.decode(errors="replace") for word in link.script("headers", keys.scripts(), stream, first, PAGE)]
        yield from page[1::2]
        if len(page) < 2 * PAGE:
            return
        first = f"({page[-2]}"


def _mark(link: Link, keys: Keys) -> tuple[int, str]:
    seq = link(lambda client: client.hget(keys("cursor"), "seq"))
    return int(seq or 0), str(link(lambda client: client.info("server"))["run_id"])


def _ordinal(group: str) -> tuple[int, str]:
    return (int(group) if group.isdigit() else -1, group)
