"""A courier that moves nothing: `python -m tests.generators.weight_sync.fake_courier WHAT PARENT_PID`.

WHAT is `mute` (it says nothing, ever, and heeds no SIGTERM), `absent` (a sender that listens, and says that rank 1 did not
come), `mute-later` (a sender that listens, and then says nothing), or `stuck` (all connect, and then a round hangs).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time


def say(event: str, **facts: object) -> None:
    sys.stdout.write(f"{json.dumps({'event': event, **facts})}\n")
    sys.stdout.flush()


def main() -> None:
    what = sys.argv[1]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    if what != "mute":
        say("listening", port=1)
    if what == "absent":
        say("missing", ranks=[1])
        say("failed", reason="1 of 1 did not connect in time")
    if what == "stuck":
        say("open")
    time.sleep(600)


def end_with_parent() -> None:

    for _ in sys.stdin:
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
