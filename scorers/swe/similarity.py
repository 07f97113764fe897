"""difflib's ratio, exactly, in a time that no text can make long.

In: two sequences. Out: what `difflib.SequenceMatcher` finds in them, block for block. Pure functions, called in the
scoring child of `scorers.swe.scorer`.

difflib takes the longest common run of two stretches, of several the earliest in the first and then in the second. It
goes on to the left and to the right of that run. It looks at every pair of equal elements anew for every run, so that a
rewrite of 600 lines takes half a minute and a hostile text for ever. Here equal windows have equal names. Every window
of a power of two elements gets its rank among all windows of its length. Two ranks name a window of any length (the
first half of building a suffix array by doubling: Manber and Myers, SIAM J. Comput. 22(5), 1993). The longest run of
two stretches is then found by bisection over its length, and one pass from left to right takes every run of that length
that difflib would take: what is left between them has none as long.

Cost: a stretch is passed once for each length of run that is found in it. Runs of k different lengths have at least
k(k+1)/2 elements, so N elements are passed sqrt(2N) times at worst, and some twenty times in real texts.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

SMALL: Final = 600  # elements of two stretches up to which Python's sets are quicker than numpy's fixed costs

Numbers = NDArray[np.int64]
Block = tuple[int, int, int]  # start in the first, start in the second, number of elements
Run = tuple[
    int, list[int], int, int
]  # a start in the first; a list, and from where to where it holds, ascending, the
# run's starts in the second


class FastMatcher(difflib.SequenceMatcher[str]):
    """A SequenceMatcher without a junk function that finds the same blocks by another search."""

    a: Sequence[str]  # difflib's own attributes, which its types leave out
    b: Sequence[str]
    bpopular: set[str]
    matching_blocks: list[difflib.Match] | None

    def get_matching_blocks(self) -> list[difflib.Match]:
        """Return what `difflib.SequenceMatcher.get_matching_blocks` would."""
        if self.matching_blocks is None:
            blocks = _joined(_Search(self.a, self.b, self.bpopular).blocks())
            self.matching_blocks = [
                difflib.Match(*block) for block in (*blocks, (len(self.a), len(self.b), 0))
            ]
        return self.matching_blocks


def ratio(first: str, second: str) -> float:
    """Return `SequenceMatcher(None, first, second, autojunk=False).ratio()`, character by character."""
    return FastMatcher(None, first, second, autojunk=False).ratio()


def unified_diff(before: str, after: str) -> str:
    """Return the unified diff of two texts, three lines around each change, without header lines; "" if equal.

    Lines end as `str.splitlines` has it, so neither the kind of line break nor a missing last one is a change.
    """
    old, new = before.splitlines(), after.splitlines()
    lines: list[str] = []
    for group in FastMatcher(None, old, new).get_grouped_opcodes(3):
        _, old_start, _, new_start, _ = group[0]
        _, _, old_end, _, new_end = group[-1]
        lines.append(f"@@ -{_extent(old_start, old_end)} +{_extent(new_start, new_end)} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[i1:i2]]
            else:
                lines += [f"-{line}" for line in old[i1:i2]]
                lines += [f"+{line}" for line in new[j1:j2]]
    return "\n".join(lines)


def _extent(start: int, end: int) -> str:
    """Return lines start to end, counted from 0, as a hunk's header names them."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _joined(blocks: list[Block]) -> list[Block]:
    """Return the blocks in order, adjacent ones made one."""
    joined: list[Block] = []
    for first, second, size in sorted(blocks):
        if joined and joined[-1][0] + joined[-1][2] == first and joined[-1][1] + joined[-1][2] == second:
            joined[-1] = (joined[-1][0], joined[-1][1], joined[-1][2] + size)
        else:
            joined.append((first, second, size))
    return joined


class _Stretch(NamedTuple):
    """a[a_start:a_end] and b[b_start:b_end], which have no common run of more than `most` elements."""

    a_start: int
    a_end: int
    b_start: int
    b_end: int
    most: int


class _Search:
    """The recursion over stretches, and what all of them share."""

    def __init__(self, a: Sequence[str], b: Sequence[str], popular: set[str]) -> None:
        """Number the elements. Popular ones (difflib's autojunk) begin no run, they only prolong one."""
        numbers: dict[str, int] = {}
        self._a = [numbers.setdefault(element, len(numbers)) for element in a]
        self._b = [numbers.setdefault(element, len(numbers)) for element in b]
        self._has_popular = bool(popular)
        # For the search, popular elements are two numbers that are not equal, one on each side.
        never = {numbers[element] for element in popular}
        first = [0 if number in never else number + 2 for number in self._a]
        second = [1 if number in never else number + 2 for number in self._b]
        self._text_a, self._text_b = "".join(map(chr, first)), "".join(map(chr, second))
        self._ranks = _ranks(np.array(first, np.int64), np.array(second, np.int64))

    def blocks(self) -> list[Block]:
        """Return every block, in no order; adjacent ones may come apart."""
        found: list[Block] = []
        stretches = [_Stretch(0, len(self._a), 0, len(self._b), (1 << len(self._ranks)) - 1)]
        while stretches:
            stretch = stretches.pop()
            if stretch.a_start < stretch.a_end and stretch.b_start < stretch.b_end:
                self._divide(stretch, found, stretches)
        return found

    def _divide(self, whole: _Stretch, found: list[Block], stretches: list[_Stretch]) -> None:
        """Take all blocks of the greatest length from left to right; what lies between them is to be divided yet."""
        length, runs = self._runs(whole)
        rest = whole._replace(most=length - 1)
        for start_a, starts_b, low, high in runs:
            if start_a < rest.a_start:
                continue
            position = bisect_left(starts_b, rest.b_start, low, high)
            if position == high:
                continue
            first, second, size = block = self._prolonged((start_a, starts_b[position], length), rest)
            found.append(block)
            self._leave(stretches, rest._replace(a_end=first, b_end=second))
            rest = rest._replace(a_start=first + size, b_start=second + size)
        if length:
            self._leave(stretches, rest)
        elif (block := self._prolonged((rest.a_start, rest.b_start, 0), rest))[2]:
            found.append(block)

    def _leave(self, stretches: list[_Stretch], stretch: _Stretch) -> None:
        if stretch.most or self._has_popular:
            stretches.append(stretch)

    def _prolonged(self, block: Block, within: _Stretch) -> Block:
        """Return the run with the equal elements beside it: where there are popular ones, a run need not be maximal.

        So it is with an empty one at the start of a stretch: difflib takes that where it finds none.
        """
        first, second, size = block
        if not self._has_popular:
            return block
        while (
            first > within.a_start and second > within.b_start and self._a[first - 1] == self._b[second - 1]
        ):
            first, second, size = first - 1, second - 1, size + 1
        while (
            first + size < within.a_end
            and second + size < within.b_end
            and self._a[first + size] == self._b[second + size]
        ):
            size += 1
        return first, second, size

    def _runs(self, stretch: _Stretch) -> tuple[int, Iterator[Run]]:
        """Return the greatest length of a common run, and all runs of that length, by their start in `a`."""
        a_start, a_end, b_start, b_end, most = stretch
        most = min(most, a_end - a_start, b_end - b_start)
        if a_end - a_start + b_end - b_start <= SMALL:
            length = _greatest(
                most,
                lambda size: (
                    not set(_slices(self._text_b, b_start, b_end, size)).isdisjoint(
                        _slices(self._text_a, a_start, a_end, size)
                    )
                ),
            )
            return length, self._few_runs(stretch, length)
        length = _greatest(most, lambda size: bool(np.isin(*self._names(stretch, size)).any()))
        return length, self._many_runs(stretch, length)

    def _few_runs(self, stretch: _Stretch, length: int) -> Iterator[Run]:
        if not length:
            return
        starts: dict[str, list[int]] = {}
        for start, text in enumerate(
            _slices(self._text_b, stretch.b_start, stretch.b_end, length), stretch.b_start
        ):
            starts.setdefault(text, []).append(start)
        for start, text in enumerate(
            _slices(self._text_a, stretch.a_start, stretch.a_end, length), stretch.a_start
        ):
            if text in starts:
                yield start, starts[text], 0, len(starts[text])

    def _many_runs(self, stretch: _Stretch, length: int) -> Iterator[Run]:
        if not length:
            return
        names_a, names_b = self._names(stretch, length)
        order = np.argsort(names_b, kind="stable")
        in_order = names_b[order]
        lows, highs = np.searchsorted(in_order, names_a, "left"), np.searchsorted(in_order, names_a, "right")
        starts = (order + stretch.b_start).tolist()
        for offset in np.flatnonzero(lows < highs).tolist():
            yield stretch.a_start + offset, starts, int(lows[offset]), int(highs[offset])

    def _names(self, stretch: _Stretch, length: int) -> tuple[Numbers, Numbers]:
        """Equal numbers for equal windows of this length, for all that begin and end in the stretches."""
        level = length.bit_length() - 1
        rest = length - (1 << level)  # the second of the two windows begins so much later; they overlap
        ranks_a, ranks_b = self._ranks[level]
        count = len(ranks_a) + len(ranks_b)
        last_a, last_b = stretch.a_end - length + 1, stretch.b_end - length + 1
        names_a, names_b = ranks_a[stretch.a_start : last_a], ranks_b[stretch.b_start : last_b]
        if rest:
            names_a = names_a * count + ranks_a[stretch.a_start + rest : last_a + rest]
            names_b = names_b * count + ranks_b[stretch.b_start + rest : last_b + rest]
        return names_a, names_b


def _slices(text: str, start: int, end: int, length: int) -> Iterable[str]:
    """Return every window of this length that lies in text[start:end]."""
    return (text[position : position + length] for position in range(start, end - length + 1))


def _greatest(most: int, occurs: Callable[[int], bool]) -> int:
    """Return the greatest length of at most `most` that occurs; what occurs in one length does in every smaller one."""
    low, high = 0, 1
    while high <= most and occurs(high):
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if occurs(middle):
            low = middle
        else:
            high = middle
    return low


def _ranks(a: Numbers, b: Numbers) -> list[tuple[Numbers, Numbers]]:
    """Return for 1, 2, 4, ... elements the rank of each window among both sides', while they share one.

    Windows begin at every element that has enough after it.
    """
    levels: list[tuple[Numbers, Numbers]] = []
    width = 1
    while len(a) and len(b):
        _, ranks = np.unique(np.concatenate([a, b]), return_inverse=True)
        ranks_a, ranks_b = ranks[: len(a)], ranks[len(a) :]
        if not np.isin(ranks_a, ranks_b).any():
            break
        levels.append((ranks_a, ranks_b))
        a = ranks_a[:-width] * len(ranks) + ranks_a[width:]
        b = ranks_b[:-width] * len(ranks) + ranks_b[width:]
        width *= 2
    return levels
