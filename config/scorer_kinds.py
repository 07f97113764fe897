"""Sections of the scorers, one for each kind.

`ScorerConfig` is their union, selected by `type`. `tasks.kinds` declares the purpose of each; `config.scorers` assigns
one to each task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

from pydantic import Field, field_validator, model_validator

from config.custom import ImportPath
from config.endpoint import EndpointConfig, ServerAddress
from config.rewards import ShapeConfig
from config.section import Section

QueueName = Literal["light", "math", "code", "judge"]
QUEUES: tuple[QueueName, ...] = ("light", "math", "code", "judge")
# Queues whose groups need no work of this machine, only a wait for another server: a served model, a reward server.
WAITING: frozenset[QueueName] = frozenset({"judge"})
# Groups of `code` with a slow answer are moved to the queue `slow`, which workers of `code` serve last.
SlowQueue = Literal["slow"]
SLOW: SlowQueue = "slow"
PUT_OFF_FROM: QueueName = "code"


class ScorerSection(Section):
    """Keys that every scorer has."""

    type: str
    queue: QueueName = "light"
    """Queue, which decides the workers that take this scorer's groups."""
    # Kinds whose rows it can judge besides those of its own; None: all kinds.
    reads: ClassVar[frozenset[str] | None] = frozenset()
    # Whether rows are used unchecked: their answers are for the scorer alone.
    takes_rows_as_they_are: ClassVar[bool] = False
    # Whether it scores the rows that name no other task of the run.
    takes_other_rows: ClassVar[bool] = False


class MathConfig(ScorerSection):
    """Mathematical equality with the reference, checked by math-verify in a child process."""

    type: Literal["math"] = "math"
    queue: QueueName = "math"
    deadline_s: float = Field(6.0, gt=0)
    """Deadline in seconds for one completion: half for a first try, half for a second try alone in a fresh child. A
    completion that uses up both scores 0, since it is slow by itself."""
    give_way_s: float | None = Field(None, gt=0)
    """Seconds of processor time after which a try gets the lowest priority, so that hanging answers cost others little.
    On a machine that is always busy slow answers may then count as hanging. Unset: never."""
    require_box: bool = True
    """Accept only a boxed answer. Off: where there is no box, accept the last text that is set as mathematics, or the
    last number. `gsm8k` and `prime_math` rows have rules of their own."""
    compatible: bool = False
    """Score as the systems do that the rows come from, mistakes included, so that numbers are comparable. What would
    run a model's text, or reward an empty answer or an unfinished thought, is still refused."""


class CodeConfig(ScorerSection):
    """Programs, run against their tests in the sandbox."""

    type: Literal["code"] = "code"
    queue: QueueName = "code"
    deadline_s: float = Field(60.0, gt=0)
    """Deadline in seconds for one completion, over all its test cases, compiler included. A wait for the sandbox does
    not count."""
    case_timeout_s: float = Field(10.0, gt=0)
    """Deadline in seconds for one test case. The first case that exceeds it gets a second try alone in a fresh sandbox.
    After two such runs each further case has half a second, until one exceeds it."""
    memory_mb: int = Field(1024, ge=64)
    """Memory in MiB of one run with all its processes."""
    max_cases: int | None = Field(None, ge=1)
    """Run at most this many cases of a row, drawn by a seed and the same for every completion. Unset: all of them."""
    compatible: bool = False
    """Compare standard output as II-Thought's verifier does, so that numbers are comparable: ignore case, and allow
    floats to differ by 1e-5. Off: compare exactly, except for space at the ends of lines and floats within 1e-6."""


class SimulationConfig(ScorerSection):
    """Predicted inputs and outputs of programs, checked by comparison or by running the row's own program."""

    type: Literal["simulation"] = "simulation"
    queue: QueueName = "code"
    deadline_s: float = Field(10.0, gt=0)
    """Deadline in seconds for the row's program on one answered input: half for a first try, half for a second try
    alone in a fresh sandbox. An answer that uses up both scores 0."""
    memory_mb: int = Field(1024, ge=64)
    """Memory in MiB of one run with all its processes."""


class GymConfig(ScorerSection):
    """Tasks of reasoning-gym, scored by that library in the sandbox."""

    type: Literal["gym"] = "gym"
    queue: QueueName = "code"
    deadline_s: float = Field(10.0, gt=0)
    """Deadline in seconds for one completion: half for a first try, half for a second try alone in a fresh sandbox. A
    completion that uses up both scores 0."""
    memory_mb: int = Field(1024, ge=256)
    """Memory in MiB of one run with all its processes."""
    part: Literal["answer", "box", "response"] = "answer"
    """Where the answer is: in the last `<answer>`, in the last box, or the whole response after the thinking."""
    partial: bool = False
    """Give the library's partial scores as well, those above the 0.1 that it gives for a mere attempt. Off: an answer
    is right or wrong. Many partial scores are easy to get."""


class SweConfig(ScorerSection):
    """Patches, scored by similarity to the reference's edit, or by the row's own tests."""

    type: Literal["swe"] = "swe"
    queue: QueueName = "light"
    """Queue, which decides the workers that take this scorer's groups. Use `code` where rows have tests."""
    deadline_s: float = Field(60.0, gt=0)
    """Deadline in seconds for one completion: half for a first try, half for a second try alone in a fresh child. A
    completion that uses up both scores 0. One test, and the collection of a test file, have ten seconds of it."""
    answer: Literal["row", "diff"] = "row"
    """Form of an answer: what the row asks for, or, for any row that has its files, a unified `diff` of them, which an
    `environment` of type swe hands on. Each line that a diff shows must be where it says."""
    think: Literal["required", "optional"] = "required"
    """Whether SEARCH/REPLACE edits need a closed, filled thinking span before them, as in SWE-RL."""
    subtract_floor: bool = False
    """Reward only what exceeds the value of an edit that touches the reference's lines without changing them (a space
    at the end of each): max(0, (value - floor) / (1 - floor))."""
    syntax_gate: bool = False
    """Score 0 where a Python file can be parsed before the edit and not after it. Not checked where tests judge, nor in
    rows of unified diffs without files (`oracle_patches`)."""
    format_penalty: bool = False
    """Give SWE-RL's reward of -1 to an answer without an edit that can be read and applied. Its score is 0."""
    compatible: bool = False
    """Treat an empty SEARCH as SWE-RL does: insert at every line break of the file. Off: it can only create a file."""


class LogicConfig(ScorerSection):
    """Logic puzzles: zebra, ordering, graph, and the grids of ARC-AGI and BARC."""

    type: Literal["logic"] = "logic"
    compatible: bool = False
    """Score zebra puzzles as Reasoning360 does: the share of all cells, the given column of positions included, in the
    reference's order of rows and columns, compared exactly. Other puzzles are not affected."""


class TableConfig(ScorerSection):
    """Questions about tables: HiTab, MultiHiertt, FinQA."""

    type: Literal["table"] = "table"


class ChoiceConfig(ScorerSection):
    """Multiple choice, answered by one letter."""

    type: Literal["choice"] = "choice"


class SearchConfig(ScorerSection):
    """Questions answered by search, scored by exact match as in Search-R1."""

    type: Literal["search"] = "search"


class InstructionsConfig(ScorerSection):
    """Verifiable instructions: IFEval's, and those of IFBench's training rows."""

    type: Literal["instructions"] = "instructions"


class ServedModelSection(ScorerSection):
    """Keys of every scorer that asks a served model."""

    queue: QueueName = "judge"
    sees: Literal["last_message", "conversation"] = "last_message"
    """What the served model sees of an episode: the policy's last message, or the whole conversation with tool calls
    and their results, without thinking."""


class JudgeConfig(ServedModelSection):
    """Free-form answers, compared with the reference by a served model."""

    type: Literal["judge"] = "judge"
    reads: ClassVar[frozenset[str] | None] = frozenset({"math", "tinyv"})
    endpoint: EndpointConfig = EndpointConfig()
    """The judge."""
    variant: Literal["default", "stem", "math", "tinyv"] = "default"
    """Prompt for rows of type `judge` and `llm_judge`: one for any instruction-tuned model, or the one that
    general-verifier (`stem`), Reasoning360's judge of mathematics (`math`) or TinyV was trained on."""
    part: Literal["response", "box", "answer"] | None = None
    """What the judge sees of a response: all of it after the thinking, the last box, or the last `<answer>`. Unset: the
    response for `default`, the box for every other variant."""
    max_answer_chars: int = Field(16_000, ge=1)
    """Largest number of characters of an answer; a longer one is wrong. Must fit the judge's context. In a conversation
    it limits what the policy wrote, and what tools and the environment wrote is cut to as many."""

    @model_validator(mode="after")
    def _part_is_of_a_message(self) -> JudgeConfig:
        if self.sees == "conversation" and self.part is not None:
            raise ValueError(f"part={self.part} is of one message: with sees=conversation the judge sees all")
        return self


VerifierMode = Literal["tinyv_only", "addon", "mixed", "gate"]


class RubricConfig(ServedModelSection):
    """Whole solutions, graded by a served rubric model (RRM) on the row's own criteria."""

    type: Literal["rubric"] = "rubric"
    endpoint: EndpointConfig = EndpointConfig()
    """The rubric model."""
    mode: VerifierMode = "tinyv_only"
    """How to combine the grade with the rule, the answer's equality with the reference. `tinyv_only`: the grade alone.
    `addon`: 1 where the rule says right, else weight x grade. `mixed`: weight x grade + (1 - weight) x rule. `gate`:
    the grade where the rule says right, else 0."""
    weight: float = Field(1.0, ge=0, le=1)
    """Weight of the grade in `addon` and `mixed`."""
    max_answer_chars: int = Field(32_000, ge=1)
    """Largest number of characters of a solution; a longer one is wrong. Must fit the rubric model's context. For
    conversations as in `judge`."""


class TinyvConfig(ServedModelSection):
    """Answers that a rule may have wrongly rejected, judged by a served TinyV."""

    type: Literal["tinyv"] = "tinyv"
    reads: ClassVar[frozenset[str] | None] = frozenset({"math", "judge"})
    endpoint: EndpointConfig = EndpointConfig()
    """The judge."""
    mode: VerifierMode = "addon"
    """As in `rubric`, with the judge's verdict (1 or 0) as the grade."""
    weight: float = Field(1.0, ge=0, le=1)
    """Weight of the verdict in `addon` and `mixed`."""
    max_answer_chars: int = Field(16_000, ge=1)
    """Largest number of characters of a boxed answer; a longer one is wrong. Must fit the judge's context. For
    conversations as in `judge`."""


class LivebenchConfig(ScorerSection):
    """LiveBench's questions on reasoning, data analysis and language."""

    type: Literal["livebench"] = "livebench"


class GradeConfig(ScorerSection):
    """Gradings, scored by the grade that they end with: the reward that trains a rubric model."""

    type: Literal["grade"] = "grade"
    gold: Literal["share", "points"] = "share"
    """Scale of the rows' reference grades: `share`, from 0 to 1, or `points`, from 0 to 10. With `share` a row with a
    grade above 1 is refused: beside it, a 1 would mean full marks."""


class FormatTaskConfig(ScorerSection, ShapeConfig):
    """The format of an answer alone: rows `{"type": "format", "of": <another row's verification_info>}`."""

    type: Literal["format"] = "format"
    reads: ClassVar[frozenset[str] | None] = None


class CustomConfig(ScorerSection):
    """Your own scorer (docs/scorers.md)."""

    type: Literal["custom"] = "custom"
    reads: ClassVar[frozenset[str] | None] = None
    takes_rows_as_they_are: ClassVar[bool] = True
    import_path: ImportPath
    """`package.module:Class` of a `scorers.scorer.Scorer`, or `package.module:function`, importable where scorers
    run."""
    options: dict[str, Any] = {}
    """Keyword arguments of the class or the function."""


class EnvironmentRewardConfig(ScorerSection):
    """Episodes, scored by the reward of the task's `environment`: its least possible reward is 0, its greatest 1."""

    type: Literal["environment"] = "environment"
    reads: ClassVar[frozenset[str] | None] = None
    takes_rows_as_they_are: ClassVar[bool] = True


class VerlFunctionConfig(ScorerSection):
    """A reward function from a file, as in verl, called in a child process (docs/coming_from_verl.md)."""

    type: Literal["verl_function"] = "verl_function"
    reads: ClassVar[frozenset[str] | None] = None
    takes_rows_as_they_are: ClassVar[bool] = True
    takes_other_rows: ClassVar[bool] = True
    path: str
    """Python file, on the scorers' machine. It is trusted: it runs as the scorers' user."""
    function: str = "compute_score"
    """Function `(data_source, solution_str, ground_truth, extra_info)` in it."""
    options: dict[str, Any] = {}
    """Further keyword arguments, verl's `reward_kwargs`."""
    takes_lists: bool = False
    """Whether it takes lists (`data_sources`, `solution_strs`, ...) and returns one, as verl's manager `batch` does."""
    value_range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest value of the function, which become 0 and 1."""
    deadline_s: float = Field(10.0, gt=0)
    """Deadline in seconds for one completion: half for a first try, half for a second try alone in a fresh child. A
    completion that uses up both scores 0, since it is slow by itself."""
    load_s: float = Field(120.0, gt=0)
    """Deadline in seconds for importing the file."""
    memory_mb: int = Field(8192, ge=64)
    """Address space of the child in MiB, beyond what it inherits."""

    @field_validator("value_range")
    @classmethod
    def _is_range(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        if bounds[0] >= bounds[1]:
            raise ValueError(f"[least, greatest] value, got [{bounds[0]:g}, {bounds[1]:g}]")
        return bounds


class RewardApiConfig(ScorerSection):
    """An existing reward server, such as II-Thought's, that keeps scoring while you migrate."""

    type: Literal["reward_api"] = "reward_api"
    reads: ClassVar[frozenset[str] | None] = None
    takes_rows_as_they_are: ClassVar[bool] = True
    takes_other_rows: ClassVar[bool] = True
    queue: QueueName = "judge"
    urls: tuple[ServerAddress, ...] = Field(min_length=1)
    """`http://HOST:PORT` of one or several servers, without `/reward`. The least busy one is asked, and another one
    where that fails."""
    timeout_s: float = Field(30.0, gt=0)
    """Deadline in seconds for one reply, and for a server that is down to come back."""
    workers: int = Field(10, ge=1)
    """Concurrent calls of each scorer process."""


ScorerConfig = Annotated[
    MathConfig
    | CodeConfig
    | SimulationConfig
    | GymConfig
    | SweConfig
    | LogicConfig
    | TableConfig
    | ChoiceConfig
    | SearchConfig
    | InstructionsConfig
    | JudgeConfig
    | RubricConfig
    | TinyvConfig
    | LivebenchConfig
    | GradeConfig
    | FormatTaskConfig
    | CustomConfig
    | EnvironmentRewardConfig
    | VerlFunctionConfig
    | RewardApiConfig,
    Field(discriminator="type"),
]
SECTIONS: Final[Mapping[str, type[ScorerSection]]] = {
    section.model_fields["type"].default: section for section in get_args(get_args(ScorerConfig)[0])
}


def reads(kind: str, of: str) -> bool:
    """Return whether a scorer of type `kind` can judge the rows of the kind `of`."""
    readable = SECTIONS[kind].reads
    return kind == of or readable is None or of in readable
