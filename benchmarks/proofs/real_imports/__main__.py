"""`make prove-imports`: do real launch scripts import, with bash's words and Hydra's values?

In: checkouts of verl and its family that you fetch, `ARGS="FOLDER ..."`; nothing of them is kept here. Out: for each a
line: files, how many import, are refused for a reason of `reasons.txt`, or for none; words that differ from bash's, and
files with differences in the 28 values of `judges.values_of` from Hydra's composition, with `--verl` and by the tables.
`--lines FILE` has one JSON object a file, `--write` puts the table at the end of benchmarks/RESULTS.md. Exit code 0 if
at least 98% of the files without a reason import, and there is no crash and no difference; else 1. Hydra needs its own
environment (`tools.imports.composer`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing import Pool
from pathlib import Path
from typing import Any, Final

from benchmarks import results
from benchmarks.proofs.real_imports.judges import BashCall, calls_of, values_of
from config.explanations import ConfigError
from config.layers import leaves_of
from tools.imports.command import with_variables
from tools.imports.composer.hydra import Verl, compose
from tools.imports.reading import OfVerl, read
from tools.imports.rows_at_hand import found_tasks
from tools.imports.run_file import checked
from tools.imports.script import TRAINERS, read_script
from tools.imports.shell.view import SCRIPTS
from tools.imports.theirs import UNKNOWN
from tools.imports.translation import translate

BAR: Final = 0.98  # of the files without a reason that import
EPOCH: Final = 1_790_000_000  # what `date` tells, to both
_LOOKS: Final = re.compile(r"-m\s+[\w.]*main|main_\w+\.py|train-ppo")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """What became of one script."""

    file: str
    verdict: str  # imported, reason, refused, crash, no call
    why: str = ""
    other_words: list[str] = field(default_factory=list)
    differences: dict[str, Any] = field(default_factory=dict)
    by_tables: dict[str, Any] = field(default_factory=dict)  # the same without `--verl`
    is_judged: bool = False  # by bash and Hydra, too


def main(argv: Sequence[str] | None = None) -> int:
    """Import every script of each checkout, show the table, and write it down if asked."""
    args = _arguments().parse_args(argv)
    commit = results.commit()
    lines = results.heading("Real launch scripts through millrace import", redis="not asked")
    columns = ("files", "import", "for a reason", "without one", "crashes", "other words", "other values")
    lines += [f"| checkout | {' | '.join(columns)} | by the tables |", f"|---|{'--:|' * (len(columns) + 1)}"]
    is_good = True
    everything: list[ScriptResult] = []
    for folder in args.checkouts:
        found = _checkout(folder.resolve(), args.jobs)
        everything += found
        counts = Counter(one.verdict for one in found)
        bad = counts["refused"]
        words, values, tables = (
            sum(bool(getattr(one, name)) for one in found)
            for name in ("other_words", "differences", "by_tables")
        )
        lines.append(
            f"| {folder.name} | {len(found)} | {counts['imported']} | {counts['reason']} | {bad} | {counts['crash']} | "
            f"{words} | {values} | {tables} |"
        )
        share = counts["imported"] / max(1, counts["imported"] + bad + counts["crash"])
        is_good &= share >= BAR and not (counts["crash"] or words or values)
    sys.stdout.write("\n".join(lines) + "\n")
    if args.lines:
        args.lines.write_text("".join(json.dumps(asdict(one), default=str) + "\n" for one in everything))
    if args.write:
        results.append([*lines, *results.remarks(commit)])
    return 0 if is_good else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make prove-imports", description=__doc__)
    parser.add_argument(
        "checkouts", nargs="+", type=Path, metavar="FOLDER", help="a checkout that you fetched"
    )
    parser.add_argument("--jobs", type=int, default=2, help="scripts at once")
    parser.add_argument("--lines", type=Path, metavar="FILE", help="one JSON object a script")
    results.add_write(parser)
    return parser


def _checkout(folder: Path, jobs: int) -> list[ScriptResult]:
    """Import and judge all scripts of a checkout, started in it."""
    scripts = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in SCRIPTS and path.is_file() and _LOOKS.search(path.read_text(errors="replace"))
    ]
    os.environ |= {"SOURCE_DATE_EPOCH": str(EPOCH), "DEVICE": "gpu"}
    base = next((one for one in (folder, folder / "verl") if (one / "verl" / "trainer").is_dir()), folder)
    with Pool(jobs) as pool:
        return pool.starmap(_one, [(path, folder, base) for path in scripts], chunksize=2)


def _one(script: Path, checkout: Path, base: Path) -> ScriptResult:
    os.chdir(checkout)
    name = str(script.relative_to(checkout))
    try:
        run = _imported(name, OfVerl(folder=base))
        by_tables = _imported(name, None)
        ours = read_script(Path(name)).call.words
    except ConfigError as error:
        reason = _reason(str(error))
        return ScriptResult(file=name, verdict="reason" if reason else "refused", why=reason or str(error))
    except Exception:  # noqa: BLE001 - whatever it is, it is a crash of the import
        return ScriptResult(file=name, verdict="crash", why=traceback.format_exc(limit=-3))
    calls = _judged(script, checkout)
    if len(calls) != 1:
        return ScriptResult(file=name, verdict="imported", why=f"bash makes {len(calls)} calls")
    words = [f"{one!r} {other!r}" for one, other in _pairs(calls[0].words, ours)]
    try:
        expected = values_of(_composed(base, calls[0]), calls[0].folder)
    except ConfigError as error:
        return ScriptResult(file=name, verdict="imported", why=str(error), other_words=words)
    return ScriptResult(
        file=name,
        verdict="imported",
        other_words=words,
        differences=_differences(expected, run),
        by_tables=_differences(expected, by_tables),
        is_judged=True,
    )


def _imported(name: str, verl: OfVerl | None) -> dict[str, Any]:
    """Import a script, and return the run's values by their keys. Raises ConfigError."""
    theirs = read([name], verl=verl)
    run = checked(with_variables(translate(theirs, found_tasks(theirs)), theirs))
    return {".".join(leaf.path): leaf.value for leaf in leaves_of("run", run.model_dump(mode="json"), ())}


def _judged(script: Path, checkout: Path) -> list[BashCall]:
    """Let bash run a script in a copy of its folder: what it writes is not the checkout's."""
    with tempfile.TemporaryDirectory() as name:
        return calls_of(script, checkout, frozenset(TRAINERS), Path(name), EPOCH)


def _composed(base: Path, call: BashCall) -> dict[str, Any]:
    return compose(
        Verl.at(base),
        module=call.module,
        config_path=call.config_path,
        config_name=call.config_name,
        words=call.words,
        python=None,
    )


def _pairs(theirs: Sequence[str], ours: Sequence[str]) -> list[tuple[str, str]]:
    """Return words that differ; one that the machine decides is no difference, since it is asked for."""
    if len(theirs) != len(ours):
        return [(f"{len(theirs)} words", f"{len(ours)} words")]
    return [
        (one, other) for one, other in zip(theirs, ours, strict=True) if one != other and UNKNOWN not in other
    ]


def _differences(expected: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the values that are others here, each with Hydra's and ours."""
    have = {key: _ours(run, key, value) for key, value in expected.items()}
    return {key: [value, have[key]] for key, value in expected.items() if not _same(value, have[key])}


def _ours(run: Mapping[str, Any], key: str, expected: Any) -> Any:
    if key in ("data.train", "data.held_out"):
        found = run.get(key, run.get(f"{key}.path"))
        sources = found if isinstance(found, list) else [{"path": found}] if found else []
        return [os.path.normpath(one["path"]) for one in sources]
    if key.startswith("learner.objective.clip_") and key not in run:
        key = key.replace("clip_", "max_")  # of dppo
    if key == "learner.optimizer.warmup_steps" and not run.get(key):
        return None if expected is None else 0  # a share says it, or there is none
    if key.startswith("learner.objective.kl.") and not run.get("learner.objective.kl.coef"):
        return None
    is_over = key == "learner.steps" and run.get("learner.epochs") is not None  # the epochs make them
    if expected is None and (is_over or key == "learner.epochs"):
        return None
    return (run.get(key) or None) if key == "evaluation.every" else run.get(key)


def _same(expected: Any, value: Any) -> bool:
    if isinstance(expected, int | float) and isinstance(value, int | float):
        return abs(float(expected) - float(value)) <= 1e-12 + 1e-9 * abs(float(expected))
    return bool(value == expected)


def _reason(message: str) -> str:
    """Return the reason of the list that fits every line of a message; "" where there is none."""
    rows = [
        line.split("\t")
        for line in _REASONS.read_text(encoding="utf-8").splitlines()
        if line and line[0] != "#"
    ]
    for pattern, reason in rows:
        if re.search(pattern, message):
            return reason
    return ""


_REASONS: Final = Path(__file__).parent / "reasons.txt"

if __name__ == "__main__":
    sys.exit(main())
