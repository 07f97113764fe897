"""`make prove-pipeline`: does the way from data to a number hold on a laptop, stage after stage?

In: nothing. Out: examples/pipeline/pipeline.sh in a new folder, typed as its README says, and a table of its stages:
what each took, and what it left. Made rows of six domains are prepared, checked and measured; the demo's model trains
on them and on digits, is evaluated before and after, and exported. `--write` puts the table at the end of
benchmarks/RESULTS.md. Exit code 0 if every stage left what it promises, within the five minutes of two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import results

SCRIPT = results.ROOT / "examples" / "pipeline" / "pipeline.sh"
AT_MOST_S = 300
PATIENCE_S = 1200.0  # then it hangs, and is ended
DOMAINS = frozenset({"math", "codegen", "logic", "simulation", "stem", "table"})
STAGE = re.compile(r"^== (\w+).*\(after (\d+) s\)$", re.MULTILINE)


class Missing(Exception):
    """A stage did not leave what it promises; the message says what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptStage:
    """A stage of the script."""

    name: str
    seconds: int
    left: str  # what it left, or what is missing
    held: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.pipeline", description="From data to a number, stage after stage."
    )
    results.add_out(parser, "pipeline", of="the run")
    results.add_write(parser)
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    commit, lines = results.commit(), results.heading("From data to a number, in one script")
    code, said = run(out)
    stages = judged(said, out)
    seconds = sum(stage.seconds for stage in stages)
    problems = [stage.name for stage in stages if not stage.held]
    problems += [f"exit code {code}"] if code else []
    problems += [f"{seconds} s, at most {AT_MOST_S}"] if seconds > AT_MOST_S else []
    lines += [
        "| stage | s | what it left |",
        "|---|--:|---|",
        *(f"| {stage.name} | {stage.seconds} | {stage.left} |" for stage in stages),
        "",
        f"**Not held**: {', '.join(problems)}."
        if problems
        else f"**Held**, in {seconds} s of at most {AT_MOST_S}.",
        *results.remarks(commit),
    ]
    sys.stdout.write("\n" + "\n".join(lines) + f"\n\nlog and files: {out}\n")
    if args.write:
        results.append(lines)
    return 1 if problems else 0


def run(out: Path) -> tuple[int, str]:
    """Run the script with this Python's `millrace`. Returns its exit code and its log, which lies beside `out`."""
    out.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    log = out.with_suffix(".log")
    with log.open("wb") as stream:
        code = subprocess.run(
            [str(SCRIPT), str(out)],
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
            check=False,
        ).returncode
    return code, log.read_text(encoding="utf-8", errors="replace")


def judged(said: str, out: Path) -> list[ScriptStage]:
    """Judge each stage that the script came to by what it left in `out`."""
    begun = [(found[1], int(found[2])) for found in STAGE.finditer(said)]
    stages = []
    for (name, began), (_, ended) in pairwise(begun):
        try:
            left, held = LEFT[name](out), True
        except (OSError, KeyError, ValueError, Missing) as error:
            left, held = f"{type(error).__name__}: {error}", False
        stages.append(ScriptStage(name=name, seconds=ended - began, left=left, held=held))
    missing = [name for name in LEFT if name not in {stage.name for stage in stages}]
    return [*stages, *(ScriptStage(name=name, seconds=0, left="did not end", held=False) for name in missing)]


def _prepared(out: Path) -> str:
    rows = _rows(out / "train.parquet")
    domains = {re.split("_", row["data_source"])[0] for row in rows}
    if domains != DOMAINS:
        raise Missing(f"rows of {', '.join(sorted(domains))}")
    return f"{len(rows)} rows of {len(domains)} domains, {len(_rows(out / 'test.parquet'))} held out"


def _checked(out: Path) -> str:
    quarantined = list(out.glob("*quarantine*"))
    if quarantined:
        raise Missing(f"{quarantined[0].name}: rows that can't be used")
    return "every row's own reference scores 1"


def _measured(out: Path) -> str:
    rows, kept = _rows(out / "difficulty/rows.parquet"), _rows(out / "difficulty/kept.parquet")
    rates = [row["model_pass_rate"] for row in rows]
    if len(rows) != len(_rows(out / "train.parquet")) or None in rates:
        raise Missing(f"{len(rows)} rows, {rates.count(None)} without a rate")
    if len(kept) != sum(rate < 0.9 for rate in rates):
        raise Missing(f"{len(kept)} kept rows, and {sum(rate < 0.9 for rate in rates)} are within the bound")
    return f"a rate for each of {len(rows)} rows, {len(kept)} kept"


def _trained(out: Path) -> str:
    status = json.loads((out / "runs/pipeline/status.json").read_text(encoding="utf-8"))
    if status["status"] != "finished":
        raise Missing(f"{status['status']}: {status.get('reason')}")
    return f"{status['version']} steps"


def _evaluated(out: Path) -> str:
    shares = []
    for name in ("before", "after"):
        found: dict[str, Any] = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
        sets = {one["set"]: one for one in found["summary"] if one["source"] is None}
        unscored = sum(one["unscorable"] + one["unsampled"] for one in sets.values())
        if sets.keys() != {"domains", "digits"} or unscored:
            raise Missing(f"sets {', '.join(sets)}, {unscored} samples without a score")
        shares.append(100 * sets["digits"]["average"]["value"])
    if shares[1] <= shares[0]:
        raise Missing(f"avg@4 of digits went from {shares[0]:.1f} to {shares[1]:.1f}")
    return f"avg@4 of digits {shares[0]:.1f} to {shares[1]:.1f}; every sample scored"


def _exported(out: Path) -> str:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(out / "trained")
    model = AutoModelForCausalLM.from_pretrained(out / "trained")
    return f"{model.num_parameters():,} parameters, which transformers loads"


def _rows(file: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return found


LEFT: dict[str, Callable[[Path], str]] = {
    "prepare": _prepared,
    "check": _checked,
    "difficulty": _measured,
    "train": _trained,
    "evaluate": _evaluated,
    "export": _exported,
}


if __name__ == "__main__":
    sys.exit(main())
