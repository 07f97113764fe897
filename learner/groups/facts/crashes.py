"""Name the error in an agent's or environment's code that ended an episode, with equal names for equal errors.

In: completions, whose remark begins as `agents.environments` writes it. Out: a `Crash`, for the sums of a step. Ends
caused by a generator, the gateway or a prompt's length are no crashes. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, Final

from broker.messages import Completion, End

MOST_CHARS: Final = 160  # of a kind, and of an exception's message
MOST_KINDS: Final = 32  # of a step, the most frequent ones; the rest is one
OTHERS: Final = "others"  # that one's name
FIRST_WORDS: Final = 2  # of a text of which nothing is known: what follows may be a model's
FAILED_IN: Final = re.compile(r"\btask .+?: the environment failed in (?:reset|step|run|judge): (?P<what>.+)")
PLACED: Final = re.compile(r"(?P<said>(?P<type>[\w.]+)\b.*) \((?P<place>[^()]+:\d+ in [^()]+)\)")
EXCEPTION: Final = re.compile(
    r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b"
)  # the last line that a command prints
TYPE: Final = re.compile(r"[A-Z]\w*|[A-Za-z_]\w*\.[\w.]+")
OURS: Final = re.compile(  # what `agents.environments` itself says of an end
    r"its process ended (?:with exit code \d+|by \w+(?:, from outside)?)|no answer within \w+=[\d.e+-]+|"
    r"memory_mb=\d+ is used up"
)


@dataclass(frozen=True, slots=True)
class Crash:
    """An error in a user's code that ended an episode.

    Attributes:
        kind: the exception's type and line, as `KeyError at my_agent.py:12 in price`; without a line its type, or what
            is known not to be a model's words.
        said: the exception's line; for a command, with the last line that it printed.
        is_scored: whether the episode still gets a score.
    """

    kind: str
    said: str
    is_scored: bool


def crash_of(completion: Completion) -> Crash | None:
    """Return the error in an agent's or environment's code that ended an episode; None for any other end."""
    if completion.ended_by not in (End.CRASH, End.FAILED):
        return None
    first, _, rest = completion.remark.partition("\n")
    found = FAILED_IN.search(_shown(first))
    if found is None:
        return None
    what, is_scored = found["what"], completion.ended_by is End.CRASH
    if (placed := PLACED.fullmatch(what)) is not None:
        kind, said = f"{placed['type']} at {placed['place']}", placed["said"]
        return Crash(kind[:MOST_CHARS], said[:MOST_CHARS], is_scored)
    kind, said, last = _without_line(what), what, _shown(rest.rpartition("\n")[2].strip())
    if (printed := EXCEPTION.match(last)) is not None and last not in what:
        kind, said = f"{kind}: {printed[0]}", f"{what}; {last}"
    return Crash(kind[:MOST_CHARS], said[:MOST_CHARS], is_scored)


def _without_line(what: str) -> str:
    """Return the kind of an error without a line: ours as we say it, a type, or the first words if they are plain."""
    if (ours := OURS.match(what)) is not None:
        return ours[0]
    head = what.partition(":")[0]
    if TYPE.fullmatch(head):
        return head
    words = takewhile(str.isalpha, head.split())
    return " ".join(islice(words, FIRST_WORDS)) or "an error"


def _shown(text: str) -> str:
    """Return a line without control characters for a terminal: a model may have written it."""
    return "".join(char if char.isprintable() else "?" for char in text)


def crash_metrics(crashes: Sequence[Crash], episodes: int) -> dict[str, Any]:
    """Return statistics of the crashes, by key of a step's object; empty for none.

    Args:
        crashes: of these episodes.
        episodes: number of episodes that returned.
    """
    if not episodes:
        return {}
    named = dict(Counter(crash.kind for crash in crashes).most_common(MOST_KINDS))
    kinds: dict[str, dict[str, Any]] = {}
    for crash in crashes:
        kind = kinds.setdefault(
            crash.kind if crash.kind in named else OTHERS, {"episodes": 0, "scored": 0, "said": ""}
        )
        kind["episodes"] += 1
        kind["scored"] += crash.is_scored
        kind["said"] = crash.said
    return {"crashed_share": len(crashes) / episodes, "crashes": kinds}
