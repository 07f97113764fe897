"""These sections say what answers the policy between its turns: there is one for each kind of environment.

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
    """What the section of every environment has."""

    makes_prompt: ClassVar[bool] = False  # whether `reset` can begin an episode of a row that has no prompt
    policy_can_break: ClassVar[bool] = True  # whether a failure of `step` may be the policy's doing
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
    """A server of tools that speaks MCP: a command, asked by standard input and output, or an address."""

    command: tuple[str, ...] = ()
    """Words of the command; each episode starts one. It sees the variables that the children see."""
    url: str | None = None
    """Of a server that is there, over streamable HTTP."""
    key_variable: str | None = Field(None, pattern=rf"^\w+{KEY_SUFFIX}$")
    """Variable of the agents' environment, `..._API_KEY`, that holds the bearer token of `url`."""
    tools: tuple[str, ...] | None = None
    """Those that the policy is offered, by name. Unset: all."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> ToolServerConfig:
        if bool(self.command) == (self.url is not None):
            raise ValueError("a server has a command or a url")
        if self.url is None and self.key_variable is not None:
            raise ValueError("key_variable goes with a url; a command sees what `variables` names")
        return self


class ToolsConfig(EnvironmentSection):
    """Tools that the policy may call, until a message of its calls none."""

    type: Literal["tools"] = "tools"
    functions: tuple[ImportPath, ...] = ()
    """`package.module:function`, each with type hints and a docstring, of which the model's schema is made. Importable
    where the agents run. An error that a function raises is told to the policy."""
    servers: dict[str, ToolServerConfig] = {}
    """Name to a server whose tools are offered too. A server that does not answer costs the episode an attempt."""
    programs: tuple[Literal["python", "bash"], ...] = ()
    """Tools that run what the policy writes behind the sandbox' walls on this machine, as `scorers.sandbox` has it,
    with names, variables and files that stay for the episode."""
    program_deadline_s: float = Field(30.0, gt=0)
    """Seconds of one such call. A longer one ends the programs, and the policy reads that their state is lost."""
    program_memory_mb: int = Field(1024, ge=64)
    """Memory of all programs of an episode together."""
    result_characters: int = Field(16_000, ge=1)
    """Longest result that the policy reads; what is longer is cut, and says so."""

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


class GymnasiumConfig(RewardingSection):
    """A game of gymnasium."""

    type: Literal["gymnasium"] = "gymnasium"
    id: str
    """As `gymnasium.make` has it; `my_module:Name-v0` imports the module that registers it."""
    options: dict[str, Any] = {}
    """Keyword arguments of `gymnasium.make`; `render_mode: ansi` shows what the game draws."""
    actions: tuple[str, ...] = ()
    """Names of the actions, in their order. Unset: their numbers."""


class GemConfig(RewardingSection):
    """A game of gem."""

    type: Literal["gem"] = "gem"
    id: str = Field(pattern="^game:")
    """As `gem.make` has it: `game:Mastermind-v0-easy`. Others of gem's have what the policy writes evaluated, by `eval`
    or sympy's parser, outside of any walls."""
    options: dict[str, Any] = {}
    """Keyword arguments of `gem.make`."""


class TextArenaConfig(RewardingSection):
    """A game of textarena for one player."""

    type: Literal["textarena"] = "textarena"
    id: str
    """As `textarena.make` has it: `Wordle-v0`."""
    options: dict[str, Any] = {}
    """Keyword arguments of `textarena.make`."""


class AuxiliaryCall(Section):
    """Calls that an agent makes beside its task, by what they ask: all conditions that are set have to hold."""

    model: str | None = Field(None, min_length=1)
    """Name of the model that is asked for, the whole of it; `*` stands for any text: `*haiku*`."""
    system: str | None = Field(None, min_length=1)
    """Text that is in the system message, or in `instructions`; `*` stands for any text."""
    last_message: str | None = Field(None, min_length=1)
    """Text that is in the last message; `*` stands for any text."""
    tools: bool | None = None
    """Whether tools are offered."""
    max_tokens: int | None = Field(None, ge=1)
    """An answer of at most so many tokens is asked for."""

    @model_validator(mode="after")
    def _has_some(self) -> AuxiliaryCall:
        if not self.model_dump(exclude_none=True):
            raise ValueError("without a condition every call would be one, and nothing would train")
        return self


class AgentSection(RewardingSection):
    """An agent that owns its loop: it calls the policy by an address and a key, as it would call OpenAI's API."""

    max_turns: int = Field(32, ge=1)
    """Calls of the policy in one episode. At the limit the agent is told to stop, and the episode is scored."""
    auxiliary: tuple[AuxiliaryCall, ...] = ()
    """Calls beside the task, such as for a title: the policy answers one that meets any of these, and nothing of it
    trains or is scored. `max_turns` bounds them by themselves."""


class AgentFunctionConfig(AgentSection):
    """Your own agent, as a function."""

    type: Literal["agent"] = "agent"
    import_path: ImportPath
    """`package.module:function` of (base_url, api_key, row), which may return a reward; it may be `async`. Importable
    where the agents run."""


class CommandConfig(AgentSection):
    """An agent as a command, started for each episode."""

    type: Literal["command"] = "command"
    command: tuple[str, ...] = Field(min_length=1)
    """Its words. It finds the policy in `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `ANTHROPIC_BASE_URL` and
    `ANTHROPIC_API_KEY`, its row in the file `MILLRACE_ROW`, and may write a reward to the file `MILLRACE_REWARD`."""
    sandbox: bool = True
    """Whether it runs behind bubblewrap's walls: it reaches the policy and no other address, and sees the system's
    programs, `readable` and a folder of its own. Where there are no such walls it is refused; `false` runs it with the
    agents' rights."""
    readable: tuple[str, ...] = ()
    """Files and folders that it sees behind the walls, read-only, at their own places. A virtual environment that its
    program is in is shown without being named."""
    processes: int = Field(128, ge=1)
    """Processes and threads at a time, behind the walls."""
    folder_mb: int = Field(256, ge=1)
    """Size of its own folder behind the walls, which is in memory, and counts nowhere else."""

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
    """An agent that works in a place of its own, which is judged when it has ended.

    It is a command inside, your function outside, or, where neither is named, Millrace's own loop, in which the policy
    calls bash until it calls nothing.
    """

    makes_prompt: ClassVar[bool] = False
    deadline_s: float = Field(3600.0, gt=0)
    """Seconds of an episode: those in which its turns were sampled and its agent worked, and no queue's. Then the agent
    is stopped, and what it has made is judged."""
    reset_deadline_s: float = Field(900.0, gt=0)
    """Seconds to make the place in, an image too."""
    judge_deadline_s: float = Field(3600.0, gt=0)
    """Seconds of the judging, beside those that the place itself takes."""
    command: tuple[str, ...] = ()
    """Words of an agent that is a command, run inside with the work folder as its own. It finds the policy and its row
    as one of type `command` does."""
    import_path: ImportPath | None = None
    """`package.module:function` of (base_url, api_key, row, environment), with `async def`, importable where the agents
    run; `await environment.exec("ls")` runs bash in the place."""
    readable: tuple[str, ...] = ()
    """Files and folders that are seen inside, read-only, at their own places."""
    command_deadline_s: float = Field(120.0, gt=0)
    """Seconds of one command of a function, or of Millrace's own loop, that names no others."""
    result_characters: int = Field(16_000, ge=1)
    """Longest result of bash that the policy reads in Millrace's own loop; its middle is left out, and it says so."""
    processes: int = Field(256, ge=1)
    """Processes and threads at a time, inside."""
    folder_mb: int = Field(1024, ge=1)
    """Size of what is written behind walls; a container has no such limit."""

    @model_validator(mode="after")
    def _has_one_agent(self) -> PlacedAgentSection:
        if self.command and self.import_path is not None:
            raise ValueError("`command` and `import_path` are two agents: name one of them, or neither")
        if self.python is not None:
            raise ValueError(f"type {self.type} needs Millrace's own interpreter: leave `python` unset")
        return self


class HarborConfig(PlacedAgentSection):
    """A task directory of Harbor's: docs/harbor.md."""

    type: Literal["harbor"] = "harbor"
    root: str | None = None
    """Folder of the task directories where the agents run, if it is another than where rows were prepared: there the
    last part of a row's folder is looked for. Unset: the rows' own folders."""
    engine: Literal["podman", "docker"] | None = None
    """What runs containers, for tasks with an image. Unset: the one that is there."""
    build_words: tuple[str, ...] = ()
    """Further words of its `build`, such as `--network=host`."""
    network: bool = False
    """Whether the container of a task that asks for a network has the engine's own. Off: an agent reaches the policy
    and no other address, as behind walls."""


class SweAgentConfig(PlacedAgentSection):
    """A row of type `swe` whose files are checked out behind walls: what the agent changes is its answer."""

    type: Literal["swe"] = "swe"
    memory_mb: int = Field(2048, ge=64)
    """Memory of all processes inside."""
    shows_tests: bool = False
    """Whether the agent sees the row's test files, too. What it changes in them never counts."""


class RemoteAgentConfig(AgentSection):
    """An agent elsewhere, which nobody here starts: it opens episodes at the gateway, `agents.gateway`."""

    type: Literal["remote"] = "remote"
    open_deadline_s: float = Field(3600.0, gt=0)
    """Seconds until an agent has opened the episode; `deadline_s` begins then."""


class VerifiersConfig(AgentSection):
    """An environment of verifiers, by its name: a taskset of its version 1, or one that `load_environment` makes."""

    type: Literal["verifiers"] = "verifiers"
    id: str
    """As verifiers has it: `gsm8k-v1`, or a hub's `owner/gsm8k`, which the children's interpreter has installed."""
    options: dict[str, Any] = {}
    """Of the taskset (`--env.taskset.*` of verifiers' own command), or the arguments of `load_environment`."""
    agents: dict[str, dict[str, Any]] = {}
    """Of a taskset's agents, by their names (`--env.agent.*`): a harness, or the model and client of one that is not
    the policy. Unset: one agent, `agent`, which talks and calls the taskset's tools."""
    most_rows: int = Field(100_000, ge=1)
    """Of a taskset without an end, so many of its first tasks are there."""
    held_out_rows: int = Field(0, ge=0)
    """So many of the last rows are what seeds of `split: eval` play, and no others do. 0: what the environment itself
    has for evaluation."""


class NemoGymConfig(AgentSection):
    """A resources server of NeMo Gym, played as NeMo Gym's own agents do it."""

    type: Literal["nemo_gym"] = "nemo_gym"
    url: str = Field(pattern=r"^https?://[^/\s]")
    """Of the server."""
    agent: Literal["simple", "gymnasium"] | None = None
    """As which of NeMo Gym's agents: `simple`, by `/seed_session`, a POST for each call of a tool and `/verify`, or
    `gymnasium`, by `/reset` and `/step`. Unset: as the server's routes have it."""
    result_characters: int = Field(16_000, ge=1)
    """Longest answer of the server that the policy reads; what is longer is cut, and says so."""


class TriesSection(RewardingSection):
    """Several tries at a row, with the verdict of the scorers' own rules between them."""

    makes_prompt: ClassVar[bool] = False
    policy_can_break: ClassVar[bool] = False  # what it wrote runs in the sandbox alone
    tries: int = Field(3, ge=1)
    """Answers that the policy may give. The episode ends with a right one, or with the last."""
    discount: float = Field(1.0, gt=0, le=1)
    """The reward of a right answer is this to the power of the tries before it; what is not right gets 0."""
    program_deadline_s: float = Field(20.0, gt=0)
    """Seconds that one answer may run in the sandbox, all its tests together."""
    program_memory_mb: int = Field(1024, ge=256)
    """Memory of one run with all its processes."""

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
    """A problem of reasoning-gym, judged by that library's own scorer after each try."""

    type: Literal["reasoning_gym"] = "reasoning_gym"
    dataset: str | None = None
    """The library's data set that makes the problem of a row without an `entry`, by the row's seed. Unset: each row has
    an entry, and a prompt."""
    options: dict[str, Any] = {}
    """Of that data set's configuration, such as `min_terms`."""
    part: Literal["answer", "box", "response"] = "answer"
    """Where the answer is: as the scorer `gym` has it."""
    instruction: str | None = None
    """What stands behind the question of a problem that was made. Unset: where to put the answer."""

    @property
    def makes_prompt(self) -> bool:  # type: ignore[override]  # here the section decides, not the kind
        """Whether `reset` can begin an episode of a row that has no prompt."""
        return self.dataset is not None


class CodeTriesConfig(TriesSection):
    """A program, and after each try the public tests that it failed."""

    type: Literal["code"] = "code"
    public: int | None = Field(None, ge=1)
    """Of a row that calls no test public, so many of its first tests are; at least one stays hidden. Unset: such a row
    is refused."""
    case_timeout_s: float = Field(10.0, gt=0)
    """Seconds that one test may run."""
    compatible: bool = False
    """How standard output is compared: as the scorer `code` has it."""
    shown_characters: int = Field(500, ge=1)
    """Longest part of a test that the policy reads: its input, what was expected, what the program gave; the rest is
    cut, and says so."""


class OpenEnvConfig(RewardingSection):
    """An environment behind a server of OpenEnv; a session with it is an episode."""

    type: Literal["openenv"] = "openenv"
    url: str = Field(pattern=r"^(?:ws|http)s?://[^/\s]")
    """Of the server: `ws://`, `wss://`, `http://` or `https://`, without the path `/ws`."""
    key_variable: str | None = Field(None, pattern=rf"^\w+{KEY_SUFFIX}$")
    """Variable of the agents' environment, `..._API_KEY`, that holds the bearer token of `url`."""
    action: Literal["text", "json", "call"] | None = None
    """How the policy says an action: its text is the one field, its text has a JSON object with the fields, or it calls
    a tool whose arguments they are. Unset: text where one field is enough, else call. Tools that the environment itself
    offers, by MCP, are always called."""
    action_field: str | None = None
    """Field of the action that a text becomes. Unset: the only one that it needs."""
    observation: tuple[str, ...] = ()
    """Fields of the observation that the policy reads. Unset: all that say something."""
    reset: dict[str, Any] = {}
    """What `reset` is given beside `seed` and `episode_id`; a server leaves out what its environment does not take."""
    reset_from_row: tuple[str, ...] = ()
    """Columns of the row, or keys of its `verification_info`, that `reset` is given too."""
    result_characters: int = Field(16_000, ge=1)
    """Longest observation that the policy reads; what is longer is cut, and says so."""

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
    """Tools of verl's, as its YAML declares them, or marked with its `@function_tool`."""

    makes_prompt: ClassVar[bool] = False
    type: Literal["verl_tools"] = "verl_tools"
    tool_config_path: str | None = None
    """verl's YAML, a list `tools` of `class_name`, `config` and `tool_schema`, read where the agents run."""
    function_tool_path: str | None = None
    """A Python file with functions that are marked with verl's `@function_tool`."""
    instances: Literal["episode", "call"] = "episode"
    """What each tool gets an instance for, by `create`: the episode, so that it keeps its state and `calc_reward` is
    asked; or every call, as verl's agent loops do."""
    result_characters: int = Field(16_000, ge=1)
    """Longest result that the policy reads; what is longer is cut, and says so."""
    result_kept: Literal["start", "end", "both"] = "start"
    """What is left of one that is cut."""

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
