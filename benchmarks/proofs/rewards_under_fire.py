"""`make prove-rewards`: right rewards, whatever is killed and hangs.

In: groups of mathematics and of code, put on `rollouts` as generators do, with 2 hanging answers in every 100. Out: a
table; `--write` puts it at the end of benchmarks/RESULTS.md. Real Redis, real `python -m scorers`, one of whose
processes is killed with -9 every 10 seconds: an RQ worker, what it has score in a child, or a dispatcher. Exit code 0
if every honest answer got the score that it deserves, every hanging one 0, and no group went to `dead`; 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

from msgspec.structs import replace

from benchmarks import results
from benchmarks.rigs.groups import demo_run, spoken_rollout
from broker import codec
from broker.connection import RedisLink
from broker.keys import DEAD, PROMPTS, ROLLOUTS, SCORED, Keys
from broker.messages import JsonObject, SampledGroup, ScoredGroup
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from broker.processes import has_ended, spawn, stop
from broker.protocol.leases import Consumer
from broker.protocol.run_owner import NewGroup, RunOwner
from broker.protocol.streams import entries_of
from config.loading import to_yaml
from config.run import Run
from tools.up.process_tree import Process, below

COMPLETIONS = 8  # of a group, every second one right
HANGING_EVERY = 50  # completions
KILL_EVERY_S = 10.0
LEASE_S = 6.0  # how soon a killed worker's group is tried again; the default is for slower machines
PATIENCE_S = 900.0  # then what is missing is missing
TASKS = {"math": {"scorer": {"type": "math"}}, "code": {"scorer": {"type": "code"}}}
VICTIMS = {"worker": 0.5, "child": 0.4, "dispatcher": 0.1}
HANGING_MATH = ("\\boxed{9^{9^{9}}}", "\\boxed{7^{9^{9^{9}}}}")
HANGING_CODE = (
    "while True:\n        pass",
    "return sum(range(10 ** 13))",
    "import time\n    time.sleep(3600)",
)


@dataclass(slots=True)
class Expected:
    """One group, and the reward that each of its completions deserves."""

    rollout: SampledGroup
    rewards: list[float]
    hanging: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Fight:
    """The outcome of one proof: rewards, kills and time."""

    groups: int = 0
    honest: int = 0
    hanging: int = 0
    wrong: list[str] = field(default_factory=list)  # each score that is not what it should be
    kills: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def is_won(self) -> bool:
        """Whether every bar is met."""
        return not self.wrong and self.hanging > 0 and self.kills["worker"] > 0


def main(argv: Sequence[str] | None = None) -> int:
    """Feed, kill, wait, compare, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.rewards_under_fire", description="Right rewards."
    )
    parser.add_argument("--groups", type=int, default=200, help=f"of {COMPLETIONS} completions (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the groups and of who is killed (0)")
    results.add_write(parser)
    args = parser.parse_args(argv)
    commit = results.commit()
    heading = results.heading("Rewards under fire")
    with tempfile.TemporaryDirectory() as folder:
        fight = fire(Path(folder), args.groups, random.Random(args.seed))  # noqa: S311 - no secret
    lines = [*heading, *as_table(fight, args.seed), *results.remarks(commit)]
    sys.stdout.write("\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if fight.is_won else 1


def fire(folder: Path, groups: int, chance: random.Random) -> Fight:
    """Score `groups` groups while processes are killed. What the scorers say is kept in `folder`."""
    run = demo_run(
        folder, scorers={"workers": 2, "tasks": TASKS}, broker={"lease_s": LEASE_S, "max_attempts": 5}
    )
    server = embedded.start(run)
    link = RedisLink(server.url, outage_s=run.broker.outage_s)
    expected = {str(ordinal): _expected(ordinal, chance) for ordinal in range(groups)}
    words = [sys.executable, "-m", "scorers", "--run", run.name]
    log = (folder / "scorers.log").open("wb")
    started = time.monotonic()
    try:
        _feed(link, run, [group.rollout for group in expected.values()])
        pools = [
            spawn(words, cwd=results.ROOT, stderr=log, env={**os.environ, "REDIS_URL": server.url})
            for _ in range(2)
        ]
        try:
            fight = Fight(
                groups=groups, kills=_kill_until_scored(link, Keys(run.name), groups, pools, chance)
            )
            fight.seconds = time.monotonic() - started
            _compare(fight, expected, link, Keys(run.name))
        finally:
            for pool in pools:
                stop(pool, 30.0)
    finally:
        log.close()
        link.close()
        server.stop()
        addresses.discard(run.folder)
    return fight


def _expected(ordinal: int, chance: random.Random) -> Expected:
    """Make a group of mathematics or of code, in turns; one completion of every 50 hangs."""
    n = chance.randrange(10, 10_000)
    rewards = [float(place % 2 == 0) for place in range(COMPLETIONS)]
    hanging = {place for place in range(COMPLETIONS) if (ordinal * COMPLETIONS + place) % HANGING_EVERY == 17}
    for place in hanging:
        rewards[place] = 0.0
    if ordinal % 2:
        texts = [
            _program(f"return x + {n if reward else n + 1}", place) for place, reward in enumerate(rewards)
        ]
        for place in hanging:
            texts[place] = _program(chance.choice(HANGING_CODE), place)
        info: dict[str, Any] = {
            "type": "code",
            "answer": {"tests": [f"assert f({x}) == {n + x}" for x in (1, 5)]},
        }
    else:
        texts = [f"Try {place}. \\boxed{{{n if reward else n + 1}}}" for place, reward in enumerate(rewards)]
        for place in hanging:
            texts[place] = f"Try {place}. {chance.choice(HANGING_MATH)}"
        info = {"type": "math", "answer": {"value": str(n)}}
    rollout = spoken_rollout(str(ordinal), texts, str(n))
    prompt = replace(rollout.prompt, task=info["type"], verification_info=JsonObject(info))
    return Expected(replace(rollout, prompt=prompt), rewards, hanging)


def _program(body: str, place: int) -> str:
    return f"```python\n# Try {place}.\ndef f(x):\n    {body}\n```"


def _feed(link: RedisLink, run: Run, rollouts: Sequence[SampledGroup]) -> None:
    """Put the groups where generators put them, and the run's config where scorers find it."""
    keys = Keys(run.name)
    link.client.hset(keys.run, mapping={"config": to_yaml(run), "status": "running"})
    run_owner = RunOwner(link, keys)
    run_owner.claim(0)
    run_owner.issue(
        0,
        len(rollouts),
        len(rollouts),
        0,
        [NewGroup(rollout.prompt.group_id, codec.encode_prompt(rollout.prompt)) for rollout in rollouts],
    )
    consumer = Consumer(link, keys, PROMPTS, "generator-0", lease_s=60.0)
    entries = consumer.read_new(len(rollouts), block_s=1.0)
    for entry, rollout in zip(entries, rollouts, strict=True):
        if not consumer.hand_over(entry, ROLLOUTS, codec.encode_rollout(rollout)):
            raise RuntimeError(f"group {entry.group_id} could not be handed over")


def _kill_until_scored(
    link: RedisLink, keys: Keys, groups: int, pools: Sequence[Popen[bytes]], chance: random.Random
) -> Counter[str]:
    """Kill one process every 10 seconds until every group is scored or dead. Returns how many of each kind."""
    kills: Counter[str] = Counter()
    deadline, next_kill = time.monotonic() + PATIENCE_S, time.monotonic() + KILL_EVERY_S
    while time.monotonic() < deadline and not all(map(has_ended, pools)):
        if link(lambda client: client.xlen(keys.stream(SCORED)) + client.xlen(keys.stream(DEAD))) >= groups:
            break
        if time.monotonic() >= next_kill:
            next_kill += KILL_EVERY_S
            victims = _victims(pools)
            kinds = [kind for kind in VICTIMS if victims[kind]]
            if kinds:
                (kind,) = chance.choices(kinds, [VICTIMS[kind] for kind in kinds])
                kills[kind] += chance.choice(victims[kind]).kill(signal.SIGKILL)
        time.sleep(0.1)
    return kills


def _victims(pools: Sequence[Popen[bytes]]) -> dict[str, list[Process]]:
    """List processes by what they are. A worker's children score: the math child, the supervisor of a sandbox."""
    found = [process for pool in pools for process in below(pool.pid)]
    parts = [process for process in found if process.parent in {pool.pid for pool in pools}]
    dispatchers = [process for process in parts if process.has_words("--part", "dispatcher")]
    workers = [process for process in parts if process.has_words("--part", "worker")]
    return {
        "worker": workers,
        "dispatcher": dispatchers,
        "child": [process for process in found if process.parent in {worker.pid for worker in workers}],
    }


def _compare(fight: Fight, expected: dict[str, Expected], link: RedisLink, keys: Keys) -> None:
    """Note every score that is not what the completion deserves."""
    groups = dict(expected)
    for entry in entries_of(SCORED, link(lambda client: client.xrange(keys.stream(SCORED)))):
        group = codec.decode_scored(entry.raw)
        _compare_group(fight, group, groups.pop(group.group_id))
    for entry in entries_of(DEAD, link(lambda client: client.xrange(keys.stream(DEAD)))):
        groups.pop(entry.group_id, None)
        fight.wrong.append(f"group {entry.group_id} is dead: {codec.text(entry.raw, 'reason', '?')}")
    fight.wrong += [f"group {group_id} was not scored in {fight.seconds:.0f} s" for group_id in groups]


def _compare_group(fight: Fight, group: ScoredGroup, expected: Expected) -> None:
    for place, (score, reward, deserved) in enumerate(
        zip(group.scores, group.rewards, expected.rewards, strict=True)
    ):
        is_hanging = place in expected.hanging
        fight.hanging += is_hanging
        fight.honest += not is_hanging
        if reward != deserved:
            fight.wrong.append(
                f"group {group.group_id}, completion {place}: {reward}, {deserved} deserved: "
                f"{score.status} {score.reason}"
            )


def as_table(fight: Fight, seed: int) -> list[str]:
    """Write the outcome as lines of a Markdown table."""
    kills = ", ".join(f"{number} x {kind}" for kind, number in sorted(fight.kills.items())) or "none"
    verdict = "Proven" if fight.is_won else "NOT proven"
    return [
        "| groups | honest answers | hanging answers | killed with -9 | not as deserved | seconds |",
        "|--:|--:|--:|---|--:|--:|",
        (
            f"| {fight.groups} | {fight.honest} | {fight.hanging} | {kills} | {len(fight.wrong)} "
            f"| {fight.seconds:.0f} |"
        ),
        "",
        (
            f"**{verdict}**: every honest answer has its right score, every hanging one 0, no group is dead; "
            f"`broker.max_attempts: 5`, one kill every {KILL_EVERY_S:.0f} s, seed {seed}."
        ),
        *([""] if fight.wrong else []),
        *(f"- {line}" for line in fight.wrong[:50]),
    ]


if __name__ == "__main__":
    sys.exit(main())
