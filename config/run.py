"""The configuration of a run: all its sections, and values computed from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from config.broker import BrokerConfig
from config.data import DataConfig, EnvironmentSource, EvaluationConfig
from config.endpoint import ServedJudgeConfig
from config.episodes.agents import AgentsConfig
from config.episodes.own_loop import CommandConfig, PlacedAgentSection, RemoteAgentConfig, SweAgentConfig
from config.generators import GeneratorsConfig, SamplingConfig
from config.learner import LearnerConfig
from config.run_names import NAME
from config.scorer_kinds import PUT_OFF_FROM
from config.scorers import ScorersConfig
from config.section import Section

SLOW_WAIT_S = 60.0  # that a postponed group waits while others are scored
SLOW_WAIT_SHARE = 0.25  # of what a group has for its scoring, if that is less
PLAY_SHARE = 0.5  # of the whole deadline of a group of episodes, for playing them
SCORING_SHARE = 0.4  # of what a group has for its scoring, for running its answers
SURPLUS_STEPS = 4  # steps whose groups may be in flight for the sake of one
API = "api"  # name of the reward server's run: it has scorers, and neither learner nor generators
RESERVED_NAMES = frozenset({API})


class ChatTemplateConfig(Section):
    """A chat template that replaces the tokenizer's; a file's name or the template itself may stand for it."""

    file: Path | None = None
    """File that the template was read from when the configuration was loaded. Roles get the text and need no file."""
    text: str = Field(min_length=1)
    """Jinja template, rendered by transformers."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        """Read the template's file, unless the value is the text already."""
        if is_template(given):
            return {"text": given}
        if isinstance(given, str | Path):
            given = {"file": given}
        if not isinstance(given, dict) or "text" in given or not given.get("file"):
            return given
        try:
            return {**given, "text": Path(given["file"]).read_text(encoding="utf-8")}
        except OSError as error:
            raise ValueError(f"the file {given['file']} can't be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError(f"the file {given['file']} is not UTF-8") from None


def is_template(given: object) -> bool:
    """Return whether a value of `model.chat_template` is the text of a template, and not a file's name."""
    return isinstance(given, str) and "{" in given


class ModelConfig(Section):
    """The policy."""

    path: str
    """Hugging Face name or folder."""
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    """Type of the weights in learner and generators. `float16` trains with a dynamic loss scale."""
    head_dtype: Literal["float32", "model"] = "float32"
    """Type in which the output head computes logits, in learner and generators alike. `model`: as `dtype`. Both must
    agree: with `float32` on one side alone log-probabilities may differ more than with it on none."""
    tie_word_embeddings: Literal[False] | None = None
    """`false`: use the checkpoint's own output head although its config ties the head to the embedding. Unset: the
    learner finds out, logs it, and tells the generators."""
    chat_template: ChatTemplateConfig | None = None
    """Jinja file, or the template itself, to use in place of the tokenizer's chat template, in the run and in exported
    models. A run keeps the template that it started with."""
    revision: str | None = None
    """Commit or tag on the hub."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model."""
    hf_token: SecretStr | None = None
    """Token for gated models and data. Comes from HF_TOKEN."""


class Run(Section):
    """The whole configuration of a run. `--print-config` shows it resolved."""

    name: str = Field(pattern=rf"^{NAME}$", max_length=100)
    """Name of the run: letters, digits, `_` and `-`. It is part of every key, queue, file and log line of the run."""
    seed: int = Field(0, ge=0)
    """Seed of the data's order and, with the engine `hf`, of sampling."""
    runs_dir: Path = Path("runs")
    """Folder for the folders of runs."""
    model: ModelConfig
    """The policy."""
    data: DataConfig
    """Training and held-out prompts."""
    sampling: SamplingConfig = SamplingConfig()
    """Sampling of training groups."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Held-out evaluation."""
    generators: GeneratorsConfig = GeneratorsConfig()
    """Generators, which sample."""
    agents: AgentsConfig = AgentsConfig()
    """Agents, which play episodes of several turns."""
    scorers: ScorersConfig = ScorersConfig()
    """Scorers, which give rewards."""
    judge: ServedJudgeConfig = ServedJudgeConfig()
    """Judge or rubric model that the run serves itself."""
    learner: LearnerConfig = LearnerConfig()
    """Learner, which trains."""
    broker: BrokerConfig = BrokerConfig()
    """Redis, where they meet."""

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.runs_dir / self.name

    @property
    def budget(self) -> int:
        """Groups that may be in flight: (L + 1) x S, or fewer with `learner.groups_in_flight`."""
        most = (self.learner.max_lag + 1) * self.learner.groups_per_step
        return min(most, self.learner.groups_in_flight or most)

    @property
    def most_in_flight(self) -> int:
        """Groups in flight at most while a step lacks groups: more than the budget where many have no variance.

        Unless the budget has room for it, as many as fill a step at once when one in SURPLUS_STEPS groups trains; more
        would rather be surplus, and Redis holds them. Where lateness is no bound, every row of an epoch counts, or an
        operator has set the number, the budget is kept.
        """
        learner = self.learner
        is_exact = learner.groups_in_flight is not None or learner.epochs is not None
        if is_exact or learner.late_groups != "wait" or learner.filters.zero_variance != "replace":
            return self.budget
        return max(self.budget, SURPLUS_STEPS * learner.groups_per_step)

    @property
    def may_have_surplus(self) -> bool:
        """Whether more groups than the budget may be in flight, of which a step drops those it leaves no room for."""
        return self.most_in_flight > self.budget

    def plays(self, task: str) -> bool:
        """Return whether the groups of a task are episodes, which agents play."""
        found = self.scorers.tasks.get(task)
        return found is not None and found.environment is not None

    def deadline_of(self, task: str) -> float:
        """Return the seconds after which a group of a task is given up, counted from its issue."""
        found = self.scorers.tasks.get(task)
        return (found and found.deadline_s) or self.learner.group_deadline_s

    @property
    def deadlines(self) -> tuple[float, float]:
        """Shortest and longest deadline of any group."""
        every = [self.learner.group_deadline_s, *map(self.deadline_of, self.scorers.tasks)]
        return min(every), max(every)

    def makes_prompt(self, task: str) -> bool:
        """Return whether the environment of a task begins an episode for a row without a prompt."""
        found = self.scorers.tasks.get(task)
        return found is not None and found.environment is not None and found.environment.makes_prompt

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are carried along with rows: those of `data.columns`, and those that an environment reads."""
        sections = [task.environment for task in self.scorers.tasks.values() if task.environment is not None]
        return tuple(dict.fromkeys([*self.data.columns, *(name for one in sections for name in one.columns)]))

    @property
    def has_agents(self) -> bool:
        """Whether a task has an environment, so that agents are needed."""
        return any(map(self.plays, self.scorers.tasks))

    @property
    def walls_agents(self) -> bool:
        """Whether a task's agent runs in bubblewrap for every row."""
        sections = (task.environment for task in self.scorers.tasks.values())
        return any(
            isinstance(one, SweAgentConfig) or (isinstance(one, CommandConfig) and one.sandbox)
            for one in sections
        )

    @property
    def has_agents_inside(self) -> bool:
        """Whether a task's agent may reach no address, so that it reaches the policy by a Unix socket."""
        sections = (task.environment for task in self.scorers.tasks.values())
        return any(
            (isinstance(one, CommandConfig) and one.sandbox)
            or (isinstance(one, PlacedAgentSection) and bool(one.command))
            for one in sections
        )

    @property
    def has_agents_elsewhere(self) -> bool:
        """Whether a task's agent is started elsewhere, not by Millrace."""
        return any(isinstance(task.environment, RemoteAgentConfig) for task in self.scorers.tasks.values())

    @property
    def slow_wait_s(self) -> float:
        """Seconds that a postponed group waits while others are scored."""
        windows = map(self.scoring_window_of, self.scorers.tasks)
        return min(SLOW_WAIT_S, SLOW_WAIT_SHARE * min(windows, default=self.learner.group_deadline_s))

    def scoring_window_of(self, task: str) -> float:
        """Return the seconds of a group's deadline that its scorers have: for episodes, what their play leaves."""
        return self.deadline_of(task) * (1 - PLAY_SHARE if self.plays(task) else 1)

    def scoring_deadline_of(self, task: str) -> float:
        """Return the seconds that a group's answers may run: `scorers.group_deadline_s`, or a share of its window."""
        return self.scorers.group_deadline_s or SCORING_SHARE * self.scoring_window_of(task)

    def with_queues_s(self, scoring_s: float) -> float:
        """Return the most seconds from a group's first job to its scores, if its answers run for `scoring_s`.

        A postponed group loses up to half of that time in its first try, and then waits for `slow_wait_s`.
        """
        is_put_off = self.scorers.patience_s is not None and any(
            task.scorer.queue == PUT_OFF_FROM for task in self.scorers.tasks.values()
        )
        return 1.5 * scoring_s + self.slow_wait_s if is_put_off else scoring_s

    @property
    def held_out_budget(self) -> int:
        """Held-out groups that may be in flight: `evaluation.groups_in_flight`, or as many as for training."""
        return self.evaluation.groups_in_flight or self.budget

    @field_validator("name")
    @classmethod
    def _not_reserved(cls, name: str, info: ValidationInfo) -> str:
        """Refuse a reserved name, unless Millrace itself names the run, see `config.loading`."""
        if name in RESERVED_NAMES and not (info.context or {}).get("reserved"):
            raise ValueError(f"{name!r} is reserved")
        return name

    @model_validator(mode="after")
    def _sections_fit(self) -> Run:
        if self.evaluation.every and not self.data.held_out_sources:
            raise ValueError("evaluation.every is set, but data.held_out names no prompts")
        objective = self.learner.objective
        if objective.aggregate == "constant" and objective.constant_length is None:
            raise ValueError(
                "learner.objective.aggregate: constant needs learner.objective.constant_length, the tokens that each "
                f"completion counts as; Dr. GRPO takes the longest answer, here {self.sampling.max_tokens}"
            )
        if self.learner.mini_batches > self.learner.groups_per_step:
            raise ValueError(
                f"learner.mini_batches={self.learner.mini_batches} of groups_per_step="
                f"{self.learner.groups_per_step}: a mini-batch needs a group"
            )
        if self.budget < self.learner.groups_per_step:
            raise ValueError(
                f"learner.groups_in_flight={self.learner.groups_in_flight} is less than one step of "
                f"groups_per_step={self.learner.groups_per_step}: no step could ever be filled"
            )
        most = self.budget // self.learner.groups_per_step
        if self.learner.weights.every > most:
            what = (
                f"max_lag={self.learner.max_lag}"
                if most > self.learner.max_lag
                else f"groups_in_flight={self.learner.groups_in_flight}"
            )
            raise ValueError(
                f"learner.weights.every={self.learner.weights.every} is more than {what} allows: groups hold their "
                f"slots until the weights that they made are published, and those of {most} steps are all that may "
                f"be in flight. At most {most}"
            )
        return self

    @model_validator(mode="after")
    def _seeds_have_an_environment(self) -> Run:
        for key, source in self.data.keyed_sources().items():
            if not isinstance(source, EnvironmentSource):
                continue
            said = f"data.{key} is of type environment, and scorers.tasks"
            if (task := self.scorers.tasks.get(source.task)) is None:
                has = ", ".join(self.scorers.tasks) or "no task"
                raise ValueError(f"{said} has no {source.task!r}: it has {has}")
            if not self.makes_prompt(source.task):
                kind = "none" if task.environment is None else f"one of type {task.environment.type}"
                raise ValueError(
                    f"{said}.{source.task}.environment is {kind}: rows without a prompt need an environment that "
                    "makes it, such as one of type custom"
                )
            if not task.scorer.takes_rows_as_they_are:
                raise ValueError(
                    f"{said}.{source.task}.scorer is of type {task.scorer.type}, which compares with an answer, and a "
                    "seed has none: `scorer: {type: environment}` takes the environment's own reward"
                )
        return self

    @model_validator(mode="after")
    def _served_judge_is_asked(self) -> Run:
        serve = self.judge.serve
        if serve is None:
            return self
        asking = {key: endpoint for key, endpoint in self.scorers.endpoints() if not endpoint.urls}
        if not asking:
            raise ValueError(
                "judge.serve is set, and no scorer asks it: that does a scorer of type judge, rubric or tinyv whose "
                "endpoint names no urls"
            )
        for key, endpoint in asking.items():
            if serve.max_model_len is not None and endpoint.max_tokens >= serve.max_model_len:
                raise ValueError(
                    f"{key}.max_tokens={endpoint.max_tokens} leaves no room for a question in "
                    f"judge.serve.max_model_len={serve.max_model_len}"
                )
        limits = {(endpoint.concurrency, endpoint.requests_per_minute) for endpoint in asking.values()}
        if len(limits) > 1:
            raise ValueError(
                f"{' and '.join(asking)} ask the judge of judge.serve, so their `concurrency` and "
                "`requests_per_minute` have to be the same"
            )
        if 0 < len(set(serve.gpus)) < serve.tensor_parallel:
            raise ValueError(
                f"judge.serve.gpus names {len(set(serve.gpus))} GPUs, and judge.serve.tensor_parallel="
                f"{serve.tensor_parallel} needs as many"
            )
        return self
