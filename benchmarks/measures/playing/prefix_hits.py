"""How much of the prompts of ten-turn episodes vLLM finds in its cache: two generators beside one, and with updates.

A turn's prompt is all that was said before, so a generator that sampled the turn before has nearly all of it in its
cache, and another one nothing. Two generators share one Redis, and a conversation is asked of the one that has it. Hits
are vLLM's own number of each request. Weights are frozen, and in the last line they are replaced after every step of
`groups_per_step` groups, which empties the cache. A random model of 50 million parameters.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison import Comparison
from benchmarks.rigs.episodes.process_rig import ProcessRig, process_rig
from benchmarks.rigs.episodes.vllm_episodes import Talk, group_of, vllm_run

BAR = 0.9
HEARD_S = 3.0  # for what was counted last to be in the heartbeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured.

    Attributes:
        groups: of a round.
        groups_per_step: between two updates.
    """

    talk: Talk
    groups: int = 16
    groups_per_step: int = 4
    rounds: int = 1


FULL = Size(talk=Talk(episodes=4, turns=10, turn_tokens=32))
SMOKE = Size(talk=Talk(episodes=2, turns=3, turn_tokens=16), groups=2, groups_per_step=1, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make the comparisons."""
    one, _ = _shares(size, generators=1)
    two, updated = _shares(size, generators=2)
    talk = size.talk
    said = f"{size.groups} groups of {talk.episodes} episodes of {talk.turns} turns"
    return [
        Comparison(
            what=f"{said}: tokens of prompts found in the cache, two generators",
            unit="share",
            ours=two,
            beside="one generator",
            other=one,
        ),
        Comparison(
            what=f"the same, with an update after every {size.groups_per_step} groups",
            unit="share",
            ours=updated,
            beside="frozen weights",
            other=two,
        ),
    ]


def _shares(size: Size, *, generators: int) -> tuple[list[float], list[float]]:
    """Return the share of hits of each round, with frozen weights and with updates."""
    with tempfile.TemporaryDirectory() as folder:
        run, weights = vllm_run(Path(folder), size.talk, generators=generators)
        with process_rig(run, generators=generators, agents=1, weights=weights) as rig:
            frozen = [_share(rig, size, None) for _ in range(size.rounds)]
            updated = [_share(rig, size, weights) for _ in range(size.rounds if generators > 1 else 0)]
            return frozen, updated


def _share(rig: ProcessRig, size: Size, weights: Path | None) -> float:
    """Play a round, and return the share of its prompts' tokens that were hits.

    Args:
        weights: announced again as a new version after every step; None: they are frozen.
    """
    next_step = size.groups_per_step

    def look(there: int) -> None:
        nonlocal next_step
        if weights is not None and there >= next_step:
            next_step += size.groups_per_step
            folder = weights.parents[1] / f"v{rig.version + 1}"
            folder.mkdir()
            shutil.copy(weights, folder)
            rig.announce(folder / weights.name, rig.version + 1)

    before = _counted(rig)
    rig.play(
        size.groups, lambda group_id: group_of(group_id, rig.run, size.talk, turns=size.talk.turns), look=look
    )
    prompts, hits = (after - earlier for after, earlier in zip(_counted(rig), before, strict=True))
    return hits / prompts


def _counted(rig: ProcessRig) -> tuple[float, float]:
    """Return the tokens of all prompts so far, and those of them that were hits."""
    time.sleep(HEARD_S)
    sums = [process.sums for process in rig.heartbeats if process.role == "generator"]
    prompts, hits = (sum(each.get(name, 0.0) for each in sums) for name in ("prompt_tokens", "prefix_hits"))
    return prompts, hits
