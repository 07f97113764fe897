"""Repair a Redis' append-only file before a server starts on it.

In: a redis-server, the folder of its data. Out: the same data without a torn tail, and a warning with what was cut. A
kill may end a write anywhere, also between two commands of a script. Redis then drops the torn command, but leaves the
script's MULTI without its EXEC in the file and appends after it: at the *second* start half of that script runs,
together with the next one. redis-check-aof cuts the file before the MULTI, which removes that script as a whole and
everything after it: the last moments, which every role can redo.
A file that can't be repaired is left to the server, which reports the error at its start.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Sequence
from pathlib import Path

from broker import processes
from broker.errors import WrongBroker

log = logging.getLogger(__name__)

CHECK = "redis-check-aof"
CHECK_S = 300.0  # a gigabyte takes seconds
PARTS = (7, 0)  # from this version on it is a folder of parts with a manifest


def mend(program: Path, version: tuple[int, ...], data: Path, *, pass_fds: Sequence[int] = ()) -> int:
    """Cut a torn tail off the append-only file in `data`. Returns the number of bytes cut.

    Args:
        program: the redis-server that will be started, of `version`.
        pass_fds: descriptors that the check inherits: a lock that must be held while it may write.
    Raises:
        WrongBroker: the data are of a newer kind than `program` can read, or the check does not end.
    """
    manifest = data / "appendonlydir" / "appendonly.aof.manifest"
    whole = data / "appendonly.aof"
    if manifest.is_file() and version < PARTS:
        raise WrongBroker(
            f"{data} was written by Redis 7 or newer, and {program} is {'.'.join(map(str, version))}, "
            "which would begin with nothing: install redis-server 7 or newer"
        )
    file = manifest if manifest.is_file() else whole
    if not file.is_file() or not file.stat().st_size:
        return 0
    before = _size(file)
    code, said = _check(program, file, pass_fds)
    cut = before - _size(file)
    why = (
        "; ".join(line.partition(":")[2].strip() for line in said.splitlines() if line.startswith("0x"))
        or "unknown"
    )
    if code:
        log.warning("append_only_file not mended file=%s code=%d reason=%s", file, code, why)
    elif cut:
        log.warning(
            "append_only_file mended file=%s cut_off_bytes=%d left_bytes=%d reason=%s: the last writes before "
            "the end of this redis are gone",
            file,
            cut,
            before - cut,
            why,
        )
    return cut


def _check(program: Path, file: Path, pass_fds: Sequence[int]) -> tuple[int, str]:
    """Run redis-check-aof: the one in `program`'s folder, else `program` itself, called by that name."""
    beside = program.with_name(CHECK)
    with processes.spawn(
        [CHECK, "--fix", file],
        executable=beside if beside.exists() else program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=pass_fds,
    ) as process:
        try:
            said, _ = process.communicate(b"y\n", timeout=CHECK_S)  # it asks before it cuts
        except subprocess.TimeoutExpired:
            processes.stop(process, grace_s=0)
            raise WrongBroker(
                f"{CHECK} --fix {file} did not end in {CHECK_S:.0f} s; run it by hand, then start again"
            ) from None
    return process.returncode, said.decode(errors="replace")


def _size(file: Path) -> int:
    """Return the size of a single file, or of all parts listed with a manifest, in bytes."""
    parts = [file] if file.suffix == ".aof" else list(file.parent.iterdir())
    return sum(part.stat().st_size for part in parts)
