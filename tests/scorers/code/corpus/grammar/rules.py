"""A small grammar: symbols, what each may become, and a seed that says which.

In: a `Grammar`, symbol to productions. Out: texts in which no symbol is left. A symbol stands in a production as
`<two words>`. One that is alone on its line may become several lines, all of which are indented as it was.
"""

from __future__ import annotations

import random
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

Grammar = Mapping[str, tuple[str, ...]]
SYMBOL = re.compile(r"<(?P<name>[a-z][a-z ,]*)>")


def one_of(*productions: str) -> tuple[str, ...]:
    """Return a symbol's productions; short ones may stand side by side, as in `0 | 1`."""
    return tuple(one for side_by_side in productions for one in side_by_side.split(" | "))


class Deriver:
    """Derives one text after the other, and takes of each symbol's productions one that it has taken least often."""

    def __init__(self, seed: str) -> None:
        self._draw = random.Random(seed)
        self.taken: Counter[tuple[str, str]] = Counter()  # symbol and production

    def choose(self, symbol: str, productions: Sequence[str]) -> str:
        least = min(self.taken[symbol, production] for production in productions)
        chosen = self._draw.choice([one for one in productions if self.taken[symbol, one] == least])
        self.taken[symbol, chosen] += 1
        return chosen

    def text(self, grammar: Grammar, symbol: str) -> str:
        lines = self.choose(symbol, grammar[symbol]).split("\n")
        return "\n".join([self._line(grammar, line) for line in lines])

    def _line(self, grammar: Grammar, line: str) -> str:
        bare = line.strip()
        if SYMBOL.fullmatch(bare):
            return textwrap.indent(self.text(grammar, bare[1:-1]), line[: -len(bare)])
        filled = SYMBOL.sub(lambda match: self.text(grammar, match["name"]), line)
        if "\n" in filled:
            raise ValueError(f"a symbol of {line!r} has several lines within one: {filled!r}")
        return filled


def dead_ends(grammar: Grammar, starts: tuple[str, ...]) -> list[str]:
    """Return what is wrong with a grammar: symbols without productions, and productions that no start leads to."""
    reached, waiting = set(starts), list(starts)
    while waiting:
        for production in grammar.get(waiting.pop(), ()):
            for match in SYMBOL.finditer(production):
                if match["name"] not in reached:
                    reached.add(match["name"])
                    waiting.append(match["name"])
    return [f"<{name}> has no production" for name in sorted(reached - grammar.keys())] + [
        f"<{name}> is never used" for name in sorted(grammar.keys() - reached)
    ]
