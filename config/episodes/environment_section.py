"""Keys that all environments have, and keys of those that give rewards."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from config.section import Section


class EnvironmentSection(Section):
    """Keys that every environment has."""

    makes_prompt: ClassVar[bool] = False  # whether `reset` can begin an episode for a row without a prompt
    policy_can_break: ClassVar[bool] = True  # whether the policy may be the cause of a failure of `step`
    type: str
    max_turns: int = Field(8, ge=1)
    """Turns of the policy in one episode. After the last one the episode is scored as it stands."""
    turn_tokens: int | None = Field(None, ge=1)
    """Largest number of tokens in one turn of the policy. Unset: what is left of `sampling.max_tokens`, which limits
    everything after the first prompt, results of tools included."""
    deadline_s: float = Field(600.0, gt=0)
    """Deadline in seconds for an episode: time of sampling its turns and of its environment's work, without time in
    queues."""
    start_deadline_s: float = Field(120.0, gt=0)
    """Deadline in seconds for imports, done once for all episodes of a worker."""
    reset_deadline_s: float = Field(120.0, gt=0)
    """Deadline in seconds for beginning an episode, after the imports."""
    step_deadline_s: float = Field(60.0, gt=0)
    """Deadline in seconds for one step of the environment, or for one answer of a NeMo Gym server. A longer one uses up
    an attempt at the episode (`agents.max_attempts`). Its child process is killed, unless that plays several episodes
    and can stop this one alone."""
    memory_mb: int = Field(2048, ge=64)
    """Address space of a child process in MiB, beyond what it inherits."""
    python: str | None = None
    """Python interpreter of the child processes, for packages that conflict with Millrace's. Unset: Millrace's own."""
    variables: tuple[str, ...] = ()
    """Environment variables with secrets that the child processes keep, such as `SEARCH_API_KEY`. All others with names
    of secrets are removed."""

    @property
    def blocks(self) -> bool:
        """Whether an episode blocks its child process while it works, so that each episode needs its own child."""
        return False

    @property
    def kept_variables(self) -> tuple[str, ...]:
        """Variables that the child processes keep although they hold a secret."""
        return self.variables

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the environment reads from the rows; they are carried along like those of `data.columns`."""
        return ()

    @field_validator("variables")
    @classmethod
    def _are_theirs(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if "REDIS_URL" in names:
            raise ValueError("REDIS_URL stays with the agents: whoever has it can run programs as every role")
        return names


class RewardingSection(EnvironmentSection):
    """Keys of an environment that gives rewards."""

    makes_prompt: ClassVar[bool] = True
    reward: Literal["last", "sum"] = "sum"
    """Use the sum of an episode's rewards, or the last one."""
    reward_range: tuple[float, float] | None = None
    """Least and greatest reward of an episode, which a scorer of type `environment` maps to 0 and 1. A reward outside
    makes the episode unscorable. Unset: the environment's own `reward_range`, or [0, 1]."""

    @model_validator(mode="after")
    def _is_range(self) -> RewardingSection:
        if self.reward_range is not None and not self.reward_range[0] < self.reward_range[1]:
            low, high = self.reward_range
            raise ValueError(f"reward_range is [least, greatest], got [{low:g}, {high:g}]")
        return self
