"""What environments that fail cost the groups beside them: one that hangs, leaks, raises, is late, or exits.

Ours is a load in which one group for each way of failing is played first, half of whose episodes fail in every attempt.
Beside it is the same load without failures. The rate is that of the other groups, which fail in neither. Each failure
has to cost its own episodes and no others, and to be named; what is not so is an error. A scripted engine that takes
its time, one worker, a child for each episode.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path

from benchmarks.comparison import Comparison, TimedWork, take_turns
from benchmarks.rigs.episodes.failing_environment import WAYS
from benchmarks.rigs.episodes.process_rig import ProcessRig, process_rig
from benchmarks.rigs.groups import demo_run, new_group, prompt
from broker.messages import End, SampledGroup
from broker.protocol.run_owner import NewGroup
from config.run import Run

STEP_DEADLINE_S = 1.0
EPISODES_OF_A_GROUP = 4
MOST_TOKENS = 4096  # of an episode


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured.

    Attributes:
        groups: that do not fail.
        turn_s: of the engine, for each turn.
        rounds: of each side.
    """

    groups: int = 60
    turn_s: float = 0.4
    rounds: int = 5


FULL = Size()
SMOKE = Size(groups=2, turn_s=0.05, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make the comparison."""
    named: set[str] = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weights = folder / "v0" / "model.safetensors"
        weights.parent.mkdir()
        weights.write_bytes(b"of a script")
        with process_rig(_run(folder, size), generators=1, agents=1, weights=weights) as rig:
            ours, other = take_turns(
                lambda _: _played(rig, size, [*WAYS], named),
                lambda _: _played(rig, size, [""] * len(WAYS), named),
                rounds=size.rounds,
            )
    if missing := {*WAYS} - named:
        raise RuntimeError(f"no episode has failed of an environment that {', '.join(missing)}")
    return [
        Comparison(
            what=f"{size.groups} groups of {EPISODES_OF_A_GROUP} episodes beside {len(WAYS)} whose environment fails",
            unit="groups/s",
            ours=[turn.rate for turn in ours],
            beside="none fails",
            other=[turn.rate for turn in other],
        )
    ]


def _run(folder: Path, size: Size) -> Run:
    environment = {
        "type": "custom",
        "import_path": "benchmarks.rigs.episodes.failing_environment:Failing",
        "options": {"step_deadline_s": STEP_DEADLINE_S},
        "step_deadline_s": STEP_DEADLINE_S,
        "memory_mb": 256,
    }
    return demo_run(
        folder,
        name="failing",
        data={"train": {"type": "procedural"}, "held_out": None},
        evaluation={"every": 0},
        sampling={"group_size": EPISODES_OF_A_GROUP, "max_tokens": MOST_TOKENS},
        generators={
            "engine": {"type": "fake", "seconds_per_group": size.turn_s, "answers": ["on"]},
            "groups_in_flight": 4,
        },
        agents={"episodes": EPISODES_OF_A_GROUP * (size.groups + len(WAYS))},
        scorers={"tasks": {"math": {"environment": environment}}},
    )


def _played(rig: ProcessRig, size: Size, ways: list[str], named: set[str]) -> TimedWork:
    """Play a round, and return the rate of the groups that do not fail; `named` gets the ways that were seen."""
    started, fails = time.time(), {}
    left = chain(ways, repeat(""))

    def group_of(group_id: str) -> NewGroup:
        fails[group_id] = next(left)
        asked = prompt(
            group_id, n=EPISODES_OF_A_GROUP, max_tokens=MOST_TOKENS, info={"fails": fails[group_id]}
        )
        return new_group(asked)

    done = rig.play(size.groups + len(ways), group_of)
    for group in done.rollouts:
        named.update(_named(group, fails[group.prompt.group_id]))
    first = min(map(int, fails)) + len(ways)
    ended = max(group.sampled_at for group in done.rollouts if int(group.prompt.group_id) >= first)
    return TimedWork(size.groups, ended - started)


def _named(group: SampledGroup, fails: str) -> Iterator[str]:
    """Yield how each episode has failed. Raises RuntimeError where the failure is not named, or should not be."""
    for one in group.completions:
        if one.ended_by in (End.CRASH, End.FAILED):
            if not fails or WAYS[fails] not in one.remark:
                raise RuntimeError(f"an environment that {fails or 'fails nowhere'}: {one.remark}")
            yield fails
