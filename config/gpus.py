"""This module knows the GPUs of this machine from outside of torch, and which of them a process may see.

In: `nvidia-smi`, `CUDA_VISIBLE_DEVICES`, and the GPUs that a configuration names. Out: their names with the driver's
version, their memory, the variable for a child process, and why a torch that is built for GPUs sees none. Used by
`millrace up` and doctor, by learner and generators before they would train or sample on the CPU without a word, and by
generators before they take a GPU's memory.
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
MEMORY_SMI = (
    "nvidia-smi",
    "--query-gpu=index,uuid,memory.free,memory.total",
    "--format=csv,noheader,nounits",
)
SMI_S = 10.0


@dataclass(frozen=True, slots=True)
class SystemGpus:
    """The GPUs that the driver knows, whatever torch sees."""

    driver: str = ""  # its version; "" where there is none
    names: tuple[str, ...] = ()


def system_gpus() -> SystemGpus:
    """Ask the driver's own tool for GPUs. None where it is not there or does not answer."""
    rows = [line.split(", ", 1) for line in _answer_of(SMI) if ", " in line]
    return SystemGpus(rows[0][0] if rows else "", tuple(name for _, name in rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The memory of one GPU, whoever has taken it."""

    name: str  # its number, or as CUDA_VISIBLE_DEVICES names it
    free_bytes: int
    total_bytes: int


def cards() -> tuple[Card, ...]:
    """Ask the driver's own tool for the memory of the GPUs that this process sees, in the order in which it sees them.

    Empty where there are none, where the tool is not there, or where it does not know one of them, as with parts of a
    GPU (MIG). Numbers are those of the tool: CUDA's own may be others where GPUs of different kinds are in one machine.
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
    """Return the lines that a command of the driver prints; none where it fails or does not answer in time."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=SMI_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return said.splitlines()


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
