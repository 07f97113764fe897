"""The step `updates` of `make prove-gpu`: tokens a second of vLLM while new weights come in, beside none coming in.

In: the session's engine, two versions of random weights. Out: the medians of rounds that sample the same requests in
turn without and with updates, and how long an update takes. A round is as long as a few updates need.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.comparison import TimedWork
from benchmarks.proofs.gpu.engine import IN_FLIGHT, RunningEngine, hold, prompts, run_of, together
from benchmarks.proofs.gpu.made_up import write_weights
from benchmarks.proofs.gpu.outcomes import Device, Missed, StepFigures, StepPlace
from benchmarks.rigs.new_weights import updating
from broker.messages import Prompt
from generators.chat import Chat, open_chat

ROUNDS = 2  # of each kind
TOKENS = 256  # of a completion at most, which random models seldom end before


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long rounds are, and how often weights come.

    Args:
        round_s: seconds of a round without updates, about.
        every_s: between two updates; the first comes after half of it.
    """

    round_s: float
    every_s: float


PACE: dict[Device, Pace] = {"cuda": Pace(round_s=6, every_s=2), "cpu": Pace(round_s=3, every_s=1)}


def measures_updates(place: StepPlace) -> StepFigures:
    """Sample rounds in turn without and with updates. Raises Missed where no weights came during a round."""
    size, pace = replace(IN_FLIGHT[place.device], groups=16, max_tokens=TOKENS), PACE[place.device]
    run = run_of(place, size, enforce_eager=True)
    held, chat = hold(place, run), open_chat(run)
    own = Path(run.model.path) / "model.safetensors"
    files = (own, write_weights(place.folder / "other.safetensors", size.shape, dtype=size.dtype, seed=2))
    held.loop.run(held.engine.load_weights([own], held.engine.version + 1))
    asked = prompts(size, size.groups)
    held.loop.run(_round(held, chat, asked[:4]))  # what the first one alone takes
    warm = held.loop.run(_round(held, chat, asked))
    asked = prompts(size, max(size.groups, round(size.groups * pace.round_s / warm.seconds)))
    without, beside, took = [], [], list[float]()
    for _ in range(ROUNDS):
        without.append(held.loop.run(_round(held, chat, asked)).rate)
        turn, seconds = held.loop.run(_with_updates(held, chat, asked, files, pace.every_s))
        beside.append(turn.rate)
        took += seconds
    if not took:
        raise Missed(f"no weights came during rounds of {pace.round_s:g} s")
    alone, with_updates = median(without), median(beside)
    return StepFigures(
        text=f"{size.shape.name} in {size.dtype}, {len(asked)} groups of {size.completions}, at most 64 completions at "
        f"once: {alone:,.0f} tokens/s without updates, {with_updates:,.0f} ({with_updates / alone:.1%}) with new "
        f"weights every {pace.every_s:g} s; an update takes {median(took):.2f} s (median of {len(took)})",
        facts={"without": without, "with": beside, "update_s": took},
    )


async def _round(held: RunningEngine, chat: Chat, asked: list[Prompt]) -> TimedWork:
    """Sample the requests, and count tokens."""
    began = time.monotonic()
    groups = await together(held.engine, chat, asked)
    seconds = time.monotonic() - began
    return TimedWork(sum(each.num_sampled for group in groups for each in group), seconds)


async def _with_updates(
    held: RunningEngine, chat: Chat, asked: list[Prompt], files: Sequence[Path], every_s: float
) -> tuple[TimedWork, list[float]]:
    """Do the same while new weights come; returns the seconds of each update, too."""
    async with updating(held.engine, files, every_s) as took:
        turn = await _round(held, chat, asked)
    return turn, took
