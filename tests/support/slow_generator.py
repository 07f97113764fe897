"""A generator whose engine takes as long for a group as it is told: `slow_generator.py RUN SECONDS`."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

from broker.joining import join
from broker.monitoring.heartbeat import Heartbeat
from config.generators import ScriptedEngineConfig
from config.logs import set_up_logging
from generators.engines.scripted import ScriptedEngine
from generators.worker import ROLE, Generator


def main(run: str, seconds: float) -> int:
    """Sample with scripted answers, one right and one wrong, until the run ends."""
    set_up_logging("generator")
    stop = threading.Event()
    joined = join(run, Path("runs"), stop)
    assert joined is not None
    engine = ScriptedEngine(
        joined.run, ScriptedEngineConfig(answers=("\\boxed{1}", "\\boxed{2}"), seconds_per_group=seconds)
    )
    name = f"slow-{os.getpid()}"
    heartbeat = Heartbeat(joined.link, joined.keys, ROLE, name)
    asyncio.run(Generator(joined, engine, name, stop).run(heartbeat))
    heartbeat.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
