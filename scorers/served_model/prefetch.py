"""This module begins scores before they are asked for, so that one worker keeps a whole job's calls under way.

In: what a score is made of, by a key of text and row. Out: a future of the plan, begun now or before. Used by
`scorers.served_model.scorer`, from one thread. A plan that asks a rule first is made in a thread of its own, so that
`begin` does not wait for the rule.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

from scorers.served_model.client import has_failed

MAX_PREFETCHED: Final = 4096  # plans that nobody has asked for yet; beyond, the oldest are begun anew
Plan = TypeVar("Plan")


class PrefetchedPlans(Generic[Plan]):
    """This keeps the plans of one scorer's answers, begun ahead of their use.

    Args:
        call_of: gives the call that a plan waits for; None where it waits for none.
    """

    def __init__(self, call_of: Callable[[Plan], Future[Any] | None]) -> None:
        self._call_of = call_of
        self._begun: OrderedDict[bytes, Future[Plan]] = OrderedDict()
        self._thread: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        """Count the plans that were begun and not taken."""
        return len(self._begun)

    def begin(self, key: bytes, plan: Callable[[], Plan], *, is_aside: bool) -> None:
        """Begin a plan as `start` does. What was begun and has failed since begins anew, beside all others."""
        if (begun := self._begun.get(key)) is not None and self._has_failed(begun):
            del self._begun[key]
        self.start(key, plan, is_aside=is_aside)

    def start(self, key: bytes, plan: Callable[[], Plan], *, is_aside: bool) -> Future[Plan]:
        """Give the plan as it was begun, or begin it now, `is_aside` in another thread. Raises what `plan` raises."""
        if (begun := self._begun.get(key)) is None:
            if is_aside:
                self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="rule")
                begun = self._thread.submit(plan)
            else:
                begun = Future()
                begun.set_result(plan())
            self._begun[key] = begun
            while len(self._begun) > MAX_PREFETCHED:
                self._begun.popitem(last=False)
        return begun

    def take(self, key: bytes, plan: Callable[[], Plan], *, is_aside: bool) -> Future[Plan]:
        """Give the plan as `start` does, and discard it: the next call for the same key begins anew."""
        begun = self.start(key, plan, is_aside=is_aside)
        del self._begun[key]
        return begun

    def close(self) -> None:
        """End the thread and discard all plans, before the endpoint is closed: a plan would open the endpoint again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(cancel_futures=True)
        self._begun.clear()

    def _has_failed(self, begun: Future[Plan]) -> bool:
        if not begun.done() or has_failed(begun) or begun.exception() is not None:
            return has_failed(begun)
        call = self._call_of(begun.result())
        return call is not None and has_failed(call)
