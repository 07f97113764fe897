"""This section says how episodes of several turns are played."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from config.endpoint import is_loopback
from config.logs import KEY_SUFFIX
from config.section import Section


class GatewayConfig(Section):
    """Where a worker's gateway listens, at which agents that own their loop call the policy."""

    host: str = "127.0.0.1"
    """Its address; `0.0.0.0` for agents on other machines and in other containers."""
    port: int | None = Field(None, ge=1, le=65535)
    """Its port: one worker of agents a machine then. Unset: a free one."""
    key_variable: str | None = Field(None, pattern=rf"^\w+{KEY_SUFFIX}$")
    """Variable of the agents' environment that holds the key which agents elsewhere (`type: remote`) open episodes by.
    Each episode has a key of its own for the policy, whatever stands here."""

    @model_validator(mode="after")
    def _is_asked_for_a_key(self) -> GatewayConfig:
        if not is_loopback(self.host) and (self.port is None or self.key_variable is None):
            raise ValueError(
                f"host={self.host} can be reached from other machines: `port` and `key_variable` have to be set"
            )
        return self


class AgentsConfig(Section):
    """The pool of agents. `python -m agents` is one worker of it; a run without an environment needs none."""

    count: int = Field(1, ge=1)
    """Workers that `millrace up` starts where a task has an environment."""
    episodes: int = Field(64, ge=1)
    """Episodes that one worker plays at once; at least one group's."""
    episodes_per_child: int = Field(1, ge=1)
    """Episodes that one child process holds. More than one only for environments that never block: a child that is
    ended for one of them takes the others with it, which are then played again from their records."""
    max_attempts: int = Field(3, ge=1)
    """Attempts at a group until an episode that nobody could play to its end is unscorable. A worker's death uses one
    up only where nothing was recorded since the attempt before."""
    gateway: GatewayConfig = GatewayConfig()
    on_repeated_crash: Literal["score", "unscorable"] = "score"
    """What an episode is worth in which the same step of the environment crashed in every attempt: scored as it stands,
    since the policy brought it about, or nothing."""

    @model_validator(mode="after")
    def _has_one_worker_a_port(self) -> AgentsConfig:
        if self.gateway.port is not None and self.count > 1:
            raise ValueError(
                f"gateway.port={self.gateway.port} goes with count=1: two workers of one machine can't have one port"
            )
        return self
