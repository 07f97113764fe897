"""Define what a scorer reads of an answer and says of it: those parts of the messages that hold no tokens.

`broker.messages` has the messages that carry them. Here is no numpy: a process that scores single rows, and its caller,
have no use for it and start without.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Turn = dict[str, Any]  # of a chat, in the format of OpenAI's API: role, content, and any tool calls


class FinishReason(StrEnum):
    """Why a completion ended."""

    STOP = "stop"  # the model ended it
    LENGTH = "length"  # truncated at a limit


class End(StrEnum):
    """What ended an episode of several turns."""

    MESSAGE = "message"  # the policy's last message asked for nothing more
    ENVIRONMENT = "environment"  # the environment ended it
    TURNS = "turns"  # the largest number of turns
    CONTEXT = "context"  # the context is full
    TOKENS = "tokens"  # a turn's max_tokens
    DEADLINE = "deadline"  # while the policy or tools were working
    CRASH = "crash"  # the same call crashed in every attempt: caused by the policy
    FAILED = "failed"  # nobody could play it to its end: unscorable

    @property
    def is_cut(self) -> bool:
        """Whether the policy ran into a limit: such an episode is truncated."""
        return self in (End.TURNS, End.CONTEXT, End.TOKENS, End.DEADLINE)


class ScoreStatus(StrEnum):
    """Whether a score has a value."""

    SCORED = "scored"
    UNSCORABLE = "unscorable"


class EnvironmentReward(Struct, frozen=True, kw_only=True):
    """What an episode is worth to its environment, in the environment's unit. A scorer turns it into a score."""

    value: Finite  # a value outside the range is no error here: the scorer reports it
    low: Finite  # lowest possible value
    high: Finite  # highest possible value
    turns: tuple[Finite | None, ...] = ()  # reward after each turn of the policy; None: none was given

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"an environment whose rewards lie between {self.low} and {self.high}")


class Score(Struct, frozen=True, kw_only=True):
    """A scorer's result for one completion. 0.0 means wrong, never broken."""

    status: ScoreStatus
    value: Finite | None  # in [0, 1] when SCORED, else None; UNSCORABLE is left out of baseline and loss
    reason: str  # for people: "answer 3/4, expected 0.75"
    scorer: str  # name
    version: str  # of the scorer: the same text and version give the same value
    seconds: Finite = 0.0
    components: Mapping[str, Finite] = field(default_factory=dict)  # each part by name

    def __post_init__(self) -> None:
        if (self.status is ScoreStatus.SCORED) != (self.value is not None):
            raise ValueError("a value belongs to a scored completion and to no other")
        if self.value is not None and not (math.isfinite(self.value) and 0.0 <= self.value <= 1.0):
            raise ValueError(f"a score lies in [0, 1], got {self.value}")
        # A reason may quote an answer whose JSON contains half a surrogate pair; no message can carry that.
        if not self.reason.isascii():
            force_setattr(self, "reason", self.reason.encode("utf-8", "replace").decode("utf-8"))
