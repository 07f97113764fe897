"""A load of episodes for one agents' worker, and a generator that is a loop.

In: how many episodes, of how many turns and tokens. Out: a run that plays them, with the demo's tokenizer and template
and real child processes; its groups; answers with given tokens, through the generators' own side of the protocol.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

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
READ = 32  # calls at once
POLL_S = 0.05


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


def random_turns(turn_tokens: int) -> Callable[[], Ids]:
    """Return a function that makes a turn of random letters, ended by the template's own token."""
    random = np.random.default_rng(0)

    def said() -> Ids:
        ids = random.integers(0, LETTERS, turn_tokens, dtype=np.int32)
        ids[-1] = STOP_ID
        return ids

    return said


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
def answering(
    link: RedisLink, keys: Keys, said: Callable[[], Ids], *, together: int = 1
) -> Iterator[list[int]]:
    """Answer every call in a thread, with the ids of `said`, a stop token the last; yields how many there were.

    Args:
        together: calls that have to be there before any of them is answered, again and again.
    """
    stop, answered = threading.Event(), [0]
    calls = CallStream(link, keys, "generator", lease_s=60)
    random = np.random.default_rng(1)

    def are_there() -> bool:
        return together == 1 or int(link.client.xlen(calls.consumer.key)) >= together

    def answer() -> None:
        left = 0  # of those that are there together
        while not stop.is_set():
            if not left and not are_there():
                stop.wait(POLL_S)
                continue
            left = left or together
            entries = calls.consumer.read_new(READ if together == 1 else min(READ, left), block_s=0.2)
            left = 0 if together == 1 else left - len(entries)
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
