"""Section of the agents, which play episodes of several turns."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from config.endpoint import is_loopback
from config.logs import KEY_SUFFIX
from config.section import Section


class GatewayConfig(Section):
    """Gateway of a worker, at which agents that own their loop call the policy."""

    host: str = "127.0.0.1"
    """Address to listen at. `0.0.0.0` for agents on other machines or in other containers."""
    port: int | None = Field(None, ge=1, le=65535)
    """Port to listen at, for one worker per machine. Unset: a free one."""
    key_variable: str | None = Field(None, pattern=rf"^\w+{KEY_SUFFIX}$")
    """Environment variable of the workers that holds the key by which agents elsewhere (`type: remote`) open episodes.
    For the policy each episode has a key of its own in any case."""

    @model_validator(mode="after")
    def _is_asked_for_a_key(self) -> GatewayConfig:
        if not is_loopback(self.host) and (self.port is None or self.key_variable is None):
            raise ValueError(
                f"host={self.host} can be reached from other machines: `port` and `key_variable` have to be set"
            )
        return self


class AgentsConfig(Section):
    """The pool of agents. `python -m agents` is one worker; a run without an environment needs none."""

    count: int = Field(1, ge=1)
    """Workers that `millrace up` starts where a task has an environment."""
    episodes: int = Field(64, ge=1)
    """Episodes that one worker plays at once, at least one group."""
    episodes_per_child: int = Field(1, ge=1)
    """Episodes per child process. Use more than one only for environments that never block: a child that is killed for
    one of them takes the others with it, which are then played again from their records."""
    max_attempts: int = Field(3, ge=1)
    """Attempts at a group before an episode that could not be played to its end counts as unscorable. A worker's death
    uses up an attempt only where nothing was recorded since the one before."""
    gateway: GatewayConfig = GatewayConfig()
    """Server of the policy for agents that own their loop."""
    on_repeated_crash: Literal["score", "unscorable"] = "score"
    """What to do with an episode in which the same step of the environment crashed in every attempt, of at least two
    where `max_attempts` allows them: `score` it as it stands, since the policy caused the crash, or make it
    `unscorable`."""

    @model_validator(mode="after")
    def _has_one_worker_a_port(self) -> AgentsConfig:
        if self.gateway.port is not None and self.count > 1:
            raise ValueError(
                f"gateway.port={self.gateway.port} goes with count=1: two workers of one machine can't have one port"
            )
        return self
