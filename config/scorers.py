"""Sections of scoring: one entry for each task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from config.endpoint import EndpointConfig, base_url
from config.episodes.environment_section import RewardingSection
from config.episodes.environments import CodeTriesConfig, EnvironmentConfig, GymTriesConfig, ToolsConfig
from config.episodes.own_loop import SweAgentConfig
from config.rewards import FormatConfig, PenaltiesConfig
from config.scorer_kinds import (
    SECTIONS,
    CodeConfig,
    EnvironmentRewardConfig,
    GymConfig,
    MathConfig,
    ScorerConfig,
    ServedModelSection,
    SweConfig,
    reads,
)
from config.section import Section

# Keys of a score besides its value; a part with such a name would be mistaken for it.
_COMPONENTS = frozenset(
    {
        "bad_row",
        "cells",
        "edit",
        "environment_reward",
        "failed_tries",
        "over_limit",
        "rule",
        "stated",
        "verifier",
    }
)


def _without_password(url: str) -> str:
    if "@" in url:
        raise ValueError("no password in a sandbox's address: it travels with the run's configuration")
    return url


class PartConfig(Section):
    """An additional scorer of the same answers."""

    scorer: ScorerConfig
    """Scorer, which must be able to read the task's rows: one of the same type can; `judge` and `tinyv` read those of
    `math` and each other's; `format` and `custom` read all."""
    weight: float = Field(0.0, ge=0, lt=1)
    """Share of the score. The task's own scorer has what the weights leave."""
    gate: float | None = Field(None, gt=0, le=1)
    """Make the score 0 where this scorer gives less. With neither weight nor gate it is only reported."""

    @property
    def counts(self) -> bool:
        """Whether the score depends on it."""
        return self.weight > 0 or self.gate is not None


class TaskConfig(Section):
    """How completions for the rows of one task become rewards."""

    scorer: ScorerConfig = MathConfig()
    """Scorer of the content."""
    extra_scorers: dict[str, PartConfig] = {}
    """Additional scorers by name. Groups wait in the queue of the task's own scorer."""
    format: FormatConfig | None = None
    """Scorer of the format. Unset: none."""
    penalties: PenaltiesConfig = PenaltiesConfig()
    """Penalties."""
    environment: EnvironmentConfig | None = None
    """Environment that answers the policy between its turns: groups become episodes, played by agents. Unset: one
    turn."""
    deadline_s: float | None = Field(None, gt=0)
    """Seconds after which a group of this task that was issued and not scored is given up. Episodes are ended as they
    stand after half of them, and scoring has a share (`scorers.group_deadline_s`). Unset:
    `learner.group_deadline_s`."""

    @property
    def all_scorers(self) -> dict[str, ScorerConfig]:
        """Sections of all scorers of an answer, by key; the task's own is the first."""
        extra = {f"extra_scorers.{name}.scorer": part.scorer for name, part in self.extra_scorers.items()}
        return {"scorer": self.scorer, **extra}

    @property
    def needs_episode(self) -> bool:
        """Whether the reward of `environment` counts, so that a text alone has no score."""
        counting = [self.scorer, *(part.scorer for part in self.extra_scorers.values() if part.counts)]
        return any(isinstance(section, EnvironmentRewardConfig) for section in counting)

    @model_validator(mode="after")
    def _shares_and_names(self) -> TaskConfig:
        if (shares := sum(part.weight for part in self.extra_scorers.values())) >= 1:
            raise ValueError(
                f"the weights in `extra_scorers` leave nothing for the scorer itself: together they are {shares:g}"
            )
        taken = {self.scorer.type, "format", *_COMPONENTS, *PenaltiesConfig.model_fields}
        if names := sorted(taken & self.extra_scorers.keys()):
            raise ValueError(
                f"a part needs a name of its own among the components: {', '.join(names)} is taken"
            )
        return self

    @model_validator(mode="after")
    def _environment_gives_its_reward(self) -> TaskConfig:
        keys = [
            key for key, scorer in self.all_scorers.items() if isinstance(scorer, EnvironmentRewardConfig)
        ]
        if not keys or isinstance(self.environment, RewardingSection):
            return self
        if self.environment is None:
            raise ValueError(
                f"`{keys[0]}` is of type environment and takes the reward of `environment`, which is unset: say there "
                "what answers the policy, or give the scorer another type"
            )
        raise ValueError(
            f"`{keys[0]}` is of type environment, and `environment` is of type {self.environment.type}, which gives "
            "no reward of its own: a scorer of another type judges such an episode by its last message"
        )

    @model_validator(mode="after")
    def _scorer_and_environment_agree(self) -> TaskConfig:
        """Refuse an environment that, between tries, accepts what the scorer does not."""
        match self.scorer, self.environment:
            case GymConfig(part=own), GymTriesConfig(part=other):
                key = "part"
            case CodeConfig(compatible=own), CodeTriesConfig(compatible=other):
                key = "compatible"
            case _:
                return self
        if own != other:
            raise ValueError(
                f"`scorer.{key}` is {own} and `environment.{key}` is {other}: both have to judge an answer alike"
            )
        return self

    @model_validator(mode="after")
    def _checkouts_are_judged_by_their_diff(self) -> TaskConfig:
        if isinstance(self.environment, SweAgentConfig) and not (
            isinstance(self.scorer, SweConfig) and self.scorer.answer == "diff"
        ):
            raise ValueError(
                "`environment` is of type swe, which hands on what its agent has changed: `scorer: {type: swe, answer: "
                "diff}` judges that"
            )
        return self

    @model_validator(mode="after")
    def _conversations_are_played(self) -> TaskConfig:
        for key, scorer in self.all_scorers.items():
            if (
                isinstance(scorer, ServedModelSection)
                and scorer.sees == "conversation"
                and not self.environment
            ):
                raise ValueError(
                    f"`{key}` has sees=conversation, and there is none: `environment` is unset, so the policy answers "
                    "in one message"
                )
        return self

    @model_validator(mode="after")
    def _one_row_for_all(self) -> TaskConfig:
        own = self.scorer.type
        for name, part in self.extra_scorers.items():
            if not reads(part.scorer.type, own):
                some: list[str] = []
                every: list[str] = []
                for kind, section in SECTIONS.items():
                    if section is EnvironmentRewardConfig and self.environment is None:
                        continue
                    if kind != own and reads(kind, own):
                        (every if section.reads is None else some).append(kind)
                fitting = [own, *some, *sorted(every)]
                raise ValueError(
                    f"`extra_scorers.{name}` is of type {part.scorer.type} and can't read the rows of the task's "
                    f"own scorer, which is of type {own}: beside it can stand {', '.join(fitting)}"
                )
        return self


class ScorersConfig(Section):
    """The pool of scorers. `python -m scorers` is one dispatcher with its workers; start as many as you like."""

    workers: int = Field(2, ge=1)
    """RQ workers per `python -m scorers`."""
    groups_per_job: int = Field(16, ge=1)
    """Most groups in one RQ job. Each is handed over by itself. Jobs are smaller where fewer groups wait or where
    groups take long."""
    tasks: dict[str, TaskConfig] = {"math": TaskConfig()}
    """Tasks by name. A row of another task is refused when it is read."""
    patience_s: float | None = Field(0.5, gt=0)
    """Seconds that one test case of a program may take while other groups wait. A group with a slower answer is put off
    and scored from the start, under the full limits, once no other group waits. A worker that puts off more than a
    tenth of its answers doubles this for itself. Unset: never put groups off."""
    group_deadline_s: float | None = Field(None, gt=0)
    """Seconds that the answers of one group may run in all, in a child process or in the sandbox. Where their own
    deadlines add up to more, they share this; each gets two runs, and quick ones leave their time to slow ones. An
    answer that uses up its share twice scores 0, so that slow wrong answers never outlast `learner.group_deadline_s`.
    Unset: two fifths of that, or of the task's own `deadline_s`; of half of it where agents play the group first. Time
    that Millrace itself loses does not count."""
    min_scored: float = Field(0.5, ge=0, le=1)
    """Share of a group's completions that must be scored. A group with fewer goes to the stream `dead` with the
    reason."""
    credit: Literal["all", "fraction"] | None = None
    """Credit for tests, instructions and a zebra puzzle's cells: `all` or nothing, or the `fraction` that is right.
    Unset: the fraction for `code_verifiable` and `zebra`, all or nothing for the others, as these data sets are
    used."""
    sandbox: Literal["auto", "bubblewrap", "landlock", "fusion", "unsafe"] = "auto"
    """Sandbox for programs. `auto`: the servers of `sandbox_urls` where set, else the best that this machine allows.
    `unsafe`: no protection."""
    sandbox_urls: tuple[Annotated[str, AfterValidator(_without_password)], ...] = ()
    """Servers with SandboxFusion's API, for `fusion` and `auto`. An environment's `programs` ask none."""
    retries: int = Field(3, ge=0)
    """Retries after an infrastructure failure before a completion counts as unscorable."""
    retry_backoff_s: float = Field(0.5, ge=0)
    """Seconds before the first retry; doubled each time."""

    def endpoints(self) -> Iterator[tuple[str, EndpointConfig]]:
        """Yield the served models that scorers ask, each with its key."""
        for name, task in self.tasks.items():
            for where, scorer in task.all_scorers.items():
                endpoint = getattr(scorer, "endpoint", None)
                if isinstance(endpoint, EndpointConfig):
                    yield f"scorers.tasks.{name}.{where}.endpoint", endpoint

    @model_validator(mode="after")
    def _one_limit(self) -> ScorersConfig:
        """Refuse sections with the same servers but different limits, since their calls are counted together."""
        agreed: dict[frozenset[str], tuple[str, int, int | None]] = {}
        for place, endpoint in self.endpoints():
            if not endpoint.urls:
                continue
            said = (place, endpoint.concurrency, endpoint.requests_per_minute)
            first = agreed.setdefault(frozenset(map(base_url, endpoint.urls)), said)
            if first[1:] != said[1:]:
                raise ValueError(
                    f"{first[0]} and {place} are the same servers, so their `concurrency` and "
                    f"`requests_per_minute` have to be the same: {first[1:]} and {said[1:]}"
                )
        return self

    @model_validator(mode="after")
    def _walls_for_programs(self) -> ScorersConfig:
        """Refuse tools that run programs where programs are to be sent away: their state stays with the episode."""
        for name, task in self.tasks.items():
            tools = task.environment
            if self.sandbox == "fusion" and isinstance(tools, ToolsConfig) and tools.programs:
                raise ValueError(
                    f"tasks.{name}.environment.programs run behind walls where agents run, and `sandbox: fusion` sends "
                    "programs to servers: say `auto`, with which scorers ask `sandbox_urls`, and these tools take the "
                    "best walls of their machine"
                )
        return self
