"""Ask the operator before something is deleted.

In: what will be deleted. Out: whether the operator agrees. Without a terminal, `--yes` must agree beforehand.
"""

from __future__ import annotations

import sys

from broker.errors import Permanent


class NobodyToAsk(Permanent):
    """The verb asks for confirmation, and there is no terminal to answer."""


def agrees(question: str, *, what: str) -> bool:
    """Ask `question` on the terminal; anything but y and yes means no.

    Raises:
        NobodyToAsk: standard input is no terminal; the message has `what` would be deleted.
    """
    if not sys.stdin.isatty():
        raise NobodyToAsk(f"nobody is here to ask whether {what} should go; use --yes")
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
