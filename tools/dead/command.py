"""`millrace dead list|show|retry|purge RUN [ENTRY ...]`: what could not be processed, and what to do about it.

In: a run's name, and which of its letters are meant. Out: a table, a letter in full, requests to begin groups anew, or
fewer letters. To retry 17 is to ask the learner for a group 17-r1; what is purged is noted in the
journal before. Exit code 1 where something was asked for that could not be done.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.connection import RedisLink
from broker.errors import Permanent, PipelineError
from broker.keys import PROMPTS, ROLLOUTS, SCORED, Keys
from broker.private_redis import server
from config.logs import mask
from config.run_names import run_name
from tools.audit.notes import NAME
from tools.dead import actions
from tools.dead.letters import Choice, Letter, NoRun, Records, open_records, read_letters
from tools.dead.show import as_json, as_table, as_text, printable

OUTAGE_S = 10.0


class NoChoice(Permanent):
    """It was not said which letters are meant, or nobody is here to confirm it."""


@dataclass(frozen=True, slots=True)
class _Desk:
    """What every verb works with."""

    link: RedisLink
    keys: Keys
    folder: Path  # the journal
    records: Records
    choice: Choice
    options: argparse.Namespace

    def letters(self, *, with_payload: bool = False) -> Iterable[Letter]:
        return read_letters(self.link, self.keys, self.records, self.choice, with_payload=with_payload)

    def now(self) -> float:
        """Seconds by the clock that dates the letters."""
        found: Any = self.link(lambda client: client.time())
        return int(found[0]) + int(found[1]) / 1e6


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the verb says. 0: done; 1: it could not be done, or not all of it."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] not in VERBS:
        return _no_verb(words)
    verb = words.pop(0)
    parser = _parser(verb)
    options = parser.parse_intermixed_args(words)
    choice = Choice(
        entries=tuple(options.entries), stage=options.stage, reason=options.reason, group=options.group
    )
    if verb != "list" and choice == Choice() and not options.all:
        parser.error("say which letters: their entries, a filter, or --all")
    try:
        with (
            server.ensure_readable(options.run, options.runs_dir) as url,
            closing(RedisLink(url, outage_s=OUTAGE_S, key="")) as link,
        ):
            keys, folder = Keys(options.run), server.folder_of(options.run, options.runs_dir) / "journal"
            records = open_records(link, keys, folder, strict=verb in {"retry", "purge"})
            return VERBS[verb][1](_Desk(link, keys, folder, records, choice, options))
    except PipelineError as error:
        sys.stderr.write(f"millrace dead {verb}: {mask(str(error))}\n")
        return 1


def _list(desk: _Desk) -> int:
    letters = list(desk.letters())
    if desk.options.json:
        sys.stdout.write(json.dumps([as_json(letter) for letter in letters]) + "\n")
    elif letters:
        sys.stdout.write(as_table(letters, desk.now()))
    else:
        sys.stdout.write("no dead letters\n" if desk.choice == Choice() else "no dead letter is so\n")
    return 0


def _show(desk: _Desk) -> int:
    now, count = desk.now(), 0
    for letter in desk.letters(with_payload=True):
        sys.stdout.write(as_text(letter, now))
        count += 1
    return 0 if count else _none(desk)


def _retry(desk: _Desk) -> int:
    found = actions.for_retry(list(desk.letters()), _with_journal(desk))
    if found.good:
        ids = actions.ask_again(desk.link, desk.keys, found.good, desk.records)
        sys.stdout.write("".join(f"asked for {group_id}\n" for group_id in ids))
        if gone := len(found.good) - len(ids):
            sys.stdout.write(f"{_letters(gone)} went meanwhile\n")
        if desk.options.wait:
            places = actions.wait_until_issued(desk.link, desk.keys, ids, deadline_s=desk.options.wait)
            for group_id, place in places.items():
                sys.stdout.write(
                    f"{group_id} is issued{f', now in {place}' if place else ', and has its outcome'}\n"
                )
        else:
            sys.stdout.write(f"{actions.who_issues(desk.link, desk.keys)}\n")
    return _refuse(found.refused) if found.refused or found.good else _none(desk)


def _purge(desk: _Desk) -> int:
    found = actions.for_purge(list(desk.letters()), _with_journal(desk))
    if found.good:
        if not desk.options.yes and not _agrees(len(found.good), desk.keys.name):
            sys.stdout.write("nothing was purged\n")
            return 1
        count = actions.purge(desk.link, desk.keys, found.good, desk.folder)
        sys.stdout.write(f"purged {_letters(count)}; noted in {desk.folder / NAME}\n")
    return _refuse(found.refused) if found.refused or found.good else _none(desk)


VERBS: Mapping[str, tuple[str, Callable[[_Desk], int]]] = {
    "list": ("a line for each letter: when, where, how often it was tried, why it died", _list),
    "show": (
        "everything that is known of letters: the prompt, its answers, what the worker said at its end",
        _show,
    ),
    "retry": (
        "ask for the letters' groups again: each becomes a new group, 17-r1 for 17, that the learner issues",
        _retry,
    ),
    "purge": ("throw letters away; the journal keeps the groups' outcomes, and a note of this", _purge),
}


def _parser(verb: str) -> argparse.ArgumentParser:
    text = VERBS[verb][0]
    parser = argparse.ArgumentParser(
        prog=f"millrace dead {verb}", description=text[0].upper() + text[1:] + "."
    )
    parser.add_argument("run", type=run_name, metavar="RUN", help="the run's name")
    parser.add_argument("entries", metavar="ENTRY", nargs="*", help="ids of letters, as `list` shows them")
    parser.add_argument("--stage", choices=(PROMPTS, ROLLOUTS, SCORED), help="only those that died there")
    parser.add_argument("--reason", metavar="TEXT", help="only those whose reason contains it")
    parser.add_argument("--group", metavar="ID", help="only those of this group")
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), metavar="DIR", help="where runs are (runs)"
    )
    if verb == "list":
        parser.add_argument("--json", action="store_true", help="one JSON list")
    else:
        parser.add_argument("--all", action="store_true", help="every letter")
    if verb == "retry":
        parser.add_argument(
            "--wait",
            type=float,
            default=0.0,
            metavar="SECONDS",
            help="until a learner has issued them, so long at most (0)",
        )
    if verb == "purge":
        parser.add_argument("--yes", action="store_true", help="do not ask")
    return parser


def _no_verb(words: Sequence[str]) -> int:
    verbs = "\n".join(f"  {verb:<6} {text}" for verb, (text, _) in VERBS.items())
    parser = argparse.ArgumentParser(
        prog="millrace dead",
        usage="millrace dead list|show|retry|purge RUN [ENTRY ...] [options]",
        description="What could not be processed, and what to do about it.",
        epilog=f"commands:\n{verbs}\n\n`millrace dead COMMAND --help` says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=VERBS, metavar="COMMAND", help="one of those below")
    if words:
        parser.parse_args(words[:1])  # --help, or a typo: both end here
    parser.print_help()
    return 2


def _with_journal(desk: _Desk) -> Records:
    if desk.records.ledger is None:
        raise NoRun(
            f"no journal in {desk.folder}: give --runs-dir, the folder that the run's own folder is in"
        )
    return desk.records


def _agrees(count: int, name: str) -> bool:
    if not sys.stdin.isatty():
        raise NoChoice(f"nobody is here to ask whether {_letters(count)} should go; use --yes")
    sys.stdout.write(f"throw {_letters(count, 'dead letter')} of run {name} away? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _letters(count: int, what: str = "letter") -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _refuse(refused: Mapping[str, str]) -> int:
    for entry, reason in refused.items():
        sys.stderr.write(printable(f"refused {entry}: {reason}\n"))
    return 1 if refused else 0


def _none(desk: _Desk) -> int:
    group = "" if desk.choice.group is None else f" of group {desk.choice.group}"
    sys.stderr.write(
        printable(
            f"no such dead letter{group}: `millrace dead list {desk.keys.name}` names those that are there\n"
        )
    )
    return 1
