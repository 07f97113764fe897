"""What an operator asks of a running learner: the field `wanted` of the hash `run`.

Written by `millrace drain|pause|resume`, read by the learner about once a second, and obeyed by the one that comes next
where none runs. It stays until the learner has done it.
"""

from __future__ import annotations

from broker.connection import Link
from broker.keys import Keys

DRAIN = "drain"         # let nothing new in, train what is there, checkpoint, end with 0
PAUSE = "pause"         # let nothing new in and train nothing; what is out is sampled and scored
GO_ON = ""


def ask(link: Link, keys: Keys, wanted: str) -> None:
    """Ask the learner of a run for DRAIN, PAUSE or GO_ON."""
    link.script("ask", keys.scripts(), wanted)          # full memory, which may be why, does not refuse it


def asked(link: Link, keys: Keys) -> str:
    """What was asked for last."""
    found = link(lambda client: client.hget(keys("run"), "wanted"))
    return found.decode() if isinstance(found, bytes) else GO_ON
