"""The fields `wanted` and `why` of the hash `run` carry requests to the learner that runs.

`wanted` is an operator's: written by `millrace drain|pause|resume` (and by the learner that pauses itself,
`learner.hacking`), read by the learner about once a second, and obeyed by the next learner where none runs. `wanted`
stays until the learner has done it. `why` explains a signal: `millrace up` writes `why` before it ends a learner
because another role keeps failing, and the learner's last status repeats it.
"""

from __future__ import annotations

from broker.connection import RedisLink
from broker.keys import Keys

DRAIN = "drain"  # let nothing new in, train what is there, checkpoint, end with 0
PAUSE = "pause"  # let nothing new in and train nothing; groups in flight are sampled and scored
GO_ON = ""


def ask(link: RedisLink, keys: Keys, wanted: str) -> None:
    """Ask the learner of a run for DRAIN, PAUSE or GO_ON."""
    # Full memory, which may be why, does not refuse the script.
    link.script("set_state", keys.scripts(), "wanted", wanted)


def ask_unless_asked(link: RedisLink, keys: Keys, wanted: str) -> None:
    """Ask as `ask` does, for the learner itself: what an operator has asked for before stays."""
    if asked(link, keys) == GO_ON:
        ask(link, keys, wanted)


def asked(link: RedisLink, keys: Keys) -> str:
    """Read what was asked for last: DRAIN, PAUSE or GO_ON."""
    return _read(link, keys, "wanted")


def explain(link: RedisLink, keys: Keys, why: str) -> None:
    """Write why the learner is about to be sent a signal; "" takes the reason back."""
    link.script("set_state", keys.scripts(), "why", why)


def explanation(link: RedisLink, keys: Keys) -> str:
    """Read why the learner was sent a signal; "" where no reason was written."""
    return _read(link, keys, "why")


def _read(link: RedisLink, keys: Keys, field: str) -> str:
    found = link(lambda client: client.hget(keys.run, field))
    return found.decode() if isinstance(found, bytes) else ""
