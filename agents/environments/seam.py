"""What an episode's environment gives the worker, and how it fails.

In: nothing. Out: the records of `agents.environments.environments`, and two exceptions. A failure costs its episode an
attempt; a disturbance costs nothing but time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker.errors import Retryable
from broker.messages import Turn

MESSAGE_LINES: Final = 24


class Stage(StrEnum):
    """A stage says what the environment was at when it failed."""

    START = "start"  # of the processes: the imports
    RESET = "reset"
    STEP = "step"
    RUN = "run"  # of an agent that owns its loop
    JUDGE = "judge"  # of what such an agent has made


class Kind(StrEnum):
    """A kind says how an environment failed."""

    START = "start"  # there was no process to play in
    ERROR = "error"  # its code raised, or gave what is no answer
    DEADLINE = "deadline"
    MEMORY = "memory"
    EXITED = "exited"  # its process ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What an episode begins with."""

    messages: tuple[Turn, ...]  # the prompt
    tools: tuple[Turn, ...]  # schemas as OpenAI's API has them; (): none
    reward_range: tuple[float, float] | None  # of an episode; None: the environment says nothing
    # What the environment itself would do, as messages of the policy, where that was asked for; (): it knows nothing of
    # this row; None: it never does.
    reference: tuple[Turn, ...] | None = None
    deadline_s: float | None = None  # of an agent's work, by the row; None: the row says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the environment answers to one turn of the policy."""

    messages: tuple[Turn, ...]  # of the role `tool` or `user`, for the policy to read
    reward: float | None
    terminated: bool
    truncated: bool
    seconds: float  # of the environment's own work
    remark: str = ""  # for people


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """What an agent that owns its loop gives at its end."""

    reward: float | None
    remark: str = ""  # for people
    answer: str | None = None  # what it has made, as scorers read it; None: its last message is that


class EnvironmentFailed(Retryable):
    """An environment could not begin or answer. Its message has the last lines of the traceback and of the output."""

    def __init__(
        self,
        message: str,
        *,
        stage: Stage,
        kind: Kind,
        is_policys: bool = False,
        is_unreachable: bool = False,
    ) -> None:
        """Keep what failed.

        Args:
            is_policys: whether the policy may have brought it about: the failure lies in `step` or `run`, or a limit
                was used up there. Never where an address was out of reach, or something else killed the process.
            is_unreachable: whether an address was out of reach.
        """
        super().__init__(message)
        self.stage, self.kind, self.is_policys = stage, kind, is_policys
        self.is_unreachable = is_unreachable


class Disturbed(Retryable):
    """The process was ended for a neighbour, or with its parent: play the episode again, and count no attempt."""
