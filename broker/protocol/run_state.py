"""Pass requests to the running learner in the fields `wanted` and `why` of the hash `run`.

`wanted` is an operator's request: written by `millrace drain|pause|resume` (or by a learner that pauses itself,
`learner.hacking`), read by the learner about once a second, and obeyed by the next learner where none runs. It stays
until the learner has fulfilled it. `why` explains a signal: `millrace up` writes it before it stops a learner because
another role keeps failing, and the learner's last status repeats it.
"""

from __future__ import annotations

from typing import Any

from broker.connection import RedisLink
from broker.keys import Keys
from broker.monitoring.snapshot import decoded

DRAIN = "drain"  # issue nothing new, train what is in flight, checkpoint, exit with 0
PAUSE = "pause"  # issue nothing new and train nothing; groups in flight are sampled and scored
GO_ON = ""


def ask(link: RedisLink, keys: Keys, wanted: str) -> None:
    """Ask the learner of a run for DRAIN, PAUSE or GO_ON."""
    # Full memory, a possible reason to ask, does not refuse the script.
    link.script("set_state", keys.scripts(), "wanted", wanted)


def ask_unless_asked(link: RedisLink, keys: Keys, wanted: str) -> None:
    """Ask as `ask` does, for the learner itself: an operator's earlier request stays."""
    if asked(link, keys) == GO_ON:
        ask(link, keys, wanted)


def asked(link: RedisLink, keys: Keys) -> str:
    """Read the last request: DRAIN, PAUSE or GO_ON."""
    return fields_of(link, keys, "wanted")[0]


def explain(link: RedisLink, keys: Keys, why: str) -> None:
    """Record why the learner is about to be sent a signal; "" withdraws the reason."""
    link.script("set_state", keys.scripts(), "why", why)


def explanation(link: RedisLink, keys: Keys) -> str:
    """Read why the learner was sent a signal; "" where no reason was recorded."""
    return fields_of(link, keys, "why")[0]


def fields_of(link: RedisLink, keys: Keys, *fields: str) -> list[str]:
    """Read fields of the hash `run`; "" for a missing one."""
    values: Any = link(lambda client: client.hmget(keys.run, fields))
    return [decoded(value) for value in values]
