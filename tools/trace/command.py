"""`millrace trace RUN GROUP`: show where a group was and when, who worked on it, and its outcome.

In: a run's keys in Redis and its journal on disk. Out: the group's stages and its completions' scores, as text or one
JSON object. Only reads, and works while the run continues. Redis is read first and the journal after it, in the order
that groups travel. While Redis is away, the journal alone is shown. Text has no control characters: a model wrote some
of it. Exit code 0: shown; 1: there is no such group, it is nowhere, or its data are damaged.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from broker import group_ids
from broker.errors import PipelineError
from broker.joining import linked
from broker.keys import Keys
from broker.monitoring.group_view import look
from broker.private_redis import server
from config.logs import mask
from learner.groups.evaluation import version_of
from learner.reporting.conversations import cut_middle, summary, told_as_text
from tools.arguments import add_json, add_run, add_runs_dir
from tools.printable import printable
from tools.run_view.screen import STREAM_COLOURS
from tools.trace.journal_view import read_account
from tools.trace.narrative import Story, story_of
from tools.trace.stages import GroupStage

OUTAGE_S = 5.0  # no longer than a person waits: the journal shows much without Redis
WIDTH = 100
REASON_CHARS = 300
TURN_CHARS = 200  # of a turn of an episode
SHORT_S = 0.1  # shorter times are shown in milliseconds
COLOURS = {
    **STREAM_COLOURS,
    "sampling": "magenta",
    "playing": "blue",
    "scoring": "green",
    "training": "cyan",
    "dropped": "yellow",
}


EPILOG = (
    "Who sampled the group and with which policy versions, who scored it and how, the step that trained on it "
    "or why none did. Exit code: 0 told; 1 there is no such group, or something of it is lost or damaged; "
    "2 wrong words. The answers' text: millrace journal show, millrace dead show."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace trace`."""
    add_run(parser)
    parser.add_argument("group", type=_group_id, metavar="GROUP", help="17, 17-r1 or eval-40-7")
    add_runs_dir(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Show a group's history. 0: shown; 1: with errors. Raises PipelineError where there is none."""
    sight, no_redis = None, ""
    try:
        with linked(options.run, options.runs_dir, outage_s=OUTAGE_S) as link:
            sight = look(link, Keys(options.run), options.group)
    except PipelineError as error:
        no_redis = mask(str(error)).splitlines()[0]
    account = read_account(server.folder_of(options.run, options.runs_dir), options.group)
    story = story_of(options.run, options.group, sight, no_redis, account)
    if options.json:
        sys.stdout.write(as_json(story))
    else:
        show(story)
    return 0 if story.is_whole else 1


def _group_id(text: str) -> str:
    if not group_ids.is_training(text) and version_of(text) < 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no group: 17 is one, 17-r1 its first retry, and eval-40-7 "
            "prompt 7 of the evaluation of version 40"
        )
    return text


def as_json(story: Story) -> str:
    """Make one JSON object of the story's fields, on one line."""
    return json.dumps(asdict(story)) + "\n"


def show(story: Story, console: Console | None = None) -> None:
    """Print the story."""
    if console is None:
        console = Console(width=min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns), highlight=False)
    console.print(
        Text.assemble((f"group {story.group}", "bold"), f" of run {story.run}: ", _text(story.says))
    )
    console.print(_text("  " + _what_it_is(story)), style="dim")
    if story.stages:
        console.print()
        console.print(_way(story))
    if story.completions:
        console.print()
        console.print(_completions(story))
    for row in story.completions:
        if "messages" in row:
            console.print()
            _print_episode(console, row)
    for note in story.notes:
        console.print(_text(f"  note: {note}"))
    if story.redis:
        console.print(_text(f"  from the journal alone: {story.redis}"), style="yellow")


def _what_it_is(story: Story) -> str:
    facts = story.facts
    issued = facts.get("issued_at")
    parts = [
        f"task {facts['task']}" if "task" in facts else "",
        f"row {facts['row']} of epoch {facts['epoch']}" if "row" in facts else "",
        f"source {facts['source']}" if "source" in facts else "",
        *(f"{name} {value}" for name, value in facts.get("columns", {}).items()),
        f"{facts['n']} completions" if "n" in facts else "",
        f"{story.tokens} tokens" if story.tokens else "",
        "" if story.lag is None else f"lag {_range(*story.lag)}",
        f"issued on {time.strftime('%Y-%m-%d', time.localtime(issued))}" if issued else "",
    ]
    return ", ".join(filter(None, parts)) or "nothing is known of its row"


def _way(story: Story) -> Table:
    """Make a table with a line per stage."""
    table = _table(
        ("at", "left"), ("after", "right"), ("took", "right"), ("stage", "left"), ("who, and what", "left")
    )
    issued = story.facts.get("issued_at") or next(
        (stage.began for stage in story.stages if stage.began), None
    )
    for stage in story.stages:
        after = "" if stage.began is None or issued is None else f"{stage.began - issued:.2f} s"
        table.add_row(
            _clock(stage.began),
            after,
            _took(stage),
            Text(stage.stage, COLOURS.get(stage.stage, "")),
            _text(": ".join(filter(None, (stage.who, stage.says)))),
        )
    return table


def _completions(story: Story) -> Table:
    """Make a table with a line per completion."""
    cells: dict[tuple[str, str], Callable[[Mapping[str, Any]], str]] = {
        ("#", "right"): lambda row: str(row["completion"]),
        ("tokens", "right"): lambda row: str(row["tokens"]),
        ("end", "left"): lambda row: str(row.get("ended_by") or row["finish_reason"]),
        ("version: tokens", "left"): _versions,
    }
    if "reward" in story.completions[0]:
        cells["reward", "right"] = lambda row: _number(row["reward"])
        if story.step is not None:
            cells["advantage", "right"] = lambda row: _number(row["advantage"])
        cells["score, and why", "left"] = _score
    table = _table(*cells)
    for row in story.completions:
        table.add_row(*(_text(cell(row)) for cell in cells.values()))
    return table


def _versions(row: Mapping[str, Any]) -> str:
    """Format how many tokens each version sampled: by span, for an episode in total."""
    spans = [(span["version"], span["count"]) for span in row["versions"]]
    if "messages" in row:
        tokens: Counter[int] = Counter()
        for version, count in spans:
            tokens[version] += count
        spans = sorted(tokens.items())
    return ", ".join(f"{version}: {count}" for version, count in spans)


def _print_episode(console: Console, row: Mapping[str, Any]) -> None:
    """Print the end of an episode, and the beginning and the end of each turn."""
    about = "; ".join(summary(row))
    console.print(_text(f"completion {row['completion']}: {' '.join(about.split())}"), style="dim")
    for who, said in told_as_text(row):
        console.print(_text(f"  {who}: {cut_middle(' '.join(said.split()), TURN_CHARS)}"))


def _score(row: Mapping[str, Any]) -> str:
    """Format `math 0.5 (format 0, math 1): answer 3 equals 3`; a scorer without other parts is named once."""
    value = row["status"] if row["score"] is None else f"{row['score']:g}"
    is_alone = row["components"] == {row["scorer"]: row["score"]}
    parts = "" if is_alone else ", ".join(f"{name} {part:g}" for name, part in row["components"].items())
    reason = " ".join(row["reason"].split())
    reason = reason if len(reason) <= REASON_CHARS else f"{reason[:REASON_CHARS]} …"
    return f"{row['scorer']} {value}{f' ({parts})' if parts else ''}: {reason}"


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name, side in columns:
        is_last = name == columns[-1][0]
        table.add_column(
            name, justify="right" if side == "right" else "left", no_wrap=not is_last, overflow="fold"
        )
    return table


def _took(stage: GroupStage) -> str:
    if stage.seconds is None:
        return ""
    took = f"{stage.seconds:.2f} s" if stage.seconds >= SHORT_S else f"{1000 * stage.seconds:.3g} ms"
    return f"{took}{'' if stage.ended is not None or stage.began is None else ' …'}"


def _clock(at: float | None) -> str:
    if at is None:
        return ""
    return f"{time.strftime('%H:%M:%S', time.localtime(at))}.{int(at * 1000) % 1000:03d}"


def _range(smallest: int, largest: int) -> str:
    return str(smallest) if smallest == largest else f"{smallest} to {largest}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _text(text: str) -> Text:
    return Text(printable(text))
