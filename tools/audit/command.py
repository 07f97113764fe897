"""`millrace audit RUN`: list the outcomes of all issued groups, and prove that none is lost or doubled.

In: the run's journal on disk, and its keys in Redis. Out: a table, or one JSON object. Only reads, and works while the
run continues. Groups that seem lost, or were read while Redis went back, are read again before they are reported. Exit
code 0 means that nothing is lost or doubled and the journal is as written; otherwise 1, also where Redis does not know
the run, since nothing can be proved then.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from broker.connection import RedisLink
from broker.joining import FINISHED, linked
from broker.keys import Keys
from broker.private_redis import server
from broker.protocol.ledger_view import is_known, look, read_cursor, server_of
from config.run import RESERVED_NAMES
from learner.journal.ledger import Ledger, read_ledger
from learner.status import read_status
from tools.arguments import UsageError, add_json, add_run, add_runs_dir
from tools.audit.notes import read_notes
from tools.audit.payloads import Payloads, check_payloads, covered_by_checkpoints
from tools.audit.sums import Audit, Look, compare, named
from tools.runs.folder import NoJournal

LOOKS = 3  # reads before a group counts as lost
PAUSE_S = 0.5  # between two reads, for groups in transit to arrive
OUTAGE_S = 10.0
SHOWN = 10  # lines of one kind


EPILOG = (
    "Issued = trained + dropped + dead + in flight, with nothing lost and nothing twice. Right on a run that is going "
    "on. Exit code: 0 nothing is lost, nothing twice, and the journal is whole; 1 otherwise."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace audit`."""
    add_run(parser)
    add_runs_dir(parser)
    parser.add_argument("--quick", action="store_true", help="do not read the payloads of the steps")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the audit of a run. 0: clean; 1: not. Raises PipelineError where it could not be read."""
    if options.run in RESERVED_NAMES:
        raise UsageError(
            f"{options.run} is the reward server's: its requests end with their answers, and no ledger is kept"
        )
    with linked(options.run, options.runs_dir, outage_s=OUTAGE_S) as link:
        folder = server.folder_of(options.run, options.runs_dir) / "journal"
        result = audit(link, Keys(options.run), folder, is_quick=options.quick)
    sys.stdout.write(json.dumps(asdict(result)) + "\n" if options.json else as_text(options.run, result))
    return 0 if result.is_clean else 1


def audit(link: RedisLink, keys: Keys, folder: Path, *, is_quick: bool = False) -> Audit:
    """Compare the content of `keys` with the journal in `folder`.

    Args:
        is_quick: do not read the steps' payloads; everything else is the same.
    Raises:
        NoJournal: the folder does not exist; without this error, every group would seem lost.
    """
    if not folder.is_dir():
        raise NoJournal(folder)
    looks: list[Look] = []
    while True:
        result, ledger = _look_once(link, keys, folder)
        looks.append(Look(lost=result.lost, twice=result.twice, went_back=result.went_back))
        if result.is_settled or len(looks) == LOOKS:
            break
        time.sleep(PAUSE_S)
    return replace(
        result,
        looks=tuple(looks) if len(looks) > 1 else (),
        notes=tuple(read_notes(folder)),
        payloads=None if is_quick else _check(folder, ledger),
    )


def as_text(name: str, result: Audit) -> str:
    """Format the audit for people."""
    lines = [
        f"run {name}",
        f"  issued     {result.issued:8}{_by({'begun anew': result.retried})}",
        f"  trained    {result.trained:8}",
        f"  dropped    {result.dropped:8}{_by(result.dropped_by_reason)}",
        f"  dead       {result.dead:8}{_by(result.dead_by_reason)}",
        *([f"  collected  {result.collected:8}"] if result.collected else []),
        f"  in flight  {result.in_flight:8}{_by(result.in_flight_by_stream)}",
        f"  lost       {result.lost:8}   {named(result.lost_ids)}".rstrip(),
        f"  twice      {result.twice:8}   {named(result.twice_ids)}".rstrip(),
    ]
    lines += _first([f"    {group_id}: {how}" for group_id, how in result.lost_how.items()])
    lines += _first([f"  left over: {what}" for what in result.leftovers])
    lines += _beside(result)
    lines += _first([f"  journal: {problem}" for problem in result.problems])
    if result.payloads is not None:
        lines.append(
            f"  payloads   {result.payloads.whole:8}   whole"
            + (f", and {result.payloads.removed} removed by retention" if result.payloads.removed else "")
        )
        lines += _first([f"  journal: {line}" for line in result.payloads.damaged])
    return "\n".join([*lines, _verdict(name, result)]) + "\n"


def _look_once(link: RedisLink, keys: Keys, folder: Path) -> tuple[Audit, Ledger]:
    is_finished = read_status(folder.parent).get("status") == FINISHED
    view = look(link, keys)
    ledger = read_ledger(folder, strict=False)
    after = read_cursor(link, keys)
    went_back = after.seq < view.cursor.seq or server_of(link) != view.server
    result = compare(view, ledger, after, went_back=went_back, is_finished=is_finished)
    return result if view.cursor.is_there or is_known(link, keys) else replace(result, is_empty=True), ledger


def _check(folder: Path, ledger: Ledger) -> Payloads:
    return check_payloads(
        folder,
        [*ledger.steps, *ledger.collected],
        covered=lambda: covered_by_checkpoints(folder.parent / "checkpoints", ledger),
    )


def _beside(result: Audit) -> Iterator[str]:
    """Yield the facts outside the sums."""
    held_out = result.evaluation
    if held_out.issued:
        yield (
            f"  evaluation {held_out.issued:8}"
            + _by(
                {
                    "recorded": held_out.recorded,
                    "of them dead": held_out.dead,
                    "given up": held_out.given_up,
                    "in flight": held_out.in_flight,
                    "in no stream": held_out.missing,
                }
            )
        )
    if result.tokens_by_reason:
        yield (f"  tokens thrown away: {sum(result.tokens_by_reason.values())}{_by(result.tokens_by_reason)}")
    if result.asked_again:
        yield f"  groups to begin anew, not issued yet: {result.asked_again}"
    if result.foreign:
        yield f"  foreign entries, with the dead: {result.foreign}"
    for note in result.notes[-SHOWN:]:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(note.get("at", 0))))
        yield f"  {note.get('note', 'note')} by {note.get('by', '?')}, {when}: {note.get('count', '?')} letters"
    if len(result.looks) > 1:
        yield "  looks: " + "; ".join(
            f"lost {one.lost}, twice {one.twice}{', went back' if one.went_back else ''}"
            for one in result.looks
        )
    if result.went_back:
        yield "  Redis went back or was started anew during the look: ask again"
    yield from (f"  note: {remark}" for remark in result.remarks)


def _verdict(name: str, result: Audit) -> str:
    if result.is_clean:
        return "nothing lost, nothing twice"
    wrong = [
        *(["groups are lost"] if result.lost else []),
        *(["groups are doubled"] if result.twice else []),
        *(["turns or calls of episodes are left over"] if result.leftovers else []),
        *(["the ledger is damaged"] if result.problems else []),
        *(["payloads are damaged"] if result.payloads and result.payloads.damaged else []),
    ]
    return (
        f"NOT CLEAN: {', '.join(wrong)}" if wrong else f"not proved: this Redis knows nothing of run {name}"
    )


def _by(counts: Mapping[str, int]) -> str:
    some = [f"{count} {what}" for what, count in counts.items() if count]
    return f"   {', '.join(some)}" if some else ""


def _first(lines: Sequence[str]) -> list[str]:
    more = len(lines) - SHOWN
    return [*lines[:SHOWN], *([f"    and {more} more"] if more > 0 else [])]
