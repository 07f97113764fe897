"""Rows about patches, checked out behind walls: what the agent has changed is judged as an answer of one turn is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agents.environments.seam import EnvironmentFailed, FailureStage
from config.run import Run
from config.scorer_kinds import SweConfig
from config.scorers import ScorersConfig
from sandbox.choice import check_walls
from sandbox.program import SandboxMissing
from scorers.swe.scorer import SwePatch
from tests.support.played import Played, played
from tests.support.scripted_calls import judged
from tests.support.swe_rows import FIXED, ROW, SHOP, WITHOUT_TESTS, shop_row

pytestmark = pytest.mark.process

MEND = "$ sed -i 's/return 0/return sum(prices)/' shop/prices.py"


@pytest.fixture(scope="module")
def play() -> Iterator[Played]:
    try:
        check_walls()
    except SandboxMissing as error:
        pytest.skip(str(error))
    scorer = {"type": "swe", "answer": "diff"}
    section = {"type": "swe", "scorer": scorer, "import_path": "tests.support.placed_agents:obey"}
    with played({"swe": section, "shown": {**section, "shows_tests": True}}) as made:
        yield made


@pytest.fixture(scope="module")
def scorer() -> Iterator[SwePatch]:
    made = SwePatch(SweConfig(answer="diff"), ScorersConfig())
    yield made
    made.close()


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("row", "said", "says"),
    [
        (ROW, MEND, (1.0, "2 of 2 tests passed")),
        (ROW, "$ rm -r shop; mkdir shop; touch shop/__init__.py", (0.0, "0 of")),
        (ROW, "$ mkdir tests; echo 'def test(): pass' > tests/test_prices.py", (0.0, "0 of 2 tests passed")),
        (ROW, "$ head -c 20M /dev/zero > big; git status", (0.0, "no unified diff")),
        (WITHOUT_TESTS, MEND, (1.0, "similarity 1.0000")),
    ],
)
def test_what_an_agent_has_changed_is_judged_by_the_rows_own_tests(
    play: Played, scorer: SwePatch, row: dict[str, Any], said: str, says: tuple[float, str]
) -> None:
    finish, heard = play.wait(judged(play, "swe", row, "$ ls -A; ls tests; git status --short", said, "done"))
    assert heard[1].split()[0] in {".git", "shop"}  # a machine may have no git
    assert "No such file" in heard[1]  # the tests are hidden
    assert finish.reward is None
    assert finish.answer is not None
    score = scorer.score(finish.answer, {name: row[name] for name in ("type", "answer")})
    assert score.value == says[0], score.reason
    assert says[1] in score.reason


@pytest.mark.prove
def test_test_files_are_shown_where_that_is_asked_for_and_a_diff_alone_is_refused(play: Played) -> None:
    finish, heard = play.wait(judged(play, "shown", ROW, "$ cat tests/test_prices.py; rm tests/*", "done"))
    assert "def test_total" in heard[1]
    assert finish.answer is not None
    assert "+++ /dev/null" in finish.answer
    with pytest.raises(EnvironmentFailed, match="to work at has files") as failed:
        play.wait(play.begin("swe", {"type": "swe", "answer": {"oracle_patches": ["x"]}}))
    assert failed.value.stage is FailureStage.RESET


def test_the_scorer_takes_a_diff_of_one_turn_too(scorer: SwePatch) -> None:
    info = shop_row()
    patch = f"--- a/shop/prices.py\n+++ b/shop/prices.py\n@@ -1,2 +1,2 @@\n {SHOP.splitlines()[0]}\n-    return 0\n"
    right = f"It adds nothing up.\n```diff\n{patch}+{FIXED.splitlines()[1]}\n```\n"
    assert scorer.score(right, info).value == 1.0
    none = scorer.score("I can't.", info)
    assert (none.value, none.components) == (0.0, {"edit": 0.0})


def test_a_checkout_is_judged_by_a_scorer_of_diffs_alone() -> None:
    with pytest.raises(ValueError, match="answer: diff"):
        Run.model_validate(
            {
                "name": "x",
                "model": {"path": "x"},
                "data": {"train": {"type": "procedural"}},
                "scorers": {"tasks": {"swe": {"scorer": {"type": "swe"}, "environment": {"type": "swe"}}}},
            }
        )
