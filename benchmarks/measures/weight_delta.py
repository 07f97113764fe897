"""Deltas of weights beside full weights: their size, and the time from one machine's file to another's.

Fifty steps of AdamW at a rate of 1e-6 on a model of 100 million parameters, a version of bfloat16 a step
(`benchmarks.rigs.trained_weights` says how it begins). Each delta is made and applied, and the result compared
byte for byte with the version's own file; the whole chain once more in one piece. Sizes stand beside their bars and
beside the entropy of the gaps between changed elements and of the changed values, each counted over the whole file: the
fewest bits for a coder that knows how often each number occurs, and nothing else. The table of the counts, which such a
coder would have to send too, is not in it.

Then versions travel through the relay and a run's private Redis (AOF `everysec`, on this machine) to two receivers: one
that holds the version before, and one that holds nothing, in turns. In a temporary folder, which is removed.
"""

from __future__ import annotations

import filecmp
import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.comparison import Comparison, TimedWork, take_turns, timed
from benchmarks.rigs.groups import demo_run
from benchmarks.rigs.trained_weights import TrainedWeights
from broker.checksums import weights_checksum
from broker.connection import RedisLink
from broker.keys import Keys
from broker.messages import Announcement
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from broker.weight_delta.delta_file import TYPES, Made, apply_deltas, write_delta
from broker.weight_delta.layout import Extent, read_layout
from broker.weight_exchange.bundles import sealed
from broker.weight_exchange.redis_exchange import RedisExchange
from broker.weight_files import FILE, WeightStream
from generators.weight_sync.receiver import NotHere, Received
from generators.weight_sync.relayed import RelayedReceiver
from learner.weight_sync import relay as relays
from learner.weight_sync.relay import Relay

RATE = 1e-6
BAR_OF_ENTROPY, BAR_OF_FULL, SMALL_SHARE = 1.15, 0.03, 0.02
ROOM_BYTES = 256_000_000  # `redis_max_bytes`
WAIT_S = 120.0  # for a version to arrive


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    hidden: int = 640
    vocabulary: int = 36_000
    tokens: int = 32  # of a step
    steps: int = 50
    counted_every: int = 5  # versions whose entropy is counted, and whose full weights are copied
    rounds: int = 5  # versions through Redis


FULL, SMOKE = Size(), Size(hidden=64, vocabulary=500, tokens=8, steps=4, counted_every=2, rounds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDelta:
    """What was measured of one delta."""

    made: Made
    full_bytes: int
    encode_s: float
    apply_s: float
    copy_s: float | None  # of the full file, with its checksum; measured where the entropy was counted
    entropy_bits: float | None  # of the whole delta, where it was counted


@dataclass(slots=True)
class Chain:
    """All versions' deltas, and what was measured of them."""

    folder: Path
    files: list[Path] = field(default_factory=list)
    steps: list[MeasuredDelta] = field(default_factory=list)


def measure(size: Size) -> list[Comparison]:
    """Train, compare sizes with bars, and send versions both ways.

    Raises:
        RuntimeError: a version that was made of deltas is not the version.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        training = TrainedWeights(
            hidden=size.hidden, vocabulary=size.vocabulary, tokens=size.tokens, rate=RATE
        )
        chain = _trained(training, folder, size)
        what = _what(training.parameters, chain)
        return [*_sizes(what, chain), *_times(training.parameters, chain), *_journeys(training, chain, size)]


def _trained(training: TrainedWeights, folder: Path, size: Size) -> Chain:
    """Make and apply a delta a step; the first version and the deltas stay, the versions between go."""
    chain = Chain(folder)
    first = before = training.write(folder / "v0")
    for number in range(1, size.steps + 1):
        training.step()
        after = training.write(folder / f"v{number}")
        chain.files.append(folder / f"d{number}")
        chain.steps.append(_step(before, after, chain.files[-1], is_counted=number % size.counted_every == 0))
        if before is not first:
            before.unlink()
        before = after
    apply_deltas([first], chain.files, folder / "made")
    _compare_bytes(folder / "made", before)
    return chain


def _step(before: Path, after: Path, delta: Path, *, is_counted: bool) -> MeasuredDelta:
    copy = delta.with_suffix(".copy")
    with WeightStream([before]) as old, WeightStream([after]) as new:
        started = time.perf_counter()
        made = write_delta(old, new, delta)
        encoded = time.perf_counter()
        entropy_bits = _entropy_of(old, new) if is_counted else None
    apply_s = timed(lambda: _received(lambda: apply_deltas([before], [delta], copy), copy)).seconds
    _compare_bytes(copy, after)
    copy_s = timed(lambda: _received(lambda: _copy(after, copy), copy)).seconds if is_counted else None
    copy.unlink()
    return MeasuredDelta(
        made=made,
        full_bytes=after.stat().st_size,
        encode_s=encoded - started,
        apply_s=apply_s,
        copy_s=copy_s,
        entropy_bits=entropy_bits,
    )


def _received(write: Callable[[], None], file: Path) -> float:
    """Do what a receiver does with what has arrived: write the file, and read it for its checksum."""
    write()
    weights_checksum([file])
    return 1.0


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as stream, target.open("wb") as copy:
        while block := stream.read(relays.CHUNK_BYTES):
            copy.write(block)


def _compare_bytes(made: Path, wanted: Path) -> None:
    if not filecmp.cmp(made, wanted, shallow=False):
        raise RuntimeError(f"{made.name} is not {wanted.name}")


def _entropy_of(old: WeightStream, new: WeightStream) -> float:
    """Return the bits of all gaps and of all changed values, each number coded by its frequency in the whole file."""
    gaps, values = [], []
    for extent in read_layout(new).segments:
        before, after = (_elements(stream, extent) for stream in (old, new))
        positions = np.flatnonzero(before != after)
        gaps.append(np.diff(positions, prepend=-1))
        values.append(after[positions])
    return sum(_entropy_bits(np.concatenate(numbers)) for numbers in (gaps, values))


def _elements(stream: WeightStream, extent: Extent) -> NDArray[Any]:
    return np.frombuffer(stream.read(extent.size_bytes, extent.begin), TYPES[extent.width])


def _entropy_bits(numbers: NDArray[Any]) -> float:
    _, counts = np.unique(numbers, return_counts=True)
    return float(-(counts * np.log2(counts / counts.sum())).sum())


def _what(parameters: int, chain: Chain) -> str:
    shares = [step.made.changed / step.made.elements for step in chain.steps]
    return (
        f"{parameters / 1e6:,.0f} M parameters in bfloat16, {len(shares)} steps of AdamW at {RATE:g}, new weights of "
        f"deviation 0.02: {100 * min(shares):.2f}% to {100 * max(shares):.2f}% of the elements change a step"
    )


def _sizes(what: str, chain: Chain) -> Iterator[Comparison]:
    counted = [step for step in chain.steps if step.entropy_bits]
    bits = [8 * step.made.size_bytes / step.made.changed for step in counted]
    least = [(step.entropy_bits or 0.0) / step.made.changed for step in counted]
    for beside, factor in (
        ("limit: entropy of gaps and values", 1.0),
        (f"bar: {BAR_OF_ENTROPY} times it", BAR_OF_ENTROPY),
    ):
        yield Comparison(
            what=f"delta of {what}",
            unit="bits a changed element",
            ours=bits,
            beside=beside,
            other=[factor * number for number in least],
            less_is_better=True,
        )
    small = [step for step in chain.steps if step.made.changed <= SMALL_SHARE * step.made.elements]
    if small:
        yield Comparison(
            what=f"the deltas of at most {SMALL_SHARE:.0%} of the elements, {len(small)} of {len(chain.steps)}",
            unit="% of the full bytes",
            ours=[100 * step.made.size_bytes / step.full_bytes for step in small],
            beside="bar",
            other=[100 * BAR_OF_FULL] * len(small),
            less_is_better=True,
        )
    yield Comparison(
        what="versions that their chain makes bit for bit, each by itself and the last in one piece",
        unit="versions",
        ours=[len(chain.steps)],
        beside="bar: all",
        other=[len(chain.steps)],
    )


def _times(parameters: int, chain: Chain) -> Iterator[Comparison]:
    megabytes = f"{2 * parameters / 1e6:,.0f} MB"
    counted = [(step, step.copy_s) for step in chain.steps if step.copy_s is not None]
    yield Comparison(
        what=f"make a delta of two versions of {megabytes}",
        unit="s",
        ours=[step.encode_s for step, _ in counted],
        beside="full weights: copy, and read for the checksum",
        other=[copy_s for _, copy_s in counted],
        less_is_better=True,
    )
    yield Comparison(
        what=f"apply a delta to {megabytes}, and read the result for its checksum",
        unit="s",
        ours=[step.apply_s for step, _ in counted],
        beside="full weights: copy, and read for the checksum",
        other=[copy_s for _, copy_s in counted],
        less_is_better=True,
    )


class Sent:
    """A relay, and receivers that know its manifest alone, on one machine and through one Redis."""

    def __init__(self, training: TrainedWeights, chain: Chain, link: RedisLink, keys: Keys) -> None:
        self._training = training
        self._chain = chain
        self._version = itertools.count(len(chain.steps) + 1)
        self._exchange = RedisExchange(link.client, keys)
        self.relay = Relay(
            link,
            keys,
            self._exchange,
            chain.folder,
            most_bytes=ROOM_BYTES,
            anchor_every=16,
            fence=lambda: 0,
            lack_of_room=lambda _: "",
        )
        self._number = itertools.count()
        self._follower = self._receiver()
        self._held = -1

    def publish(self) -> Announcement:
        """Write the next version to the learner's disk."""
        self._training.step()
        version = next(self._version)
        folder = self._chain.folder / f"p{version}"
        folder.mkdir()
        file = self._training.write(folder / FILE)
        return Announcement(
            version=version,
            path=str(folder),
            checksum=weights_checksum([file]),
            size_bytes=file.stat().st_size,
            announced_at=0.0,
        )

    def follow(self) -> TimedWork:
        """Give a new version to the receiver that holds the one before."""
        turn, received = self._send(self._follower, self._held)
        self._held = received.version
        self._follower.loaded(received)
        return turn

    def join(self) -> TimedWork:
        """Give a new version to a receiver that holds nothing."""
        receiver = self._receiver()
        try:
            turn, received = self._send(receiver, -1)
            receiver.loaded(received)
        finally:
            receiver.close()
        return turn

    def transfer(self, file: Path) -> TimedWork:
        """Put a file's chunks into Redis and read them back one after the other, without the relay's pauses."""

        def work() -> float:
            with file.open("rb") as stream:
                for number in itertools.count():
                    if not (data := stream.read(relays.CHUNK_BYTES)):
                        return 1.0
                    chunk = (file.name, number)
                    self._exchange.put(chunk, sealed(*chunk, data))
                    if self._exchange.get(chunk) is None:
                        raise RuntimeError(f"chunk {number} of {file.name} has gone")
                    self._exchange.drop([chunk])
            return 1.0

        return timed(work)

    def close(self) -> None:
        """End the relay, and remove what the receiver holds."""
        self.relay.stop()
        self._follower.close()

    def _receiver(self) -> RelayedReceiver:
        return RelayedReceiver(self._exchange, f"g{next(self._number)}", most_bytes=ROOM_BYTES)

    def _send(self, receiver: RelayedReceiver, held: int) -> tuple[TimedWork, Received]:
        announcement = self.publish()
        started = time.perf_counter()
        self.relay.offer(announcement)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with suppress(NotHere):
                received = receiver.receive([announcement], held=held)
                if received.version == announcement.version:
                    seconds = time.perf_counter() - started
                    _compare_bytes(received.files[0], Path(announcement.path) / FILE)
                    return TimedWork(1.0, seconds), received
            threading.Event().wait(0.05)
        raise RuntimeError(f"version {announcement.version} has not arrived within {WAIT_S:.0f} s")


@contextmanager
def _through_redis(training: TrainedWeights, chain: Chain) -> Iterator[Sent]:
    run = demo_run(chain.folder)
    server = embedded.start(run)
    link = RedisLink(server.url, outage_s=run.broker.outage_s)
    sent = Sent(training, chain, link, Keys(run.name))
    sent.relay.start()
    try:
        yield sent
    finally:
        sent.close()
        link.close()
        server.stop()
        addresses.discard(run.folder)


def _journeys(training: TrainedWeights, chain: Chain, size: Size) -> list[Comparison]:
    with _through_redis(training, chain) as sent:
        sent.follow()  # full weights once
        ours, other = take_turns(lambda _: sent.follow(), lambda _: sent.join(), rounds=size.rounds)
        delta, full = chain.files[-1], chain.folder / "v0"
        sent_delta, sent_full = take_turns(
            lambda _: sent.transfer(delta), lambda _: sent.transfer(full), rounds=size.rounds
        )
    return [
        Comparison(
            what="put a delta into Redis and read it back",
            unit="s",
            ours=[turn.seconds for turn in sent_delta],
            beside="full weights",
            other=[turn.seconds for turn in sent_full],
            less_is_better=True,
        ),
        Comparison(
            what="from the announcement to a file with its checksum, through relay and Redis: make, send, apply",
            unit="s",
            ours=[turn.seconds for turn in ours],
            beside="full weights: send, write, read for the checksum",
            other=[turn.seconds for turn in other],
            less_is_better=True,
        ),
    ]
