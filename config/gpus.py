"""This module knows the GPUs of this machine from outside of torch, and which of them a process may see.

In: `nvidia-smi`, `CUDA_VISIBLE_DEVICES`, and the GPUs that a configuration names. Out: their names with the driver's
version, the variable for a child process, and why a torch that is built for GPUs sees none. Used by `millrace up` and
doctor, and by learner and generators before they would train or sample on the CPU without a word.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from config.explanations import ConfigError

VARIABLE = "CUDA_VISIBLE_DEVICES"
HIDDEN = frozenset({"", "-1", "none", "void", "nodevfiles"})  # values of it that hide every GPU
SMI = ("nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader")
SMI_S = 10.0


@dataclass(frozen=True, slots=True)
class SystemGpus:
    """The GPUs that the driver knows, whatever torch sees."""

    driver: str = ""  # its version; "" where there is none
    names: tuple[str, ...] = ()


def system_gpus() -> SystemGpus:
    """Ask the driver's own tool for GPUs. None where it is not there or does not answer."""
    try:
        said = subprocess.run(SMI, capture_output=True, text=True, timeout=SMI_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return SystemGpus()
    rows = [line.split(", ", 1) for line in said.splitlines() if ", " in line]
    return SystemGpus(rows[0][0] if rows else "", tuple(name for _, name in rows))


def are_hidden() -> bool:
    """Say whether whoever started this process hides all GPUs from it."""
    return os.environ.get(VARIABLE, "all").strip().lower() in HIDDEN


def visible(key: str, gpus: Sequence[int]) -> str:
    """Return the variable's value for a process that is to see `gpus`, counted among those that this process sees.

    A scheduler hands out GPUs by the same variable, by numbers or by names. Of `4,5,6,7` the GPUs 0 and 2 are `4,6`.

    Args:
        key: of the configuration that names the GPUs, for the message.
        gpus: numbers from 0 on.
    Raises:
        ConfigError: fewer GPUs were handed out.
    """
    given = os.environ.get(VARIABLE)
    if given is None:
        return ",".join(map(str, gpus))
    handed = [] if given.strip().lower() in HIDDEN else [name.strip() for name in given.split(",")]
    if lacking := [gpu for gpu in gpus if gpu >= len(handed)]:
        raise ConfigError(
            f"{key}={list(gpus)}: {VARIABLE}={given} hands out {len(handed)} GPUs, numbered from 0, and "
            f"{', '.join(map(str, lacking))} is not among them"
        )
    return ",".join(handed[gpu] for gpu in gpus)


def why_unseen(version: str, cuda: str | None) -> str:
    """Say why a torch that is built for GPUs sees none of those that are here; "" where nothing is wrong.

    Args:
        version: of torch.
        cuda: the version of CUDA that torch is built with; None: it is built for the CPU, and need not see any.
    """
    if cuda is None or are_hidden():
        return ""
    found = system_gpus()
    if not found.names:
        return ""
    return (
        f"{len(found.names)} x {found.names[0]} with driver {found.driver} {'is' if len(found.names) == 1 else 'are'} "
        f"here, and torch {version}, built with CUDA {cuda}, sees none: most likely the driver is too old for it. "
        "Update the driver (nvidia-smi shows the CUDA that it goes with)"
    )
