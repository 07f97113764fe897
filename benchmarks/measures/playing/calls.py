"""What a call of the policy costs where a worker plays a thousand episodes at once: the worker, and Redis.

Episodes of two turns, whose environment answers at once, with prompts of two thousand tokens and answers of 256. A turn
is answered once every episode has asked it, so all of them are in progress until the last turn. The worker is the real
one, in a process of its own, with eight child processes; a script answers through the generators' own side of the
protocol. What Redis spends on that side is counted, the script is not. Leases, resets, ends and hand-overs are part of
the calls' cost.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison import Comparison
from benchmarks.rigs.episodes.episode_rig import Load, answering, group_of, random_turns, run_of
from benchmarks.rigs.episodes.process_rig import ProcessRig, Round, process_rig

WORKER_BAR_MS = 3.0
REDIS_BAR_MS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured.

    Attributes:
        rounds: that are measured, behind one that is not.
    """

    load: Load
    rounds: int = 3


FULL = Size(load=Load(episodes=1000))
SMOKE = Size(load=Load(episodes=16, prompt_tokens=200, turn_tokens=16), rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make the comparisons."""
    load = size.load
    with (
        tempfile.TemporaryDirectory() as name,
        process_rig(run_of(Path(name), load), agents=1) as rig,
        answering(rig.link, rig.keys, random_turns(load.turn_tokens), together=load.episodes) as answered,
    ):
        _, *rounds = [_round(rig, load, answered) for _ in range(size.rounds + 1)]
    calls = load.episodes * load.turns
    given = len(rounds[0].rollouts[0].prompt.token_ids)
    what = (
        f"a call of {load.episodes:,} episodes in progress over {load.children} children, "
        f"{given:,} tokens in the first prompt and {load.turn_tokens} in an answer"
    )
    return [
        _beside_bar(
            f"{what}: the worker", [1000 * one.spent.agents / calls for one in rounds], WORKER_BAR_MS
        ),
        _beside_bar("the same: Redis", [1000 * one.spent.redis / calls for one in rounds], REDIS_BAR_MS),
    ]


def _round(rig: ProcessRig, load: Load, answered: list[int]) -> Round:
    """Play a round. Raises RuntimeError where it was not the load that is measured."""
    before = answered[0]
    done = rig.play(load.episodes // load.group_size, lambda group_id: group_of(group_id, load))
    if (calls := answered[0] - before) != load.episodes * load.turns:
        raise RuntimeError(f"{calls} calls were answered, of {load.episodes * load.turns}")
    if any(len(one.segments) != 1 for group in done.rollouts for one in group.completions):
        raise RuntimeError("a prompt was rendered anew")
    return done


def _beside_bar(what: str, ours: Sequence[float], bar: float) -> Comparison:
    return Comparison(
        what=what,
        unit="ms of a processor",
        ours=ours,
        beside="bar",
        other=[bar] * len(ours),
        less_is_better=True,
    )
