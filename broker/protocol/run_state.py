"""What a running learner is told by those who may stop it: the fields `wanted` and `why` of the hash `run`.

`wanted` is an operator's: written by `millrace drain|pause|resume`, read by the learner about once a second, and obeyed
by the one that comes next where none runs. It stays until the learner has done it. `why` is for the signal of whoever
keeps the roles: `millrace up` writes it before it ends a learner because another role keeps failing, and what the
learner says last takes it along.
"""

from __future__ import annotations

from broker.connection import RedisLink
from broker.keys import Keys

DRAIN = "drain"  # let nothing new in, train what is there, checkpoint, end with 0
PAUSE = "pause"  # let nothing new in and train nothing; what is out is sampled and scored
GO_ON = ""


def ask(link: RedisLink, keys: Keys, wanted: str) -> None:
    """Ask the learner of a run for DRAIN, PAUSE or GO_ON."""
    link.script(
        "set_state", keys.scripts(), "wanted", wanted
    )  # full memory, which may be why, does not refuse it


def asked(link: RedisLink, keys: Keys) -> str:
    """What was asked for last."""
    return _read(link, keys, "wanted")


def explain(link: RedisLink, keys: Keys, why: str) -> None:
    """Say why the learner is about to be sent a signal; "" takes it back."""
    link.script("set_state", keys.scripts(), "why", why)


def explanation(link: RedisLink, keys: Keys) -> str:
    """Why the learner was sent a signal; "" where nobody said."""
    return _read(link, keys, "why")


def _read(link: RedisLink, keys: Keys, field: str) -> str:
    found = link(lambda client: client.hget(keys.run, field))
    return found.decode() if isinstance(found, bytes) else ""
