"""Check this machine's disk, memory, GPU memory, open files and compilers against a run's needs.

In: the run, if one is given. Out: findings. `tools.estimates` has a run's needs, and each finding names its source. The
system reports the machine's capacity; tests may replace it.
"""

from __future__ import annotations

import os
import resource
import shutil
import sysconfig
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from config.generators import VllmEngineConfig
from config.gpus import cards, system_gpus
from config.run import Run
from learner.weight_sync.version_folder import published
from tools.doctor.findings import Check, CheckFinding, readable
from tools.doctor.gpu_memory import check_gpu_memory
from tools.estimates.generators import sampling_bytes
from tools.estimates.learner import reference_bytes, training_bytes
from tools.estimates.model import DecoderShape, Size, shape_of, size_of
from tools.estimates.stores import checkpoints_bytes, journal_bytes, versions_bytes

AREA = "machine"
DISK, MEMORY, SHARED, FILES = (
    Check(AREA, name) for name in ("disk", "memory", "shared memory", "open files")
)
MODEL, COMPILERS = Check(AREA, "model size"), Check(AREA, "compilers")

GIB = 1 << 30
LITTLE_DISK = 5 * GIB  # bytes that are few, without a run to compare with
SHARED_NEEDED = 1 * GIB  # for processes that pass tensors to each other: NCCL, vLLM's workers
FEW_FILES = 1024
HEADERS = Path(sysconfig.get_paths()["include"])  # of this Python
CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes that a run writes to a folder, and their purpose."""

    folder: Path
    what: str
    count: float  # bytes
    is_sure: bool  # False: an upper bound


def check_machine(run: Run | None) -> Iterator[CheckFinding]:
    """Yield all findings about the machine."""
    shape = None
    if run is not None:
        size = size_of(run.model)
        shape = None if size is None else shape_of(run.model, size)
        yield model_size(run, size)
    yield from disks(needs_of(run, shape))
    yield memory(run, shape)
    if run is not None:
        yield from check_gpu_memory(run, shape, cards())
    yield shared_memory(run)
    yield open_files(run)
    if system_gpus().names:
        yield compilers(run)


def model_size(run: Run, size: Size | None) -> CheckFinding:
    """Make the finding about the model's size, the base of the estimates."""
    if size is None:
        return MODEL.note(
            f"how large {run.model.path} is can't be told without its files: what it needs is left out below",
            do=f"hf download {run.model.path}",
        )
    return MODEL.ok(f"{size.parameters / 1e6:.1f} million parameters, {size.source}, in {run.model.dtype}")


def needs_of(run: Run | None, shape: DecoderShape | None) -> list[Need]:
    """Return what a run writes, and where."""
    if run is None:
        return [Need(folder=Path.cwd(), what="a run in this folder", count=LITTLE_DISK, is_sure=False)]
    needs = [
        Need(
            folder=run.folder,
            what=f"the journal of {run.learner.steps} steps",
            count=journal_bytes(run),
            is_sure=False,
        )
    ]
    if shape is not None:
        needs += [
            Need(
                folder=published(run),
                what="the versions of the weights",
                is_sure=True,
                count=versions_bytes(run, shape.parameters),
            ),
            Need(
                folder=run.folder,
                what="checkpoints and the trained model",
                is_sure=True,
                count=checkpoints_bytes(run, shape),
            ),
        ]
    return needs


def disks(
    needs: list[Need], *, free_of: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free
) -> Iterator[CheckFinding]:
    """Yield for each disk whether its needs fit."""
    by_disk: dict[int, list[Need]] = defaultdict(list)
    for need in needs:
        by_disk[_existing(need.folder).stat().st_dev].append(need)
    for some in by_disk.values():
        folder = _existing(some[0].folder)
        if not os.access(folder, os.W_OK):
            yield DISK.problem(
                f"{folder} can't be written",
                do=f"runs_dir=FOLDER names another place, or: sudo chown $USER {folder}",
            )
            continue
        yield _disk(folder, some, free_of(folder))


def _disk(folder: Path, needs: list[Need], free: int) -> CheckFinding:
    parts = ", ".join(
        f"{need.what} {'about' if need.is_sure else 'at most about'} {readable(need.count)}" for need in needs
    )
    seen = f"{readable(free)} free at {folder}; estimate: {parts}"
    do = f"make room (df -h {folder}), or name another place: runs_dir=FOLDER"
    if free < sum(need.count for need in needs if need.is_sure):
        return DISK.problem(f"{seen}: too little", do=do)
    if free < sum(need.count for need in needs):
        return DISK.note(f"{seen}: it may fill up", do=f"{do}, or learner.journal.keep_mb=...")
    return DISK.ok(seen)


def memory(
    run: Run | None, shape: DecoderShape | None, *, available: Callable[[], int] | None = None
) -> CheckFinding:
    """Check that the model fits, where all roles run here and on the CPU."""
    free = (available or available_memory)()
    if run is None or shape is None:
        return MEMORY.ok(f"{readable(free)} available")
    training, sampling = training_bytes(run, shape), sampling_bytes(run, shape.parameters)
    reference = reference_bytes(run, shape.parameters)
    beside = f"the reference model {readable(reference)}, " if reference else ""
    seen = (
        f"{readable(free)} available; estimate, without a GPU and activations: training {readable(training)}, "
        f"{beside}{run.generators.count} generator{'s' * (run.generators.count > 1)} {readable(sampling)}"
    )
    if free < training + reference + sampling:
        return MEMORY.note(
            f"{seen}: more than there is", do="a GPU, a smaller model, or the roles on several machines"
        )
    return MEMORY.ok(seen)


def available_memory() -> int:
    """Return the bytes available to processes: the system's, or the rest of a container's limit."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    free = next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("MemAvailable:"))
    try:
        limit = int(CGROUP.read_text(encoding="ascii"))
        used = int(CGROUP.with_name("memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # none, or "max"
        return free
    return min(free, max(0, limit - used))


def shared_memory(
    run: Run | None,
    *,
    folder: Path = Path("/dev/shm"),  # noqa: S108 - it is what is looked at
    total_of: Callable[[Path], int] = lambda path: shutil.disk_usage(path).total,
) -> CheckFinding:
    """Check the shared memory: a container has 64 MiB unless configured otherwise."""
    several = run is not None and (run.learner.ranks > 1 or _width(run) > 1)
    total = total_of(folder) if folder.is_dir() else 0
    seen, do = f"{readable(total)} at {folder}", "docker run --shm-size=8g, or shm_size: 8g in a compose file"
    if total < SHARED_NEEDED and several:
        return SHARED.problem(f"{seen}: too little for several ranks, or for tensor_parallel", do=do)
    if total < SHARED_NEEDED:
        return SHARED.note(
            f"{seen}: too little for a learner of several ranks, or for tensor_parallel", do=do
        )
    return SHARED.ok(seen)


def open_files(
    run: Run | None,
    *,
    limits: Callable[[], tuple[int, int]] = lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
) -> CheckFinding:
    """Check the limit of open files: a worker uses one per call to a served model, several per program."""
    soft, hard = limits()
    if soft == resource.RLIM_INFINITY:
        return FILES.ok("no limit")
    calls = (
        max((endpoint.concurrency for _, endpoint in run.scorers.endpoints()), default=0)
        if run is not None
        else 0
    )
    needed = max(FEW_FILES, 256 + 4 * calls)
    if soft < needed:
        raised = f"ulimit -n {max(needed, 4096)}"
        do = (
            raised
            if hard == resource.RLIM_INFINITY or hard >= needed
            else f"{raised}; the hard limit is {hard}: LimitNOFILE= of the service, or nofile in limits.conf"
        )
        return FILES.problem(f"{soft} at once, and {needed} are needed", do=do)
    return FILES.ok(f"{soft} at once")


def compilers(
    run: Run | None, *, which: Callable[[str], str | None] = shutil.which, headers: Path = HEADERS
) -> CheckFinding:
    """Check the compilers that a run uses at its start: Triton needs C, DeepSpeed's CPU-Adam needs C++.

    Neither needs CUDA's own compiler; only flash-attn is built with it, and the libraries' finding says so.
    """
    has_c, has_cpp = (any(map(which, names)) for names in (("cc", "gcc", "clang"), ("g++", "c++")))
    offloads = run is not None and run.learner.zero.offload_optimizer
    wanted = {
        "a C compiler (Triton)": has_c,
        "g++ (DeepSpeed's CPU-Adam, with learner.zero.offload_optimizer)": has_cpp,
        f"Python.h in {headers} (both)": (headers / "Python.h").is_file(),
    }
    lacking = [what for what, found in wanted.items() if not found]
    if not lacking:
        return COMPILERS.ok("C, C++ and Python.h are here")
    seen = f"not here: {'; '.join(lacking)}"
    do = "sudo apt-get install gcc g++ python3-dev (of the Python that runs this)"
    only_cpp = has_c and (headers / "Python.h").is_file()
    return COMPILERS.note(seen, do=do) if only_cpp and not offloads else COMPILERS.problem(seen, do=do)


def _width(run: Run) -> int:
    engine = run.generators.engine
    return engine.tensor_parallel if isinstance(engine, VllmEngineConfig) else 1


def _existing(folder: Path) -> Path:
    """Return the folder, or its nearest existing ancestor."""
    return next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
