"""Declare every task kind once: its section, scorer, row types, keys of answers, and data sources.

In: nothing. Out: `KINDS`, and the tables that are derived from it. They are used by routing (`tasks.route`), rows of
verl (`tasks.verl`), what builds scorers (`scorers.build`), the shapes of answers (`scorers.format.answer_shapes`),
the defaults of `score` (`scorers.api`) and docs/row_types.md. To add a scorer: its folder in `scorers/`, its
section in `config/scorer_kinds.py`, and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from broker.errors import BadMessage
from config import scorer_kinds as sections
from config.other_names.aliases import VARIANT_OF_TASK
from config.section import Section
from tasks import verl_answers
from tasks.reasoning360 import codeio, cruxeval
from tasks.values import UnknownType, hint, listed, reference, shown, unread
from tasks.verl_answers import Importer

# Default shape of an answer; `scorers.format.answer_shapes` has the functions.
Shape = Literal[
    "any", "box", "block", "tag", "box_block_or_object", "letter", "hash", "total", "program", "edit"
]
# What a scorer is built from besides its section: nothing, all of `scorers`, or the run that shares an endpoint.
Given = Literal["section", "scorers", "endpoint"]
Check = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowType:
    """One value of `verification_info.type`."""

    name: str
    shape: Shape = "any"
    answer_of: Importer | None = None  # converts verl's ground truth; None: it is the value itself
    sources: tuple[str, ...] = ()  # names of verl's `data_source`; `*` matches any text
    marks: tuple[str, ...] = ()  # parts of a `data_source` that take precedence over names


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKind:
    """One kind of scorer and its rows; its name is the `type` of its section."""

    section: type[Section]
    scorer: str  # `module:callable`, imported where a task needs it
    given: Given = "section"
    rows: tuple[RowType, ...] = ()
    answers: tuple[tuple[str, ...], ...] = (("value",),)  # all keys of one of these must be in an answer
    beside: tuple[str, ...] | None = ()  # further allowed keys of an answer; None: the scorer decides
    check: Check | None = None  # normalizes an answer or raises BadMessage, before the keys are checked
    wants_question: bool = False  # whether its rows contain the prompt's question
    own_tasks: Mapping[str, str] | None = (
        None  # default tasks besides its name: task to variant of its endpoint
    )
    about: str  # what it scores, for docs/row_types.md

    @property
    def name(self) -> str:
        """The kind's name in configurations."""
        return str(self.section.model_fields["type"].default)


def with_reference(answer: dict[str, Any]) -> dict[str, Any]:
    """Write the answer's reference as text. Raises BadMessage if there is none."""
    return {**answer, "value": reference(answer.get("value"))}


def with_criteria(answer: dict[str, Any]) -> dict[str, Any]:
    """Treat blank criteria as none, and write the reference as text if the row has one. Raises BadMessage."""
    kept = {key: value for key, value in answer.items() if key != "criteria" or str(value).strip()}
    return with_reference(kept) if "value" in kept else kept


# Values of `answer.task` in rows of LiveBench; the rules are in `scorers.livebench.scorer`.
LIVEBENCH_TASKS: Final = (
    "web_of_lies_v2",
    "web_of_lies_v3",
    "house_traversal",
    "spatial",
    "zebra_puzzle",
    "cta",
    "tablereformat",
    "tablejoin",
    "connections",
    "plot_unscrambling",
    "typos",
)


def with_known_task(answer: dict[str, Any]) -> dict[str, Any]:
    """Refuse a task of LiveBench that has no rule. Raises UnknownType."""
    name = str(answer.get("task"))
    if {"value", "task"} <= answer.keys() and name not in LIVEBENCH_TASKS:
        raise UnknownType(
            f"LiveBench's task {shown(name)} is not scored{hint(name, LIVEBENCH_TASKS)}; those that are: "
            f"{listed(LIVEBENCH_TASKS)}"
        )
    return answer


_SEARCHES: Final = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")

KINDS: Final[tuple[TaskKind, ...]] = (
    TaskKind(
        section=sections.MathConfig,
        scorer="scorers.math.scorer:MathAnswer",
        check=with_reference,
        about="mathematical equality with a reference, by math-verify in a child process",
        rows=(
            RowType(name="math", shape="box", sources=("hiyouga/geometry3k",), marks=("_mathverify",)),
            RowType(name="math_verifiable", shape="box"),
            RowType(name="gsm8k", shape="hash", sources=("openai/gsm8k",)),
            RowType(
                name="hendrycks_math",
                shape="box",
                # `math` is a type of RRM's and, with another meaning, of verl's: see `tasks.verl.IN_DOUBT`
                sources=(
                    *(
                        "math",
                        "lighteval/MATH",
                        "DigitalLearningGmbH/MATH-lighteval",
                        "HuggingFaceH4/MATH-500",
                    ),
                    "simplelr_qwen",
                ),
            ),
            RowType(
                name="prime_math",
                sources=(
                    "numina_aops_forum",
                    "numina_synthetic_math",
                    "numina_amc_aime",
                    "numina_synthetic_amc",
                    "numina_cn_k12",
                    "numina_olympiads",
                    "math__*",
                    "math_dapo",
                    "math_dapo_reasoning",
                    "aime*",
                    "*_prime*",
                    "OLYMPIAD_BENCH",
                    "MINERVA",
                    "MATH",
                    "AMC",
                    "AIME",
                ),
            ),
        ),
    ),
    TaskKind(
        section=sections.CodeConfig,
        scorer="scorers.code.scorer:CodeTests",
        given="scorers",
        beside=None,
        answers=(
            ("test_cases",),
            ("inputs", "outputs"),
            ("functional",),
            ("tests",),
            ("assert_case",),
            ("pytest",),
        ),
        about="programs in Python, C++ and JavaScript against their tests, in the sandbox",
        rows=(
            RowType(
                name="code",
                shape="program",
                answer_of=verl_answers.code,
                sources=("codecontests", "apps", "codeforces", "taco", "codegen__*"),
            ),
            RowType(name="code_verifiable", shape="program"),
        ),
    ),
    TaskKind(
        section=sections.SweConfig,
        scorer="scorers.swe.scorer:SwePatch",
        given="scorers",
        answers=(("input", "ground_truth"), ("code_context", "oracle_new_content"), ("oracle_patches",)),
        beside=("files", "test_command", "path"),
        about="patches: similarity with the reference's patch, or the row's own tests in the sandbox",
        rows=(RowType(name="swe", shape="edit"), RowType(name="swe_verifiable", shape="edit")),
    ),
    TaskKind(
        section=sections.LogicConfig,
        scorer="scorers.logic.scorer:LogicAnswer",
        given="scorers",
        about="zebra puzzles, orderings, graph puzzles, and the grids of ARC-AGI and BARC",
        # Reasoning360 files ARC under simulation, and its puzzles first had no prefix: users write both.
        rows=(
            RowType(name="zebra", shape="tag", sources=("logic__zebra_puzzle*", "zebra_puzzle*")),
            RowType(name="ordering", shape="tag", sources=("logic__ordering_puzzle*", "ordering_puzzle*")),
            RowType(name="graph", shape="tag", sources=("logic__graph*", "graph_logical*")),
            RowType(
                name="arc",
                shape="tag",
                sources=("simulation__arcagi*", "simulation__barc*", "logic__arcagi*", "logic__barc*"),
            ),
        ),
    ),
    TaskKind(
        section=sections.TableConfig,
        scorer="scorers.table.scorer:TableAnswer",
        beside=("percent", "ordered"),
        about="questions about tables: numbers, percentages and words",
        rows=(
            RowType(name="hitab", shape="box", answer_of=verl_answers.table, sources=("table__hitab",)),
            RowType(
                name="multihier", shape="box", answer_of=verl_answers.table, sources=("table__multihier",)
            ),
            RowType(name="finqa", shape="box", answer_of=verl_answers.table, sources=("table__finqa",)),
        ),
    ),
    TaskKind(
        section=sections.ChoiceConfig,
        scorer="scorers.choice.scorer:ChoiceAnswer",
        beside=("options",),
        about="multiple choice: one letter, stated once and never guessed",
        rows=(RowType(name="choice", shape="letter", sources=("stem__gpqa*", "stem__supergpqa*")),),
    ),
    TaskKind(
        section=sections.SearchConfig,
        scorer="scorers.search.scorer:SearchAnswer",
        about="questions answered by search: Search-R1's exact match",
        rows=(
            RowType(
                name="qa_em",
                shape="tag",
                answer_of=verl_answers.qa_em,
                sources=tuple(f"searchR1_{name}" for name in _SEARCHES),
            ),
        ),
    ),
    TaskKind(
        section=sections.InstructionsConfig,
        scorer="scorers.instructions.scorer:InstructionFollowing",
        given="scorers",
        answers=(("instruction_id_list", "kwargs"), ("value",)),
        beside=("key",),
        about="verifiable instructions, each by its own rule",
        rows=(
            RowType(name="ifeval", answer_of=verl_answers.ifeval, sources=("ood__ifeval",)),
            RowType(name="ifbench", answer_of=verl_answers.ifbench, sources=("ood__ifbench",)),
        ),
    ),
    TaskKind(
        section=sections.LivebenchConfig,
        scorer="scorers.livebench.scorer:Livebench",
        answers=(("value", "task"),),
        beside=("category",),
        check=with_known_task,
        about="LiveBench's reasoning, data analysis and language, each by its task's rule",
        rows=(RowType(name="livebench", answer_of=verl_answers.livebench, sources=("ood__livebench*",)),),
    ),
    TaskKind(
        section=sections.SimulationConfig,
        scorer="scorers.simulation.scorer:Simulation",
        given="scorers",
        answers=(("value",), ("functional", "input"), ("functional", "output")),
        beside=("predict", "code", "entry"),
        about="inputs and outputs of programs, foretold; decided by running the program in the sandbox",
        rows=(
            RowType(
                name="codeio", shape="box_block_or_object", answer_of=codeio, sources=("simulation__codeio*",)
            ),
            RowType(name="cruxeval", shape="program", answer_of=cruxeval, sources=("simulation__cruxeval*",)),
        ),
    ),
    TaskKind(
        section=sections.GymConfig,
        scorer="scorers.gym.scorer:GymAnswer",
        given="scorers",
        answers=(("entry",),),
        beside=("dataset",),
        about="any task of reasoning-gym, by that library's scorers in the sandbox",
        rows=(
            RowType(name="reasoning_gym", answer_of=verl_answers.reasoning_gym, sources=("reasoning_gym*",)),
        ),
    ),
    TaskKind(
        section=sections.GradeConfig,
        scorer="scorers.grade.scorer:GradeAnswer",
        about="gradings by the grade that they end with",
        rows=(RowType(name="grade", shape="total", sources=("grade",)),),
    ),
    TaskKind(
        section=sections.FormatTaskConfig,
        scorer="scorers.format.scorer:FormatAnswer",
        answers=(),  # it has `of` instead, another row's verification_info
        about="the shape of an answer alone",
        rows=(RowType(name="format"),),
    ),
    TaskKind(
        section=sections.JudgeConfig,
        scorer="scorers.judge.scorer:JudgeAnswer",
        given="endpoint",
        check=with_reference,
        wants_question=True,
        own_tasks=VARIANT_OF_TASK,
        about="free answers, compared with the reference by a served model",
        rows=(
            RowType(name="judge"),
            RowType(name="llm_judge"),
            RowType(
                name="stem_llm_judge",
                shape="box",
                answer_of=verl_answers.judged,
                sources=("stem_web*", "stem__web*"),
            ),
            RowType(name="math_llm_judge", shape="box", answer_of=verl_answers.judged),
        ),
    ),
    TaskKind(
        section=sections.RubricConfig,
        scorer="scorers.rubric.scorer:RubricAnswer",
        given="endpoint",
        beside=("value",),
        answers=(("criteria",),),  # and a question, if the row has no prompt
        check=with_criteria,
        wants_question=True,
        about="whole solutions, graded by their row's criteria by a served rubric model",
        # TinyV uses the same names for its sources: `tasks.verl` distinguishes them by the row's criteria.
        rows=(RowType(name="rubric", answer_of=verl_answers.graded, marks=("_tinyv", "HardVerify-Math")),),
    ),
    TaskKind(
        section=sections.TinyvConfig,
        scorer="scorers.tinyv.scorer:TinyvAnswer",
        given="endpoint",
        check=with_reference,
        wants_question=True,
        about="answers that a rule calls wrong, judged again by a served TinyV",
        rows=(RowType(name="tinyv", answer_of=verl_answers.judged),),
    ),
    TaskKind(
        section=sections.EnvironmentRewardConfig,
        scorer="scorers.environment.scorer:EnvironmentScorer",
        about="episodes, by the reward of their own environment",
    ),
    TaskKind(
        section=sections.VerlFunctionConfig,
        scorer="scorers.verl_function.scorer:VerlFunction",
        about="a reward file of verl's, its function called in a child process",
    ),
    TaskKind(
        section=sections.RewardApiConfig,
        scorer="scorers.reward_api.scorer:RewardApi",
        about="an old reward server, which goes on scoring",
    ),
    TaskKind(
        section=sections.CustomConfig,
        scorer="scorers.custom:load_scorer",
        about="your own scorer, by its import path",
    ),
)

BY_NAME: Final[Mapping[str, TaskKind]] = {kind.name: kind for kind in KINDS}
ROW_TYPES: Final[Mapping[str, RowType]] = {row.name: row for kind in KINDS for row in kind.rows}
TASK_OF_TYPE: Final[Mapping[str, str]] = {row.name: kind.name for kind in KINDS for row in kind.rows}

# Data sources of Reasoning360 without a scorer in this version. Names of row types take precedence over them.
_UNSCORED: Final = ("simulation__*", "logic__*", "stem__*", "ood__*")


def _order(source: tuple[str, str | None]) -> tuple[int, int]:
    """Return a sort key: marks, then whole names, then longer prefixes of names, then parts inside."""
    pattern, row_type = source
    if pattern.startswith("*"):
        is_mark = row_type is not None and pattern.strip("*") in ROW_TYPES[row_type].marks
        return (0 if is_mark else 3, 0)
    return (2, -len(pattern)) if pattern.endswith("*") else (1, 0)


# verl's data sources and the type of their rows here, None if this version has no scorer. The first match decides.
DATA_SOURCES: Final[tuple[tuple[str, str | None], ...]] = tuple(
    sorted(
        [
            *((f"*{mark}*", row.name) for row in ROW_TYPES.values() for mark in row.marks),
            *((pattern, row.name) for row in ROW_TYPES.values() for pattern in row.sources),
            *((pattern, None) for pattern in _UNSCORED),
        ],
        key=_order,
    )
)


def kind_of(row_type: str) -> TaskKind:
    """Return the kind that scores rows of a known type."""
    return BY_NAME[TASK_OF_TYPE[row_type]]


def check_answer(answer: dict[str, Any], row_type: str) -> dict[str, Any]:
    """Check an answer against its kind's declaration.

    Raises:
        BadMessage: the answer lacks something; the message names it.
    """
    kind = kind_of(row_type)
    found = kind.check(answer) if kind.check else answer
    if not any(all(name in found for name in names) for names in kind.answers):
        raise BadMessage(
            f"no answer: a row of type {row_type!r} needs {needs(row_type)}; its answer has "
            f"{listed(found) or 'nothing'}"
        )
    return found


def refuse_unread(answer: Mapping[str, Any], row_type: str) -> None:
    """Refuse an answer with a value under a key that the scorer of its rows does not read. Raises BadMessage."""
    kind = kind_of(row_type)
    if kind.beside is None:
        return
    known = {*kind.beside, *(key for keys in kind.answers for key in keys)}
    if keys := unread(answer, known):
        raise BadMessage(
            f"an answer of a row of type {row_type!r} with {listed(map(repr, keys))}, which the scorer does not read: "
            "the answer might mean something else with it; take it out if it does not. Read are "
            f"{listed(sorted(known))}"
        )


def needs(row_type: str) -> str:
    """Describe the keys that the answer of a row of that type must have."""
    return ", or ".join(" and ".join(names) for names in kind_of(row_type).answers)


def as_table() -> list[str]:
    """Return the kinds as lines of Markdown, for docs/row_types.md."""
    lines = ["| task | judges | row types | answer | data sources of verl |", "|---|---|---|---|---|"]
    for kind in KINDS:
        types = ", ".join(f"`{row.name}`" for row in kind.rows) or "the task's name"
        answers = ", or ".join(", ".join(f"`{key}`" for key in keys) for keys in kind.answers) or "`of`"
        if sections.SECTIONS[kind.name].takes_rows_as_they_are:
            answers = "as it is"
        patterns = [*(f"*{mark}*" for row in kind.rows for mark in row.marks)]
        patterns += [pattern for row in kind.rows for pattern in row.sources]
        sources = ", ".join(f"`{pattern}`" for pattern in patterns) or "none"
        lines.append(f"| `{kind.name}` | {kind.about} | {types} | {answers} | {sources} |")
    return lines
