"""The journal: bytes a token, what writing a step costs beside the bare disk, and a long one from end to end.

A step is written through `Journal.append` (encode, checksum, payload, fsync, record, fsync) of groups that have arrived
before, as they do while a learner waits; what it costs to make one ready then stands beside decoding it. The same bytes
are written by one write and one fsync to a file beside the journal. A journal of many groups is written, read and
audited in a process of its own, whose peak memory is measured; its Redis is a run's private one. The demo is run, and
says itself what part of its steps the journal is. Each number is beside its bar or its limit. In temporary folders,
which are removed.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from benchmarks.comparison import Comparison, TimedWork, take_turns, timed
from benchmarks.proofs.demo_seeds import run_seed
from benchmarks.results import ROOT
from benchmarks.rigs.groups import demo_run, made_up_rollout, scored
from broker import codec
from broker.connection import RedisLink
from broker.keys import Keys
from broker.messages import ScoredGroup
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from learner.journal.ledger import read_ledger, read_step
from learner.journal.payloads import StepEncoder
from learner.journal.records import framed
from learner.journal.writer import Journal
from learner.reporting.metrics_file import read_metrics
from tools.audit.command import audit

ARRAYS_ALONE = "limit: ids and log-probabilities alone"
BARE = "limit: one write and fsync of the same bytes"
BAR_S, BAR_MB, BAR_PERCENT = 60.0, 500.0, 2.0
WAITING = ("seconds_wait", "seconds_evaluate")  # for others: no part of a step's own time
CHECKSUM = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    completions: int = 8
    tokens: int = 512  # of each completion
    groups: int = 64  # of the step whose writing is measured
    rounds: int = 200
    long_steps: int = 200  # of the long journal
    long_groups: int = 50  # of each of them
    with_demo: bool = True  # a minute


FULL, SMOKE = (
    Size(),
    Size(completions=2, tokens=16, groups=2, rounds=2, long_steps=2, long_groups=2, with_demo=False),
)


def measure(size: Size) -> list[Comparison]:
    """Measure bytes a token, milliseconds a step, the long journal, and its share of the demo's steps."""
    step = _made_up(size, size.groups)
    what = f"{size.groups} groups of {size.completions} x {size.tokens:,} tokens"
    with tempfile.TemporaryDirectory() as folder:
        written, bare, payload_bytes = _write_steps(Path(folder), step, size.rounds)
    prepared, decoded = _arrivals(step, size.rounds)
    tokens = sum(group.rollout.num_tokens for group in step)
    seconds, peak_mb = _long_journal(size)
    long = f"{size.long_steps * size.long_groups:,} groups written, read and audited"
    rows = [
        Comparison(
            what=f"payload of {what}",
            unit="bytes/token",
            ours=[payload_bytes / tokens],
            beside=ARRAYS_ALONE,
            other=[8.0],
            less_is_better=True,
        ),
        Comparison(
            what=f"write a step of {what}",
            unit="ms",
            less_is_better=True,
            beside=BARE,
            ours=[turn.seconds * 1000 for turn in written],
            other=[turn.seconds * 1000 for turn in bare],
        ),
        Comparison(
            what="make these groups ready, as each arrives",
            unit="ms",
            less_is_better=True,
            ours=[turn.seconds * 1000 for turn in prepared],
            beside="to decode them from their entries",
            other=[turn.seconds * 1000 for turn in decoded],
        ),
        Comparison(what=long, unit="s", ours=[seconds], beside="bar", other=[BAR_S], less_is_better=True),
        Comparison(
            what=f"{long}: peak memory",
            unit="MB",
            ours=[peak_mb],
            beside="bar",
            other=[BAR_MB],
            less_is_better=True,
        ),
    ]
    if size.with_demo:
        shares = shares_of(_demo_metrics())
        rows.append(
            Comparison(
                what="write a step of the demo, of that step without its waiting",
                unit="%",
                ours=shares,
                beside="bar",
                other=[BAR_PERCENT] * len(shares),
                less_is_better=True,
            )
        )
    return rows


def _made_up(size: Size, groups: int) -> list[ScoredGroup]:
    return [
        scored(made_up_rollout(str(ordinal), completions=size.completions, tokens=size.tokens))
        for ordinal in range(groups)
    ]


def _advantages(groups: Sequence[ScoredGroup]) -> list[list[float | None]]:
    return [[0.5 if reward else -0.5 for reward in group.rewards] for group in groups]


def _write_steps(
    folder: Path, groups: Sequence[ScoredGroup], rounds: int
) -> tuple[list[TimedWork], list[TimedWork], int]:
    """Time the turns of the journal and of the bare file, and count the bytes of a payload."""
    advantages = _advantages(groups)
    numbers = itertools.count()
    journal = Journal(folder / "journal", 1, run="benchmark")
    journal.append(next(numbers), groups, advantages, published={0: CHECKSUM})
    record = read_ledger(journal.folder).steps[0]
    payload = (journal.folder / record["file"]).read_bytes()
    same_bytes = payload + framed(record)

    def append() -> int:
        journal.append(next(numbers), groups, advantages, published={0: CHECKSUM})
        return len(payload)

    def write() -> int:
        count = bare.write(same_bytes)
        os.fsync(bare.fileno())
        return count

    def turn() -> TimedWork:
        for group in groups:
            journal.prepare(group)
        return timed(append)

    with (folder / "bare").open("xb", buffering=0) as bare:
        turns = take_turns(lambda _: turn(), lambda _: timed(write), rounds=rounds)
    journal.close()
    return *turns, len(payload)


def _arrivals(groups: Sequence[ScoredGroup], rounds: int) -> tuple[list[TimedWork], list[TimedWork]]:
    """Time the turns of making groups ready for their step, and of decoding them before."""
    encoder = StepEncoder()
    payloads = [codec.pack(group) for group in groups]

    def prepare() -> int:
        for group in groups:
            encoder.prepare(group)
        return len(groups)

    def decode() -> int:
        return len([codec.unpack(payload, ScoredGroup) for payload in payloads])

    return take_turns(lambda _: timed(prepare), lambda _: timed(decode), rounds=rounds)


def _long_journal(size: Size) -> tuple[float, float]:
    """Return seconds and peak memory in MB of a process that writes, reads and audits a long journal."""
    words = [
        sys.executable,
        "-m",
        "benchmarks.measures.journal",
        str(size.completions),
        str(size.tokens),
        str(size.long_steps),
        str(size.long_groups),
    ]
    child = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if child.returncode:
        raise RuntimeError(f"the long journal failed: {child.stderr[-2000:]}")
    found = json.loads(child.stdout)
    return found["seconds"], found["peak_mb"]


def _demo_metrics() -> list[dict[str, Any]]:
    """Run the demo on the disk where runs are, and return its metrics."""
    runs = ROOT / "runs"
    runs.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs) as folder:
        demo = run_seed(0, "hf", Path(folder))
        addresses.discard(Path(folder) / "seed-0")
        if demo.exit_code or not demo.is_audit_clean:
            raise RuntimeError(
                f"the demo failed: {(Path(folder) / 'seed-0.log').read_text(errors='replace')[-2000:]}"
            )
        return read_metrics(Path(folder) / "seed-0")


def shares_of(steps: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return how many percent of each step's own seconds the journal took.

    Args:
        steps: objects of metrics.jsonl.
    """
    return [
        100 * step["seconds_journal"] / (step["seconds"] - sum(step.get(part, 0.0) for part in WAITING))
        for step in steps
    ]


def main(words: Sequence[str]) -> int:
    """Write, read and audit a journal; print the seconds, without those of making the groups up, and peak memory."""
    completions, tokens, steps, groups = map(int, words)
    size = Size(completions=completions, tokens=tokens, long_steps=steps, long_groups=groups)
    step_groups = _made_up(size, groups)
    with _redis() as (link, keys, folder):
        turns = [
            timed(lambda: _write_long(folder, step_groups, steps)),
            timed(lambda: _read_long(folder)),
            timed(lambda: _audit_long(link, keys, folder, steps * groups)),
        ]
    if any(turn.amount != steps * groups for turn in turns):
        raise RuntimeError(
            f"groups written, read, audited: {[turn.amount for turn in turns]} of {steps * groups}"
        )
    peak_mb = _peak_mb()
    sys.stdout.write(json.dumps({"seconds": sum(turn.seconds for turn in turns), "peak_mb": peak_mb}) + "\n")
    return 0


def _peak_mb() -> float:
    """Return this program's peak memory in MB.

    `getrusage` would begin with the peak of the process that started this one: the kernel carries it over.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1000


@contextmanager
def _redis() -> Iterator[tuple[RedisLink, Keys, Path]]:
    """Start a private Redis, and name the folder of its run's journal."""
    with tempfile.TemporaryDirectory() as folder:
        run = demo_run(Path(folder))
        server = embedded.start(run)
        link = RedisLink(server.url, outage_s=run.broker.outage_s)
        try:
            yield link, Keys(run.name), run.folder / "journal"
        finally:
            link.close()
            server.stop()
            addresses.discard(run.folder)


def _write_long(folder: Path, groups: Sequence[ScoredGroup], steps: int) -> int:
    advantages = _advantages(groups)
    journal = Journal(folder, 1, run="benchmark")
    for step in range(steps):
        journal.append(
            step,
            [_renamed(group, step * len(groups) + place) for place, group in enumerate(groups)],
            advantages,
            published={step: CHECKSUM},
        )
    journal.close()
    return steps * len(groups)


def _renamed(group: ScoredGroup, ordinal: int) -> ScoredGroup:
    prompt = replace(group.rollout.prompt, group_id=str(ordinal))
    return replace(group, rollout=replace(group.rollout, prompt=prompt))


def _read_long(folder: Path) -> int:
    return sum(len(read_step(folder, record)[0]) for record in read_ledger(folder).steps)


def _audit_long(link: RedisLink, keys: Keys, folder: Path, groups: int) -> int:
    link(lambda client: client.hset(keys.cursor, mapping={"position": groups, "issued": groups}))
    result = audit(link, keys, folder)
    return result.trained if result.is_clean else -1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
