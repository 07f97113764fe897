"""These sections say what answers the policy between its turns: there is one for each kind of environment.

`EnvironmentConfig` is their union, told apart by `type`; `scorers.tasks.NAME.environment` holds one. A task without one
is answered in one turn.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from config.custom import ImportPath
from config.section import Section


class EnvironmentSection(Section):
    """What the section of every environment has."""

    makes_prompt: ClassVar[bool] = False  # whether `reset` can begin an episode of a row that has no prompt
    type: str
    max_turns: int = Field(8, ge=1)
    """Turns of the policy in one episode; after the last one it is scored as it stands."""
    turn_tokens: int | None = Field(None, ge=1)
    """Longest turn of the policy. Unset: what is left of `sampling.max_tokens`, which bounds all that comes behind the
    first prompt, what tools answer included."""
    deadline_s: float = Field(600.0, gt=0)
    """Seconds of an episode: those in which its turns were sampled and its environment worked, and no queue's."""
    start_deadline_s: float = Field(120.0, gt=0)
    """Seconds of the imports, once for all episodes of a worker."""
    reset_deadline_s: float = Field(120.0, gt=0)
    """Seconds to begin an episode in, once the child has its imports."""
    step_deadline_s: float = Field(60.0, gt=0)
    """Seconds of one answer. A longer one ends the child, and costs its episode."""
    memory_mb: int = Field(2048, ge=64)
    """Address space of a child beyond what it inherits."""
    python: str | None = None
    """Another interpreter for the children, for packages that do not go with Millrace's. Unset: Millrace's own."""
    variables: tuple[str, ...] = ()
    """Variables of the agents' environment that the children keep although they hold a secret, such as
    `SEARCH_API_KEY`. All others of such a name are taken from them."""

    @field_validator("variables")
    @classmethod
    def _are_theirs(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if "REDIS_URL" in names:
            raise ValueError("REDIS_URL stays with the agents: whoever has it can run programs as every role")
        return names


class ToolsConfig(EnvironmentSection):
    """Plain Python functions that the policy may call."""

    type: Literal["tools"] = "tools"
    functions: tuple[ImportPath, ...] = Field(min_length=1)
    """`package.module:function`, each with type hints and a docstring, of which the model's schema is made. Importable
    where the agents run. An error that a function raises is told to the policy."""
    result_characters: int = Field(16_000, ge=1)
    """Longest result that the policy reads; what is longer is cut, and says so."""


class RewardingSection(EnvironmentSection):
    """An environment that gives rewards of its own."""

    makes_prompt: ClassVar[bool] = True
    reward: Literal["last", "sum"] = "sum"
    """What an episode's rewards make: their sum, or the last one."""
    reward_range: tuple[float, float] | None = None
    """Least and greatest reward of an episode; a scorer of type `environment` makes 0 and 1 of them, and what lies
    outside is unscorable. Unset: the environment's own `reward_range`, or 0 and 1."""

    @model_validator(mode="after")
    def _is_range(self) -> RewardingSection:
        if self.reward_range is not None and not self.reward_range[0] < self.reward_range[1]:
            low, high = self.reward_range
            raise ValueError(f"reward_range is [least, greatest], got [{low:g}, {high:g}]")
        return self


class CustomEnvironmentConfig(RewardingSection):
    """Your own environment: docs/environments.md."""

    type: Literal["custom"] = "custom"
    import_path: ImportPath
    """`package.module:Class` with `reset(row, seed)`, `step(action)` and `close()`, importable where the agents run."""
    options: dict[str, Any] = {}
    """Keyword arguments of the class."""


EnvironmentConfig = Annotated[ToolsConfig | CustomEnvironmentConfig, Field(discriminator="type")]
