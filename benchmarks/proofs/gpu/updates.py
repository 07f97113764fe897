"""The step `updates` of `make prove-gpu`: tokens a second of vLLM while new weights come in, beside none coming in.

In: the session's engine, two versions of random weights. Out: the medians of rounds that sample the same requests in
turn without and with updates, and how long an update takes. A round is as long as a few updates need.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.proofs.gpu.engine import IN_FLIGHT, Held, hold, prompts, run_of, together
from benchmarks.proofs.gpu.made_up import write_weights
from benchmarks.proofs.gpu.outcomes import Device, Found, Missed, Place
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


def measures_updates(place: Place) -> Found:
    """Sample rounds in turn without and with updates. Raises Missed where no weights came during a round."""
    size, pace = replace(IN_FLIGHT[place.device], groups=16, max_tokens=TOKENS), PACE[place.device]
    run = run_of(place, size, enforce_eager=True)
    held, chat = hold(place, run), open_chat(run)
    own = Path(run.model.path) / "model.safetensors"
    files = (own, write_weights(place.folder / "other.safetensors", size.shape, dtype=size.dtype, seed=2))
    held.loop.run(held.engine.load_weights([own], held.engine.version + 1))
    asked = prompts(size, size.groups)
    _round(held, chat, asked[:4])  # what the first one alone takes
    warm = _round(held, chat, asked)
    asked = prompts(size, max(size.groups, round(size.groups * pace.round_s / warm[1])))
    without, beside, took = [], [], list[float]()
    for _ in range(ROUNDS):
        tokens, seconds = _round(held, chat, asked)
        without.append(tokens / seconds)
        tokens, seconds = _round(held, chat, asked, files=files, every_s=pace.every_s, took=took)
        beside.append(tokens / seconds)
    if not took:
        raise Missed(f"no weights came during rounds of {pace.round_s:g} s")
    alone, with_updates = median(without), median(beside)
    return Found(
        text=f"{size.shape.name} in {size.dtype}, {len(asked)} groups of {size.completions}, at most 64 completions at "
        f"once: {alone:,.0f} tokens/s without updates, {with_updates:,.0f} ({with_updates / alone:.1%}) with new "
        f"weights every {pace.every_s:g} s; an update takes {median(took):.2f} s (median of {len(took)})",
        facts={"without": without, "with": beside, "update_s": took},
    )


def _round(
    held: Held,
    chat: Chat,
    asked: list[Prompt],
    *,
    files: tuple[Path, ...] = (),
    every_s: float = 0.0,
    took: list[float] | None = None,
) -> tuple[int, float]:
    """Sample the requests, with updates where there are files for them. Returns tokens and seconds.

    The last update comes to its end behind the round: half of one would leave the engine to finish it in the next.
    """
    is_over = asyncio.Event()

    async def update() -> None:
        due = time.monotonic() + every_s / 2
        while not await _comes(is_over, due):
            began = time.monotonic()
            version = held.engine.version + 1
            await held.engine.load_weights([files[version % len(files)]], version)
            if took is not None:
                took.append(time.monotonic() - began)
            due = began + every_s

    async def sample() -> tuple[int, float]:
        updating = asyncio.create_task(update()) if files else None
        began = time.monotonic()
        try:
            groups = await together(held.engine, chat, asked)
            seconds = time.monotonic() - began
        finally:
            is_over.set()
            if updating is not None:
                await updating  # one that failed is raised here
        return sum(each.num_sampled for group in groups for each in group), seconds

    return held.loop.run(sample())


async def _comes(event: asyncio.Event, due: float) -> bool:
    """Wait for an event until it is due, as `time.monotonic` counts, and return whether it came."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), due - time.monotonic())
    return event.is_set()
