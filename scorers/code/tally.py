"""The cases of one completion, from the first to the score.

In: what became of each case, in order. Out: value, share of passed cases, reason. Kept by `scorers.code.scorer`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SHOWN_CHARS: Final = 200  # of a reason


@dataclass(slots=True)
class CaseTally:
    """The cases of one completion, as they become known."""

    total: int | None  # None until the tests themselves say how many they are
    is_all: bool  # whether one failure decides
    results: list[bool] = field(default_factory=list)
    first_failure: str = ""
    is_over_limit: bool = False  # whether the first failure is that the answer exceeded a limit

    def add(self, reason: str | None, *, is_limit: bool = False) -> None:
        """The next case: None where it passed, else why not."""
        self.results.append(reason is None)
        if reason is not None and not self.first_failure:
            self.first_failure = f"case {len(self.results)}: {reason}"
            self.is_over_limit = is_limit

    @property
    def is_decided(self) -> bool:
        """Whether nothing that is still open can change the score."""
        return len(self.results) == self.total or (self.is_all and not all(self.results))

    def fail_rest(self, reason: str, *, is_limit: bool = False) -> None:
        """No further case can pass."""
        self.total = self.total or len(self.results) + 1
        while len(self.results) < self.total:
            self.add(reason, is_limit=is_limit)

    def verdict(self) -> tuple[float, float, str]:
        """Value, share of passed cases, reason."""
        total, passed = self.total or len(self.results), sum(self.results)
        if passed == total > 0:
            return 1.0, 1.0, f"all {total} cases passed" if total > 1 else "the case passed"
        ran = "" if len(self.results) == total else f" ({len(self.results)} ran)"
        reason = f"{passed} of {total} cases passed{ran}; {self.first_failure}"
        return 0.0 if self.is_all else passed / total, passed / total, reason[:SHOWN_CHARS]
