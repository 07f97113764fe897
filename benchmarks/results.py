"""Where numbers are kept: benchmarks/RESULTS.md, each block under a heading with commit, machine and date.

In: lines of Markdown. Out: the same under a heading, on the terminal and, if asked, at the end of the file. Used by
`python -m benchmarks` and by the proofs. Without git the commit is said to be unknown.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "RESULTS.md"


def add_write(parser: argparse.ArgumentParser) -> None:
    """Add `--write` to a proof's arguments."""
    parser.add_argument("--write", action="store_true", help=f"append to {RESULTS.relative_to(ROOT)}")


def add_out(parser: argparse.ArgumentParser, kind: str, *, of: str = "the runs") -> None:
    """Add `--out` to a proof's arguments: a new folder, below runs/ and with the time in its name unless named."""
    dated = Path("runs") / f"{kind}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    parser.add_argument(
        "--out", type=Path, default=dated, metavar="DIR", help=f"new folder of {of} (runs/{kind}-DATE)"
    )


def heading(title: str, *, redis: str = "") -> list[str]:
    """Write a heading: what is measured, of which commit, where, when, and how busy the machine is.

    Args:
        redis: its version; that of the private one which runs have here, unless told otherwise.
    """
    before = os.getloadavg()[0]
    if not redis:
        from broker.private_redis import (
            server,
        )  # wants the client library, which a proof may have to do without

        redis = redis_version(server.executable())
    return [
        f"## {title}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"Commit {commit()}; {machine()}, Redis {redis}; load average of the minute before: {before:.1f}.",
        "",
    ]


def commit() -> str:
    """Return the checkout's commit, and whether tracked files have changed since. What proofs write does not count."""
    try:
        found = _git("rev-parse", "--short=10", "HEAD")
        changed = _git(
            "status",
            "--porcelain",
            "--untracked-files=no",
            "--",
            ".",
            ":!benchmarks/RESULTS.md",
            ":!benchmarks/staleness.jsonl",
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{found} with changes" if changed else found


def commit_of(tree: Path) -> str:
    """Return the commit of another checkout, without a look at its changes."""
    return _git("-C", str(tree), "rev-parse", "--short=10", "HEAD")


def remarks(began_with: str) -> list[str]:
    """Warn where the numbers are of no commit, or not of one alone; empty where they are of one.

    Args:
        began_with: what `commit` said before anything was measured.
    """
    if (now := commit()) != began_with:
        return [
            "",
            (
                f"**NOT of one commit**: the checkout was {began_with} at the beginning and is {now} now. Run it "
                "again."
            ),
        ]
    if not re.fullmatch(r"[0-9a-f]+", now):
        return [
            "",
            f"**NOT of a commit**: the checkout is {now}. Nobody can run the same again: commit first.",
        ]
    return []


def machine() -> str:
    """Describe the cores that this process may use, and the Python."""
    try:
        model = re.search(
            r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
        )
    except OSError:
        model = None
    name = model[1].strip() if model else platform.machine()
    return f"{len(os.sched_getaffinity(0))} cores of {name}, Python {platform.python_version()}"


def redis_version(program: Path) -> str:
    """Read a redis-server's version, like 6.2.14."""
    said = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=10, check=False
    ).stdout
    found = re.search(r"\bv=(\S+)", said)
    return found[1] if found else "unknown"


def append(lines: Sequence[str], *, to: Path = RESULTS) -> None:
    """Put a block at the end of the file."""
    with to.open("a", encoding="utf-8") as stream:
        stream.write("\n" + "\n".join(lines) + "\n")


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
