"""Each recipe trains two steps on made rows of its own shape, with the tiny model in the place of its model.

Every answer that it trained on has a score, and no group ended otherwise.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.messages import ScoreStatus
from learner.journal.ledger import TRAINED, read_ledger, read_step
from tests.support.endpoint_server import Call, scripted_endpoint
from tests.support.paths import RECIPES
from tests.support.recipe_rows import PLAYED, ROWS_OF, asking
from tests.support.verl_runs import two_steps

pytestmark = pytest.mark.e2e

ALONE = {  # what the recipes have beside `TINY`, for a machine of one rank without a GPU
    "guru_qwen2.5-32b_16x8gpu": ("learner.sequence_ranks=1",),
    "mastermind_qwen2.5-1.5b_1gpu": ("data.max_prompt_tokens=2048",),  # the tiny model's tokens are letters
}
WITHOUT_HELD_OUT = {"reverse-text_qwen3-0.6b_2gpu"}
BESIDE = (
    "learner.filters.zero_variance=keep",  # no answer of the tiny model is right
    "data.max_prompt_tokens=256",
    "learner.tokens_per_micro_batch=2048",
    "learner.weights={type: filesystem}",
)


def judged(call: Call) -> str:
    """Pass the self-tests of a rubric model and of a judge of STEM, and grade every other answer the same."""
    if "Total Score" not in call.prompt:
        return "Final Decision: " + ("No" if "five" in call.prompt else "Yes")
    points = {"\\boxed{four}": 10, "\\boxed{five}": 0}
    return f"Total Score: {next((one for text, one in points.items() if text in call.prompt), 7)}/10"


@pytest.mark.prove
@pytest.mark.parametrize("recipe", sorted(ROWS_OF))
def test_a_recipe_trains_two_steps_on_rows_of_its_shape(recipe: str, tmp_path: Path) -> None:
    shutil.copy(RECIPES / f"{recipe}.yaml", tmp_path)
    rows = ROWS_OF[recipe](tmp_path)
    with scripted_endpoint() as server:
        server.script = judged
        words = (*rows, *BESIDE, *ALONE.get(recipe, ()), *asking(recipe, server.url))
        steps = two_steps(tmp_path / f"{recipe}.yaml", *words, name="two", has_agents=recipe in PLAYED)
    assert [step["step"] for step in steps] == [1, 2]
    assert [step["groups"] for step in steps] == [4, 4]
    rounds = [one for step in steps for one in step.get("evaluations", ())]
    assert [one for one in rounds if "reason" in one] == []
    assert sum(one["samples"] for one in rounds) > 0 or recipe in WITHOUT_HELD_OUT
    journal = tmp_path / "runs/two/journal"
    ledger = read_ledger(journal)
    assert {outcome.kind for outcome in ledger.outcomes.values()} == {TRAINED}, ledger.outcomes
    groups = [group for record in ledger.steps for group in read_step(journal, record)[0]]
    assert len(groups) == len(ledger.outcomes) == 8
    scores = [score for group in groups for score in group.scores]
    assert [score.reason for score in scores if score.status is not ScoreStatus.SCORED] == []
