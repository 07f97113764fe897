"""Watching over an engine in other processes: they may die or hang, and nobody may wait for them for ever.

In: what is awaited of the engine. Out: its result, or `EngineDied` for everybody who waits. Runs in the generator's
process, for generators.engines.vllm.engine; it knows nothing of vLLM.
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
    """The engine has died or no longer answers. Not the prompt's fault, and no retry in this process can help."""


class Lifeline:
    """What is awaited of an engine: never beyond its death, nor beyond a limit. Belongs to one event loop.

    Args:
        fatal: what the engine's library raises when the engine is gone.
    """

    def __init__(self, fatal: type[Exception]) -> None:
        self._fatal = fatal
        self._death: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def is_cut(self) -> bool:
        """Whether the engine is gone."""
        return self._death.done()

    def cut(self, reason: str) -> EngineDied:
        """Tell everybody who waits; the first reason counts."""
        if not self._death.done():
            self._death.set_result(reason)
        return EngineDied(f"the engine is gone: {self._death.result()}")

    async def get(self, work: Coroutine[Any, Any, T], *, what: str, limit_s: float | None = None) -> T:
        """Await `work`.

        Raises:
            EngineDied: the engine died, or the limit passed; everybody else who waits gets the same.
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

    Starting takes a minute, in which the event loop goes on; and the kernel ends a process that asked to die with its
    parent when the *thread* that forked it ends, so this one stays. A daemon: a start that hangs does not keep the
    generator from ending.
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
        except BaseException as error:  # noqa: BLE001 - whatever it is, who waits for the engine has to hear of it
            self.engine.set_exception(error)
            return
        self.engine.set_result(engine)
        self._ending.wait()
        self._shut_down(engine)

    def end(self) -> None:
        """Shut the engine down and wait for it, but not for ever: what hangs ends with this process."""
        self._ending.set()
        self.join(END_S)
        if self.is_alive():
            log.warning("engine_hangs waited_s=%.0f; its processes end with this one", END_S)
