"""These sections say what judges one answer: there is one for each kind of scorer.

`ScorerConfig` is their union, told apart by `type`. `tasks.kinds` declares what each is for; `config.scorers` gives one
to each task.
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
# Queues whose groups cost no work here, only a wait for somebody else: a served model, a reward server.
WAITING: frozenset[QueueName] = frozenset({"judge"})
# Groups of `code` with an answer that takes long are put off to the queue `slow`, which workers of `code` serve last.
SlowQueue = Literal["slow"]
SLOW: SlowQueue = "slow"
PUT_OFF_FROM: QueueName = "code"


class ScorerSection(Section):
    """What the section of every scorer has."""

    type: str
    queue: QueueName = "light"
    """Class of cost: which workers take this scorer's groups."""
    # The kinds whose rows it can judge beside those of its own; None: all kinds.
    reads: ClassVar[frozenset[str] | None] = frozenset()
    # Whether it takes its rows as they are: what their answers hold is its own affair.
    takes_rows_as_they_are: ClassVar[bool] = False
    # Whether rows that name no other task of the run are its.
    takes_other_rows: ClassVar[bool] = False


class MathConfig(ScorerSection):
    """Mathematical equality with the reference, by math-verify in a child process."""

    type: Literal["math"] = "math"
    queue: QueueName = "math"
    deadline_s: float = Field(6.0, gt=0)
    """Seconds that one completion may cost: half for the first try, half for the second one alone in a fresh child.
    Both used up is a zero: the answer itself did that."""
    give_way_s: float | None = Field(None, gt=0)
    """Seconds of processor time in a try after which it yields to every other process, so that answers that hang cost
    the others little. On a machine that is always busy it then gets almost none: slow answers may end as hanging ones.
    Unset: it has its share to the end."""
    require_box: bool = True
    """Only a boxed answer counts. Off: the last expression that math-verify finds does. `gsm8k` and `prime_math` rows
    have rules of their own."""
    compatible: bool = False
    """Score as the systems do that the rows come from, mistakes included, so that numbers can be compared with theirs.
    What would run a model's text, or pay for an empty answer or an unfinished thought, stays refused."""


class CodeConfig(ScorerSection):
    """Programs against their tests, in the sandbox."""

    type: Literal["code"] = "code"
    queue: QueueName = "code"
    deadline_s: float = Field(60.0, gt=0)
    """Seconds that one completion may cost, over all its cases."""
    case_timeout_s: float = Field(10.0, gt=0)
    """Seconds that one case may run; the first that takes longer gets a second try alone in a fresh sandbox. After two
    such runs an answer has half a second for each further case, up to the next one that takes longer."""
    memory_mb: int = Field(1024, ge=64)
    """Memory of one run with all its processes."""
    max_cases: int | None = Field(None, ge=1)
    """Most cases of one row that are run; of a row with more, the same ones for every completion, drawn by a seed.
    Unset: all of them."""
    compatible: bool = False
    """Compare standard output as II-Thought's verifier does, so that numbers can be compared with its: upper and lower
    case the same, floats within 1e-5. Off: to the letter, but for space at the ends of lines and floats within 1e-6."""


class SimulationConfig(ScorerSection):
    """Inputs and outputs of programs, foretold; by comparison, or by the row's own program in the sandbox."""

    type: Literal["simulation"] = "simulation"
    queue: QueueName = "code"
    deadline_s: float = Field(10.0, gt=0)
    """Seconds that a row's program may run on one answered input: half for the first try, half for the second one alone
    in a fresh sandbox. Both used up is a zero: the answer itself did that."""
    memory_mb: int = Field(1024, ge=64)
    """Memory of one run with all its processes."""


class GymConfig(ScorerSection):
    """Tasks of reasoning-gym, by that library's own scorers in the sandbox."""

    type: Literal["gym"] = "gym"
    queue: QueueName = "code"
    deadline_s: float = Field(10.0, gt=0)
    """Seconds that one completion may cost: half for the first try, half for the second one alone in a fresh sandbox.
    Both used up is a zero: the answer itself did that."""
    memory_mb: int = Field(1024, ge=256)
    """Memory of one run with all its processes."""
    part: Literal["answer", "box", "response"] = "answer"
    """Where the answer is: in the last `<answer>`, in the last box, or all that follows the thinking."""
    partial: bool = False
    """Pay the library's partial values, too, those above the 0.1 that it has at most for an attempt. Off: an answer is
    right or wrong. Many of these values come cheap."""


class SweConfig(ScorerSection):
    """Patches: how near an edit comes to the reference's, or whether a row's own tests pass with it."""

    type: Literal["swe"] = "swe"
    queue: QueueName = "light"
    """Class of cost: which workers take this scorer's groups. Where rows have tests, `code` fits."""
    deadline_s: float = Field(60.0, gt=0)
    """Seconds that one completion may cost: half for the first try, half for the second one alone in a fresh child."""
    answer: Literal["row", "diff"] = "row"
    """What an answer is: what the row asks for, or, of any row that has its files, a unified diff of them, which an
    `environment` of type swe hands on."""
    think: Literal["required", "optional"] = "required"
    """Whether SEARCH/REPLACE edits need a closed and filled thinking span before them, as SWE-RL's do."""
    subtract_floor: bool = False
    """Pay only for what is above the value of an edit that touches the reference's lines and does nothing to them (one
    space at the end of each): max(0, (value - floor) / (1 - floor))."""
    syntax_gate: bool = False
    """A Python file that can be parsed before the edit and not after it makes the score 0. A unified diff is without
    its files and passes."""
    format_penalty: bool = False
    """SWE-RL's reward of -1 for an answer without an edit that can be read and made; its score stays 0."""
    compatible: bool = False
    """SWE-RL's empty SEARCH: it inserts at every line break of its file. Off: only a new file is made with it."""


class LogicConfig(ScorerSection):
    """Logic puzzles: zebra, ordering, graph, and the grids of ARC-AGI and BARC."""

    type: Literal["logic"] = "logic"
    compatible: bool = False
    """Reasoning360's number for a zebra puzzle: the share of all cells, that of the given column of positions too, in
    the reference's order of rows and columns, and to the letter. The other puzzles are the same either way."""


class TableConfig(ScorerSection):
    """Questions about tables: HiTab, MultiHiertt, FinQA."""

    type: Literal["table"] = "table"


class ChoiceConfig(ScorerSection):
    """Multiple choice: one letter."""

    type: Literal["choice"] = "choice"


class SearchConfig(ScorerSection):
    """Questions answered by search: exact match, as Search-R1's."""

    type: Literal["search"] = "search"


class InstructionsConfig(ScorerSection):
    """Verifiable instructions, IFEval's and those of IFBench's training rows."""

    type: Literal["instructions"] = "instructions"


class ServedModelSection(ScorerSection):
    """What the section of every scorer has that asks a served model."""

    queue: QueueName = "judge"
    sees: Literal["last_message", "conversation"] = "last_message"
    """What the served model sees of an episode of several turns: the policy's last message, or the whole conversation,
    with the policy's calls of tools and what these answered, without thoughts."""


class JudgeConfig(ServedModelSection):
    """Free answers, compared with the reference by a served model."""

    type: Literal["judge"] = "judge"
    reads: ClassVar[frozenset[str] | None] = frozenset({"math", "tinyv"})
    endpoint: EndpointConfig = EndpointConfig()
    """The judge."""
    variant: Literal["default", "stem", "math", "tinyv"] = "default"
    """How rows of type `judge` and `llm_judge` are asked about: as any instructed model understands it, or as
    general-verifier (`stem`), Reasoning360's judge of mathematics or TinyV is used to."""
    part: Literal["response", "box", "answer"] | None = None
    """What the judge sees of a response: all after the thinking, the last box, or the last `<answer>`. Unset: the
    response for `default`, the box for every other variant."""
    max_answer_chars: int = Field(16_000, ge=1)
    """An answer with more characters is wrong. It has to fit the judge's context. Of a conversation: what the policy
    wrote; what tools and the environment said is cut to as many."""

    @model_validator(mode="after")
    def _part_is_of_a_message(self) -> JudgeConfig:
        if self.sees == "conversation" and self.part is not None:
            raise ValueError(f"part={self.part} is of one message: with sees=conversation the judge sees all")
        return self


VerifierMode = Literal["tinyv_only", "addon", "mixed", "gate"]


class RubricConfig(ServedModelSection):
    """Whole solutions, graded by their row's own criteria by a served rubric model (RRM)."""

    type: Literal["rubric"] = "rubric"
    endpoint: EndpointConfig = EndpointConfig()
    """The rubric model."""
    mode: VerifierMode = "tinyv_only"
    """What the answer's equality with the reference, the rule, has to say. `tinyv_only`: nothing. `addon`: 1 where the
    rule says right, else weight x the grade. `mixed`: weight x the grade + (1 - weight) x the rule. `gate`: the grade
    where the rule says right, else 0."""
    weight: float = Field(1.0, ge=0, le=1)
    """Of the grade, in `addon` and `mixed`."""
    max_answer_chars: int = Field(32_000, ge=1)
    """A solution with more characters is wrong. It has to fit the rubric model's context. Of a conversation as for
    `judge`."""


class TinyvConfig(ServedModelSection):
    """Answers that a rule may have taken for wrong, judged by a served TinyV."""

    type: Literal["tinyv"] = "tinyv"
    reads: ClassVar[frozenset[str] | None] = frozenset({"math", "judge"})
    endpoint: EndpointConfig = EndpointConfig()
    """The judge."""
    mode: VerifierMode = "addon"
    """As for `rubric`, with the judge's verdict, 1 or 0, for the grade."""
    weight: float = Field(1.0, ge=0, le=1)
    """Of the verdict, in `addon` and `mixed`."""
    max_answer_chars: int = Field(16_000, ge=1)
    """A boxed answer with more characters is wrong. It has to fit the judge's context. Of a conversation as for
    `judge`."""


class LivebenchConfig(ScorerSection):
    """LiveBench's questions of reasoning, data analysis and language."""

    type: Literal["livebench"] = "livebench"


class GradeConfig(ScorerSection):
    """Gradings by the grade that they end with: the reward that trains a rubric model."""

    type: Literal["grade"] = "grade"
    gold: Literal["share", "points"] = "share"
    """Scale of the rows' right grades: `share`, from 0 to 1; `points`, from 0 to 10. Under `share` a row with more than
    1 is refused, never guessed at: beside it, a 1 would be full marks, and not a tenth."""


class FormatTaskConfig(ScorerSection, ShapeConfig):
    """The shape of an answer alone: rows `{"type": "format", "of": <another row's verification_info>}`."""

    type: Literal["format"] = "format"
    reads: ClassVar[frozenset[str] | None] = None


class CustomConfig(ScorerSection):
    """Your own scorer: docs/scorers.md."""

    type: Literal["custom"] = "custom"
    reads: ClassVar[frozenset[str] | None] = None
    takes_rows_as_they_are: ClassVar[bool] = True
    import_path: ImportPath
    """`package.module:Class` of a `scorers.scorer.Scorer`, or `package.module:function`, importable where the scorers
    run."""
    options: dict[str, Any] = {}
    """Keyword arguments of the class or the function."""


class EnvironmentRewardConfig(ScorerSection):
    """Episodes by the reward of the task's own `environment`: the least that it can give is 0, the greatest 1."""

    type: Literal["environment"] = "environment"
    reads: ClassVar[frozenset[str] | None] = None
    takes_rows_as_they_are: ClassVar[bool] = True


class VerlFunctionConfig(ScorerSection):
    """A reward file as verl takes it, its function called in a child process: docs/coming_from_verl.md."""

    type: Literal["verl_function"] = "verl_function"
    reads: ClassVar[frozenset[str] | None] = None
    takes_rows_as_they_are: ClassVar[bool] = True
    takes_other_rows: ClassVar[bool] = True
    path: str
    """The Python file, where the scorers run. It is trusted as this program is: it runs as the scorers' user."""
    function: str = "compute_score"
    """Its function `(data_source, solution_str, ground_truth, extra_info)`."""
    options: dict[str, Any] = {}
    """Further keyword arguments; verl's `reward_kwargs`."""
    takes_lists: bool = False
    """Whether it takes lists (`data_sources`, `solution_strs`, ...) and returns one, as verl's manager `batch` does."""
    value_range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest value of the function; they become 0 and 1."""
    deadline_s: float = Field(10.0, gt=0)
    """Seconds that one completion may cost: half for the first try, half for the second one alone in a fresh child.
    Both used up is a zero: the answer itself did that."""
    load_s: float = Field(120.0, gt=0)
    """Seconds that importing the file may take."""
    memory_mb: int = Field(8192, ge=64)
    """Address space of the child beyond what it inherits."""

    @field_validator("value_range")
    @classmethod
    def _is_range(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        if bounds[0] >= bounds[1]:
            raise ValueError(f"[least, greatest] value, got [{bounds[0]:g}, {bounds[1]:g}]")
        return bounds


class RewardApiConfig(ScorerSection):
    """An old reward server, II-Thought's or one of its kind, that goes on scoring while one moves."""

    type: Literal["reward_api"] = "reward_api"
    reads: ClassVar[frozenset[str] | None] = None
    takes_rows_as_they_are: ClassVar[bool] = True
    takes_other_rows: ClassVar[bool] = True
    queue: QueueName = "judge"
    urls: tuple[ServerAddress, ...] = Field(min_length=1)
    """`http://HOST:PORT` of one server or several, without `/reward`. The least busy one is asked, and another one
    where that fails."""
    timeout_s: float = Field(30.0, gt=0)
    """Seconds for one reply; and for a server at which nobody answers to come back."""
    workers: int = Field(10, ge=1)
    """Calls at once, of each scorer process."""


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
