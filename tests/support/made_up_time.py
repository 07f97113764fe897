"""A clock that only those who sleep move on: what waits for seconds is tested without waiting for them."""

from __future__ import annotations

from collections.abc import Callable


class MadeUpTime:
    """Its `clock` and `sleep` are handed in for those of the module `time`.

    Attributes:
        now: seconds; raise it, and time has passed.
        slept: how long each `sleep` was.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self._to_come: list[tuple[float, Callable[[], object]]] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        due = [act for at, act in self._to_come if at <= self.now]
        self._to_come = [(at, act) for at, act in self._to_come if at > self.now]
        for act in due:
            act()

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Do `act` once somebody has slept past so many seconds from now."""
        self._to_come.append((self.now + seconds, act))
