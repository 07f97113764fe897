"""`millrace keys [TEXT ...]`: keys of the configuration and metrics, with what they mean.

In: words to look for. Out: each key with its type, default and docstring, or a whole page in Markdown. Exit code: 0;
2 where nothing has such a word in it.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from broker.keys import TABLE
from config.run import Run
from learner.reporting.keys import KEYS
from tools.arguments import UsageError
from tools.keys import page
from tools.keys.sections import Key, SectionKeys, parts_of
from tools.metrics.table import AGENT_METRICS, METRICS
from tools.top.keys import KEYS as TOP_KEYS

EPILOG = "TEXT is looked for in names first, and in descriptions where no name has it. Without TEXT all are listed."
WIDTH = 100
PAGES: Mapping[str, Callable[[], str]] = {
    "configuration": lambda: page.configuration(parts_of(Run)),
    "metrics": page.metrics,
    "row_types": page.row_types,
    "redis_keys": page.redis_keys,
}


class Entry(NamedTuple):
    """One key or metric, as it is listed."""

    name: str
    kind: str  # type and default, or where the number is found
    says: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("text", nargs="*", metavar="TEXT", help="list those that have TEXT in them (all)")
    parser.add_argument("--markdown", choices=PAGES, help="write a page of docs/ instead")


def run(options: argparse.Namespace) -> int:
    """List what was asked for.

    Raises:
        UsageError: nothing has such a word in it.
    """
    if options.markdown is not None:
        sys.stdout.write(PAGES[options.markdown]())
        return 0
    entries = list(_entries())
    for entry in dict.fromkeys(one for text in options.text for one in having(text, entries)) or entries:
        sys.stdout.write(f"{entry.name}  ({entry.kind})\n" if entry.kind else f"{entry.name}\n")
        sys.stdout.write(textwrap.indent(textwrap.fill(entry.says, WIDTH - 4), "    ") + "\n")
    return 0


def having(text: str, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that have a text in their names, or in their descriptions where no name has it."""
    wanted = text.lower()
    named = [entry for entry in entries if wanted in entry.name.lower()]
    found = named or [entry for entry in entries if wanted in entry.says.lower()]
    if not found:
        raise UsageError(f"no key and no metric has {text!r} in it")
    return found


def _entries() -> Iterator[Entry]:
    """Yield the keys of the configuration, of metrics.jsonl, of `top --json` and in Redis, and Prometheus' metrics."""
    for part in parts_of(Run):
        yield from (_entry(part, key) for key in part.keys)
    yield from (Entry(name, "metrics.jsonl", says) for name, says in KEYS.items())
    yield from (Entry(name, "top --json", says) for name, says in TOP_KEYS.items())
    yield from (Entry(row.names, f"Redis, {row.kind}", f"{row.holds}; by {row.by}") for row in TABLE)
    for metric in (*METRICS, *AGENT_METRICS):
        yield Entry(metric.name, f"Prometheus, {metric.kind}", metric.says)


def _entry(part: SectionKeys, key: Key) -> Entry:
    default = "required" if key.is_required else key.default and f"default {key.default}"
    kind = "" if part.kind in {"", "*"} else f"type {part.kind}"
    said = ", ".join(one for one in (kind, key.kind, default) if one)
    return Entry(f"{part.place}.{key.name}".lstrip("."), said, key.says)
