"""`millrace dead list|show|retry|purge RUN [ENTRY ...]`: show what could not be processed, and act on it.

In: a run's name, and a choice of its dead letters. Out: a table, a dead letter in full, requests for retries, or fewer
dead letters. To retry 17 is to ask the learner for a group 17-r1; a purge is first noted in the journal. All text is
printed without control characters: a model wrote some of it. Exit code 1 where a request could not be fulfilled.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker import codec
from broker.connection import RedisLink
from broker.errors import BadMessage
from broker.keys import EPISODES, PROMPTS, ROLLOUTS, SCORED, Keys
from broker.messages import Prompt, SampledGroup, ScoredGroup
from broker.private_redis import server
from learner.groups.episodes import as_tree
from learner.reporting.conversations import cut_middle, summary, told_as_text
from tasks.turns import text_of
from tools.arguments import UsageError, add_json, add_run, add_runs_dir
from tools.audit.notes import NAME
from tools.confirmation import agrees
from tools.dead.dead_letters import (
    DeadLetterChoice,
    ListedDeadLetter,
    Records,
    ask_again,
    for_purge,
    for_retry,
    open_records,
    purge,
    read_dead_letters,
    wait_until_issued,
    who_issues,
)
from tools.printable import aligned, printable
from tools.runs.folder import NoJournal

OUTAGE_S = 10.0
HEADINGS = ("entry", "group", "age", "stage", "attempts", "state", "reason")
REASON_WIDTH = 100
TEXT_CHARS = 2000  # of a completion or a turn
OWN_FIELDS = {"v", "group", "stage", "reason", "attempts", "floor", "traceback", "payload"}


@dataclass(frozen=True, slots=True)
class Context:
    """The common objects of the subverbs."""

    link: RedisLink
    keys: Keys
    folder: Path  # the journal
    records: Records
    choice: DeadLetterChoice
    options: argparse.Namespace

    def dead_letters(self, *, with_payload: bool = False) -> Iterable[ListedDeadLetter]:
        """Return the chosen dead letters, the oldest first."""
        return read_dead_letters(self.link, self.keys, self.records, self.choice, with_payload=with_payload)

    def now(self) -> float:
        """Return seconds by the clock that dates the dead letters."""
        found: Any = self.link(lambda client: client.time())
        return int(found[0]) + int(found[1]) / 1e6


def run(options: argparse.Namespace) -> int:
    """Carry out the subverb. 0: done; 1: not all of it. Raises PipelineError where nothing could be done."""
    verb = options.subverb
    choice = DeadLetterChoice(
        entries=tuple(options.entries), stage=options.stage, reason=options.reason, group=options.group
    )
    if verb != "list" and choice == DeadLetterChoice() and not options.all:
        raise UsageError("say which letters: their entries, a filter, or --all")
    with (
        server.ensure_readable(options.run, options.runs_dir) as url,
        closing(RedisLink(url, outage_s=OUTAGE_S, key="")) as link,
    ):
        keys, folder = Keys(options.run), server.folder_of(options.run, options.runs_dir) / "journal"
        records = open_records(link, keys, folder, strict=verb in {"retry", "purge"})
        return _ACTIONS[verb](Context(link, keys, folder, records, choice, options))


def _list(context: Context) -> int:
    dead_letters = list(context.dead_letters())
    if context.options.json:
        sys.stdout.write(json.dumps([as_json(dead_letter) for dead_letter in dead_letters]) + "\n")
    elif dead_letters:
        sys.stdout.write(as_table(dead_letters, context.now()))
    else:
        sys.stdout.write(
            "no dead letters\n" if context.choice == DeadLetterChoice() else "no dead letter is so\n"
        )
    return 0


def _show(context: Context) -> int:
    now, count = context.now(), 0
    for dead_letter in context.dead_letters(with_payload=True):
        sys.stdout.write(as_text(dead_letter, now))
        count += 1
    return 0 if count else _none(context)


def _retry(context: Context) -> int:
    found = for_retry(list(context.dead_letters()), _with_journal(context))
    if found.good:
        ids = ask_again(context.link, context.keys, found.good, context.records)
        sys.stdout.write("".join(f"asked for {group_id}\n" for group_id in ids))
        if gone := len(found.good) - len(ids):
            sys.stdout.write(f"{_dead_letters(gone)} went meanwhile\n")
        if context.options.wait:
            places = wait_until_issued(context.link, context.keys, ids, deadline_s=context.options.wait)
            for group_id, place in places.items():
                sys.stdout.write(
                    f"{group_id} is issued{f', now in {place}' if place else ', and has its outcome'}\n"
                )
        else:
            sys.stdout.write(f"{who_issues(context.link, context.keys)}\n")
    return _refuse(found.refused) if found.refused or found.good else _none(context)


def _purge(context: Context) -> int:
    found = for_purge(list(context.dead_letters()), _with_journal(context))
    if found.good:
        many = _dead_letters(len(found.good), "dead letter")
        question = f"throw {many} of run {context.keys.name} away?"
        if not context.options.yes and not agrees(question, what=_dead_letters(len(found.good))):
            sys.stdout.write("nothing was purged\n")
            return 1
        count = purge(context.link, context.keys, found.good, context.folder)
        sys.stdout.write(f"purged {_dead_letters(count)}; noted in {context.folder / NAME}\n")
    return _refuse(found.refused) if found.refused or found.good else _none(context)


SUBVERBS: Mapping[str, str] = {
    "list": "a line for each letter: when, where, how often it was tried, why it died",
    "show": "everything that is known of letters: the prompt, its answers, what the worker said at its end",
    "retry": "ask for the letters' groups again: each becomes a new group, 17-r1 for 17, that the learner issues",
    "purge": "throw letters away; the journal keeps the groups' outcomes, and a note of this",
}
EXAMPLES: Mapping[str, str] = {
    "list": "millrace dead list demo --stage rollouts",
    "show": "millrace dead show demo --group 17",
    "retry": "millrace dead retry demo --reason deadline",
    "purge": "millrace dead purge demo --group 17 --yes",
}
_ACTIONS: Mapping[str, Callable[[Context], int]] = {
    "list": _list,
    "show": _show,
    "retry": _retry,
    "purge": _purge,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace dead list|show|retry|purge`."""
    subverb = parser.get_default("subverb")
    add_run(parser)
    parser.add_argument("entries", metavar="ENTRY", nargs="*", help="ids of letters, as `list` shows them")
    parser.add_argument(
        "--stage", choices=(PROMPTS, EPISODES, ROLLOUTS, SCORED), help="only those that died there"
    )
    parser.add_argument("--reason", metavar="TEXT", help="only those whose reason contains it")
    parser.add_argument("--group", metavar="ID", help="only those of this group")
    add_runs_dir(parser)
    if subverb == "list":
        add_json(parser, "one JSON list")
    else:
        parser.add_argument("--all", action="store_true", help="every letter")
    if subverb == "retry":
        parser.add_argument(
            "--wait",
            type=float,
            default=0.0,
            metavar="SECONDS",
            help="until a learner has issued them, so long at most (0)",
        )
    if subverb == "purge":
        parser.add_argument("--yes", action="store_true", help="do not ask")


def _with_journal(context: Context) -> Records:
    if context.records.ledger is None:
        raise NoJournal(context.folder)
    return context.records


def _dead_letters(count: int, what: str = "letter") -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _refuse(refused: Mapping[str, str]) -> int:
    for entry, reason in refused.items():
        sys.stderr.write(printable(f"refused {entry}: {reason}\n"))
    return 1 if refused else 0


def _none(context: Context) -> int:
    group = "" if context.choice.group is None else f" of group {context.choice.group}"
    sys.stderr.write(
        printable(
            f"no such dead letter{group}: `millrace dead list {context.keys.name}` names those that are there\n"
        )
    )
    return 1


def as_table(dead_letters: Sequence[ListedDeadLetter], now: float) -> str:
    """Make a table with a line per dead letter."""
    rows = [
        HEADINGS,
        *(
            (
                dead_letter.entry,
                dead_letter.group,
                age(now - dead_letter.at),
                dead_letter.stage,
                str(dead_letter.attempts),
                dead_letter.state,
                _cut(" ".join(dead_letter.reason.split()), REASON_WIDTH),
            )
            for dead_letter in dead_letters
        ),
    ]
    return "".join(f"{printable(line)}\n" for line in aligned(rows, numbers=False))


def as_json(dead_letter: ListedDeadLetter) -> dict[str, object]:
    """Make the object that `list --json` prints for a dead letter."""
    return {
        "entry": dead_letter.entry,
        "group": dead_letter.group,
        "stage": dead_letter.stage,
        "reason": dead_letter.reason,
        "attempts": dead_letter.attempts,
        "at": dead_letter.at,
        "bytes": dead_letter.bytes,
        "state": dead_letter.state,
    }


def as_text(dead_letter: ListedDeadLetter, now: float) -> str:
    """Format everything known about one dead letter, which must have its payload."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(dead_letter.at))
    lines = [
        f"letter {dead_letter.entry}",
        f"  group     {dead_letter.group}",
        f"  at        {when}, {age(now - dead_letter.at)} ago",
        f"  stage     {dead_letter.stage}",
        f"  attempts  {dead_letter.attempts}",
        f"  state     {dead_letter.state}",
        f"  reason    {dead_letter.reason}",
    ]
    for field, value in dead_letter.raw.items():
        if (name := field.decode(errors="replace")) not in OWN_FIELDS:
            lines.append(f"  {name:<9} {value.decode(errors='replace')}")
    lines += _content(dead_letter)
    if dead_letter.traceback:
        lines += ["  the end of what its worker said", *_indented(dead_letter.traceback.rstrip())]
    return printable("\n".join(lines)) + "\n"


def age(seconds: float) -> str:
    """Format a duration in one unit: 45 s, 12 min, 3.5 h, 2.0 d."""
    for size, unit, digits in ((86400.0, "d", 1), (3600.0, "h", 1), (60.0, "min", 0)):
        if seconds >= size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"


def _content(dead_letter: ListedDeadLetter) -> Iterator[str]:
    """Yield the prompt and its completions, as far as the payload can be read."""
    try:
        if dead_letter.stage in {PROMPTS, EPISODES}:
            yield from _prompt(codec.decode_prompt(dead_letter.raw))
        elif dead_letter.stage == ROLLOUTS:
            yield from _rollout(codec.decode_rollout(dead_letter.raw))
        elif dead_letter.stage == SCORED:
            yield from _scored(codec.decode_scored(dead_letter.raw))
        else:
            yield f"  payload   {dead_letter.bytes} bytes of a stage that this program does not know"
    except BadMessage as error:
        yield f"  payload   {dead_letter.bytes} bytes that can't be read: {error}"


def _prompt(prompt: Prompt) -> Iterator[str]:
    yield (
        f"  prompt    task {prompt.task}, row {prompt.row} of epoch {prompt.epoch}, {len(prompt.token_ids)} tokens, "
        f"{prompt.n} completions of up to {prompt.max_tokens} wanted, floor {prompt.floor}"
    )
    for turn in prompt.messages:
        yield from _indented(f"{turn.get('role', '?')}: {_cut(text_of(turn), TEXT_CHARS)}")
    yield f"  answer    {_cut(json.dumps(dict(prompt.verification_info), ensure_ascii=False), TEXT_CHARS)}"


def _rollout(rollout: SampledGroup, verdicts: Iterable[str] = ()) -> Iterator[str]:
    yield from _prompt(rollout.prompt)
    yield (
        f"  sampled   by {rollout.generator} in {rollout.seconds:.1f} s, versions {rollout.min_version} to "
        f"{rollout.max_version}, {rollout.num_tokens} tokens"
    )
    said = list(verdicts) or [""] * len(rollout.completions)
    for index, (completion, verdict) in enumerate(zip(rollout.completions, said, strict=True)):
        yield f"  completion {index}: {completion.num_sampled} tokens, {completion.finish_reason}{verdict}"
        if not (episode := as_tree(completion)):
            yield from _indented(_cut(completion.text, TEXT_CHARS))
            continue
        for line in summary(episode):
            yield from _indented(line)
        for who, words in told_as_text(episode):
            yield from _indented(f"{who}: {cut_middle(words, TEXT_CHARS)}")


def _scored(group: ScoredGroup) -> Iterator[str]:
    yield from _rollout(
        group.rollout,
        [
            f"; {score.scorer}: {'unscorable' if score.value is None else score.value}, {score.reason}"
            for score in group.scores
        ],
    )


def _indented(text: str) -> Iterator[str]:
    return (f"    {line}" for line in text.splitlines())


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} … ({len(text) - length} characters more)"
