"""What the watch on reward hacking saw of whole runs, kept small enough to be watched again by a test.

In: the objects of a run's steps (`metrics.jsonl`). Out: one line of JSON for a run, and the objects again, with what
the watch reads. `python -m benchmarks.rigs.watched_runs OUT FOLDER...` writes a line for each folder of a run; its
name says what it is: `honest-seed-3`, `honest-seed-3-loaded` for one beside other work, or `form-seed-0` for a hack.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from learner.reporting.metrics_file import read_metrics

_SIGNS: Final = (
    *("turn_tokens_mean", "length_correlation", "truncated_share", "repeated_share"),
    "shared_answer_share",
)
_OF_VERSION: Final = ("groups", "reward_mean", "reward_std")
_OF_ROUND: Final = ("version", "mean_score", "score_error", "samples", "min_version", "max_version")
_DIGITS: Final = 4


def kept(name: str, records: Sequence[Mapping[str, Any]]) -> str:
    """Return a run as one line."""
    return json.dumps({"run": name, "steps": [*map(_kept, records)]}, separators=(",", ":"))


def _kept(record: Mapping[str, Any]) -> list[Any]:
    """Return a step's number and rounds, and what came back before it, where anything did."""
    rounds = [[_round(result.get(key)) for key in _OF_ROUND] for result in record.get("evaluations", ())]
    if "arrived" not in record:
        return [record["step"], rounds]
    arrived = record["arrived"]
    return [
        record["step"],
        rounds,
        _round(record["reward_mean"]),
        [_round(arrived.get(key)) for key in _SIGNS],
        {key: _round(value) for key, value in arrived["components"].items()},
        [
            [int(version), *(_round(facts[key]) for key in _OF_VERSION)]
            for version, facts in arrived["by_version"].items()
        ],
    ]


def watched(file: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each run's name and the objects of its steps."""
    for line in file.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        yield run["run"], [_record(step) for step in run["steps"]]


def _record(step: Sequence[Any]) -> dict[str, Any]:
    number, rounds, *found = step
    record = {"step": number, "evaluations": [dict(zip(_OF_ROUND, one, strict=True)) for one in rounds]}
    if not found:
        return record
    reward, signs, components, versions = found
    arrived = {
        **{key: value for key, value in zip(_SIGNS, signs, strict=True) if value is not None},
        "components": components,
        "by_version": {
            str(version): dict(zip(_OF_VERSION, facts, strict=True)) for version, *facts in versions
        },
    }
    return {**record, "reward_mean": reward, "arrived": arrived}


def _round(value: float | None) -> float | None:
    return round(value, _DIGITS) if isinstance(value, float) else value


def main(argv: Sequence[str]) -> int:
    """Write the runs of some folders to a file."""
    out, *folders = map(Path, argv)
    out.write_text(
        "".join(f"{kept(folder.name, read_metrics(folder))}\n" for folder in folders), encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
