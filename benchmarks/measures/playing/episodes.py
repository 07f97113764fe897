"""Tokens a processor second of episodes whose environment answers at once, beside single turns on the same engine.

Ours is the whole way of a group of episodes: a generator on vLLM, an agents' worker with its children, and Redis, each
in a process of its own. Beside it are groups of one turn with as many completions as the episodes have turns, from the
same generator: the same number of sampled tokens, without the agents. Processor seconds are those of all processes
that take part. A random model of 50 million parameters; on a CPU, vLLM's CPU build with one thread.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison import Comparison, TimedWork, median_interval, take_turns
from benchmarks.rigs.episodes.process_rig import ProcessRig, process_rig
from benchmarks.rigs.episodes.vllm_episodes import Talk, group_of, vllm_run

BAR = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured.

    Attributes:
        groups: of a round.
    """

    talk: Talk
    groups: int = 4
    rounds: int = 15


FULL = Size(talk=Talk(episodes=4, turns=2, turn_tokens=128))
SMOKE = Size(talk=Talk(episodes=2, turns=2, turn_tokens=16), groups=2, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make the comparison."""
    with tempfile.TemporaryDirectory() as folder:
        run, weights = vllm_run(Path(folder), size.talk)
        with process_rig(run, generators=1, agents=1, weights=weights) as rig:
            ours, other = take_turns(
                lambda _: _episodes(rig, size), lambda _: _single_turns(rig, size), rounds=size.rounds
            )
    talk = size.talk
    compared = Comparison(
        what=f"{size.groups} groups of {talk.episodes} episodes of {talk.turns} turns of {talk.turn_tokens} tokens",
        unit="tokens a processor second",
        ours=[turn.rate for turn in ours],
        beside="single turns from the same generator",
        other=[turn.rate for turn in other],
    )
    return [compared, _beside_bar(compared)]


def _episodes(rig: ProcessRig, size: Size) -> TimedWork:
    done = rig.play(
        size.groups, lambda group_id: group_of(group_id, rig.run, size.talk, turns=size.talk.turns)
    )
    if any(len(one.segments) != 1 for group in done.rollouts for one in group.completions):
        raise RuntimeError("a prompt was rendered anew")
    return TimedWork(done.tokens, done.spent.total)


def _single_turns(rig: ProcessRig, size: Size) -> TimedWork:
    done = rig.play(size.groups, lambda group_id: group_of(group_id, rig.run, size.talk, turns=1))
    return TimedWork(done.tokens, done.spent.generators + done.spent.redis)


def _beside_bar(compared: Comparison) -> Comparison:
    return Comparison(
        what="the same: upper end of the 90% interval of the ratio's median",
        unit="ratio",
        ours=[median_interval(compared.ratios)[1]],
        beside="bar",
        other=[BAR],
    )
