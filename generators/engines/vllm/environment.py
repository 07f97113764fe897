"""Set the environment variables that vLLM and its processes read at import.

The vLLM engine sets them before it imports vLLM, and `millrace up` gives them to the `vllm serve` of a served judge.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from config.generators import VllmEngineConfig

GENERATOR_PID = "_MILLRACE_GENERATOR_PID"  # the process that starts the engine core, for vLLM's own processes
LIBRARIES = "LD_LIBRARY_PATH"
THREADS = "OMP_NUM_THREADS"
START_METHOD = "VLLM_WORKER_MULTIPROC_METHOD"  # of the processes that vLLM starts
BINDING = "VLLM_CPU_OMP_THREADS_BIND"
UNBOUND = "nobind"  # vLLM's value for threads without reserved cores


def set_environment(config: VllmEngineConfig, *, on_cpu: bool) -> None:
    """Set vLLM's environment variables; the operator's values stay, except for the run's `threads`."""
    for name, value in variables(config, on_cpu=on_cpu).items():
        os.environ.setdefault(name, value)
    if on_cpu and config.threads is not None:
        os.environ[THREADS] = str(config.threads)
    if on_cpu and (libnuma := own_libnuma()) is not None:
        ctypes.CDLL(str(libnuma))  # this process
        os.environ[LIBRARIES] = library_path(libnuma)  # the processes that vLLM starts


def variables(config: VllmEngineConfig, *, on_cpu: bool) -> dict[str, str]:
    """Return vLLM's environment variables, for another process or for this one.

    On a CPU each worker would pin its threads to cores, the same ones in every generator. And torch.compile would build
    a kernel with g++ at the first token even in eager mode.
    """
    settings = {START_METHOD: "spawn", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    if on_cpu:
        settings |= {BINDING: UNBOUND, THREADS: str(config.threads or 1)}
        if config.enforce_eager:
            settings["TORCHDYNAMO_DISABLE"] = "1"
    return settings


def own_libnuma() -> Path | None:
    """Return the libnuma of this Python environment: vLLM's CPU kernels need it where the system has none."""
    library = Path(sys.prefix) / "lib" / "libnuma.so.1"
    return library if library.exists() else None


def library_path(libnuma: Path) -> str:
    """Return the library path with `libnuma`'s folder first."""
    paths = [str(libnuma.parent), *filter(None, os.environ.get(LIBRARIES, "").split(":"))]
    return ":".join(dict.fromkeys(paths))
