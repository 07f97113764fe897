"""A load of episodes for one agents' worker, and what a call costs it.

In: how many episodes, of how many turns and tokens. Out: what they cost the worker and Redis, in processor seconds. The
worker is the real one, in a process of its own, with the demo's tokenizer and template and real child processes. The
generator is a loop that answers every call at once with random tokens, through the generators' own side of the
protocol: what it costs is not counted.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rigs.episodes.process_rig import Spent, process_rig
from benchmarks.rigs.groups import demo_run, new_group, prompt
from broker.codec import pack, unpack
from broker.connection import RedisLink
from broker.keys import Keys
from broker.messages import FinishReason, Ids, Span, TurnPrompt, TurnRecord
from broker.protocol.episodes import CallStream, with_id
from broker.protocol.run_owner import NewGroup
from config.run import Run

STOP_ID = 339  # of the demo's tokenizer
LETTERS = 300  # ids below it are no marks
FOR_EVER_S = 10_000.0


class AtOnce:
    """An environment that answers at once, and ends after its turns."""

    def __init__(self, turns: int) -> None:
        self._turns, self._taken = turns, 0

    def reset(self, row: dict[str, Any], seed: int) -> str:
        """Say what the row says."""
        del seed
        return str(row["says"])

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Go on."""
        del action
        self._taken += 1
        return "Go on.", 0.0, self._taken >= self._turns, False, {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is played."""

    episodes: int
    group_size: int = 8
    turns: int = 2
    prompt_tokens: int = 2000
    turn_tokens: int = 256
    children: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a load has cost."""

    calls: int
    spent: Spent
    seconds: float

    def a_call_ms(self, processor_s: float) -> float:
        """Return milliseconds a call."""
        return 1000 * processor_s / self.calls


def run_of(folder: Path, load: Load) -> Run:
    """Return a run whose task is played."""
    environment = {
        "type": "custom",
        "import_path": "benchmarks.rigs.episodes.episode_rig:AtOnce",
        "options": {"turns": load.turns},
        "max_turns": load.turns + 1,
    }
    return demo_run(
        folder,
        name="episodes",
        data={"train": {"type": "procedural"}, "held_out": None, "max_prompt_tokens": 4 * load.prompt_tokens},
        evaluation={"every": 0},
        sampling={"group_size": load.group_size, "max_tokens": 8 * load.turns * load.turn_tokens},
        learner={"group_deadline_s": FOR_EVER_S},
        broker={"lease_s": 60},
        agents={"episodes": load.episodes, "episodes_per_child": -(-load.episodes // load.children)},
        scorers={"tasks": {"math": {"environment": environment}}},
    )


def cost_of(folder: Path, load: Load) -> Cost:
    """Play a load once, and return what it cost."""
    random = np.random.default_rng(0)

    def said() -> Ids:
        ids = random.integers(0, LETTERS, load.turn_tokens, dtype=np.int32)
        ids[-1] = STOP_ID
        return ids

    with process_rig(run_of(folder, load), agents=1) as rig, answering(rig.link, rig.keys, said) as answered:
        done = rig.play(load.episodes // load.group_size, lambda group_id: group_of(group_id, load))
        return Cost(calls=answered[0], spent=done.spent, seconds=done.seconds)


def group_of(group_id: str, load: Load) -> NewGroup:
    """Return a group of episodes."""
    asked = prompt(
        group_id,
        n=load.group_size,
        max_tokens=8 * load.turns * load.turn_tokens,
        info={"says": "7 " * (load.prompt_tokens // 2)},
    )
    return new_group(asked)


@contextlib.contextmanager
def answering(link: RedisLink, keys: Keys, said: Callable[[], Ids]) -> Iterator[list[int]]:
    """Answer every call in a thread, with the ids of `said`, a stop token the last; yields how many there were."""
    stop, answered = threading.Event(), [0]
    calls = CallStream(link, keys, "generator", lease_s=60)
    random = np.random.default_rng(1)

    def answer() -> None:
        while not stop.is_set():
            entries = calls.consumer.read_new(32, block_s=0.2)
            for entry in entries:
                calls.consumer.hold(entry)
                asked = calls.begin(entry)
                if asked is None:
                    continue
                unpack(asked.prompt, TurnPrompt)
                ids = said()
                record = TurnRecord(
                    token_ids=ids,
                    logprobs=-random.exponential(1.0, len(ids)).astype(np.float32),
                    policy_spans=(Span(version=0, first=0, count=len(ids)),),
                    finish_reason=FinishReason.STOP,
                    generator="generator",
                    seconds=0.0,
                )
                answered[0] += calls.answer(asked, with_id(pack(record)))

    thread = threading.Thread(target=answer, name="generator", daemon=True)
    thread.start()
    try:
        yield answered
    finally:
        stop.set()
        thread.join(10)
