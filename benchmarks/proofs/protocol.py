"""`make prove-protocol`: random runs of the protocol, and those without its rules.

In: how many actions, of which state machine (`machines.py`). Out: a line of JSON in
`runs/prove-protocol/MACHINE/runs.jsonl` for each batch of random runs, on Redis 6.2, on 7 or newer, and for each rule
that was taken out; and tables, which `--write` puts at the end of benchmarks/RESULTS.md. The runs themselves are
tests/protocol. When it was interrupted, the next start goes on from the files, with the batches of this very commit.
Exit code 0 if nothing failed but what had a rule less, all of that did, and each kind of action took effect on each
Redis.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.proofs.machines import MACHINES, StateMachine
from broker.private_redis import server

REDIS = ("6.2", "7")
NEWER = (7, 0)
BATCH = 10_000  # actions of one process
AT_ONCE = 2
SEARCH_SEEDS = range(1, 6)  # with one of which a missing rule has to show
TIMEOUT_S = 3600.0
NO_END, BY_HAND = -9, 2  # exit codes: of what is killed, of pytest after Ctrl-C
AT_THE_END = "actions at the undisturbed end"

Row = Mapping[str, Any]
Job = tuple[str, int, str]  # version of Redis, seed, the rule that is taken out


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing of the table; show it, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.protocol", description="Random runs of the protocol."
    )
    parser.add_argument(
        "--actions", type=int, help="of each machine on each version of Redis (its own number)"
    )
    parser.add_argument("--machine", choices=[one.title for one in MACHINES], help="that one alone")
    parser.add_argument(
        "--out", type=Path, default=Path("runs") / "prove-protocol", metavar="DIR", help="of the tables"
    )
    results.add_write(parser)
    args = parser.parse_args(argv)
    commit = results.commit()
    lines = results.heading(
        "Random runs of the protocol", redis=" and ".join(map(results.redis_version, servers()))
    )
    is_all_proven = True
    for machine in MACHINES:
        if args.machine in {None, machine.title}:
            table, is_one_proven = prove(machine, args.actions or machine.actions, args.out.absolute())
            lines += [f"### {machine.title}", "", *table, ""]
            is_all_proven &= is_one_proven
    lines = [*lines[:-1], *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if is_all_proven and results.commit() == commit else 1


def prove(machine: StateMachine, actions: int, out: Path) -> tuple[list[str], bool]:
    """Run what is missing of one machine. Returns its table, and whether it is proven."""
    folder = out / machine.title.lower()
    folder.mkdir(parents=True, exist_ok=True)
    seeds = range(1, max(1, actions // BATCH) + 1)
    jobs = [(version, seed, "") for seed in seeds for version in REDIS]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda job: run(machine, job, folder), missing_of(jobs, read(folder))))
        list(pool.map(lambda rule: search(machine, rule, folder), machine.rules))
    rows = read(folder)
    return as_table(machine, rows, jobs), is_proven(machine, rows, jobs)


def servers() -> list[Path]:
    """Find the redis-servers that tests run on: the wheel's, and the first of version 7 or newer, if there is one."""
    folders = [*map(Path, os.environ["PATH"].split(os.pathsep)), Path(sys.prefix) / "redis7" / "bin"]
    found = (folder / "redis-server" for folder in folders if (folder / "redis-server").exists())
    newer = next((program for program in found if server.version_of(program) >= NEWER), None)
    return [server.carried("redis-server"), *([newer] if newer else [])]


def search(machine: StateMachine, rule: str, out: Path) -> None:
    """Run without one rule, seed after seed, until a run fails; a seed that the table has is not run again."""
    for seed in SEARCH_SEEDS:
        found = [row for row in read(out) if row["without"] == rule]
        if any(map(is_missed, found)):
            return
        if seed not in {row["seed"] for row in found}:
            run(machine, (REDIS[0], seed, rule), out)


def run(machine: StateMachine, job: Job, out: Path) -> None:
    """Run one process of random actions; its line goes to the table, and its output to a log.

    One that ends before it can tell has a line too, unless it was interrupted or skipped: then it is still missing.
    """
    version, seed, without = job
    name = f"redis-{version}-seed-{seed}" + (f"-without-{without.replace(' ', '-')}" if without else "")
    report = out / f"{name}.json"
    report.unlink(missing_ok=True)
    variables = {
        "PROTOCOL_ACTIONS": str(machine.search if without else BATCH),
        "PROTOCOL_SEED": str(seed),
        "PROTOCOL_WITHOUT": without,
        "PROTOCOL_REPORT": str(report),
    }
    words = [
        sys.executable,
        *["-m", "pytest", "-q", "-p", "no:cacheprovider", "--redis"],
        version,
        machine.tests,
    ]
    code = NO_END
    with (out / f"{name}.log").open("wb") as log, contextlib.suppress(subprocess.TimeoutExpired):
        code = subprocess.run(
            words,
            cwd=results.ROOT,
            env=os.environ | variables,
            stdout=log,
            stderr=log,
            check=False,
            timeout=TIMEOUT_S,
        ).returncode
    row = {
        "seed": seed,
        "without": without,
        "actions": 0,
        "rules": 0,
        "failure": "",
        "seconds": 0.0,
        "did": {},
        "redis": version,
        "commit": results.commit(),
        "exit": code,
    }
    if report.exists():
        row |= json.loads(report.read_text(encoding="utf-8"))
        report.unlink()
    elif code == 0:
        code = BY_HAND  # skipped: there is no such Redis
    if code == BY_HAND:
        sys.stdout.write(f"{name}: not run to its end; see {out / f'{name}.log'}\n")
        return
    if code != 0 and not row["failure"] and not is_in_vain(machine, row):
        row["failure"] = f"exit code {code}: see {name}.log"
    with (out / "runs.jsonl").open("a", encoding="utf-8") as table:
        table.write(json.dumps(row) + "\n")
    sys.stdout.write(f"{name}: {row['actions']} actions, {row['failure'] or 'nothing failed'}\n")
    sys.stdout.flush()


def read(out: Path) -> list[Row]:
    """Read the lines of the table, of this commit alone."""
    table = out / "runs.jsonl"
    if not table.exists():
        return []
    rows: list[Row] = []
    for line in table.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):  # one that an interruption has torn
            rows.append(json.loads(line))
    return [row for row in rows if row["commit"] == results.commit()]


def is_proven(machine: StateMachine, rows: Sequence[Row], jobs: Sequence[Job]) -> bool:
    """Tell whether all jobs are whole, each missing rule was noticed, and every kind of action took effect."""
    whole = [row for row in rows if (row["redis"], row["seed"], row["without"]) in {*jobs}]
    return (
        not missing_of(jobs, rows)
        and all(map(is_passed, whole))
        and {row["without"] for row in rows if is_missed(row)} == {*machine.rules}
        and not never_done(machine, whole)
    )


def is_passed(row: Row) -> bool:
    """Tell whether a batch with all rules came to its end without a failure."""
    return not row["failure"] and row["exit"] == 0 and row["actions"] >= BATCH


def is_missed(row: Row) -> bool:
    """Tell whether a run without a rule broke an invariant: only that is the failure that is wanted."""
    return bool(row["without"] and row["failure"] and row["exit"] == 0)


def is_in_vain(machine: StateMachine, row: Row) -> bool:
    """Tell whether a search ended without a failure: another seed may find one."""
    return (
        bool(row["without"]) and not row["failure"] and row["exit"] == 1 and row["actions"] >= machine.search
    )


def never_done(machine: StateMachine, rows: Sequence[Row]) -> list[str]:
    """List the acts that took no effect in any of the batches, each with its Redis."""
    did = {version: done(rows, version) for version in sorted({row["redis"] for row in rows})}
    return [f"{act} on {version}" for version in did for act in machine.acts if not did[version][act]]


def done(rows: Sequence[Row], version: str) -> Counter[str]:
    """Sum what all batches on one Redis did."""
    total: Counter[str] = Counter()
    for row in rows:
        if row["redis"] == version and not row["without"]:
            total.update(row["did"])
    return total


def missing_of(jobs: Sequence[Job], rows: Sequence[Row]) -> list[Job]:
    """List the jobs that the table does not have."""
    there = {(row["redis"], row["seed"], row["without"]) for row in rows}
    return [job for job in jobs if job not in there]


def as_table(machine: StateMachine, rows: Sequence[Row], jobs: Sequence[Job]) -> list[str]:
    """Write Markdown lines: the whole protocol on each Redis, the protocol without one rule, the verdict."""
    whole = [row for row in rows if not row["without"]]
    columns = [column(machine, whole, version) for version in REDIS]
    lines = [f"| Redis | {' | '.join(REDIS)} |", f"|---|{'--:|' * len(REDIS)}"]
    lines += [
        f"| {name} | {' | '.join(f'{numbers[name]:,}' for numbers in columns)} |" for name in columns[0]
    ]
    lines += [
        "",
        (
            "Actions are all that any role did; rules are what was drawn, each of which makes one or several "
            "roles do something; the others are counted where they took effect."
        ),
    ]
    if never := never_done(machine, whole):
        lines += ["", f"NEVER done: {', '.join(never)}."]
    lines += ["", "| taken out | seed | actions until it failed | with |", "|---|--:|--:|---|"]
    lines += [
        f"| {row['without']} | {row['seed']} | {row['actions']:,} | {first_line(row)} |"
        for row in sorted(rows, key=lambda row: (row["without"], row["seed"]))
        if row["without"]
    ]
    return [
        *lines,
        "",
        (
            f"**{'Proven' if is_proven(machine, rows, jobs) else 'NOT proven'}**: with all rules "
            "nothing may fail, and without one of them something has to; seeds 1 to "
            f"{max(seed for _, seed, _ in jobs)}; {len(missing_of(jobs, rows))} of {len(jobs)} batches "
            "are missing."
        ),
    ]


def column(machine: StateMachine, rows: Sequence[Row], version: str) -> dict[str, int]:
    """Return the numbers of one Redis, by name."""
    ours = [row for row in rows if row["redis"] == version]
    did = done(ours, version)
    return {
        "actions": sum(row["actions"] for row in ours),
        "rules": sum(row["rules"] for row in ours),
        AT_THE_END: did[AT_THE_END],
        **{act: did[act] for act in machine.acts},
        "seeds": len(ours),
        "failed": sum(not is_passed(row) for row in ours),
        "s": round(sum(row["seconds"] for row in ours)),
    }


def first_line(row: Row) -> str:
    """Say what failed, in a few words."""
    return next(iter(row["failure"].splitlines()), "nothing: NOT seen")[:100].replace("|", "/")


if __name__ == "__main__":
    sys.exit(main())
