"""`make prove-lag`: is every token's lag bounded, and nobody waited for too long?

In: bounds. Out: for each max_lag a run with a generator twenty times slower than the others and one that stands still
for a minute with a group in its hands, and a table of the largest lag that was trained and of the longest waits;
`--write` puts it at the end of benchmarks/RESULTS.md. The runs themselves are tests/e2e/test_lag.py. Exit code 0 if
every bound held and was put to use, and the checkout is still the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from broker.private_redis import server

MAX_LAGS = (0, 1, 4)
TIMEOUT_S = 600.0  # of one run
REDIS = "6.2"  # the one that the wheel carries
COLUMNS = (
    "max_lag",
    "steps",
    "largest lag trained",
    "longest wait, s",
    "group_deadline_s",
    "at most, s",
    "dead",
    "lost",
    "twice",
    "verdict",
)

Row = Mapping[str, Any]  # what the test reports; empty where it did not come so far


def main(argv: Sequence[str] | None = None) -> int:
    """Run every bound, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.lag", description="Lag is bounded exactly."
    )
    parser.add_argument(
        "--max-lags", type=int, nargs="+", choices=MAX_LAGS, default=MAX_LAGS, help="bounds (0 1 4)"
    )
    results.add_out(parser, "lag", of="the logs")
    results.add_write(parser)
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    out.mkdir(parents=True)
    commit = results.commit()
    heading = results.heading(
        "Lag, with a generator twenty times slower and one that stands still for a minute",
        redis=results.redis_version(server.carried("redis-server")),
    )
    rows = []
    for max_lag in args.max_lags:
        rows.append(run(max_lag, out))
        sys.stdout.write(f"max_lag {max_lag}: {verdict(rows[-1])}\n")
        sys.stdout.flush()
    lines = [*heading, *as_table(args.max_lags, rows), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if all(verdict(row) == "held" for row in rows) and results.commit() == commit else 1


def run(max_lag: int, out: Path) -> Row:
    """Run one bound's test, log its output, and return what the run reports and whether the test passed."""
    report = out / f"max-lag-{max_lag}.json"
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--redis",
        REDIS,
        "-k",
        f"stands_still and [{max_lag}]",
        "tests/e2e/test_lag.py",
    ]
    with (out / f"max-lag-{max_lag}.log").open("wb") as log:
        code = subprocess.run(
            words,
            cwd=results.ROOT,
            env=os.environ | {"LAG_REPORT": str(report)},
            stdout=log,
            stderr=log,
            check=False,
            timeout=TIMEOUT_S,
        ).returncode
    if not report.exists():
        sys.stdout.write(f"max_lag {max_lag}: exit code {code}; see {out / f'max-lag-{max_lag}.log'}\n")
        return {}
    row: Row = {**json.loads(report.read_text(encoding="utf-8")), "exit_code": code}
    return row


def verdict(row: Row) -> str:
    """Return `held`, or what did not hold."""
    if not row:
        return "NOT held: it came to no end"
    wrong = [f"lag {row['lag']}"] if row["lag"] > row["max_lag"] else []
    wrong += [f"lag {row['lag']} alone"] if row["lag"] < min(row["max_lag"], 1) else []
    is_felt = row["least_wait_s"] < row["wait_s"] <= row["most_wait_s"]
    wrong += [] if is_felt else [f"a wait of {row['wait_s']:.1f} s"]
    wrong += [f"{row[what]} {what}" for what in ("lost", "twice") if row[what]]
    wrong += ["its test failed"] if row["exit_code"] and not wrong else []
    return f"NOT held: {', '.join(wrong)}" if wrong else "held"


def as_table(max_lags: Sequence[int], rows: Sequence[Row]) -> list[str]:
    """Write the rows as lines of a Markdown table."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'--:|' * (len(COLUMNS) - 1)}---|"]
    for max_lag, row in zip(max_lags, rows, strict=True):
        cells = (
            [
                row["steps"],
                row["lag"],
                f"{row['wait_s']:.1f}",
                f"{row['deadline_s']:g}",
                f"{row['most_wait_s']:g}",
                row["dead"],
                row["lost"],
                row["twice"],
            ]
            if row
            else ["-"] * 8
        )
        lines.append(f"| {' | '.join(map(str, [max_lag, *cells, verdict(row)]))} |")
    held = sum(verdict(row) == "held" for row in rows)
    return [
        *lines,
        "",
        (
            f"**{held} of {len(rows)} held**: no trained token older than max_lag, and some as old as 1 "
            "where it allows that. No lease ran out: the learner waited for the stopped generator's group "
            "until its deadline, when it went to `dead`, and then for the reconciling that notices and for "
            "another group in its stead (`at most`); from the first step's end on nobody waited longer. "
            "All three generators' groups were trained on. Seed 0."
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
