"""This module has what clients send to the reward server and what they get, as pydantic models.

The OpenAPI page is made of them. Names that a model does not have are ignored, as by II-Thought's server.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, model_validator


class Body(BaseModel):
    """Every part of a request or of an answer is one of these."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class RewardRequest(Body):
    """`POST /reward`."""

    llm_output: str
    """The response of a model, without its prompt."""
    verification_info: str | dict[str, Any]
    """What it is checked against: `{"type": ..., "answer": {...}}`, an object or its JSON text."""


class BatchRequest(Body):
    """`POST /reward/batch`."""

    items: list[RewardRequest] = Field(min_length=1, max_length=1024)
    """Responses with their rows."""


class LegacyRequest(Body):
    """`POST /reward` in its older form."""

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
    """The answer to `POST /reward`, and an item of that to `POST /reward/batch`."""

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
    """The answer to `POST /reward/batch`."""

    results: list[Reward]
    """In the order of the items."""


class LegacyReward(Body):
    """The answer to the older form."""

    scores: list[float]
    """In the order of the solutions."""


class Ping(Body):
    """The answer to `GET /ping`."""

    status: Literal["ok"] = "ok"
    """The server is there."""
    message: str
    """For people."""


class Fault(Body):
    """One thing that is wrong with a request."""

    type: str
    """Its kind, as pydantic has it; `unscorable` where a scorer says so."""
    loc: list[str | int]
    """Where it is: `["body", "verification_info"]`."""
    msg: str
    """For people."""


class Unprocessable(Body):
    """The body of 422."""

    detail: list[Fault]
    """At least one."""


class Refusal(Body):
    """The body of every other answer from 400 up."""

    detail: str
    """For people."""
