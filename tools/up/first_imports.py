"""Begin the fork server of a run's roles before the configuration is read, which takes a third of a second.

In: nothing. Out: a `ForkServer` that imports what every role with torch needs; `tools.up.role_commands` tells it the
rest, or closes it, once the configuration says what the roles are. Imports nothing that takes long.
"""

from __future__ import annotations

from broker.fork_server.client import ForkServer

TORCH = (
    "torch",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.modeling_utils",
)


def begin_fork_server() -> ForkServer:
    """Return a server that waits for `complete_fork_server`."""
    return ForkServer(TORCH, is_complete=False)
