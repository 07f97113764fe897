"""Generate implication puzzles: which first step leads to the goal?

In: a random number generator. Out: a record with implications between invented words, start, goal, and the one word
that is the next step. Several chains of equal length lead away from the start; one of them ends at the goal, the others
have cross links among themselves. Each puzzle is verified by a search from every first step: exactly one of them
reaches the goal. Used by `tools.prepare.domains.logic`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

CHAINS: Final = 9
# Steps from the start to the goal: the powers of 1.3 from the first to the 24th, which are 23 whole numbers.
LOOK_AHEAD: Final = tuple(sorted({round(1.3**power) for power in range(1, 25)}))
_CROSSING: Final = 0.25  # links between wrong chains, per word of them
_CONSONANTS: Final = "bdfgklmnprstvz"
_VOWELS: Final = "aeiou"


def make(number: int, draw: random.Random) -> Mapping[str, Any]:
    """Return one puzzle: `implications` as pairs of words, `start`, `goal`, `answer`, `look_ahead`."""
    return puzzle(LOOK_AHEAD[number % len(LOOK_AHEAD)], CHAINS, draw)


def puzzle(look_ahead: int, chains: int, draw: random.Random) -> Mapping[str, Any]:
    """Return a puzzle whose goal is `look_ahead` steps away, with `chains` first steps."""
    words = _words(1 + chains * look_ahead, draw)
    start, rest = words[0], words[1:]
    ways = [rest[chain * look_ahead : (chain + 1) * look_ahead] for chain in range(chains)]
    links = [pair for way in ways for pair in zip([start, *way], way, strict=False)]
    right, *wrong = ways
    others = [word for way in wrong for word in way]
    for _ in range(round(_CROSSING * len(others))):
        pair = (draw.choice(others), draw.choice(others))
        if pair[0] != pair[1] and pair not in links[-len(others) :]:
            links.append(pair)
    draw.shuffle(links)
    found = next_steps(links, start, right[-1])
    assert found == [right[0]], found  # noqa: S101 - by construction: wrong chains only lead into wrong chains
    return {
        "implications": links,
        "start": start,
        "goal": right[-1],
        "answer": right[0],
        "look_ahead": look_ahead,
    }


def next_steps(links: Iterable[tuple[str, str]], start: str, goal: str) -> list[str]:
    """Return every first step from which the goal can be reached without passing the start again."""
    following: dict[str, list[str]] = {}
    for before, after in links:
        following.setdefault(before, []).append(after)
    return [step for step in following.get(start, ()) if _reaches(following, step, start, goal)]


def _reaches(following: Mapping[str, list[str]], step: str, start: str, goal: str) -> bool:
    seen, waiting = {start, step}, deque([step])
    while waiting:
        word = waiting.popleft()
        if word == goal:
            return True
        new = [after for after in following.get(word, ()) if after not in seen]
        seen.update(new)
        waiting.extend(new)
    return False


def _words(count: int, draw: random.Random) -> list[str]:
    """Return distinct invented words: two or three syllables, and a consonant."""
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = draw.choice((2, 3))
        word = "".join(draw.choice(_CONSONANTS) + draw.choice(_VOWELS) for _ in range(syllables))
        found[word + draw.choice(_CONSONANTS)] = None
    return list(found)
