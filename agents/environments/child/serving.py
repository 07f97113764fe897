"""Answer the worker's requests for a child's episodes, in an event loop where the environment is async.

In: frames with an episode's number and `reset`, `step` or `close`. Out: one frame each, with the result or the error,
and the seconds of the environment's own work. A mark in shared memory has the episode whose code is running, so that
the worker knows which one caused a child to block or end. Failed allocations end the process with `EXIT_MEMORY`.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import resource
import socket
import sys
import time
from typing import Any, Coroutine, Dict, Generator, NoReturn

from agents.environments.child.errors import headline, is_unreachable, last_lines
from agents.environments.child.frames import LENGTH_BYTES, framed, length_of, message_of, receive
from agents.environments.child.hosted import Hosted
from agents.environments.child.prepared import PreparedKind

EXIT_MEMORY = 77
MARK_BYTES = 8  # the number of the running episode; 0: none


def serve(link: socket.socket, mark: int, prepared: PreparedKind, section: Dict[str, Any]) -> NoReturn:
    """Answer requests until the worker closes its end."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm", "rb") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    wanted, (_, hard) = mapped + section["memory_bytes"], resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))  # programs behind walls have their own limits
    child = Child(prepared, mmap.mmap(mark, MARK_BYTES))
    os.close(mark)
    try:
        if prepared.is_async or section["episodes_per_child"] > 1:
            asyncio.run(child.serve_several(link))
        while True:
            link.sendall(_driven(child.answer(receive(link))))
    except (EOFError, ConnectionError):
        os._exit(0)


class Child:
    """The episodes of this process."""

    def __init__(self, prepared: PreparedKind, mark: mmap.mmap) -> None:
        self._prepared, self._mark = prepared, mark
        self._episodes: Dict[int, Hosted] = {}
        self._stopped: Dict[int, str] = {}  # where an episode's code was when it was stopped

    async def serve_several(self, link: socket.socket) -> None:
        """Answer requests concurrently, and stop an answer at its deadline."""
        reader, writer = await asyncio.open_connection(sock=link)
        tasks: Dict[int, Any] = {}

        async def answered(request: Dict[str, Any], before: Any) -> None:
            if before is not None:  # its episode is closed
                before.cancel()
                await asyncio.wait({before}, timeout=request["deadline_s"])
            try:
                writer.write(await asyncio.wait_for(self.answer(request), request["deadline_s"]))
            except asyncio.TimeoutError:
                where = self._stopped.pop(request["episode"], "")
                writer.write(framed({"episode": request["episode"], "deadline": where}))

        while True:
            try:
                size = length_of(await reader.readexactly(LENGTH_BYTES))
                request = message_of(await reader.readexactly(size))
            except asyncio.IncompleteReadError:
                raise EOFError from None
            number = request["episode"]
            tasks[number] = asyncio.ensure_future(answered(request, tasks.pop(number, None)))
            if request["do"] == "close":
                tasks[number].add_done_callback(lambda _, number=number: tasks.pop(number, None))

    async def answer(self, request: Dict[str, Any]) -> bytes:
        """Return the reply to one request, as a frame."""
        number, began = request["episode"], time.perf_counter()
        if request["do"] == "reset":
            self._episodes[number] = Hosted(self._prepared)
        hosted = self._episodes.pop(number) if request["do"] == "close" else self._episodes[number]
        reply: Dict[str, Any] = {"episode": number}
        try:
            found = await Marked(getattr(hosted, request["do"])(request), self._mark, number)
            return framed({**reply, "result": found, "seconds": time.perf_counter() - began})
        except MemoryError as error:
            _end(EXIT_MEMORY, error, self._mark, number)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
            _end(code if code != EXIT_MEMORY else 1, error, self._mark, number)
        except asyncio.CancelledError as error:
            self._stopped[number] = last_lines(error)
            raise
        except Exception as error:  # noqa: BLE001 - user code may raise anything; the worker reports it
            said = f"{headline(error)}\n{last_lines(error)}"
            return framed({**reply, "error": said, "is_unreachable": is_unreachable(error)})


class Marked:
    """A coroutine that sets the mark to its number while it runs, and not while it waits."""

    def __init__(self, work: Coroutine[Any, Any, Any], mark: mmap.mmap, number: int) -> None:
        self._work, self._mark, self._number = work, mark, number

    def __await__(self) -> Generator[Any, Any, Any]:
        """Run the coroutine."""
        step, given = self._work.send, None
        while True:
            set_mark(self._mark, self._number)
            try:
                asked = step(given)
            except StopIteration as end:
                return end.value
            finally:
                set_mark(self._mark, 0)
            try:
                step, given = self._work.send, (yield asked)
            except BaseException as error:  # noqa: BLE001 - the awaited work failed: pass it to the coroutine
                step, given = self._work.throw, error


def set_mark(mark: mmap.mmap, number: int) -> None:
    """Set the mark."""
    mark[:MARK_BYTES] = number.to_bytes(MARK_BYTES, sys.byteorder)


def _driven(work: Coroutine[Any, Any, bytes]) -> bytes:
    """Run a coroutine that never waits, without a loop: synchronous code may start one of its own."""
    try:
        work.send(None)
    except StopIteration as end:
        frame: bytes = end.value
        return frame
    work.close()
    raise TypeError("a method that is not async gave something to wait for: say `async def`")


def _end(code: int, error: BaseException, mark: mmap.mmap, number: int) -> NoReturn:
    """End the process because of an episode, and report where it was."""
    set_mark(mark, number)
    try:
        os.write(2, last_lines(error).encode("utf-8", "replace"))
    except (MemoryError, OSError):
        pass
    os._exit(code & 0xFF)
