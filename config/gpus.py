"""Find the GPUs of this machine without torch, and choose which of them a process may see.

In: `nvidia-smi`, `CUDA_VISIBLE_DEVICES`, and the GPUs that a configuration names. Out: the GPUs' names, the driver's
version, their memory, the variable for a child process, and the reason why a torch that is built for GPUs sees none.
Used by `millrace up` and doctor, by learner and generators so that they do not silently run on the CPU, and by
generators before they reserve a GPU's memory.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from config.explanations import ConfigError

VARIABLE = "CUDA_VISIBLE_DEVICES"
HIDDEN = frozenset({"", "-1", "none", "void", "nodevfiles"})  # values of this variable that hide every GPU
SMI = ("nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader")
MEMORY_SMI = (
    "nvidia-smi",
    "--query-gpu=index,uuid,memory.free,memory.total",
    "--format=csv,noheader,nounits",
)
SMI_S = 10.0
DEVICES = ("nvidia[0-9]*", "dxg", "kfd")  # in /dev: NVIDIA's, Windows' and AMD's


def sees_gpu(devices: Path = Path("/dev")) -> bool:
    """Return whether torch can see a GPU here, by the system and torch's metadata."""
    if are_hidden():
        return False
    try:
        if metadata.version("torch").endswith("+cpu"):
            return False
    except metadata.PackageNotFoundError:
        pass
    return any(True for name in DEVICES for _ in devices.glob(name))


@dataclass(frozen=True, slots=True)
class SystemGpus:
    """GPUs that the driver knows, whether torch sees them or not."""

    driver: str = ""  # the driver's version; "" if there is no driver
    names: tuple[str, ...] = ()


def system_gpus() -> SystemGpus:
    """Ask the driver's tool for the GPUs. Return none if it is missing or does not answer."""
    rows = [line.split(", ", 1) for line in _answer_of(SMI) if ", " in line]
    return SystemGpus(rows[0][0] if rows else "", tuple(name for _, name in rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Memory of one GPU, and how much of it all processes together use."""

    name: str  # its number, or its name in CUDA_VISIBLE_DEVICES
    free_bytes: int
    total_bytes: int


def cards() -> tuple[Card, ...]:
    """Ask the driver's tool for the memory of the GPUs that this process sees, in this process's order.

    Empty if there are none, if the tool is missing, or if it does not know one of them, as with parts of a GPU (MIG).
    Numbers are those of the tool: CUDA's may differ if the machine has GPUs of different kinds.
    """
    found: dict[str, Card] = {}
    for line in _answer_of(MEMORY_SMI):
        index, uuid, *numbers = (word.strip() for word in line.split(","))
        if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
            continue
        free_bytes, total_bytes = (int(number) << 20 for number in numbers)
        for name in (index, uuid):
            found[name] = Card(name=index, free_bytes=free_bytes, total_bytes=total_bytes)
    given = os.environ.get(VARIABLE)
    if given is None:
        return tuple(card for name, card in found.items() if name == card.name)
    names = [] if are_hidden() else [name.strip() for name in given.split(",")]
    return tuple(found[name] for name in names) if all(name in found for name in names) else ()


def _answer_of(command: Sequence[str]) -> list[str]:
    """Return the lines that a command of the driver prints; none if it fails or does not answer in time."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=SMI_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return said.splitlines()


def are_hidden() -> bool:
    """Return whether this process was started with all GPUs hidden."""
    return os.environ.get(VARIABLE, "all").strip().lower() in HIDDEN


def visible(key: str, gpus: Sequence[int]) -> str:
    """Return the variable's value for a process that should see `gpus`, counted among those that this process sees.

    A scheduler assigns GPUs by the same variable, by numbers or by names. Of `4,5,6,7` the GPUs 0 and 2 are `4,6`.

    Args:
        key: key of the configuration that names the GPUs, for the message.
        gpus: numbers, counted from 0.
    Raises:
        ConfigError: this process has fewer GPUs.
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
    """Return why a torch that is built for GPUs sees none of this machine's GPUs; "" if nothing is wrong.

    Args:
        version: torch's version.
        cuda: the version of CUDA that torch is built with; None: torch is built for the CPU, and needs none.
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
