"""Every data set of reasoning-gym through the scorer: own answers are right, and wrong ones are not.

`make test` runs a few of them where the library is installed with all that it generates its entries with
(`pip install 'reasoning-gym==0.1.25'`), `make prove-suite` all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import pytest

from broker.messages import ScoreStatus
from config.scorer_kinds import GymConfig
from config.scorers import ScorersConfig
from sandbox.choice import build_sandbox
from scorers.gym.scorer import GymAnswer
from tests.scorers.gym.solvers import right_answer
from tests.scorers.gym.variants import wrong_answers
from tests.support.text_tables import listed
from tests.verdicts.gym.asking import scores
from tests.verdicts.gym.corpus import Look
from tests.verdicts.gym.looks_at_logic import LOGIC
from tests.verdicts.gym.looks_at_numbers import BY_VALUE, NUMBERS
from tests.verdicts.gym.looks_at_plans import PLANS
from tests.verdicts.gym.looks_at_texts import TEXTS
from verdicts.gym.rows import data_sets

HAS_LIBRARY: Final = find_spec("reasoning_gym") is not None and find_spec("pycosat") is not None
pytestmark = [
    pytest.mark.process,
    pytest.mark.prove(after=1),
    pytest.mark.skipif(
        not HAS_LIBRARY, reason="reasoning-gym is not installed: pip install 'reasoning-gym==0.1.25'"
    ),
    pytest.mark.timeout(1800),
]
NAMES: Final = sorted(data_sets()) if HAS_LIBRARY else ["all"]
ENTRIES: Final = 20
SEED: Final = 35
# Where the library pays a share for what is wrong. Elsewhere that is 0, or at most 0.1.
SHARES: Final = frozenset(
    listed(r"""
advanced_geometry¦boxnet¦calendar_arithmetic¦codeio¦complex_arithmetic¦emoji_mystery¦figlet_font¦futoshiki
game_of_life¦knight_swap¦knights_knaves¦letter_jumble¦mini_sudoku¦n_queens¦polynomial_equations
prime_factorization¦propositional_logic¦quantum_lock¦rectangle_count¦rubiks_cube¦sentence_reordering
shortest_path¦spell_backward¦sudoku¦time_intervals¦tower_of_hanoi¦word_ladder¦word_sorting
""")
)
# What an own answer holds that is none: sympy's word for an integral that it could not find.
NO_ANSWER: Final = "Integral"
LOOKS: Final = (*NUMBERS, *BY_VALUE, *TEXTS, *PLANS, *LOGIC)


@pytest.fixture(scope="module")
def generous() -> Iterator[GymAnswer]:
    """Yield a scorer that pays shares, too: what it pays less than 1 for is 0 by default."""
    sandbox = build_sandbox(ScorersConfig())
    yield GymAnswer(GymConfig(partial=True), ScorersConfig(), sandbox)
    sandbox.close()


def entries_of(name: str) -> list[dict[str, Any]]:
    made = import_module("reasoning_gym").create_dataset(name, size=ENTRIES, seed=SEED)
    return [json.loads(json.dumps(made[number], default=str)) for number in range(ENTRIES)]


@pytest.mark.parametrize("name", NAMES)
def test_own_answers_are_right_and_wrong_ones_0_or_the_librarys_share(generous: GymAnswer, name: str) -> None:
    entries = entries_of(name)
    own = [right_answer(entry) for entry in entries]
    failed = []
    for number, (entry, right) in enumerate(zip(entries, own, strict=True)):
        assert right is not None
        other = next((text for text in own[number:] + own[:number] if text not in (right, None)), None)
        wrong = wrong_answers(name, entry, right, other)
        assert len(wrong) >= 5
        row = {"type": "reasoning_gym", "answer": {"dataset": name, "entry": entry}}
        first, *others = scores(
            generous, row, [f"<answer>{text}</answer>" for text in (right, *wrong.values())]
        )
        if first.status is ScoreStatus.UNSCORABLE and NO_ANSWER in right:
            continue
        if first.value != 1.0:
            failed.append(f"{number}: its own {right!r} gave {first.value}: {first.reason}")
        failed += [
            f"{number}: {what}, {text!r}, gave {score.value}: {score.reason}"
            for (what, text), score in zip(wrong.items(), others, strict=True)
            if score.value is None or score.value >= 1.0 or (score.value and name not in SHARES)
        ]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize(
    "look", LOOKS, ids=[f"{look[0]['answer']['dataset']}-{number}" for number, look in enumerate(LOOKS)]
)
def test_the_library_has_a_row_read_as_the_tables_say(generous: GymAnswer, look: Look) -> None:
    row, right, wrong = look
    found = scores(generous, row, [f"<answer>{text}</answer>" for text in (*right, *wrong)])
    failed = [
        f"{text!r} gave {score.value}: {score.reason}"
        for text, score in zip((*right, *wrong), found, strict=True)
        if (score.value == 1.0) is not (text in right)
    ]
    assert not failed, "\n".join(failed)
