"""A generator's death, however it comes, is that of vLLM's processes: they hold the memory that its successor needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.descendants import descendants
from tests.support.paths import ROOT
from tests.support.waiting import is_running, wait_until_gone

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]

GENERATOR = """
import asyncio, sys
from pathlib import Path
from config.generators import VllmEngineConfig
from generators.engines.vllm.engine import VllmEngine
from tests.support.byte_model import make_run

CONFIG = VllmEngineConfig(kv_cache_mb=64, max_num_seqs=4, enforce_eager=True, start_timeout_s=280)

async def main():
    await VllmEngine(make_run(Path(sys.argv[1]), CONFIG), CONFIG).start()
    print("started", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.prove
def test_a_generator_that_is_killed_takes_all_of_vllm_with_it(tiny_model: Path) -> None:
    generator = subprocess.Popen(
        [sys.executable, "-c", GENERATOR, str(tiny_model)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
    )
    try:
        assert generator.stdout is not None
        assert b"started\n" in generator.stdout, "it ended before"  # vLLM has a few lines of its own
        family = descendants(generator.pid)
        assert any("EngineCore" in name for name in family.values()), family
    finally:
        generator.kill()
        generator.wait()
    try:
        wait_until_gone(*family)
    finally:
        for pid in filter(is_running, family):
            os.kill(pid, signal.SIGKILL)  # not to stay until the machine is switched off
