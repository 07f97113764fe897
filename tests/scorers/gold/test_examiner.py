"""A row's own reference, written as its type asks for it, against the row's scorer."""

from __future__ import annotations

from typing import Any

import pytest

from config.scorers import ScorersConfig
from scorers.gold.examiner import Candidate, Examined, RowVerdict, examine

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1), pytest.mark.together("mathematics")]

KINDS = ("math", "logic", "table", "choice", "search", "grade", "simulation", "code", "judge", "instructions")
CONFIG = ScorersConfig.model_validate({"tasks": {kind: {"scorer": {"type": kind}} for kind in KINDS}})
GRID = [[1, 0], [0, 1]]
ZEBRA = {"header": ["Position", "Food"], "rows": [["1", "apple"], ["2", "bread"]]}


def row(task: str, row_type: str, value: Any, **answer: Any) -> Candidate:
    return Candidate(task=task, verification_info={"type": row_type, "answer": {"value": value, **answer}})


def verdicts(*rows: Candidate) -> list[Examined]:
    return list(examine(CONFIG, rows))


@pytest.mark.usefixtures("scores_here")
def test_the_references_of_every_kind_that_has_some_score_one_in_the_order_of_their_rows() -> None:
    rows = [
        row("math", "math", "\\frac{1}{2}"),
        row("math", "gsm8k", "1,024"),
        row("math", "prime_math", "37"),
        row("table", "hitab", "12.5|9.1"),
        row("table", "finqa", 0.42),
        row("choice", "choice", "B"),
        row("logic", "arc", GRID),
        row("logic", "ordering", ["owl", "crow", "wren"]),
        row("logic", "graph", "fdebme"),
        row("logic", "zebra", ZEBRA),
        row("search", "qa_em", ["Paris", "paris, france"]),
        row("grade", "grade", 0.7),
    ]
    assert [found for found in verdicts(*rows) if found.verdict is not RowVerdict.RIGHT] == []


@pytest.mark.parametrize(
    ("candidate", "verdict", "reason"),
    [
        (row("logic", "arc", "[[1, 2"), RowVerdict.REFUSED, ""),
        (row("choice", "choice", "seven"), RowVerdict.REFUSED, ""),
        (
            row("judge", "judge", "4.5 J", question="how much?"),
            RowVerdict.UNTESTED,
            "no right answer to a row",
        ),
        (row("math", "math", "\\frac{1}{2"), RowVerdict.WRONG, "its reference has no score: "),
    ],
    ids=["no grid", "no letter", "a served model's", "no mathematics"],
)
def test_a_useless_row_is_told_from_an_untested_one(
    candidate: Candidate, verdict: RowVerdict, reason: str
) -> None:
    (found,) = verdicts(candidate)
    assert (found.verdict, reason in found.reason) == (verdict, True), found


@pytest.mark.parametrize("extra", [False, True], ids=["the task's own scorer", "a part beside it"])
def test_what_an_environment_scores_is_untested_and_says_so(extra: bool) -> None:
    own = {"scorer": {"type": "environment"}}
    task = {"extra_scorers": {"won": {**own, "weight": 0.5}}} if extra else own
    lake = {"environment": {"type": "custom", "import_path": "lake:Lake"}, **task}
    config = ScorersConfig.model_validate({"tasks": {"lake": lake}})
    (found,) = examine(config, [row("lake", "math", "5")])
    reason = "task 'lake' is scored by its environment, in which no answer is tried here"
    assert (found.verdict, found.reason) == (RowVerdict.UNTESTED, reason)


@pytest.mark.usefixtures("scores_here")
@pytest.mark.parametrize(
    ("played", "verdict", "reason"),
    [
        ({"episode": 1.0}, RowVerdict.RIGHT, ""),
        ({"episode": 0.5}, RowVerdict.WRONG, "its reference scores 0.75: reward 0.5 of -1 to 1 (for '17')"),
        ({"wrong": "task lake: it broke"}, RowVerdict.WRONG, "its reference breaks the environment: task lake: it broke"),
        ({"untested": "no method"}, RowVerdict.UNTESTED, "no method"),
    ],
    ids=["right", "too little", "broken", "none"],
)  # fmt: skip
def test_an_episode_is_examined_by_what_came_of_its_reference(
    played: dict[str, Any], verdict: RowVerdict, reason: str
) -> None:
    lake = {"environment": {"type": "custom", "import_path": "lake:Lake"}, "scorer": {"type": "environment"}}
    if "episode" in played:
        reward = {"value": played["episode"], "low": -1.0, "high": 1.0}
        said = [{"role": "assistant", "content": "17"}]
        played = {"episode": {"text": "17", "messages": said, "ended_by": "environment", "reward": reward}}
    row = Candidate(task="lake", verification_info={"type": "lake", "seed": 17}, played=played)
    (found,) = examine(ScorersConfig.model_validate({"tasks": {"lake": lake}}), [row])
    assert (found.verdict, found.reason) == (verdict, reason)


@pytest.mark.prove
def test_a_program_is_tested_where_the_row_has_one_beside_its_tests() -> None:
    info = {"type": "code", "answer": {"inputs": ["1\n", "2\n"], "outputs": ["2\n", "3\n"]}}
    solutions = ("print(int(input()) + 1)", "print(7)", "")
    right, wrong, absent = verdicts(
        *(Candidate(task="code", verification_info=info, solution=solution) for solution in solutions)
    )
    assert right.verdict is RowVerdict.RIGHT, right
    assert wrong.verdict is RowVerdict.WRONG
    assert wrong.reason.startswith("its reference scores 0: ")
    assert absent.verdict is RowVerdict.UNTESTED


@pytest.mark.prove
def test_the_half_of_a_program_that_is_asked_for_is_the_reference() -> None:
    program = "def f(n):\n    return {'count': n}"
    codeio = row("simulation", "codeio", '"output": {"count": 4}')
    known = {"functional": program, "predict": "output", "input": "4", "output": "{'count': 4}"}
    cruxeval = Candidate(task="simulation", verification_info={"type": "cruxeval", "answer": known})
    asked = {"functional": program, "predict": "input", "output": "{'count': 4}"}
    half = Candidate(task="simulation", verification_info={"type": "cruxeval", "answer": asked})
    found = [one.verdict for one in verdicts(codeio, cruxeval, half)]
    assert found == [RowVerdict.RIGHT, RowVerdict.RIGHT, RowVerdict.UNTESTED]
