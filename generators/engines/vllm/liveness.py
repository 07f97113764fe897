"""Supervise an engine in other processes: they may die or hang, and no caller waits for ever.

In: a coroutine of the engine's library. Out: its result, or `EngineDied` for every waiting caller. Runs in the
generator's process, for generators.engines.vllm.engine; independent of vLLM.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

log = logging.getLogger(__name__)

END_S = 30.0  # for an engine to shut down; vLLM's own limit is shorter

T = TypeVar("T")
E = TypeVar("E")


class EngineDied(Exception):
    """The engine has died or no longer answers. The prompt is not at fault, and no retry in this process can help."""


class Lifeline:
    """Await an engine's answers, until the engine's death or a limit. Belongs to one event loop.

    Args:
        fatal: errors of the engine's library that mean the engine is gone.
    """

    def __init__(self, fatal: type[Exception]) -> None:
        self._fatal = fatal
        self._death: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def is_cut(self) -> bool:
        """Return whether the engine is gone."""
        return self._death.done()

    def cut(self, reason: str) -> EngineDied:
        """Declare the engine dead to every waiting caller; the first reason counts. Returns the error to raise."""
        if not self._death.done():
            self._death.set_result(reason)
        return EngineDied(f"the engine is gone: {self._death.result()}")

    async def get(self, work: Coroutine[Any, Any, T], *, what: str, limit_s: float | None = None) -> T:
        """Await `work`.

        Raises:
            EngineDied: the engine died, or `limit_s` seconds passed; every other waiting caller gets the same.
        """
        task = asyncio.ensure_future(work)
        waited: set[asyncio.Future[Any]] = {task, self._death}
        try:
            await asyncio.wait(waited, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        except self._fatal as error:
            raise self.cut(f"{what} failed: {error}") from error
        finally:
            task.cancel()
        raise self.cut(f"{what} took more than {limit_s} s")


class Keeper(threading.Thread, Generic[E]):
    """The thread that starts an engine's processes and outlives them.

    Starting takes a minute, in which the event loop continues. The kernel ends a process that asked to die with its
    parent when the *thread* that forked it ends, so this thread stays. It is a daemon: a hanging start does not keep
    the generator from exiting.
    """

    def __init__(self, launch: Callable[[], E], shut_down: Callable[[E], None]) -> None:
        super().__init__(name="engine-keeper", daemon=True)
        self.engine: Future[E] = Future()
        self._launch = launch
        self._shut_down = shut_down
        self._ending = threading.Event()

    def run(self) -> None:
        """Launch, wait for `end`, shut down."""
        try:
            engine = self._launch()
        except BaseException as error:  # noqa: BLE001 - any: the caller that waits for the engine raises it
            self.engine.set_exception(error)
            return
        self.engine.set_result(engine)
        self._ending.wait()
        self._shut_down(engine)

    def end(self) -> None:
        """Shut the engine down and wait up to END_S seconds: hanging processes end with this one."""
        self._ending.set()
        self.join(END_S)
        if self.is_alive():
            log.warning("engine_hangs waited_s=%.0f; its processes end with this one", END_S)
