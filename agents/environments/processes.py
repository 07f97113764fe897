"""Start a task's parent process and its children, and talk to them, from the worker.

In: an environment's section. Out: children that answer requests for episodes, each within a deadline. Started from the
worker's event loop, in its main thread. The parent process is fresh and has one thread: it imports the user's code and
forks; a worker is never forked. A child past a deadline is killed with its process group; the mark that it keeps in
shared memory tells which episode is at fault. All end with the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

from agents.environments.child.frames import LENGTH_BYTES, framed, length_of, message_of
from agents.environments.child.serving import MARK_BYTES
from agents.environments.output import Output
from agents.environments.seam import Disturbed, EnvironmentFailed, FailureKind, FailureStage
from agents.environments.verl_tool_file import children_read
from broker.processes import spawn
from config.episodes.environment_section import EnvironmentSection
from config.episodes.environments import VerlToolsConfig
from config.explanations import ConfigError
from config.logs import KEY_SUFFIX, SECRETS, mask

log = logging.getLogger(__name__)

SOURCE: Final = Path(__file__).parents[2]  # the folder of Millrace's packages
SCRIPT: Final = Path(__file__).parent / "child" / "start.py"
FORK_S: Final = 30.0  # for the parent process to fork
ENDED_S: Final = 2.0  # for the wait status of an ended child
STOPPED_S: Final = 0.5  # after a deadline, for a child that stops an episode by itself
OWN_SIGNALS: Final = frozenset(
    {
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGABRT,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGXCPU,
        signal.SIGSYS,
    }
)  # with which a process ends itself

Reply = dict[str, Any]


class EnvironmentChildEnded(Exception):
    """A child has ended."""

    def __init__(self, status: int | None, *, running: int, is_killed: bool) -> None:
        """Store how it ended.

        Args:
            status: its wait status; None: unknown, since its parent process is gone too.
            running: the episode whose code was running; 0: none, or unknown.
            is_killed: whether this worker killed it.
        """
        super().__init__()
        self.status, self.running, self.is_killed = status, running, is_killed


class Parent:
    """A task's parent process."""

    def __init__(
        self, section: EnvironmentSection, task: str, *, episodes_per_child: int, walls: Mapping[str, Any]
    ) -> None:
        self._section, self._task, self._walls = section, task, walls
        self._room = 1 if section.blocks else episodes_per_child
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._asked: dict[int, tuple[Child, asyncio.Future[None]]] = {}
        self._numbers = count(1)
        self._children: dict[int, Child] = {}
        self._held = contextlib.ExitStack()
        self._status = 0
        self.listening: set[asyncio.Task[None]] = set()  # to children, each until it has ended
        self.stops_episodes = False  # whether its children stop an episode at its deadline, and continue

    @property
    def is_alive(self) -> bool:
        """Whether it can fork."""
        return self._reading is not None and not self._reading.done()

    @property
    def last_words(self) -> str:
        """Return its last output."""
        return self._output.last_lines

    async def start(self) -> None:
        """Start the process and wait for its imports. Raises EnvironmentFailed."""
        try:
            self._control, theirs = socket.socketpair()
            self._held.callback(self._control.close)
            self._control.setblocking(False)
            self._output = Output()
            self._held.callback(self._output.close)
        except OSError as error:
            raise self._unforked(str(error)) from error
        python = self._section.python or sys.executable
        with theirs:
            try:
                begin = framed(self._begin())
            except (ConfigError, TypeError, ValueError) as error:
                raise self._failed(str(error)) from error
            try:
                self._process = spawn(
                    [python, "-u", SCRIPT, str(theirs.fileno())],
                    env=childs_environment(
                        self._section.kept_variables, is_ours=self._section.python is None
                    ),
                    stdout=self._output.sink,
                    stderr=self._output.sink,
                    pass_fds=[theirs.fileno()],
                )
            except OSError as error:
                raise self._failed(f"{python} can't be started: {error}") from error
            finally:
                self._output.close_sink()
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        self._reading = loop.create_task(self._read(ready))
        seconds = self._section.start_deadline_s
        try:
            async with asyncio.timeout(seconds):
                await loop.sock_sendall(self._control, begin)
                await ready
        except TimeoutError:
            raise self._failed(
                f"its imports took longer than start_deadline_s={seconds:g}", FailureKind.DEADLINE
            ) from None
        except OSError as error:
            raise self._failed(f"it is gone: {error}") from error

    async def fork(self) -> Child:
        """Let it fork a child. Raises EnvironmentFailed, and Disturbed where it is ended meanwhile."""
        try:
            number, child = next(self._numbers), Child(self, self._room)
        except OSError as error:
            raise self._unforked(str(error)) from error
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked[number] = child, asked
        try:
            socket.send_fds(self._control, [framed({"fork": number})], child.given)
            async with asyncio.timeout(FORK_S):
                await asked
            await child.connect()
        except TimeoutError:
            child.abandon()
            self.kill()
            raise self._unforked(f"no answer within {FORK_S:g} s") from None
        except ConnectionError as error:
            child.abandon()
            raise Disturbed(f"task {self._task}: the environments' process is gone: {error}") from error
        except OSError as error:
            child.abandon()
            raise self._unforked(str(error)) from error
        except BaseException:
            child.abandon()
            raise
        finally:
            self._asked.pop(number, None)
            child.close_given()
        return child

    def end(self, pid: int) -> None:
        """Let it kill a child, with its process group."""
        try:
            self._control.send(framed({"end": pid}))
        except OSError:  # it is gone, or stuck: it ends its children when it ends
            self.kill()

    def kill(self) -> None:
        """Kill the process; its children end with it."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> None:
        """End the process and its children, and close everything."""
        if self._reading is not None:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
            await asyncio.wait({self._reading}, timeout=ENDED_S)
            self._reading.cancel()
        self._reap()
        if self.listening:
            await asyncio.wait(self.listening, timeout=ENDED_S)
        self._held.close()

    def _begin(self) -> Reply:
        fields = self._section.model_dump(mode="json")
        fields |= {**self._walls, "source": str(SOURCE)}
        if isinstance(self._section, VerlToolsConfig):
            fields |= children_read(self._section)
        return {**fields, "memory_bytes": self._section.memory_mb << 20, "episodes_per_child": self._room}

    def _unforked(self, reason: str) -> EnvironmentFailed:
        return EnvironmentFailed(
            f"task {self._task}: there is no process for an episode: {reason}",
            stage=FailureStage.START,
            kind=FailureKind.START,
        )

    def _failed(self, reason: str, kind: FailureKind = FailureKind.START) -> EnvironmentFailed:
        said = self._output.last_lines
        self.kill()
        printed = f"\nit printed last:\n{said}" if said else ""
        return EnvironmentFailed(
            mask(f"task {self._task}: the environments' process did not start: {reason}{printed}"),
            stage=FailureStage.START,
            kind=kind,
        )

    async def _read(self, ready: asyncio.Future[None]) -> None:
        """Read the messages of the process, to its end."""
        loop, data = asyncio.get_running_loop(), b""
        try:
            while part := await loop.sock_recv(self._control, 1 << 16):
                data += part
                while len(data) >= LENGTH_BYTES and len(data) >= (
                    end := LENGTH_BYTES + length_of(data[:LENGTH_BYTES])
                ):
                    self._heard(message_of(data[LENGTH_BYTES:end]), ready)
                    data = data[end:]
        except OSError:  # it is gone
            pass
        except (ValueError, RecursionError):
            log.exception("environments_parent_unreadable task=%s", self._task)
        finally:
            self._reap()
            ended = _code(self._status)
            if not ready.done():
                ready.set_exception(self._failed(f"it ended {ended}"))
                ready.exception()  # retrieved, in case nobody waits
            for _, asked in self._asked.values():
                if not asked.done():
                    asked.set_exception(
                        Disturbed(f"task {self._task}: the environments' process ended {ended} as it forked")
                    )
            for child in list(self._children.values()):
                child.has_ended(None)

    def _heard(self, message: Reply, ready: asyncio.Future[None]) -> None:
        if "ready" in message and not ready.done():
            self.stops_episodes = message["stops_episodes"]
            ready.set_result(None)
        elif "failed" in message and not ready.done():
            ready.set_exception(self._failed(message["failed"], FailureKind.ERROR))
        elif "forked" in message:
            self._has_forked(message)
        elif "ended" in message and message["ended"] in self._children:
            self._children.pop(message["ended"]).has_ended(message["status"])

    def _has_forked(self, message: Reply) -> None:
        child, asked = self._asked.get(message["forked"], (None, None))
        if child is None or asked is None or asked.done():  # nobody waits for it any more
            if "pid" in message:
                self.end(message["pid"])
        elif "pid" in message:
            child.pid = message["pid"]
            self._children[child.pid] = child
            asked.set_result(None)
        else:
            asked.set_exception(OSError(message["reason"]))

    def _reap(self) -> None:
        """Kill and reap the process, unless that is done."""
        if self._process is None or self._process.returncode is not None:
            return
        for pid in (self._process.pid, *self._children):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self._status = self._process.wait()


class Child:
    """A child process with one episode, or several."""

    def __init__(self, parent: Parent, room: int) -> None:
        """Make the descriptors for the fork: the child's end of the link, of its output, and the mark."""
        self._parent, self._room = parent, room
        self.pid = 0
        self.episodes: set[int] = set()
        with contextlib.ExitStack() as undone:
            self._ours, self._theirs = socket.socketpair()
            undone.callback(self._ours.close)
            undone.callback(self._theirs.close)
            self._output = Output()
            undone.callback(self._output.close)
            self._shared = os.memfd_create("mark")
            undone.callback(os.close, self._shared)
            os.ftruncate(self._shared, MARK_BYTES)
            self._mark = mmap.mmap(self._shared, MARK_BYTES)
            undone.pop_all()
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._over: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.is_over, self._is_killed = False, False

    @property
    def given(self) -> list[int]:
        """Return the descriptors for the fork."""
        return [self._theirs.fileno(), self._output.sink, self._shared]

    @property
    def has_room(self) -> bool:
        """Whether there is room for another episode."""
        return not self.is_over and len(self.episodes) < self._room

    @property
    def last_words(self) -> str:
        """Return its last output."""
        return self._output.last_lines

    @property
    def running(self) -> int:
        """Return the number of the episode whose code is running; 0: none, or unknown."""
        return 0 if self._mark.closed else int.from_bytes(self._mark[:MARK_BYTES], sys.byteorder)

    def close_given(self) -> None:
        """Close the descriptors that the fork has now."""
        self._theirs.close()
        self._output.close_sink()
        os.close(self._shared)

    def abandon(self) -> None:
        """Discard a child that was not forked, or that nobody will use."""
        self.is_over = True
        if self.pid:
            self._parent.end(self.pid)
        self._ours.close()
        self._output.close()
        self._mark.close()

    async def connect(self) -> None:
        """Start listening to it."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._ours)
        listening = asyncio.get_running_loop().create_task(self._listen())
        self._parent.listening.add(listening)
        listening.add_done_callback(self._parent.listening.discard)

    async def ask(self, episode: int, do: str, deadline_s: float, **what: Any) -> Reply:
        """Request an action for an episode, and return the child's reply.

        Raises:
            TimeoutError: past the deadline; the episode's code was running, or did not stop. The child is killed.
            EnvironmentChildEnded: the child has ended, by itself or for another episode.
            TypeError, ValueError: the request can't be encoded.
        """
        frame = framed({"episode": episode, "do": do, "deadline_s": deadline_s, **what})
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[episode] = reply
        try:
            if self.is_over:
                raise EnvironmentChildEnded(None, running=0, is_killed=self._is_killed)
            self._writer.write(frame)
            stop_s = STOPPED_S if self._parent.stops_episodes else 0.0
            await asyncio.wait({reply}, timeout=deadline_s + stop_s)
            if not reply.done():
                await self._overdue(reply)
            return reply.result()
        finally:
            if self._waiting.get(episode) is reply:
                del self._waiting[episode]

    async def _overdue(self, reply: asyncio.Future[Reply]) -> None:
        """Determine who is at fault for a missing reply. Raises TimeoutError where it is the caller."""
        blocking = self._waiting.get(self.running)
        if not self.is_over and blocking is not None and blocking is not reply:  # it has its own deadline
            await asyncio.wait({reply, blocking}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({reply}, timeout=STOPPED_S)
        if self.is_over:  # killed because of another
            await asyncio.wait({reply}, timeout=2 * ENDED_S)
        if not reply.done():
            self.kill()
            raise TimeoutError

    def kill(self) -> None:
        """End the child at once, with its process group."""
        self.is_over = self._is_killed = True
        self._parent.end(self.pid)

    def has_ended(self, status: int | None) -> None:
        """Note its wait status; None: its parent process is gone."""
        if not self._over.done():
            self._over.set_result(status)

    async def _listen(self) -> None:
        """Pass replies to their waiters, until the child's end."""
        try:
            while True:
                size = length_of(await self._reader.readexactly(LENGTH_BYTES))
                reply = _whole_characters(message_of(await self._reader.readexactly(size)))
                waiting = self._waiting.get(reply.get("episode", 0))
                if waiting is not None and not waiting.done():
                    waiting.set_result(reply)
        except (ValueError, RecursionError):
            log.warning("environments_child_unreadable pid=%d", self.pid)
            self.kill()
        except (asyncio.IncompleteReadError, OSError):
            self.is_over = True
            self._parent.end(self.pid)  # it may have closed only its link
        await asyncio.wait({self._over}, timeout=ENDED_S)
        ended = EnvironmentChildEnded(
            self._over.result() if self._over.done() else None,
            running=self.running,
            is_killed=self._is_killed,
        )
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ended)
        self._writer.close()
        self._output.close()
        self._mark.close()  # which holds a descriptor


def _whole_characters(value: Any) -> Any:
    """Replace each half of a surrogate pair by `?`, since no other message can carry it."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_whole_characters(one) for one in value]
    if isinstance(value, dict):
        return {_whole_characters(name): _whole_characters(one) for name, one in value.items()}
    return value


def _code(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"


def childs_environment(kept: tuple[str, ...], *, is_ours: bool = True) -> Mapping[str, str]:
    """Return the environment variables of the environments' processes: this one's, with only the named secrets.

    Args:
        kept: secrets to keep.
        is_ours: whether Millrace's own interpreter runs them. Another one must not find our packages: one of its own
            may have the same name, as the SDK `agents` has.
    """
    secrets = {"REDIS_URL", *SECRETS}
    mine = {
        name: value
        for name, value in os.environ.items()
        if name in kept or not (name in secrets or name.endswith(KEY_SUFFIX))
    }
    if not is_ours and "PYTHONPATH" in mine:
        places = [
            one for one in mine["PYTHONPATH"].split(os.pathsep) if one and Path(one).resolve() != SOURCE
        ]
        mine["PYTHONPATH"] = os.pathsep.join(places)
    return {"PYTHONHASHSEED": "0", **mine}  # so that a replayed episode goes the same way


def how_ended(status: int | None) -> str:
    """Describe how a process ended, by its wait status."""
    if status is None:
        return "with its parent process"
    if os.WIFSIGNALED(status):
        return f"by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"with exit code {os.WEXITSTATUS(status)}"
