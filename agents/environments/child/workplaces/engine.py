"""Call the container engine, podman or docker: run its commands, get images, and remove old containers.

In: words of its commands. Out: their output. A command that fails or takes too long raises `PlaceBroken` with its last
words.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import socket as sockets
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from agents.environments.child.workplaces.place import PlaceBroken
from tasks.harbor import HarborTask, digest_of

ENGINES = ("podman", "docker")
PREFIX = "millrace-harbor"  # of images and containers
ASK_S = 120.0  # for commands that should be instantaneous
MOST_BYTES = 4 << 20  # of one command's output
NUMBERS = count(1)
# Lift this process's limit of address space, which is for our own code: containers have their own limits.
UNLIMITED = 'ulimit -S -v "$(ulimit -H -v)" 2> /dev/null; exec "$@"'


class ContainerEngine:
    """The container engine."""

    def __init__(self, program: str, build_words: Sequence[str]) -> None:
        self._program, self._build_words = program, list(build_words)
        self._has_swept = False

    async def call(
        self, *words: str, within_s: float = ASK_S, env: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, bytes]:
        """Run one command of the engine. Raises PlaceBroken where it does not end in time."""
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", UNLIMITED, "sh", self._program),
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        if process.stdout is None or process.stderr is None:
            raise RuntimeError("no pipes")
        try:
            out, err, _ = await asyncio.wait_for(
                asyncio.gather(_first(process.stdout), _first(process.stderr), process.wait()), within_s
            )
        except TimeoutError:
            raise PlaceBroken(f"{self._program} {words[0]} did not end within {within_s:.0f} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return process.returncode or 0, out, err

    async def ask(self, *words: str, within_s: float = ASK_S, env: Mapping[str, str] | None = None) -> str:
        """Run one command of the engine that must succeed. Raises PlaceBroken with its last words."""
        code, out, err = await self.call(*words, within_s=within_s, env=env)
        if code:
            said = (err or out).decode("utf-8", "replace").strip()[-2000:]
            raise PlaceBroken(f"{self._program} {words[0]} ended with exit code {code}: {said}")
        return out.decode("utf-8", "replace")

    async def image_of(self, task: HarborTask) -> str:
        """Return the image of a task, pulled or built where it is missing. Raises PlaceBroken, BadMessage."""
        if task.image is not None:
            if not await self._has(task.image):
                await self.ask("pull", task.image, within_s=task.build_s)
            return task.image
        digest = await asyncio.to_thread(digest_of, task.environment)
        image = f"{PREFIX}:{digest[:24]}"
        async with _one_at_a_time(image, task.build_s):
            if not await self._has(image):
                words = ("build", *self._build_words, "--tag", image, str(task.environment))
                await self.ask(*words, within_s=task.build_s)
        return image

    async def _has(self, image: str) -> bool:
        return (await self.call("image", "inspect", "--format", "{{.Id}}", image))[0] == 0

    async def sweep(self) -> None:
        """Remove containers without an owner. Raises PlaceBroken."""
        if self._has_swept:
            return
        self._has_swept = True
        here = f"{PREFIX}-{_machine()}-"
        found = await self.ask("ps", "--all", "--filter", f"name={here}", "--format", "{{.Names}}")
        for name in found.split():
            pid, began = name.removeprefix(here).split("-")[:2]
            if _began(int(pid)) != began:
                await self.call("rm", "--force", name)


def find_engine(wanted: str | None, build_words: Sequence[str]) -> ContainerEngine:
    """Return the requested engine, or the first one installed. Raises PlaceBroken."""
    for program in [wanted] if wanted else ENGINES:
        if shutil.which(program) is not None:
            return ContainerEngine(program, build_words)
    names = wanted or " or ".join(ENGINES)
    raise PlaceBroken(f"the task asks for an image, and there is no {names} where the agents run")


async def _first(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end, and return the first MOST_BYTES of it."""
    kept = bytearray()
    while data := await stream.read(1 << 16):
        kept += data[: MOST_BYTES - len(kept)]
    return bytes(kept)


@contextlib.asynccontextmanager
async def _one_at_a_time(name: str, within_s: float) -> Any:
    """Lock a name against other processes of this user. Raises PlaceBroken."""
    path = Path(tempfile.gettempdir()) / f"{name.replace(':', '-')}-{os.getuid()}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    until = time.monotonic() + within_s
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise PlaceBroken(
                        f"another process builds {name} for more than {within_s:.0f} s"
                    ) from None
                await asyncio.sleep(0.2)
        yield
    finally:
        os.close(descriptor)


def _machine() -> str:
    """Name this machine and its namespace of process ids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    whole = f"{boot} {os.readlink('/proc/self/ns/pid')} {sockets.gethostname()}"
    return hashlib.sha256(whole.encode()).hexdigest()[:10]


def _began(pid: int) -> str:
    """Return when a process began, in the kernel's ticks; "": there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""


def new_name() -> str:
    """Return a new name for a container of this process."""
    return f"{PREFIX}-{_machine()}-{os.getpid()}-{_began(os.getpid())}-{next(NUMBERS)}"
