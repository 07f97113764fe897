"""`python -m benchmarks.chaos`, or `make prove-chaos`: 50 kills of each role, and nothing lost, nothing twice.

In: how many kills, of whom. Out: runs under `runs/prove-chaos`, a line of JSON in its `kills.jsonl` for each kill with
the audit after it, and a table; `--write` puts that at the end of benchmarks/RESULTS.md. Role by role, a batch of kills
to a run; when it was interrupted, the next start goes on from the file, with the kills of this very commit. Exit code 0
if every kill is there, every audit clean, and the checkout still the same.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import results
from benchmarks.chaos_batch import OUTAGE_S
from broker.processes import spawn, stop, wait

ROLES = ("generator", "dispatcher", "scorer", "learner", "redis")
BATCH = 25              # kills of one run
KILL_S = 90.0           # for a kill, its return and its audit; a batch that takes longer hangs
GRACE_S = 60.0
COLUMNS = ("killed with -9", "kills", "lost", "twice", "groups issued", "trained", "dead", "steps", "back, s: median",
           "largest", "runs and seeds")
AWAY = "redis, away for {:.0f} s"

Row = Mapping[str, Any]


class Wanted(NamedTuple):
    """What is to be proven of one role."""

    role: str
    kills: int
    away_s: float = 0.0         # that it stays away after each: Redis alone


def main(argv: Sequence[str] | None = None) -> int:
    """Kill, batch after batch; show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description="Nothing lost, nothing twice.")
    parser.add_argument("--kills", type=int, default=50, help="of each role (50)")
    parser.add_argument("--away-s", type=float, default=300.0, help="that Redis is away for once; 0: not at all (300)")
    parser.add_argument("--out", type=Path, default=Path("runs") / "prove-chaos", metavar="DIR", help="of the runs")
    parser.add_argument("--write", action="store_true", help=f"append to {results.RESULTS.relative_to(results.ROOT)}")
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    table = out / "kills.jsonl"
    heading = results.heading("Chaos: every role killed again and again")
    commit = results.commit()
    wanted = [Wanted(role, args.kills) for role in ROLES]
    if args.away_s:
        wanted.append(Wanted("redis", 1, args.away_s))
    try:
        for one in wanted:
            if not fulfil(one, out, table, commit):
                sys.stdout.write(f"failed: {one.role}; its runs and their logs lie in {out}\n")
                break
    except KeyboardInterrupt:
        sys.stdout.write(f"interrupted; the next start goes on from {table}\n")
        return 130
    rows = read(table, commit)
    is_same = results.commit() == commit
    lines = [*heading, *as_table(rows, wanted, is_same=is_same), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if is_same and is_proven(rows, wanted) else 1


def fulfil(wanted: Wanted, out: Path, table: Path, commit: str) -> bool:
    """Run batches until the table has so many kills of the role. False: a run or an audit failed."""
    role, kills, away_s = wanted
    while (missing := kills - len(kills_of(read(table, commit), wanted))) > 0:
        batch = min(missing, BATCH)
        number = len({row["run"] for row in read(table)})
        name = f"{role}-{number}"
        sys.stdout.write(f"{role}: {kills - missing} of {kills} kills are there; {batch} more in run {name}\n")
        sys.stdout.flush()
        words = [sys.executable, "-m", "benchmarks.chaos_batch", "--kills", f"{role}={batch}", "--name", name,
                 "--seed", str(number), "--out", str(out), "--table", str(table), "--away-s", str(away_s),
                 "--commit", commit]
        with (out / f"{name}.log").open("wb") as log:
            process = spawn(words, cwd=results.ROOT, stdout=log, stderr=log)
            try:
                is_in_time = wait(process, OUTAGE_S + batch * (KILL_S + away_s))
            finally:
                code = stop(process, GRACE_S)
        if code or not is_in_time:
            return False
    return True


def read(table: Path, commit: str | None = None) -> list[Row]:
    """The lines of the table; of one commit, if it is named."""
    if not table.exists():
        return []
    rows: list[Row] = []
    for line in table.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):           # one that an interruption has torn
            rows.append(json.loads(line))
    return [row for row in rows if commit in (None, row["commit"])]


def kills_of(rows: Iterable[Row], wanted: Wanted) -> list[Row]:
    """The kills of one role."""
    return [row for row in rows if row["role"] == wanted.role and row["away_s"] == wanted.away_s]


def ends_of(rows: Iterable[Row], kills: Iterable[Row]) -> list[Row]:
    """How the runs of these kills ended."""
    runs = {row["run"] for row in kills}
    return [row for row in rows if not row["role"] and row["run"] in runs]


def is_proven(rows: Sequence[Row], wanted: Sequence[Wanted]) -> bool:
    """Whether every kill is there, every audit clean, and every run that came to its end ended well.

    One that was interrupted did not come to its end: it is stopped, and its exit code says so.
    """
    return all(len(kills_of(rows, one)) >= one.kills for one in wanted) and \
        all(row["is_clean"] and (row.get("exit_code", 0) == 0 or not row.get("is_complete", True)) for row in rows)


def as_table(rows: Sequence[Row], wanted: Sequence[Wanted], *, is_same: bool = True) -> list[str]:
    """Lines of Markdown. A checkout that is not the same at the end as at the beginning proves nothing."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---{'|--:' * (len(COLUMNS) - 2)}|---|"]
    for one in wanted:
        if kills := kills_of(rows, one):
            ends = ends_of(rows, kills)
            sums = [str(sum(row[key] for row in ends)) for key in ("issued", "trained", "dead", "steps")]
            back = [row["back_s"] for row in kills]
            seeds = ", ".join(f"{row['run']}: {row['seed']}" for row in {row["run"]: row for row in kills}.values())
            worst = [str(max(row[key] for row in [*kills, *ends])) for key in ("lost", "twice")]
            who = AWAY.format(one.away_s) if one.away_s else one.role
            lines.append(" | ".join([f"| {who}", str(len(kills)), *worst, *sums, f"{statistics.median(back):.1f}",
                                     f"{max(back):.1f}", f"{seeds} |"]))
    audits = len(rows)
    bad = [row for row in rows if not row["is_clean"]]
    verdict = "Proven" if is_same and is_proven(rows, wanted) else "NOT proven"
    remark = "" if is_same else " The checkout was changed meanwhile: run it again."
    return [*lines, "", (f"**{verdict}**: {audits - len(bad)} of {audits} audits are clean, one after each kill on the "
                         "live run and one after each run; `lost` and `twice` are the most that any of them found."
                         + remark),
            *([""] if bad else []), *(f"- run {row['run']}: lost {row['lost_ids']}, twice {row['twice_ids']}"
                                      for row in bad[:50])]


if __name__ == "__main__":
    sys.exit(main())
