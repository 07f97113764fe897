"""A generator that a library's crash ends whenever it samples one group: `deadly_generator.py RUN SEED`."""

from __future__ import annotations

import os
import resource
import signal
import sys

import numpy as np
from numpy.typing import NDArray

from generators.__main__ import main
from generators.engine import Sample, SamplingParams
from generators.engines.scripted import ScriptedEngine


class DeadlyEngine(ScriptedEngine):
    """The fake engine, with a bug in C."""

    async def generate(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int
    ) -> tuple[Sample, ...]:
        if str(params.seed) == sys.argv[2]:
            os.kill(os.getpid(), signal.SIGSEGV)
        return await super().generate(token_ids, params, n)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import generators.engines.scripted

    generators.engines.scripted.ScriptedEngine = DeadlyEngine  # type: ignore[misc]
    sys.exit(main(["--run", sys.argv[1]]))
