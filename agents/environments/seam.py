"""Define what an episode's environment returns to the worker, and how it fails.

In: nothing. Out: the records of `agents.environments.runner`, and two exceptions. A failure costs its episode an
attempt; a disturbance costs only time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker.errors import Retryable
from broker.messages import Turn

MESSAGE_LINES: Final = 24


class FailureStage(StrEnum):
    """What the environment was doing when it failed."""

    START = "start"  # of the processes: the imports
    RESET = "reset"
    STEP = "step"
    RUN = "run"  # of an agent that owns its loop
    JUDGE = "judge"  # of such an agent's result


class FailureKind(StrEnum):
    """How an environment failed."""

    START = "start"  # no process to play in
    ERROR = "error"  # its code raised, or returned an invalid answer
    DEADLINE = "deadline"
    MEMORY = "memory"
    EXITED = "exited"  # its process ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The beginning of an episode."""

    messages: tuple[Turn, ...]  # the prompt
    tools: tuple[Turn, ...]  # schemas in the format of OpenAI's API; (): none
    reward_range: tuple[float, float] | None  # of an episode; None: not given
    # The environment's own play, as messages of the policy, where requested; (): none for this row; None: it has no
    # `reference`.
    reference: tuple[Turn, ...] | None = None
    deadline_s: float | None = None  # for an agent's work, from the row; None: not given


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentStep:
    """The environment's answer to one turn of the policy."""

    messages: tuple[Turn, ...]  # of the role `tool` or `user`, for the policy
    reward: float | None
    terminated: bool
    truncated: bool
    seconds: float  # of the environment's own work
    remark: str = ""  # for people


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The result of an agent that owns its loop."""

    reward: float | None
    remark: str = ""  # for people
    answer: str | None = None  # its answer for scorers; None: its last message


class EnvironmentFailed(Retryable):
    """An environment could not begin or answer. The message has the last lines of the traceback and of the output."""

    def __init__(
        self,
        message: str,
        *,
        stage: FailureStage,
        kind: FailureKind,
        is_policys: bool = False,
        is_unreachable: bool = False,
    ) -> None:
        """Store the failure.

        Args:
            is_policys: whether the policy may have caused it: the failure is in `step` or `run`, or a limit was used up
                there. False where an address was unreachable, or something else killed the process.
            is_unreachable: whether an address was unreachable.
        """
        super().__init__(message)
        self.stage, self.kind, self.is_policys = stage, kind, is_policys
        self.is_unreachable = is_unreachable


class Disturbed(Retryable):
    """The process ended because of another episode, or with its parent: play again, and count no attempt."""
