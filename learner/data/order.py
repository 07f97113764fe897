"""Order the rows of one or several sources as a function of the draw's number.

In: each source's number of rows and its share. Out: the source, row and pass of each draw. No state is kept between
draws, so any position can be revisited. Pure; used by `learner.data.prompts`.

Without weights and epochs all rows are one pool: each epoch has each row once, in its own order. With them, sources
take turns by their shares, spread as evenly as whole draws allow, each in its own order. A source that has had its
epochs is left out from then on, and the others keep their proportions.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

SLOTS: Final = 10_000  # per round of turns: shares are exact to 0.01 %, or to one slot


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceShare:
    """A source's size and share in the order."""

    size: int  # rows
    weight: float | None = None  # relative to the others; None: its size times its epochs
    epochs: int | None = None  # passes until it is done; None: unlimited


@dataclass(frozen=True, slots=True)
class Draw:
    """The row of one draw."""

    source: int
    row: int  # of the source's rows, from 0
    epoch: int  # passes over the pool, or over that source, before this one


class DrawOrder(Protocol):
    """The order of a run's draws."""

    @property
    def draws(self) -> float:
        """The number of draws; infinite where some source is never done."""
        ...

    def draw(self, number: int) -> Draw:
        """Return the draw with that number, which is less than `draws`."""
        ...


def order_of(shares: Sequence[SourceShare], *, seed: int, shuffle: bool) -> DrawOrder:
    """Return the order of sources with rows. Each of `shares` has at least size 1."""
    if any(share.weight is not None or share.epochs is not None for share in shares):
        return _Turns(shares, seed=seed, shuffle=shuffle)
    return _Pool([share.size for share in shares], seed=seed, shuffle=shuffle)


class _Permutation:
    """The order of the rows in each epoch; the newest epoch's is cached."""

    def __init__(self, size: int, seeds: tuple[int, ...], *, shuffle: bool) -> None:
        self.size = size
        self._seeds = seeds
        self._shuffle = shuffle
        self._kept: tuple[int, NDArray[np.int64]] = (-1, np.arange(0))

    def at(self, epoch: int, offset: int) -> int:
        if not self._shuffle:
            return offset
        if self._kept[0] != epoch:
            random = np.random.default_rng([self._seeds[0], epoch, *self._seeds[1:]])
            self._kept = (epoch, random.permutation(self.size))
        return int(self._kept[1][offset])


class _Pool:
    """All rows of all sources as one pool."""

    draws = math.inf

    def __init__(self, sizes: Sequence[int], *, seed: int, shuffle: bool) -> None:
        self._starts = [0, *np.cumsum(sizes).tolist()]
        self._order = _Permutation(self._starts[-1], (seed,), shuffle=shuffle)

    def draw(self, number: int) -> Draw:
        epoch, offset = divmod(number, self._starts[-1])
        row = self._order.at(epoch, offset)
        source = bisect_right(self._starts, row) - 1
        return Draw(source, row - self._starts[source], epoch)


@dataclass(frozen=True, slots=True)
class _Phase:
    """A range of draws in which the same sources take turns."""

    first: int  # draw
    turns: NDArray[np.int64]  # [slots], the source of each slot of a round
    ranks: NDArray[np.int64]  # [slots], number of earlier slots of the same source in a round
    counts: NDArray[np.int64]  # [sources], slots of each per round
    before: tuple[int, ...]  # draws of each source before this range

    def at(self, number: int) -> tuple[int, int]:
        """Return the source of a draw, and the number of its draws before."""
        rounds, slot = divmod(number - self.first, len(self.turns))
        source = int(self.turns[slot])
        return source, self.before[source] + rounds * int(self.counts[source]) + int(self.ranks[slot])


class _Turns:
    """Sources that take turns by their shares."""

    def __init__(self, shares: Sequence[SourceShare], *, seed: int, shuffle: bool) -> None:
        self._orders = [
            _Permutation(share.size, (seed, source), shuffle=shuffle) for source, share in enumerate(shares)
        ]
        self._phases, self.draws = _phases(shares)

    def draw(self, number: int) -> Draw:
        at = bisect_right(self._phases, number, key=lambda phase: phase.first) - 1
        source, before = self._phases[at].at(number)
        order = self._orders[source]
        epoch, offset = divmod(before, order.size)
        return Draw(source, order.at(epoch, offset), epoch)


def _phases(shares: Sequence[SourceShare]) -> tuple[list[_Phase], float]:
    """Return the ranges, each of which ends where a source is done, and the number of all draws."""
    weights = [share.weight or float(share.size * (share.epochs or 1)) for share in shares]
    limits = [share.size * share.epochs if share.epochs else None for share in shares]
    before = [0] * len(shares)
    first = 0
    phases: list[_Phase] = []
    while active := [s for s, limit in enumerate(limits) if limit is None or before[s] < limit]:
        turns = _turns(active, [weights[source] for source in active])
        counts = np.bincount(turns, minlength=len(shares))
        ranks = np.empty_like(turns)
        for source in active:
            ranks[turns == source] = np.arange(counts[source])
        phases.append(_Phase(first, turns, ranks, counts, tuple(before)))
        if all(limits[source] is None for source in active):
            return phases, math.inf
        length = _until_done(turns, counts, before, limits)
        rounds, slots = divmod(length, len(turns))
        taken = rounds * counts + np.bincount(turns[:slots], minlength=len(shares))
        before = [had + int(more) for had, more in zip(before, taken, strict=True)]
        first += length
    return phases, first


def _until_done(
    turns: NDArray[np.int64], counts: NDArray[np.int64], before: Sequence[int], limits: Sequence[int | None]
) -> int:
    """Return the number of draws up to and including the one that completes the first source."""
    ends = []
    for source, limit in enumerate(limits):
        if limit is None or before[source] >= limit:
            continue
        rounds, rest = divmod(limit - before[source] - 1, int(counts[source]))
        ends.append(rounds * len(turns) + int(np.flatnonzero(turns == source)[rest]) + 1)
    return min(ends)


def _turns(active: Sequence[int], weights: Sequence[float]) -> NDArray[np.int64]:
    """Return the source of each slot of a round: shares by largest remainder, at least one slot, spread evenly."""
    shares = np.asarray(weights) / np.sum(weights)
    slots = max(SLOTS, len(active))
    counts = np.maximum(np.floor(shares * slots).astype(np.int64), 1)
    remainders = shares * slots - counts
    while (left := slots - int(counts.sum())) != 0:
        step = 1 if left > 0 else -1
        able = counts > 1 if step < 0 else np.full(len(active), fill_value=True)
        at = int(np.argmax(np.where(able, step * remainders, -np.inf)))
        counts[at] += step
        remainders[at] -= step
    # The k-th slot of a source with n slots belongs at (k + 1/2) / n of the round; ties go to the earlier source.
    places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    owners = np.repeat(np.asarray(active, dtype=np.int64), counts)
    return owners[np.argsort(places, kind="stable")]
