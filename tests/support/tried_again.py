"""Answers that are judged as a worker judges them: what other programs of this user got in the way of is tried again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from broker.errors import Retryable
from broker.messages import Score
from sandbox.program import CROWDED
from scorers.child import process
from scorers.child.process import ChildDied
from scorers.code.scorer import CodeTests

TRIES = 4
STARVED_TRIES = 4  # a machine that starves one child starves the next
LEAST_SHARE = 0.02  # of its deadline: what any machine lets a hang have
T = TypeVar("T")


def score_of(scorer: CodeTests, text: str, verification_info: dict[str, Any]) -> Score:
    """Score one answer; a sandbox that had too few processes left is waited for. Raises what else goes wrong."""
    for attempt in range(TRIES - 1):
        try:
            return scorer.score(text, verification_info)
        except Retryable as error:
            if CROWDED not in str(error):
                raise
            time.sleep(attempt + 0.5)
    return scorer.score(text, verification_info)


def judged(
    scorer: CodeTests, program: str, answer: Mapping[str, Any], kind: str = "code", tag: str = "python"
) -> Score:
    """Score one program, in a fence, on a row of code."""
    return score_of(scorer, f"Here:\n```{tag}\n{program}\n```\n", {"type": kind, "answer": answer})


def unless_starved(ask: Callable[[], T]) -> T:
    """Return what `ask` returns, or raise what it raises; asked again where the machine was too busy for its child.

    Where it stays so, a hang is taken for one however little it got.
    """
    for _ in range(STARVED_TRIES):
        try:
            return ask()
        except ChildDied as error:
            if "this machine has more to do than it can" not in str(error):
                raise
    with on_a_busy_machine():
        return ask()


@contextmanager
def on_a_busy_machine() -> Iterator[None]:
    """Have a hang in a child of this process taken for one, however little a busy machine lets it have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "STARVED_SHARE", LEAST_SHARE)
        yield
