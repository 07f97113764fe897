"""Hand-overs a second, beside the bare commands that move the same bytes without any of the guarantees.

A rollout takes the place of its prompt: through `Consumer.hand_over` (one script: still there, still this group's,
slot still the same, delete, acknowledge, append, remember where), and as XADD, XDEL, XACK in one write to the socket,
below redis-py's own pipeline, which costs more than the commands do. Both on the private Redis of a run, AOF
`everysec`, one client, one after the other. In a temporary folder, which is removed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from redis.connection import ConnectionInterface

from benchmarks.comparison import Comparison, TimedWork, take_turns, timed
from benchmarks.rigs.groups import demo_run, made_up_rollout
from broker.codec import Fields, encode_prompt, encode_rollout
from broker.connection import RedisLink
from broker.keys import GROUP, PROMPTS, ROLLOUTS, Keys
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from broker.protocol.leases import Consumer
from broker.protocol.run_owner import NewGroup, RunOwner
from broker.protocol.streams import Entry

ONE_ROUND_TRIP = "limit: XADD, XDEL, XACK in one write, unconditional"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    groups: tuple[tuple[int, int], ...] = (
        (8, 24),
        (16, 1024),
    )  # (completions, tokens of each): 1.5 kB and 131 kB
    entries: int = 200  # hand-overs of one round
    rounds: int = 5


FULL, SMOKE = Size(), Size(groups=((2, 8),), entries=4, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make one comparison for each size of a group."""
    with tempfile.TemporaryDirectory() as folder:
        run = demo_run(Path(folder))
        server = embedded.start(run)
        link = RedisLink(server.url, outage_s=run.broker.outage_s)
        try:
            return [
                _compare(link, Keys(run.name), completions, tokens, size)
                for completions, tokens in size.groups
            ]
        finally:
            link.close()
            server.stop()
            addresses.discard(run.folder)


def _compare(link: RedisLink, keys: Keys, completions: int, tokens: int, size: Size) -> Comparison:
    rollouts = [
        made_up_rollout(str(ordinal), completions=completions, tokens=tokens)
        for ordinal in range(size.entries)
    ]
    prompts = [NewGroup(rollout.prompt.group_id, encode_prompt(rollout.prompt)) for rollout in rollouts]
    results = [encode_rollout(rollout) for rollout in rollouts]

    def ours(_: int) -> TimedWork:
        consumer, entries = _leased(link, keys, prompts)
        return timed(
            lambda: sum(
                consumer.hand_over(entry, ROLLOUTS, fields)
                for entry, fields in zip(entries, results, strict=True)
            )
        )

    def other(_: int) -> TimedWork:
        entries = _leased(link, keys, prompts)[1]
        connection = link.client.connection_pool.get_connection()
        try:
            return timed(
                lambda: sum(
                    _move(connection, keys, entry, fields)
                    for entry, fields in zip(entries, results, strict=True)
                )
            )
        finally:
            link.client.connection_pool.release(connection)

    mine, others = take_turns(ours, other, rounds=size.rounds)
    payload = results[0]["payload"]
    return Comparison(
        what=f"hand over {completions} x {tokens:,} tokens ({len(payload) / 1000:.1f} kB)",
        unit="1/s",
        ours=[turn.rate for turn in mine],
        beside=ONE_ROUND_TRIP,
        other=[turn.rate for turn in others],
    )


def _leased(link: RedisLink, keys: Keys, prompts: list[NewGroup]) -> tuple[Consumer, list[Entry]]:
    """Empty Redis, issue these prompts into it, and lease them all."""
    link(lambda client: client.flushall())
    run_owner = RunOwner(link, keys)
    run_owner.claim(0)
    run_owner.issue(0, len(prompts), len(prompts), 0, prompts)
    consumer = Consumer(link, keys, PROMPTS, "generator-0", lease_s=60.0)
    entries = consumer.read_new(len(prompts), block_s=1.0)
    if len(entries) != len(prompts):
        raise RuntimeError(f"{len(entries)} of {len(prompts)} prompts came back from Redis")
    return consumer, entries


def _move(connection: ConnectionInterface, keys: Keys, entry: Entry, fields: Fields) -> int:
    """Move groups by the bare commands; return how many entries were deleted."""
    flat = [part for pair in fields.items() for part in pair]
    connection.send_packed_command(
        connection.pack_commands(
            [
                ("XADD", keys.stream(ROLLOUTS), "*", *flat),
                ("XDEL", keys.stream(PROMPTS), entry.entry_id),
                ("XACK", keys.stream(PROMPTS), GROUP, entry.entry_id),
            ]
        )
    )
    _, deleted, _ = (connection.read_response() for _ in range(3))
    return int(deleted)
