"""The corpus of programs: honest right and wrong answers get what they deserve, attacks and null answers get nothing.

Some workers judge it in the sandbox that this machine offers, attacks and honest answers by turns, so that a scorer
that an attack has broken misjudges what follows; the proof has no more of them than processors, as a pool has.
`CORPUS=all` (make prove-attacks) judges every attack in every shape of rows and behind both walls, with a thousand
attacks that a grammar derives (`GRAMMAR_ATTACKS` and `GRAMMAR_SEED` say how many and which); without it, of each kind
a sample is judged, each attack in one shape, and behind the second wall a smaller one: with every change every fifth
case behind the first wall and every third behind the second, the others by `make prove-suite`. Programs can import
numpy, and the proof fails where they can't.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.scorers.code.corpus.attacks_checks import CHECK_ATTACKS
from tests.scorers.code.corpus.attacks_limits import LIMIT_ATTACKS
from tests.scorers.code.corpus.attacks_names import NAME_ATTACKS
from tests.scorers.code.corpus.attacks_outside import OUTSIDE_ATTACKS
from tests.scorers.code.corpus.attacks_texts import NULL_CASES, TEXT_ATTACKS
from tests.scorers.code.corpus.grammar.programs import COUNT, SEED, grammar_attacks, sealed_honest
from tests.scorers.code.corpus.proving_ground import (
    CASE_TIMEOUT_S,
    DEADLINE_S,
    WHOLE_S,
    Judged,
    judge,
    planted,
)
from tests.scorers.code.corpus.right_code import RIGHT_CASES
from tests.scorers.code.corpus.rows import Case
from tests.scorers.code.corpus.wrong_code import FRACTIONS, WRONG_CASES

pytestmark = pytest.mark.process

EVERYTHING = os.environ.get("CORPUS") == "all"
TIMEOUT_S = 3600 if EVERYTHING else 300
WORKERS = min(3 if EVERYTHING else 2, len(os.sched_getaffinity(0)))
BUSY = 3  # a machine that runs every test may be shared: the proof, on a quiet one, holds the limit itself
ATTACKS = [*CHECK_ATTACKS, *NAME_ATTACKS, *OUTSIDE_ATTACKS, *LIMIT_ATTACKS, *TEXT_ATTACKS]
NEEDS_SHARED_MEMORY = {"multiprocessing", "concurrent.futures"}  # /dev/shm, which Landlock can't make private
HONEST = [*RIGHT_CASES, *WRONG_CASES, *FRACTIONS, *NULL_CASES]
DERIVED = grammar_attacks(
    int(os.environ.get("GRAMMAR_ATTACKS", COUNT if EVERYTHING else 24)),
    int(os.environ.get("GRAMMAR_SEED", SEED)),
)
SEALED = sealed_honest()


def one_shape_each(cases: list[Case]) -> list[Case]:
    """Return each attack once, the shapes of rows by turns."""
    told: dict[str, list[Case]] = {}
    for case in cases:
        told.setdefault(case.name.partition(" [")[0], []).append(case)
    return [shapes[number % len(shapes)] for number, shapes in enumerate(told.values())]


@dataclass(frozen=True)
class Plan:
    attacks: list[Case]
    honest: list[Case]

    @property
    def cases(self) -> list[Case]:
        return [*self.attacks, *self.honest]


def plan() -> dict[str, Plan]:
    """By wall. The second one gets what depends on walls: attacks on what is outside, and what needs the machine."""
    landlocked = [case for case in HONEST if case.name not in NEEDS_SHARED_MEMORY]
    if EVERYTHING:
        attacks = [*ATTACKS, *DERIVED]
        return {"auto": Plan(attacks, [*HONEST, *SEALED]), "landlock": Plan(attacks, [*landlocked, *SEALED])}
    quick = one_shape_each([*CHECK_ATTACKS, *NAME_ATTACKS, *OUTSIDE_ATTACKS])
    slow = one_shape_each([*LIMIT_ATTACKS, *TEXT_ATTACKS])
    return {
        "auto": Plan([*quick[::8], *slow[::26], *DERIVED[::6]], [*HONEST[::8], *SEALED[::7]]),
        "landlock": Plan(
            [*one_shape_each(OUTSIDE_ATTACKS)[::9], *slow[1::52], *DERIVED[3::12]],
            [*landlocked[:75:15], *SEALED[24::15]],
        ),
    }


PLAN = plan()
ONE_OF = {"auto": 5, "landlock": 3}  # so many are judged with every change
WALLS_AND_CASES = [
    pytest.param(walls, case, id=f"{walls}: {case.name}", marks=[pytest.mark.prove] if is_left else [])
    for walls, share in PLAN.items()
    for number, case in enumerate(share.cases)
    for is_left in [not EVERYTHING and number % ONE_OF[walls] != 0]
]
WALLS = [*PLAN, *(pytest.param(walls, id=f"{walls}, the others", marks=pytest.mark.prove) for walls in PLAN)]


class Reports:
    """What became of the cases behind each wall; judged when the first of them is asked for."""

    def __init__(self, folder: Path, wanted: Mapping[str, set[str]]) -> None:
        self.folder = folder
        self.wanted = wanted  # names of the cases that were selected, by wall
        self.reports: dict[str, Mapping[str, Judged | str]] = {}
        self.damage: dict[str, list[str]] = {}

    def of(self, walls: str) -> Mapping[str, Judged | str]:
        if walls not in self.reports:
            share = PLAN[walls]
            names = self.wanted.get(walls) or {case.name for case in share.cases}
            with planted(self.folder / walls) as ground:

                def chosen(cases: list[Case]) -> list[Case]:
                    return [ground.fill(case) for case in cases if case.name in names and is_here(case)]

                self.reports[walls] = judge(
                    chosen(share.attacks),
                    chosen(share.honest),
                    walls,
                    workers=WORKERS,
                    right_timeout_s=CASE_TIMEOUT_S * (1 if EVERYTHING else 2 * BUSY),
                )
                self.damage[walls] = ground.damage()
        return self.reports[walls]


def is_here(case: Case) -> bool:
    program = {"cpp": "g++", "c++": "g++", "javascript": "node", "js": "node"}.get(case.language)
    return program is None or shutil.which(program) is not None


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest) -> Iterator[Reports]:
    wanted: dict[str, set[str]] = {}
    for item in request.session.items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if item.path == request.path and "case" in parameters:
            wanted.setdefault(parameters["walls"], set()).add(parameters["case"].name)
    folder = Path(os.path.realpath("/tmp")) / f"millrace-corpus-{os.getpid()}"  # a path that others can enter
    folder.mkdir(mode=0o755)
    yield Reports(folder, wanted)
    shutil.rmtree(folder)


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize(("walls", "case"), WALLS_AND_CASES)
def test_program_gets_what_it_deserves_in_time(walls: str, case: Case, reports: Reports) -> None:
    if not is_here(case):
        pytest.skip(f"no compiler or interpreter of {case.language} here")
    if case.needs_numpy and not EVERYTHING and (lack := reports.of(walls)["lack of numpy"]):
        pytest.skip(str(lack))
    judged = reports.of(walls)[case.name]
    assert isinstance(judged, Judged)
    assert judged.score is not None, judged.error
    assert judged.score.value == pytest.approx(case.value), judged.score.reason
    assert judged.seconds <= DEADLINE_S * (1 if EVERYTHING else BUSY) + WHOLE_S, judged.score.reason


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("walls", WALLS)
def test_attacks_change_nothing_outside_and_leave_no_process(walls: str, reports: Reports) -> None:
    assert (reports.of(walls)["left"], reports.damage[walls]) == ("", [])


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("walls", WALLS)
def test_numpy_is_there_for_attacks_and_for_tests(walls: str, reports: Reports) -> None:
    lack = reports.of(walls)["lack of numpy"]
    if lack and not EVERYTHING:
        pytest.skip(str(lack))
    assert lack == ""


def test_no_two_cases_have_one_name() -> None:
    """A report has one place for each."""
    names = [case.name for case in (*ATTACKS, *DERIVED, *HONEST, *SEALED)]
    assert len(names) == len(set(names))
