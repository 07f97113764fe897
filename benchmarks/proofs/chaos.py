"""`make prove-chaos`: 50 kills of each role, and nothing lost, nothing twice.

In: how many kills, of whom. Out: runs under `runs/prove-chaos`, a line of JSON in its `kills.jsonl` for each kill with
the audit after it, and a table; `--write` puts that at the end of benchmarks/RESULTS.md. Role by role, a batch of kills
to a run; when it was interrupted, the next start goes on from the file, with the kills of this very commit. A run that
failed by itself is in the file too, and no later start of that commit makes good for it. Exit code 0 if every kill is
there, every audit clean, every run that nobody interrupted at its end with all accounted for, and the checkout still
the same.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import results
from benchmarks.proofs.chaos_batch import GAME, OUTAGE_S, OWN_AGENTS, PLAYED_BY, JsonTable, add_played_by
from broker.processes import spawn, stop, wait

ROLES = ("generator", "dispatcher", "scorer", "learner", "redis")
WITH_AGENTS = (*ROLES, "agent")
WITH_OWN_AGENTS = ("program", "agent", "generator", "learner", "redis")
# By who plays: the roles that are killed, the folder of the runs, and what the heading says.
KINDS: Mapping[str, tuple[Sequence[str], str, str]] = {
    "": (ROLES, "prove-chaos", ""),
    GAME: (WITH_AGENTS, "prove-chaos-agents", ", episodes of several turns"),
    OWN_AGENTS: (WITH_OWN_AGENTS, "prove-chaos-own-agents", ", agents that own their loop"),
}
BATCH = 25  # kills of one run
KILL_S = 90.0  # for a kill, its return and its audit; a batch that takes longer hangs
GRACE_S = 60.0
COLUMNS = (
    "killed with -9",
    "kills",
    "lost",
    "twice",
    "groups issued",
    "trained",
    "dead",
    "steps",
    "redelivered",
    "back, s: median",
    "largest",
    "runs and seeds",
)
AWAY = "redis, away for {:.0f} s"
INTERRUPTED = "interrupted by hand"  # why a run came to no end, which is no fault of it

Row = Mapping[str, Any]


class Wanted(NamedTuple):
    """The kills that are to be proven of one role."""

    role: str
    kills: int
    away_s: float = 0.0  # that it stays away after each: Redis alone
    played_by: str = ""  # by whom, where the groups are episodes


def main(argv: Sequence[str] | None = None) -> int:
    """Kill batch after batch, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.chaos", description="Nothing lost, nothing twice."
    )
    parser.add_argument("--kills", type=int, default=50, help="of each role (50)")
    parser.add_argument(
        "--away-s", type=float, default=300.0, help="that Redis is away for once; 0: not at all (300)"
    )
    add_played_by(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="of the runs")
    results.add_write(parser)
    args = parser.parse_args(argv)
    roles, place, episodes = KINDS[args.played_by]
    out: Path = (args.out or Path("runs") / place).absolute()
    out.mkdir(parents=True, exist_ok=True)
    table = out / "kills.jsonl"
    heading = results.heading(f"Chaos: every role killed again and again{episodes}")
    commit = results.commit()
    wanted = [Wanted(role, args.kills, played_by=args.played_by) for role in roles]
    if args.away_s:
        wanted.append(Wanted("redis", 1, args.away_s, args.played_by))
    if failed := list(failures(read(table, commit), ())):
        sys.stdout.write(
            f"not begun: this commit has failed already, says {table}: {'; '.join(failed)}. To begin "
            f"anew, move {out} away\n"
        )
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for one in wanted:
            if why := fulfil(one, out, table, commit):
                sys.stdout.write(f"failed: {one.role}, {why}; its runs and their logs lie in {out}\n")
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
    return 0 if is_same and not list(failures(rows, wanted)) else 1


def fulfil(wanted: Wanted, out: Path, table: Path, commit: str) -> str:
    """Run batches until the table has so many kills of the role.

    A run that fails, or that is interrupted, gets a line that says so. Returns why one failed, "" if none did.
    """
    role, kills, away_s, played_by = wanted
    while (missing := kills - len(kills_of(read(table, commit), wanted))) > 0:
        batch = min(missing, BATCH)
        number = len({row["run"] for row in read(table)})
        name = f"{role}-{number}"
        sys.stdout.write(
            f"{role}: {kills - missing} of {kills} kills are there; {batch} more in run {name}\n"
        )
        sys.stdout.flush()
        words = [
            sys.executable,
            "-m",
            "benchmarks.proofs.chaos_batch",
            "--kills",
            f"{role}={batch}",
            "--name",
            name,
            "--seed",
            str(number),
            "--out",
            str(out),
            "--table",
            str(table),
            "--away-s",
            str(away_s),
            "--commit",
            commit,
            *([PLAYED_BY[played_by].word] if played_by else []),
        ]
        lines = JsonTable(table, {"run": name, "seed": number, "commit": commit})
        limit_s = OUTAGE_S + batch * (KILL_S + away_s)
        with (out / f"{name}.log").open("wb") as log:
            process = spawn(words, cwd=results.ROOT, stdout=log, stderr=log)
            try:
                is_in_time = wait(process, limit_s)
            except KeyboardInterrupt:
                lines.add(why=INTERRUPTED)
                raise
            finally:
                code = stop(process, GRACE_S)
        if code or not is_in_time:
            why = f"exit code {code}" if is_in_time else f"not at its end within {limit_s:.0f} s"
            lines.add(why=why)
            return why
    return ""


def read(table: Path, commit: str | None = None) -> list[Row]:
    """Read the lines of the table; of one commit, if it is named."""
    if not table.exists():
        return []
    rows: list[Row] = []
    for line in table.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):  # one that an interruption has torn
            rows.append(json.loads(line))
    return [row for row in rows if commit in (None, row["commit"])]


def kills_of(rows: Iterable[Row], wanted: Wanted) -> list[Row]:
    """Pick the kills of one role."""
    return [row for row in rows if row.get("role") == wanted.role and row["away_s"] == wanted.away_s]


def ends_of(rows: Iterable[Row], kills: Iterable[Row]) -> list[Row]:
    """Pick the lines that say how the runs of these kills ended."""
    runs = {row["run"] for row in kills}
    return [row for row in rows if row.get("role") == "" and row["run"] in runs]


def failures(rows: Sequence[Row], wanted: Sequence[Wanted]) -> Iterator[str]:
    """List all that is wrong, for people: missing kills, audits, and runs by how they ended."""
    for one in wanted:
        if len(kills := kills_of(rows, one)) < one.kills:
            yield f"{len(kills)} of {one.kills} kills: {AWAY.format(one.away_s) if one.away_s else one.role}"
        yield from (
            f"run {row['run']}: back after {row['back_s']} s, to be away for {one.away_s:.0f}"
            for row in kills
            if row["back_s"] < one.away_s
        )
    yield from (
        f"run {row['run']}: lost {row['lost_ids']}, twice {row['twice_ids']}"
        for row in rows
        if not row.get("is_clean", True)
    )
    for run in dict.fromkeys(row["run"] for row in rows):
        why = [row["why"] for row in rows if row["run"] == run and "why" in row]
        yield from (f"run {run}: {one}" for one in why if one != INTERRUPTED)
        ends = ends_of(rows, [{"run": run}])
        if not why and not ends:
            yield f"run {run}: no end"
        if INTERRUPTED not in why:
            yield from (f"run {run}: not a clean end: {_sums(end)}" for end in ends if not _is_whole(end))


def _is_whole(end: Row) -> bool:
    """Tell whether a run did all that it was to do, was drained, and each of its groups came to an outcome."""
    return bool(
        end["exit_code"] == 0
        and end["is_complete"]
        and end["trained"] > 0
        and end["in_flight"] == 0
        and end["issued"] == end["trained"] + end["dropped"] + end["dead"]
    )


def _sums(end: Row) -> str:
    return ", ".join(
        f"{key} {end[key]}"
        for key in ("exit_code", "is_complete", "issued", "trained", "dropped", "dead", "in_flight")
    )


def as_table(rows: Sequence[Row], wanted: Sequence[Wanted], *, is_same: bool = True) -> list[str]:
    """Write the lines of a Markdown table. A checkout that changed meanwhile proves nothing."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---{'|--:' * (len(COLUMNS) - 2)}|---|"]
    for one in wanted:
        if kills := kills_of(rows, one):
            ends = ends_of(rows, kills)
            sums = [
                str(sum(row[key] for row in ends))
                for key in ("issued", "trained", "dead", "steps", "redelivered")
            ]
            back = [row["back_s"] for row in kills]
            seeds = ", ".join(
                f"{row['run']}: {row['seed']}" for row in {row["run"]: row for row in kills}.values()
            )
            worst = [str(max(row[key] for row in [*kills, *ends])) for key in ("lost", "twice")]
            who = AWAY.format(one.away_s) if one.away_s else one.role
            lines.append(
                " | ".join(
                    [
                        f"| {who}",
                        str(len(kills)),
                        *worst,
                        *sums,
                        f"{statistics.median(back):.1f}",
                        f"{max(back):.1f}",
                        f"{seeds} |",
                    ]
                )
            )
    lines += thrown_away(rows) if any(one.played_by for one in wanted) else []
    audits = [row["is_clean"] for row in rows if "is_clean" in row]
    bad = list(failures(rows, wanted))
    verdict = "Proven" if is_same and not bad else "NOT proven"
    remark = "" if is_same else " The checkout was changed meanwhile: run it again."
    return [
        *lines,
        "",
        (
            f"**{verdict}**: {sum(audits)} of {len(audits)} audits are clean, one after each kill on the "
            "live run and one after each run; `lost` and `twice` are the most that any of them found."
            + remark
        ),
        *([""] if bad else []),
        *(f"- {failure}" for failure in bad[:50]),
    ]


def thrown_away(rows: Sequence[Row]) -> list[str]:
    """Say which share of the recorded turns kills threw away, of groups that were played again after one."""
    ends = [row["turns"] for row in rows if row.get("turns")]
    groups, used, recorded, before = (
        sum(end[name] for end in ends) for name in ("groups", "turns", "recorded", "before")
    )
    if not recorded:
        return []
    return [
        "",
        (
            f"{groups} groups were played again after a kill, with {recorded} turns recorded: "
            f"{(recorded - used) / recorded:.1%} of these are in no completion. Without replay the {before} that were "
            f"recorded before the last attempt would have been sampled anew: {before / (used + before):.1%} of all."
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
