"""A run of episodes without a learner or scorers: a private Redis, an agents' worker of its own process, and answers.

In: how many episodes, of how many turns and tokens. Out: what a call cost the worker and Redis, in processor seconds.
The worker is the real one, in a process of its own, with the demo's tokenizer and template and real child processes.
The generator is a loop that answers every call at once with random tokens, through the generators' own side of the
protocol: what it costs is not counted.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import ROOT
from benchmarks.rigs.groups import demo_run
from broker.codec import encode_prompt, pack, unpack
from broker.connection import RedisLink
from broker.keys import EPISODES, ROLLOUTS, Keys
from broker.messages import NO_IDS, FinishReason, JsonObject, Prompt, Span, Split, TurnPrompt, TurnRecord
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from broker.protocol.episodes import Calls, with_id
from broker.protocol.run_owner import NewGroup, RunOwner
from config.loading import to_yaml
from config.run import Run

STOP_ID = 339  # of the demo's tokenizer
LETTERS = 300  # ids below it are no marks
DEADLINE_S = 600.0


class AtOnce:
    """An environment that answers at once, and ends after its turns."""

    def __init__(self, turns: int) -> None:
        self._turns, self._taken = turns, 0

    def reset(self, row: dict[str, Any], seed: int) -> str:
        """Ask as much as the row says."""
        return "7 " * (row["prompt_tokens"] // 2)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Go on."""
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
    """Processor seconds of a load."""

    calls: int
    worker_s: float
    children_s: float
    redis_s: float
    wall_s: float


def run_of(folder: Path, load: Load) -> Run:
    """Return a run whose task is played."""
    environment = {
        "type": "custom",
        "import_path": "benchmarks.rigs.episode_rig:AtOnce",
        "options": {"turns": load.turns},
        "max_turns": load.turns + 1,
    }
    return demo_run(
        folder,
        name="episodes",
        data={"train": {"type": "procedural"}, "held_out": None, "max_prompt_tokens": 4 * load.prompt_tokens},
        evaluation={"every": 0},
        sampling={"group_size": load.group_size, "max_tokens": 8 * load.turns * load.turn_tokens},
        learner={"group_deadline_s": 10 * DEADLINE_S},
        broker={"lease_s": 60},
        agents={"episodes": load.episodes, "episodes_per_child": -(-load.episodes // load.children)},
        scorers={"tasks": {"math": {"environment": environment}}},
    )


def cost_of(folder: Path, load: Load) -> Cost:
    """Play a load once, and return what it cost."""
    run = run_of(folder, load)
    run.folder.mkdir(parents=True, exist_ok=True)
    server = embedded.start(run)
    link = RedisLink(server.url, outage_s=10)
    keys = Keys(run.name)
    try:
        link.client.hset(keys.run, mapping={"status": "running", "reason": "", "config": to_yaml(run)})
        owner = RunOwner(link, keys)
        owner.claim(0)
        with worker_of(run, server.url) as process, answering(link, keys, load) as answered:
            wait_for(
                lambda: link.client.exists(keys.alive("agent", "")) or has_agent(link, keys), "the worker"
            )
            before, redis_before = rusage_of(process.pid), redis_s(link)
            started = time.monotonic()
            groups = load.episodes // load.group_size
            owner.issue(0, groups, groups, 0, [group_of(str(number), load) for number in range(groups)])
            wait_for(lambda: link.client.xlen(keys.stream(ROLLOUTS)) == groups, "the groups")
            wall_s = time.monotonic() - started
            own, children = (
                after - earlier for after, earlier in zip(rusage_of(process.pid), before, strict=True)
            )
            return Cost(
                calls=answered[0],
                worker_s=own,
                children_s=children,
                redis_s=redis_s(link) - redis_before,
                wall_s=wall_s,
            )
    finally:
        link.close()
        server.stop()
        addresses.discard(run.folder)


def group_of(group_id: str, load: Load) -> NewGroup:
    """Return a group of episodes."""
    prompt = Prompt(
        group_id=group_id,
        split=Split.TRAIN,
        task="math",
        n=load.group_size,
        floor=0,
        issued_at=time.time(),
        epoch=0,
        row=int(group_id),
        fingerprint="benchmark",
        seed=int(group_id),
        temperature=1.0,
        max_tokens=8 * load.turns * load.turn_tokens,
        messages=(),
        token_ids=NO_IDS,
        verification_info=JsonObject({"prompt_tokens": load.prompt_tokens}),
    )
    return NewGroup(group_id, encode_prompt(prompt), EPISODES)


@contextlib.contextmanager
def worker_of(run: Run, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run an agents' worker in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agents", "--run", run.name],
        cwd=ROOT,
        env={**os.environ, "REDIS_URL": url, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if "MILLRACE_SHOW" not in os.environ else None,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def answering(link: RedisLink, keys: Keys, load: Load) -> Iterator[list[int]]:
    """Answer every call in a thread; yields how many there were."""
    stop, answered = threading.Event(), [0]
    calls = Calls(link, keys, "generator", lease_s=60)
    random = np.random.default_rng(0)

    def answer() -> None:
        while not stop.is_set():
            entries = calls.consumer.read_new(32, block_s=0.2)
            for entry in entries:
                calls.consumer.hold(entry)
                asked = calls.begin(entry)
                if asked is None:
                    continue
                unpack(asked.prompt, TurnPrompt)
                ids = random.integers(0, LETTERS, load.turn_tokens, dtype=np.int32)
                ids[-1] = STOP_ID
                record = TurnRecord(
                    token_ids=ids,
                    logprobs=-random.exponential(1.0, load.turn_tokens).astype(np.float32),
                    policy_spans=(Span(version=0, first=0, count=load.turn_tokens),),
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


def has_agent(link: RedisLink, keys: Keys) -> bool:
    """Return whether a worker waits for episodes."""
    for key in link.client.scan_iter(match=f"{keys.alive_prefix.replace('{', '?').replace('}', '?')}agent:*"):
        if link.client.hget(key, "state") == b"waiting for episodes":
            return True
    return False


def wait_for(condition: Any, what: str) -> None:
    """Wait for something. Raises TimeoutError that names it."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {DEADLINE_S:.0f} s")
        time.sleep(0.05)


def rusage_of(pid: int) -> tuple[float, float]:
    """Return the processor seconds of a process, and of its descendants that live."""
    own, below = _seconds(pid), 0.0
    todo = [pid]
    while todo:
        parent = todo.pop()
        for task in Path(f"/proc/{parent}/task").iterdir():
            with contextlib.suppress(OSError):
                children = [int(word) for word in (task / "children").read_text().split()]
                todo += children
                below += sum(map(_seconds, children))
    return own, below


def _seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def redis_s(link: RedisLink) -> float:
    """Return the processor seconds of Redis' main thread and its others."""
    info = link.client.info("cpu")
    return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])
