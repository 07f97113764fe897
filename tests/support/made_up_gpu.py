"""A program that resolves the engine's settings as on GPUs that are made up, and prints what came of them as JSON.

In: the model's folder, and a list as JSON with each GPU's name, its memory in GiB, its compute capability, and fields
of the engine's section. Out: a line each. Each is resolved in a fork of the process that has imported vLLM, which keeps
for good what a platform was asked once. vLLM's CPU build carries the Python half of its platform for CUDA: what that half asks of the driver is answered
here, and the library that it imports for its kernels is an empty module. No kernel runs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from config.generators import VllmEngineConfig
from config.run import Run
from tests.support.byte_model import make_run

GIB = 2**30
KERNELS = "vllm._C_stable_libtorch"  # of the build for GPUs; its platform imports them


def pretend(name: str, memory_gib: int, capability: str) -> None:
    """Have vLLM see eight such GPUs in place of this machine's platform."""
    import generators.engines.vllm.worker  # noqa: F401 - while it finds this machine's kernels

    if importlib.util.find_spec(KERNELS) is None:
        sys.modules[KERNELS] = ModuleType(KERNELS)
    import vllm.config.vllm
    import vllm.platforms
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    class MadeUpPlatform(CudaPlatformBase):
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
            del device_id
            major, minor = map(int, capability.split("."))
            return DeviceCapability(major, minor)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            del device_id
            return name

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            del device_id
            return memory_gib * GIB

        @classmethod
        def device_count(cls) -> int:
            return 8

        @classmethod
        def num_compute_units(cls, device_id: int = 0) -> int:
            del device_id
            return 132

        @classmethod
        def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:
            del physical_device_ids
            return True

        @classmethod
        def log_warnings(cls) -> None:
            pass

    vllm.platforms._current_platform = MadeUpPlatform()  # type: ignore[assignment]
    vllm.config.vllm.HAS_TRITON = True  # type: ignore[attr-defined] # vLLM asks whether Triton can compile, which takes a driver


def report(run: Run, config: VllmEngineConfig) -> dict[str, object]:
    from vllm.v1.executor import Executor

    from generators.engines.vllm.settings import resolve

    found = resolve(run, config)
    return {
        "v2_model_runner": found.use_v2_model_runner,
        "async_scheduling": found.scheduler_config.async_scheduling,
        "max_num_batched_tokens": found.scheduler_config.max_num_batched_tokens,
        "max_num_seqs": found.scheduler_config.max_num_seqs,
        "prefix_caching": found.cache_config.enable_prefix_caching,
        "head_dtype": str(found.model_config.head_dtype),
        "dtype": str(found.model_config.dtype),
        "logprobs_mode": found.model_config.logprobs_mode,
        "load_format": str(found.load_config.load_format),
        "cuda_graphs": str(found.compilation_config.cudagraph_mode),
        "executor": Executor.get_class(found).__name__,
    }


def resolved(folder: Path, gpu: str, memory_gib: str, capability: str, engine: dict[str, object]) -> str:
    """Return the line of one GPU. The process is of no use for another one then."""
    section = VllmEngineConfig.model_validate(engine)
    pretend(gpu, int(memory_gib), capability)
    run = make_run(folder, section, max_tokens=1024, context=2048)
    run = run.model_copy(update={"model": run.model.model_copy(update={"dtype": "bfloat16"})})
    return json.dumps(report(run, section)) + "\n"


def import_beforehand() -> None:
    """Import what takes long, and asks no platform anything."""

    import generators.engines.vllm.settings
    import generators.engines.vllm.worker  # noqa: F401


if __name__ == "__main__":
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    os.environ["HF_HUB_OFFLINE"] = "1"
    import_beforehand()
    for case in json.loads(sys.argv[2]):
        child = os.fork()
        if child == 0:
            try:
                sys.stdout.write(resolved(Path(sys.argv[1]), *case))
                sys.stdout.flush()
                os._exit(0)
            finally:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{case[0]}: ended with status {status}")
