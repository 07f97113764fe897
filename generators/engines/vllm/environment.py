"""This module sets what vLLM and its processes read at import. The vLLM engine calls it before it imports vLLM."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from config.generators import VllmEngineConfig


def set_environment(config: VllmEngineConfig, *, on_cpu: bool) -> None:
    """Set what vLLM and its processes read at import; what the operator has set stays.

    On a CPU each worker would bind its threads to cores of its own choice, the same ones in every generator. And
    torch.compile would build a kernel with g++ at the first token even in eager mode.
    """
    settings = {
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
    }
    if on_cpu:
        settings |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
        if config.enforce_eager:
            settings["TORCHDYNAMO_DISABLE"] = "1"
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    if on_cpu:
        _find_libnuma(Path(sys.prefix) / "lib")


def _find_libnuma(folder: Path) -> None:
    """Load the libnuma that `make setup` put into the environment: vLLM's kernels need it where the system has none."""
    library = folder / "libnuma.so.1"
    if library.exists():
        ctypes.CDLL(str(library))  # this process
        paths = [str(folder), *filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))]
        os.environ["LD_LIBRARY_PATH"] = ":".join(dict.fromkeys(paths))  # the processes that vLLM starts
