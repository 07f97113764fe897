"""Sections of the environments, which answer the policy between its turns: one for each kind.

`EnvironmentConfig` is their union, told apart by `type`; `scorers.tasks.NAME.environment` holds one. A task without one
is answered in one turn.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from config.custom import ImportPath
from config.logs import KEY_SUFFIX
from config.section import Section


class EnvironmentSection(Section):
    """Keys that every environment has."""

    makes_prompt: ClassVar[bool] = False  # whether `reset` can begin an episode of a row that has no prompt
    policy_can_break: ClassVar[bool] = True  # whether a failure of `step` may be the policy's doing
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
        """Whether an episode keeps its child from others while it works, so that each needs a child of its own."""
        return False

    @property
    def kept_variables(self) -> tuple[str, ...]:
        """Variables that the children keep although they hold a secret."""
        return self.variables

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the rows that it reads, which travel like those of `data.columns`."""
        return ()

    @field_validator("variables")
    @classmethod
    def _are_theirs(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if "REDIS_URL" in names:
            raise ValueError("REDIS_URL stays with the agents: whoever has it can run programs as every role")
        return names


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
        """Whether programs may be waited for."""
        return bool(self.programs)

    @property
    def kept_variables(self) -> tuple[str, ...]:
        """Variables that the children keep: the keys of the servers too."""
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


class AuxiliaryCall(Section):
    """Auxiliary calls of an agent, such as for a title. A call is auxiliary where all conditions that are set hold."""

    model: str | None = Field(None, min_length=1)
    """Name of the requested model, as a whole. `*` matches any text, as in `*haiku*`."""
    system: str | None = Field(None, min_length=1)
    """Text contained in the system message or in `instructions`. `*` matches any text."""
    last_message: str | None = Field(None, min_length=1)
    """Text contained in the last message. `*` matches any text."""
    tools: bool | None = None
    """Whether the call offers tools."""
    max_tokens: int | None = Field(None, ge=1)
    """The call asks for an answer of at most this many tokens."""

    @model_validator(mode="after")
    def _has_some(self) -> AuxiliaryCall:
        if not self.model_dump(exclude_none=True):
            raise ValueError("without a condition every call would be one, and nothing would train")
        return self


class AgentSection(RewardingSection):
    """Keys of an agent that owns its loop and calls the policy as it would call OpenAI's or Anthropic's API."""

    max_turns: int = Field(32, ge=1)
    """Calls of the policy in one episode. At the limit the agent is told to stop, and the episode is scored as it
    stands."""
    auxiliary: tuple[AuxiliaryCall, ...] = ()
    """Auxiliary calls, such as for a title. The policy answers a call that matches any of these, but it is neither
    trained on nor scored. `max_turns` limits them separately."""


class AgentFunctionConfig(AgentSection):
    """Your own agent, as a function."""

    type: Literal["agent"] = "agent"
    import_path: ImportPath
    """`package.module:function` of (base_url, api_key, row), which may return a reward and may be `async`. It must be
    importable where agents run."""


class CommandConfig(AgentSection):
    """An agent that is a command, started for each episode."""

    type: Literal["command"] = "command"
    command: tuple[str, ...] = Field(min_length=1)
    """Command and arguments. It finds the policy by `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `ANTHROPIC_BASE_URL` and
    `ANTHROPIC_API_KEY`, and its row in the file `MILLRACE_ROW`, and may write a reward to the file
    `MILLRACE_REWARD`."""
    sandbox: bool = True
    """Run it in bubblewrap: it reaches the policy and no other address, and sees the system's programs, `readable` and
    a folder of its own. Refused where bubblewrap is missing. `false`: run it with the workers' rights."""
    readable: tuple[str, ...] = ()
    """Files and folders to show in the sandbox, read-only and under their own paths. The virtual environment of its
    program is always shown."""
    processes: int = Field(128, ge=1)
    """Largest number of processes and threads in the sandbox."""
    folder_mb: int = Field(256, ge=1)
    """Size in MiB of its own folder in the sandbox, which is kept in memory, besides `memory_mb`."""

    @model_validator(mode="after")
    def _is_walled_or_not(self) -> CommandConfig:
        if self.sandbox and self.python is not None:
            raise ValueError(
                "`sandbox` needs Millrace's own interpreter for the children: leave `python` unset"
            )
        if not self.sandbox and self.readable:
            raise ValueError("`readable` goes with `sandbox: true`; without walls the command sees all files")
        return self

    @property
    def blocks(self) -> bool:
        """A command is waited for."""
        return True


class PlacedAgentSection(AgentSection):
    """Keys of an agent that works in a place of its own, which is judged when the agent has ended.

    The agent is a command inside, or your function outside. Unset: Millrace's own loop, in which the policy calls bash
    until a message of its calls nothing.
    """

    makes_prompt: ClassVar[bool] = False
    deadline_s: float = Field(3600.0, gt=0)
    """Deadline in seconds for an episode: time of sampling its turns and of its agent's work, without time in queues.
    Then the agent is stopped, and its work is judged."""
    reset_deadline_s: float = Field(900.0, gt=0)
    """Deadline in seconds for preparing the place, its image included."""
    judge_deadline_s: float = Field(3600.0, gt=0)
    """Deadline in seconds for judging."""
    command: tuple[str, ...] = ()
    """Command and arguments of an agent that runs inside, in the work folder. It finds the policy and its row as one of
    type `command` does."""
    import_path: ImportPath | None = None
    """`package.module:function` of (base_url, api_key, row, environment), an `async` function, importable where agents
    run. `await environment.exec("ls")` runs bash in the place."""
    readable: tuple[str, ...] = ()
    """Files and folders to show inside, read-only and under their own paths."""
    command_deadline_s: float = Field(120.0, gt=0)
    """Default deadline in seconds for one command of a function or of Millrace's own loop."""
    result_characters: int = Field(16_000, ge=1)
    """Largest number of characters of a result of bash in Millrace's own loop. The middle of a longer one is left out,
    with a note."""
    processes: int = Field(256, ge=1)
    """Largest number of processes and threads inside."""
    folder_mb: int = Field(1024, ge=1)
    """Size in MiB of what is written in bubblewrap. A container has no such limit."""

    @model_validator(mode="after")
    def _has_one_agent(self) -> PlacedAgentSection:
        if self.command and self.import_path is not None:
            raise ValueError("`command` and `import_path` are two agents: name one of them, or neither")
        if self.python is not None:
            raise ValueError(f"type {self.type} needs Millrace's own interpreter: leave `python` unset")
        return self


class HarborConfig(PlacedAgentSection):
    """A task directory of Harbor (docs/harbor.md)."""

    type: Literal["harbor"] = "harbor"
    root: str | None = None
    """Folder of the task directories where agents run, if it differs from where rows were prepared. The last part of a
    row's folder is looked for in it. Unset: the rows' own folders."""
    engine: Literal["podman", "docker"] | None = None
    """Container engine, for tasks with an image. Unset: the one that is installed."""
    build_words: tuple[str, ...] = ()
    """Further arguments of its `build`, such as `--network=host`."""
    network: bool = False
    """Give the container of a task that asks for a network the engine's network. Off: an agent reaches the policy and
    no other address, as in bubblewrap."""


class SweAgentConfig(PlacedAgentSection):
    """A row of type `swe`, whose files are checked out in bubblewrap. What the agent changes is its answer."""

    type: Literal["swe"] = "swe"
    memory_mb: int = Field(2048, ge=64)
    """Memory in MiB of all processes inside."""
    shows_tests: bool = False
    """Show the row's test files to the agent. Changes to them never count."""


class RemoteAgentConfig(AgentSection):
    """An agent elsewhere, which Millrace does not start. It opens episodes at the gateway (`agents.gateway`)."""

    type: Literal["remote"] = "remote"
    open_deadline_s: float = Field(3600.0, gt=0)
    """Deadline in seconds for an agent to open the episode. `deadline_s` begins then."""


class VerifiersConfig(AgentSection):
    """An environment of verifiers, by name: a taskset of version 1, or what `load_environment` makes."""

    type: Literal["verifiers"] = "verifiers"
    id: str
    """Id in verifiers, such as `gsm8k-v1`, or `owner/gsm8k` from its hub, installed for the child processes'
    interpreter."""
    options: dict[str, Any] = {}
    """Options of the taskset (`--env.taskset.*` of verifiers' own command), or arguments of `load_environment`."""
    agents: dict[str, dict[str, Any]] = {}
    """Options of a taskset's agents by name (`--env.agent.*`): a harness, or model and client of an agent that is not
    the policy. Unset: one agent, `agent`, which talks and calls the taskset's tools."""
    most_rows: int = Field(100_000, ge=1)
    """Use this many tasks of a taskset that is infinite."""
    held_out_rows: int = Field(0, ge=0)
    """Keep this many of the last rows for `split: eval`. 0: use the environment's own evaluation data."""


class NemoGymConfig(AgentSection):
    """A resources server of NeMo Gym, played as NeMo Gym's own agents play it."""

    type: Literal["nemo_gym"] = "nemo_gym"
    url: str = Field(pattern=r"^https?://[^/\s]")
    """Address of the server."""
    agent: Literal["simple", "gymnasium"] | None = None
    """Which of NeMo Gym's agents to play as: `simple` (`/seed_session`, a POST for each tool call, `/verify`) or
    `gymnasium` (`/reset`, `/step`). Unset: the one that fits the server's routes."""
    result_characters: int = Field(16_000, ge=1)
    """Largest number of characters of an answer of the server. A longer one is cut, with a note."""


class TriesSection(RewardingSection):
    """Keys of environments with several tries, which show the scorer's verdict between them."""

    makes_prompt: ClassVar[bool] = False
    policy_can_break: ClassVar[bool] = False  # what it wrote runs in the sandbox alone
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
        """Whether an episode keeps its child from others while it works: it waits for the sandbox."""
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
        """Whether `reset` can begin an episode of a row that has no prompt."""
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
        """Variables that the children keep: the server's key too."""
        return (*self.variables, *([self.key_variable] if self.key_variable else []))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the rows that it reads."""
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
        """Columns of the rows that it reads: `tools_kwargs` and the like stand in `extra_info`."""
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
