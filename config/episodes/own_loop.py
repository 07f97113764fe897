"""Sections of the agents that run their own loop, and call the policy through OpenAI's or Anthropic's API.

They are functions, commands, agents in a separate environment or on another machine, and those of verifiers and NeMo
Gym.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from config.custom import ImportPath
from config.episodes.environment_section import RewardingSection
from config.section import Section


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
        """Always true: the episode waits for the command."""
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
