"""This module has what clients send to the reward server and what they get, as pydantic models.

The OpenAPI page is made of them. Names that a model does not have are ignored, as by II-Thought's server.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, model_validator


class Body(BaseModel):
    """A body is a part of a request or of an answer."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class RewardRequest(Body):
    """`POST /reward` takes a response and its row."""

    llm_output: str
    """The response of a model, without its prompt."""
    verification_info: str | dict[str, Any]
    """What it is checked against: `{"type": ..., "answer": {...}}`, an object or its JSON text."""


class BatchRequest(Body):
    """`POST /reward/batch` takes several responses, each with its row."""

    items: list[RewardRequest] = Field(min_length=1, max_length=1024)
    """Responses with their rows."""


class LegacyRequest(Body):
    """`POST /reward` takes several responses in its older form."""

    solutions: list[str] = Field(min_length=1, max_length=1024)
    """Responses."""
    ground_truths: list[str | StrictInt | StrictFloat | dict[str, Any]]
    """For each one a verification_info, an object or its JSON text, or the answer to a problem of mathematics."""

    @model_validator(mode="after")
    def _pairs(self) -> LegacyRequest:
        if len(self.solutions) != len(self.ground_truths):
            raise ValueError(f"{len(self.solutions)} solutions, {len(self.ground_truths)} ground_truths")
        return self


class Reward(Body):
    """`POST /reward` answers with this, and `POST /reward/batch` for each item."""

    score: float | None
    """What a trainer is paid: in [0, 1] unless the configuration has penalties. 0 says that the response is wrong.
    A number exactly when the status is `scored`, as it always is in an answer to `POST /reward`."""
    status: Literal["scored", "unscorable", "unavailable"]
    """`unscorable`: the row, or what it asks of others, can't be scored, now or later. `unavailable`: not now."""
    reason: str
    """For people."""
    components: dict[str, float]
    """The parts of the score, by name."""
    seconds: float
    """That the scoring took, without waiting for a worker."""
    scorer: str
    """Its name; empty without a score."""
    version: str
    """Of the scorer: the same response, row and version give the same score."""


class BatchReward(Body):
    """`POST /reward/batch` answers with the results of its items."""

    results: list[Reward]
    """In the order of the items."""


class LegacyReward(Body):
    """`POST /reward` answers its older form with scores alone."""

    scores: list[float]
    """In the order of the solutions."""


class Ping(Body):
    """`GET /ping` answers with this."""

    status: Literal["ok"] = "ok"
    """The server is there."""
    message: str
    """For people."""


class Fault(Body):
    """A fault is one thing that is wrong with a request."""

    type: str
    """Its kind, as pydantic has it; `unscorable` where a scorer says so."""
    loc: list[str | int]
    """Where it is: `["body", "verification_info"]`."""
    msg: str
    """For people."""


class Unprocessable(Body):
    """A 422 answers with the faults of a request."""

    detail: list[Fault]
    """At least one."""


class Refusal(Body):
    """Every other status from 400 up answers with one sentence."""

    detail: str
    """For people."""
