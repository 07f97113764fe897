"""A group's story for people, at most 100 columns wide, and for programs.

In: a `Story`. Out: text, or one JSON object. What a model wrote is among it and the terminal is the operator's: control
characters are spelled out.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.dead.show import printable
from tools.run_view.screen import STREAM_COLOURS
from tools.trace.narrative import Story
from tools.trace.stages import Stage

WIDTH = 100
REASON_CHARS = 300
SHORT_S = 0.1  # what takes less is shown in milliseconds
COLOURS = {
    **STREAM_COLOURS,
    "sampling": "magenta",
    "scoring": "green",
    "training": "cyan",
    "dropped": "yellow",
}


def as_json(story: Story) -> str:
    """The story's fields as one JSON object, on a line."""
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
        f"{facts['n']} completions" if "n" in facts else "",
        f"{story.tokens} tokens" if story.tokens else "",
        "" if story.lag is None else f"lag {_range(*story.lag)}",
        f"issued on {time.strftime('%Y-%m-%d', time.localtime(issued))}" if issued else "",
    ]
    return ", ".join(filter(None, parts)) or "nothing is known of its row"


def _way(story: Story) -> Table:
    """A line a stage."""
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
    """A line a completion."""
    cells: dict[tuple[str, str], Callable[[Mapping[str, Any]], str]] = {
        ("#", "right"): lambda row: str(row["completion"]),
        ("tokens", "right"): lambda row: str(row["tokens"]),
        ("end", "left"): lambda row: str(row["finish_reason"]),
        ("version: tokens", "left"): lambda row: ", ".join(
            f"{span['version']}: {span['count']}" for span in row["versions"]
        ),
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


def _score(row: Mapping[str, Any]) -> str:
    """`math 0.5 (format 0, math 1): answer 3 equals 3`; a scorer that has no other part is named once."""
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


def _took(stage: Stage) -> str:
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
