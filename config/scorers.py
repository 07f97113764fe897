"""How completions are scored: one entry a task."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from config.section import Section


class MathConfig(Section):
    """Mathematical equality with the reference, by math-verify in a child process."""

    type: Literal["math"] = "math"
    deadline_s: float = Field(10.0, gt=0)
    """Seconds that one completion may cost: half for the first try, half for the second one alone in a fresh child.
    Both used up is a zero: the answer itself did that."""
    require_box: bool = True
    """Only a boxed answer counts. Off: the last expression that math-verify finds does."""


class FormatConfig(Section):
    """The shape of an answer, beside its content."""

    think: Literal["required", "optional"] = "optional"
    """Whether an answer needs a closed thinking span; an unclosed one is always wrong."""
    box: bool = True
    """Whether the part after the thinking needs a box."""
    mode: Literal["gate", "mix"] = "gate"
    """`gate`: a wrong shape makes the reward 0. `mix`: the reward is (1 - weight) x score + weight x format."""
    weight: float = Field(0.1, gt=0, lt=1)
    """The share of the format in `mix`."""


class TaskConfig(Section):
    """How rows of one task become rewards."""

    scorer: MathConfig = MathConfig()
    """What judges the content."""
    format: FormatConfig | None = None
    """What judges the shape; unset: nothing does."""


class ScorersConfig(Section):
    """The pool of scorers. `python -m scorers` is one dispatcher and its workers; start as many as you like."""

    workers: int = Field(2, ge=1)
    """RQ workers of one `python -m scorers`."""
    groups_per_job: int = Field(4, ge=1)
    """Groups that one RQ job carries at most, each handed over by itself."""
    tasks: dict[str, TaskConfig] = {"math": TaskConfig()}
    """Task name to scorer. A row whose task is not here is refused when it is read."""
    retries: int = Field(3, ge=0)
    """Tries after a broken infrastructure before a completion is called unscorable."""
    retry_backoff_s: float = Field(0.5, ge=0)
    """Wait before the first of them; doubled each time."""
