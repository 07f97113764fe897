"""The question that a verb asks before it throws something away.

In: what will go. Out: whether the operator agrees. Where there is no terminal, `--yes` has to agree beforehand.
"""

from __future__ import annotations

import sys

from broker.errors import Permanent


class NobodyToAsk(Permanent):
    """The verb asks before it goes on, and no terminal is there to answer."""


def agrees(question: str, *, what: str) -> bool:
    """Asks `question` on the terminal; anything but y and yes is a no.

    Raises:
        NobodyToAsk: standard input is no terminal; the message names `what` would go.
    """
    if not sys.stdin.isatty():
        raise NobodyToAsk(f"nobody is here to ask whether {what} should go; use --yes")
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
