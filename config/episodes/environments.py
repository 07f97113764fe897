"""Sections of the environments, which answer the policy between its turns: one for each kind.

`EnvironmentConfig` is the union of these and those of `config.episodes.own_loop`, selected by `type`.
`scorers.tasks.NAME.environment` holds one. A task without an environment is answered in one turn.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from config.custom import ImportPath
from config.episodes.environment_section import EnvironmentSection, RewardingSection
from config.episodes.own_loop import (
    AgentFunctionConfig,
    CommandConfig,
    HarborConfig,
    NemoGymConfig,
    RemoteAgentConfig,
    SweAgentConfig,
    VerifiersConfig,
)
from config.logs import KEY_SUFFIX
from config.section import Section


class ToolServerConfig(Section):
    """A server of tools that speaks MCP: a command, used by standard input and output, or an address."""

    command: tuple[str, ...] = ()
    """Command and arguments, started for each episode with the environment of the child processes."""
    url: str | None = None
    """Address of a running server (streamable HTTP)."""
    key_variable: str | None = Field(None, pattern=rf"^\w+{KEY_SUFFIX}$")
    """Environment variable of the workers, `..._API_KEY`, that holds the bearer token for `url`."""
    tools: tuple[str, ...] | None = None
    """Names of the tools to offer to the policy. Unset: all."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> ToolServerConfig:
        if bool(self.command) == (self.url is not None):
            raise ValueError("a server has a command or a url")
        if self.url is None and self.key_variable is not None:
            raise ValueError("key_variable goes with a url; a command sees what `variables` names")
        return self


class ToolsConfig(EnvironmentSection):
    """Tools that the policy may call. The episode ends with a message that calls none."""

    type: Literal["tools"] = "tools"
    functions: tuple[ImportPath, ...] = ()
    """Functions as `package.module:function`, with type hints and docstrings, from which the schema for the model is
    made. They must be importable where agents run. The policy is shown errors that they raise."""
    servers: dict[str, ToolServerConfig] = {}
    """Servers, by name, whose tools are offered too. A server that does not answer uses up an attempt at the
    episode."""
    programs: tuple[Literal["python", "bash"], ...] = ()
    """Interpreters offered as tools. They run the policy's code in the sandbox of this machine (see `scorers.sandbox`)
    and keep variables and files for the episode."""
    program_deadline_s: float = Field(30.0, gt=0)
    """Deadline in seconds for one such call. A longer one ends the interpreters, and the policy is told that their
    state is lost."""
    program_memory_mb: int = Field(1024, ge=64)
    """Memory in MiB of all interpreters of an episode together."""
    result_characters: int = Field(16_000, ge=1)
    """Largest number of characters of a result. A longer one is cut, with a note."""

    @property
    def blocks(self) -> bool:
        """Whether the episode may have to wait for programs."""
        return bool(self.programs)

    @property
    def kept_variables(self) -> tuple[str, ...]:
        """Variables that the child processes keep, including the keys of the servers."""
        keys = (server.key_variable for server in self.servers.values())
        return (*self.variables, *(key for key in keys if key is not None))

    @model_validator(mode="after")
    def _has_some(self) -> ToolsConfig:
        if not self.functions and not self.servers and not self.programs:
            raise ValueError("`functions`, `servers` or `programs` has to name a tool")
        if self.programs and self.python is not None:
            raise ValueError("`programs` needs Millrace's own interpreter: leave `python` unset")
        if self.programs and self.program_deadline_s >= self.step_deadline_s:
            raise ValueError(
                f"program_deadline_s={self.program_deadline_s:g} has to be less than step_deadline_s="
                f"{self.step_deadline_s:g}, or a program that hangs costs the episode"
            )
        return self


class CustomEnvironmentConfig(RewardingSection):
    """Your own environment (docs/environments.md)."""

    type: Literal["custom"] = "custom"
    import_path: ImportPath
    """`package.module:Class` with `reset(row, seed)`, `step(action)` and `close()`, importable where agents run."""
    options: dict[str, Any] = {}
    """Keyword arguments of the class."""


class GymnasiumConfig(RewardingSection):
    """An environment of gymnasium."""

    type: Literal["gymnasium"] = "gymnasium"
    id: str
    """Id for `gymnasium.make`. `my_module:Name-v0` imports the module that registers it."""
    options: dict[str, Any] = {}
    """Keyword arguments of `gymnasium.make`. `render_mode: ansi` shows what the environment draws."""
    actions: tuple[str, ...] = ()
    """Names of the actions, in order. Unset: their numbers."""


class GemConfig(RewardingSection):
    """A game of gem."""

    type: Literal["gem"] = "gem"
    id: str = Field(pattern="^game:")
    """Id for `gem.make`, such as `game:Mastermind-v0-easy`. gem's other environments are refused: they evaluate the
    policy's text with `eval` or sympy's parser outside of any sandbox."""
    options: dict[str, Any] = {}
    """Keyword arguments of `gem.make`."""


class TextArenaConfig(RewardingSection):
    """A game of textarena for one player."""

    type: Literal["textarena"] = "textarena"
    id: str
    """Id for `textarena.make`, such as `Wordle-v0`."""
    options: dict[str, Any] = {}
    """Keyword arguments of `textarena.make`."""


class TriesSection(RewardingSection):
    """Keys of environments with several tries, which show the scorer's verdict between them."""

    makes_prompt: ClassVar[bool] = False
    policy_can_break: ClassVar[bool] = False  # the policy's programs run only in the sandbox
    tries: int = Field(3, ge=1)
    """Tries that the policy has. The episode ends with a right answer, or with the last."""
    discount: float = Field(1.0, gt=0, le=1)
    """Reward a right answer with this to the power of the number of tries before it. A wrong answer gets 0."""
    program_deadline_s: float = Field(20.0, gt=0)
    """Deadline in seconds for one answer in the sandbox, over all its tests."""
    program_memory_mb: int = Field(1024, ge=256)
    """Memory in MiB of one run with all its processes."""

    @property
    def blocks(self) -> bool:
        """Whether an episode blocks its child process while it works: it waits for the sandbox."""
        return True

    @model_validator(mode="after")
    def _has_time_and_turns(self) -> TriesSection:
        if self.python is not None:
            raise ValueError(f"type {self.type} needs Millrace's own interpreter: leave `python` unset")
        if self.tries > self.max_turns:
            raise ValueError(f"tries={self.tries} need as many turns, and max_turns={self.max_turns}")
        if self.program_deadline_s >= self.step_deadline_s:
            raise ValueError(
                f"program_deadline_s={self.program_deadline_s:g} has to be less than step_deadline_s="
                f"{self.step_deadline_s:g}, or an answer that hangs costs the episode"
            )
        return self


class GymTriesConfig(TriesSection):
    """A problem of reasoning-gym, scored by that library after each try."""

    type: Literal["reasoning_gym"] = "reasoning_gym"
    dataset: str | None = None
    """Data set of the library that makes the problems of rows without an `entry`, by the row's seed. Unset: each row
    has an entry and a prompt."""
    options: dict[str, Any] = {}
    """Options of that data set, such as `min_terms`."""
    part: Literal["answer", "box", "response"] = "answer"
    """Where the answer is, as in the scorer `gym`."""
    instruction: str | None = None
    """Text to append to a made problem's question. Unset: where to put the answer."""

    @property
    def makes_prompt(self) -> bool:  # type: ignore[override]  # here the section decides, not the kind
        """Whether `reset` can begin an episode for a row without a prompt."""
        return self.dataset is not None


class CodeTriesConfig(TriesSection):
    """A program. After each try the policy is shown the public tests that it failed."""

    type: Literal["code"] = "code"
    public: int | None = Field(None, ge=1)
    """Take this many of the first tests of a row without public tests as public; at least one stays hidden. Unset:
    refuse such rows."""
    case_timeout_s: float = Field(10.0, gt=0)
    """Deadline in seconds for one test."""
    compatible: bool = False
    """How to compare standard output, as in the scorer `code`."""
    shown_characters: int = Field(500, ge=1)
    """Largest number of characters of a test's input, expected output and actual output that the policy is shown. The
    rest is cut, with a note."""


class OpenEnvConfig(RewardingSection):
    """An environment behind a server of OpenEnv. A session is an episode."""

    type: Literal["openenv"] = "openenv"
    url: str = Field(pattern=r"^(?:ws|http)s?://[^/\s]")
    """Address of the server: `ws://`, `wss://`, `http://` or `https://`, without the path `/ws`."""
    key_variable: str | None = Field(None, pattern=rf"^\w+{KEY_SUFFIX}$")
    """Environment variable of the workers, `..._API_KEY`, that holds the bearer token for `url`."""
    action: Literal["text", "json", "call"] | None = None
    """How the policy writes an action. `text`: its text is the action's only field. `json`: its text has a JSON object
    with the fields. `call`: it calls a tool whose arguments are the fields. Unset: `text` where one field is enough,
    else `call`. Tools that the environment offers by MCP are always called."""
    action_field: str | None = None
    """Field of the action that holds the text. Unset: the only required one."""
    observation: tuple[str, ...] = ()
    """Fields of the observation to show to the policy. Unset: all that are not empty."""
    reset: dict[str, Any] = {}
    """Arguments of `reset` besides `seed` and `episode_id`. A server drops those that its environment does not take."""
    reset_from_row: tuple[str, ...] = ()
    """Columns of the row, or keys of its `verification_info`, to pass to `reset` too."""
    result_characters: int = Field(16_000, ge=1)
    """Largest number of characters of an observation. A longer one is cut, with a note."""

    @property
    def kept_variables(self) -> tuple[str, ...]:
        """Variables that the child processes keep, including the server's key."""
        return (*self.variables, *([self.key_variable] if self.key_variable else []))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the rows that the environment reads."""
        return self.reset_from_row

    @model_validator(mode="after")
    def _field_goes_with_text(self) -> OpenEnvConfig:
        if self.action_field is not None and self.action not in (None, "text"):
            raise ValueError(f"action_field says what a text becomes, and action is {self.action}")
        return self


class VerlToolsConfig(RewardingSection):
    """Tools of verl, declared in its YAML or marked with its `@function_tool`."""

    makes_prompt: ClassVar[bool] = False
    type: Literal["verl_tools"] = "verl_tools"
    tool_config_path: str | None = None
    """verl's YAML, a list `tools` of `class_name`, `config` and `tool_schema`, read where agents run."""
    function_tool_path: str | None = None
    """Python file with functions that are marked with verl's `@function_tool`."""
    instances: Literal["episode", "call"] = "episode"
    """Lifetime of a tool's instance, made by `create`: the `episode`, so that it keeps its state and `calc_reward` is
    asked, or a `call`, as in verl's agent loops."""
    result_characters: int = Field(16_000, ge=1)
    """Largest number of characters of a result. A longer one is cut, with a note."""
    result_kept: Literal["start", "end", "both"] = "start"
    """Which part of a cut result to keep."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the rows that the environment reads: `tools_kwargs` and similar values are in `extra_info`."""
        return ("extra_info",)

    @model_validator(mode="after")
    def _has_some(self) -> VerlToolsConfig:
        if self.tool_config_path is None and self.function_tool_path is None:
            raise ValueError("`tool_config_path` or `function_tool_path` has to name a file")
        return self


EnvironmentConfig = Annotated[
    ToolsConfig
    | CustomEnvironmentConfig
    | GymnasiumConfig
    | GemConfig
    | TextArenaConfig
    | GymTriesConfig
    | CodeTriesConfig
    | AgentFunctionConfig
    | CommandConfig
    | RemoteAgentConfig
    | VerifiersConfig
    | NemoGymConfig
    | HarborConfig
    | SweAgentConfig
    | OpenEnvConfig
    | VerlToolsConfig,
    Field(discriminator="type"),
]
