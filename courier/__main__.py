"""`python -m courier PARENT_PID`: moves weights in one epoch, as its parent tells it; no command for people.

In, on standard input, a JSON object a line: first the settings (`courier.rendezvous.Settings`), then commands.
  {"round": 3, "paths": [...], "sizes": [...]}    to the sender: send these files
  {"round": 3, "sizes": [...]}                    to a receiver: take part, and stage files of these sizes
  {"void": 3}                                     to the sender: end that round early
  {"taken": 3}                                    to a receiver: its parent has the staged files open
Out, on standard output, an event a line: `listening` (the sender's, with its port), `connected`, `open`, `progress`,
`sent`, `void`, `staged` (with descriptors of files in memory), `spoiled`, and `failed` with a reason, after which the
process ends.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Mapping
from typing import Any, TextIO

from broker.processes import die_with_parent


def main(argv: list[str] | None = None) -> int:
    """Connect, and carry out commands until standard input ends.

    Returns:
        0: the parent wants no more; 1: the epoch is over for this process, for the reason in its last event.
    """
    (parent,) = argv if argv is not None else sys.argv[1:]
    die_with_parent(int(parent))
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no event
    commands: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=[commands], name="commands", daemon=True).start()

    def emit(event: str, **facts: Any) -> None:
        _write(events, {"event": event, **facts})

    from courier.rendezvous import Settings  # imports torch, which takes seconds
    from courier.roles import receive, send

    try:
        settings = Settings(**commands.get())
        (send if settings.rank == 0 else receive)(settings, commands, emit)
    except (OSError, RuntimeError) as error:
        emit("failed", reason=" ".join(str(error).split())[:500])
        os._exit(1)  # a library's own end may wait for peers
    return 0


def _listen(commands: queue.SimpleQueue[Mapping[str, Any]]) -> None:
    """Read commands. The end of standard input is the parent's end, or its wish that this process ends."""
    for line in sys.stdin:
        commands.put(json.loads(line))
    os._exit(0)


def _write(events: TextIO, event: Mapping[str, Any]) -> None:
    events.write(f"{json.dumps(event)}\n")
    events.flush()


if __name__ == "__main__":
    sys.exit(main())
