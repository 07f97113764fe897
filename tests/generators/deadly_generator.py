"""A generator that a library's crash ends whenever it samples one group: `deadly_generator.py RUN GROUP`."""

from __future__ import annotations

import os
import resource
import signal
import sys

from broker.messages import Completion, Prompt
from generators.__main__ import main
from generators.engines.scripted import ScriptedEngine


class DeadlyEngine(ScriptedEngine):
    """The fake engine, with a bug in C."""

    async def sample(self, prompt: Prompt) -> tuple[Completion, ...]:
        if prompt.group_id == sys.argv[2]:
            os.kill(os.getpid(), signal.SIGSEGV)
        return await super().sample(prompt)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import generators.engines.scripted

    generators.engines.scripted.ScriptedEngine = DeadlyEngine  # type: ignore[misc]
    sys.exit(main(["--run", sys.argv[1]]))
