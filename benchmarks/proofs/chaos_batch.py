"""One run under chaos, as `make prove-chaos` and its test want it: so many kills of each role, an audit after each.

In: kills by role, a seed, a folder. Out: a line of JSON on a file for each kill, with what the audit said of the live
run once the victim was back, and one for the run when it has ended. Real learner on the demo's tiny model, the fake
engine with one right and one wrong answer, the real pool with a scorer that takes its time, private Redis. A process of
its own for each run, since the supervisor listens to signals. Exit code 0 if the run ended well, drained, and every
audit was clean.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.rigs.groups import demo_run
from config.loading import to_yaml
from config.run import Run
from tools.audit.sums import Audit
from tools.chaos.command import ENOUGH_STEPS, Chaos
from tools.chaos.monkey import Orders
from tools.chaos.targets import ROLES
from tools.runs.folder import held, read_run
from tools.up.console import PlainConsole
from tools.up.local_run import perform
from tools.up.role_commands import commands

EVERY_S = 3.0  # the longest pause between a return and the next kill
OWN_EVERY_S = 12.0  # the same for agents that own their loop: each of their processes imports its client anew
SLOW_S = 0.2  # for a completion's score, so that a scorer that is killed was at work
OUTAGE_S = 900.0  # that the roles wait for Redis: longer than it is ever away here
OWN_AGENT = "benchmarks.rigs.clients.own_agents"
OWN_COMMAND = (sys.executable, str(results.ROOT / f"{OWN_AGENT.replace('.', '/')}.py"))
BY_COMMAND = "by_command"  # the task whose agent is a command
EVERY_COMMAND = 4  # rows, of which one is a command's: each starts an interpreter


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedBy:
    """By whom groups are played that are episodes.

    Attributes:
        word: of the command line.
        said: of it, for people.
        environments: by the name of their task.
    """

    word: str
    said: str
    environments: Mapping[str, Mapping[str, Any]]


GAME, OWN_AGENTS = "game", "own agents"
PLAYED_BY = {
    GAME: PlayedBy(
        word="--agents",
        said="groups are episodes, which agents play",
        environments={
            "math": {
                "type": "custom",
                "import_path": "benchmarks.rigs.episodes.games:AskingAgain",
                "options": {"seconds": SLOW_S},
                "turn_tokens": 16,
            }
        },
    ),
    OWN_AGENTS: PlayedBy(
        word="--own-agents",
        said="groups are episodes of agents that own their loop",
        environments={
            "math": {"type": "agent", "import_path": f"{OWN_AGENT}:ask_again", "turn_tokens": 16},
            BY_COMMAND: {"type": "command", "command": OWN_COMMAND, "sandbox": False, "turn_tokens": 16},
        },
    ),
}
HARD_END_S = 3600.0  # then it is drained, whatever is missing


def main(argv: Sequence[str] | None = None) -> int:
    """Play one run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.chaos_batch", description="One run under chaos."
    )
    parser.add_argument(
        "--kills", type=parse_kills, required=True, metavar="ROLE=N,...", help=f"of {', '.join(ROLES)}"
    )
    parser.add_argument("--name", required=True, help="of the run")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the run")
    parser.add_argument("--table", type=Path, required=True, metavar="FILE", help="JSON lines are appended")
    parser.add_argument("--seed", type=int, default=0, help="of the dice (0)")
    parser.add_argument("--away-s", type=float, default=0.0, help="that a killed Redis stays away")
    parser.add_argument(
        "--every-s",
        type=float,
        help=f"longest pause before a kill ({EVERY_S:g}; with agents that own their loop {OWN_EVERY_S:g})",
    )
    add_played_by(parser)
    parser.add_argument(
        "--commit", default=results.commit(), help="that the table's lines name (the checkout's)"
    )
    args = parser.parse_args(argv)
    table = JsonTable(
        args.table, {"run": args.name, "seed": args.seed, "commit": args.commit, "machine": results.machine()}
    )
    every_s = args.every_s
    if every_s is None:
        every_s = OWN_EVERY_S if args.played_by == OWN_AGENTS else EVERY_S
    orders = Orders(
        seconds=HARD_END_S, every_s=every_s, seed=args.seed, quota=args.kills, redis_away_s=args.away_s
    )
    return play(args.name, args.out, orders, table, played_by=args.played_by)


def add_played_by(parser: argparse.ArgumentParser) -> None:
    """Add the words that make groups episodes, and say who plays them."""
    kinds = parser.add_mutually_exclusive_group()
    for name, one in PLAYED_BY.items():
        kinds.add_argument(
            one.word, dest="played_by", action="store_const", const=name, default="", help=one.said
        )


def parse_kills(text: str) -> dict[str, int]:
    """Read `learner=2,redis=1`. Raises ArgumentTypeError for anything else."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(role in ROLES and number.isdecimal() and int(number) for role, _, number in pairs):
        raise argparse.ArgumentTypeError(f"{text!r}: write ROLE=N,... with {', '.join(ROLES)}")
    return {role: int(number) for role, _, number in pairs}


class JsonTable:
    """A file of JSON lines that gets objects, each with `facts`."""

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self._path = path
        self._facts = facts

    def add(self, **fields: Any) -> None:
        """Write one line at once: an interrupted proof goes on from the lines that are there."""
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({**self._facts, **fields, "at": round(time.time())}) + "\n")


def play(name: str, folder: Path, orders: Orders, table: JsonTable, *, played_by: str = "") -> int:
    """Run until the quota is fulfilled and the run is drained. Returns the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    run, config = prepare(name, folder, played_by=played_by)
    is_clean = True

    def note(role: str, seconds: float) -> None:
        nonlocal is_clean
        found = storm.audit_now()
        is_clean &= found.is_clean
        table.add(role=role, back_s=round(seconds, 2), away_s=orders.redis_away_s, **_sums(found))

    storm = Chaos(run, orders, on_back=note)
    plan = commands(run, ["--config", str(config)])
    with held(run.folder):
        outcome = perform(run, plan, PlainConsole(sys.stderr), company=storm.company)
    is_complete = storm.monkey.record.kills == orders.quota and not storm.monkey.returns.any_missing
    if storm.audit is not None:
        table.add(
            role="",
            exit_code=outcome.code,
            steps=max(read_run(run.folder).version, 0),
            is_complete=is_complete,
            kills=dict(storm.monkey.record.kills),
            redelivered=redelivered(run.folder / "logs"),
            turns=turns(run.folder / "logs"),
            seconds=round(storm.seconds, 1),
            **_sums(storm.audit),
        )
    return 0 if outcome.code == 0 and is_clean and is_complete and storm.audit and storm.audit.is_clean else 1


def prepare(name: str, folder: Path, *, played_by: str = "") -> tuple[Run, Path]:
    """Make the run, and its YAML file, which the learner reads.

    Args:
        played_by: a name of `PLAYED_BY`; "": its groups are answers of one turn, else episodes of three.
    """
    rows = folder / "rows.jsonl"
    sometimes = BY_COMMAND if BY_COMMAND in _environments(played_by) else "math"
    lines = (
        {
            "question": f"What is {n} - {n - 1}?",
            "verification_info": {"type": "math", "answer": {"value": "1"}},
            "task": "math" if n % EVERY_COMMAND else sometimes,
        }
        for n in range(1, 500)
    )
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    run = demo_run(folder, **sections(name, rows, played_by=played_by))
    path = folder / f"{name}.yaml"
    path.write_text(to_yaml(run), encoding="utf-8")
    return run, path


def _environments(played_by: str) -> Mapping[str, Mapping[str, Any]]:
    return PLAYED_BY[played_by].environments if played_by else {}


def sections(name: str, rows: Path, *, played_by: str = "") -> dict[str, Any]:
    """Return what differs from the demo's recipe: small steps, quick leases, checkpoints all the time."""
    has_agents = bool(played_by)
    scorer = {
        "type": "custom",
        "import_path": "benchmarks.rigs.sleeper:SlowBox",
        "options": {"seconds": SLOW_S},
    }
    return {
        "name": name,
        "data": {
            "train": {"type": "dataset", "path": str(rows), "prompt_template": "{question}"},
            **({"max_prompt_tokens": 128} if has_agents else {}),  # a token is a byte there
        },
        # An episode has room for its turns, and for what it is asked between them.
        "sampling": {"group_size": 2, "max_tokens": 96 if has_agents else 16},
        "evaluation": {"every": 20, "prompts": 4, "samples": 1},
        "generators": {
            "engine": {
                "type": "fake",
                "answers": ["\\boxed{1}", "\\boxed{2}"],
                "by": "seed" if has_agents else "place",
                "seconds_per_group": 0.2 if has_agents else 0.5,
            },
            "groups_in_flight": 8,
        },
        "scorers": {
            "tasks": {
                task: {"scorer": scorer, "environment": environment}
                for task, environment in _environments(played_by).items()
            }
            or {"math": {"scorer": scorer}}
        },
        "learner": {
            "steps": ENOUGH_STEPS,
            "groups_per_step": 8,
            "max_lag": 2,
            "samples_every": 0,
            "checkpoint": {"every": 5},
            "journal": {"keep": "since_checkpoint", "segment_mb": 1},
        },
        "broker": {"lease_s": 2.0, "outage_s": OUTAGE_S},
    }


def redelivered(logs: Path) -> int:
    """Count the groups that a dispatcher delivered again because no worker seemed to have them."""
    return sum(
        log.read_text(encoding="utf-8", errors="replace").count(" delivering_again ")
        for log in logs.glob("scorers-*.log")
    )


def turns(logs: Path) -> dict[str, int]:
    """Sum what agents say of groups that they played again: turns used, recorded, and before the last attempt."""
    found = {"groups": 0, "turns": 0, "recorded": 0, "before": 0}
    for log in logs.glob("agent*.log"):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if " group_replayed " in line:
                said = dict(word.split("=", 1) for word in line.split() if "=" in word)
                found["groups"] += 1
                for name in ("turns", "recorded", "before"):
                    found[name] += int(said[name])
    return found


def _sums(found: Audit) -> dict[str, Any]:
    return {
        "issued": found.issued,
        "trained": found.trained,
        "dropped": found.dropped,
        "dead": found.dead,
        "in_flight": found.in_flight,
        "lost": found.lost,
        "twice": found.twice,
        "lost_ids": found.lost_ids[:10],
        "twice_ids": found.twice_ids[:10],
        "is_clean": found.is_clean,
    }


if __name__ == "__main__":
    sys.exit(main())
