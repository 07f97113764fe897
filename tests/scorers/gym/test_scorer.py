"""Tasks of reasoning-gym: what is right by its own scorers, and what those would pay for and these rules do not.

What asks the library is skipped where it is not installed; the routing is not.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from broker.messages import ScoreStatus
from config.scorer_kinds import GymConfig
from config.scorers import ScorersConfig
from sandbox.choice import LazySandbox
from sandbox.program import Sandbox
from scorers.gym.scorer import GymAnswer
from scorers.scorer import OVER_LIMIT, SelfTestFailed
from tasks.route import route
from tests.scorers.conftest import Group
from tests.support.text_tables import listed
from tests.verdicts.gym.asking import needs_library, scores
from tests.verdicts.gym.corpus import ATTACKS, HONEST, NOTHING, ROWS, WRONG, gym
from verdicts.gym import rows
from verdicts.gym.rows import LibraryMissing, data_sets


@pytest.fixture(scope="module")
def scorer(sandbox: Sandbox) -> GymAnswer:
    return GymAnswer(GymConfig(), ScorersConfig(), sandbox)


@needs_library
def test_an_answer_is_worth_what_the_library_says_of_it_and_an_attack_nothing(scorer: GymAnswer) -> None:
    failed = []
    for name, row in ROWS.items():
        cases = [
            (answer, value)
            for cases, value in ((HONEST, 1.0), (WRONG, 0.0), (ATTACKS, 0.0))
            for of_row, answer in cases
            if of_row == name
        ]
        found = scores(scorer, row, [f"<think>so</think><answer>{answer}</answer>" for answer, _ in cases])
        failed += [
            f"{name}: {answer!r} gave {score.value}: {score.reason}"
            for (answer, value), score in zip(cases, found, strict=True)
            if score.value != value
        ]
    assert not failed, "\n".join(failed)


@needs_library
def test_saying_nothing_scores_nothing_and_starts_nothing() -> None:
    class Unversioned(GymAnswer):
        version = "1"

    class Unneeded(LazySandbox):
        def get(self) -> Sandbox:
            raise AssertionError("nothing was answered that a library could judge")

    failed = []
    for name, row in ROWS.items():
        entry = row["answer"]["entry"]
        gold = entry["answer"] or entry["metadata"]["example_answer"]
        for text in NOTHING:
            scorer = Unversioned(GymConfig(), ScorersConfig())
            scorer._sandbox = Unneeded(ScorersConfig())
            score = scorer.score(text.replace("{gold}", gold), row)
            failed += [] if score.value == 0.0 else [f"{name}: {text!r} gave {score.value}"]
    assert not failed, "\n".join(failed)


@needs_library
def test_a_partial_value_is_paid_where_that_is_asked_for_and_an_attempt_never(sandbox: Sandbox) -> None:
    generous = GymAnswer(GymConfig(partial=True), ScorersConfig(), sandbox)
    row = gym("word_sorting", "a, be, sea", sorted_words=["a", "be", "sea"])
    third, none = scores(generous, row, ["<answer>a, sea, be</answer>", "<answer>c</answer>"])
    assert third.value == pytest.approx(1 / 3)
    assert none.value == 0.0
    # Of its characters 5 of 11 are right, and the library gives 0.1.
    for row, answer in ((ROWS["arithmetic"], "It is -1043"), (ROWS["spiral"], "[6, 9, 7, 0]")):
        assert scores(generous, row, [f"<answer>{answer}</answer>"])[0].value == 0.0


@needs_library
def test_an_answer_that_takes_too_long_is_wrong_and_costs_the_others_nothing(sandbox: Sandbox) -> None:
    brief = GymAnswer(GymConfig(deadline_s=2.0), ScorersConfig(), sandbox)
    table = "\u2227".join(map(chr, range(ord("a"), ord("z") + 1)))  # of 2 ** 26 lines
    right, endless = scores(
        brief, ROWS["logic"], ["<answer>P \u2227 Q</answer>", f"<answer>{table}</answer>"]
    )
    assert right.value == 1.0
    assert (endless.value, OVER_LIMIT in endless.components) == (0.0, True)
    assert "and again alone" in endless.reason


@needs_library
@pytest.mark.parametrize(
    ("row", "said"),
    [
        (gym("calendar_arithmetic", "Monday"), "can't read it: KeyError: 'task'"),
        (gym("rearc", "9 9", output=[[9, 8]]), "is not right: reasoning-gym says 0.05"),
        (gym("coin_flip", "a half"), "is refused"),
    ],
    ids=["lacks its metadata", "is another", "is no answer"],
)
def test_a_row_that_is_wrong_itself_is_unscorable(scorer: GymAnswer, row: dict[str, Any], said: str) -> None:
    score = scorer.score("<answer>0.5</answer>", row)
    assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None)
    assert said in score.reason


@needs_library
@pytest.mark.parametrize(
    ("row", "texts", "values"),
    [
        (
            gym("ab", ""),  # a program whose tokens all go away
            listed(r"""
<answer></answer>¦<answer> </answer>¦¦#A¦<answer>#A</answer>¦<answer>""</answer>
"""),
            (1.0, 1.0, 0.0, 0.0, 0.0, 0.0),
        ),
        (gym("ab", "#A"), ("<answer></answer>", "<answer>#A</answer>"), (0.0, 1.0)),
        (
            gym("knights_knaves", ""),
            ("<answer>I don't know</answer>", "<answer>nobody</answer>"),
            (None, None),
        ),
        (
            gym("quantum_lock", "", target_value=0),
            ("<answer>-></answer>", "<answer>,</answer>"),
            (None, None),
        ),
        (gym("prime_factorization", ""), ("<answer>\u00d7</answer>", "<answer>1</answer>"), (None, None)),
        (gym("basic_arithmetic", " "), ("<answer>5</answer>",), (None,)),
        (
            gym("polynomial_equations", "", real_solutions=[]),
            ('<answer>""</answer>', "<answer>none</answer>", "<answer>0</answer>", "<answer>,</answer>"),
            (1.0, 0.0, 0.0, 0.0),
        ),
    ],
    ids=["ab", "ab with tokens", "knights", "lock", "factors", "base", "polynomial"],
)
def test_a_row_whose_own_answer_is_empty_pays_that_or_nobody(
    scorer: GymAnswer, row: dict[str, Any], texts: tuple[str, ...], values: tuple[float | None, ...]
) -> None:
    assert tuple(score.value for score in scores(scorer, row, list(texts))) == values


@needs_library
def test_a_response_that_says_nothing_is_no_empty_answer(sandbox: Sandbox) -> None:
    whole = GymAnswer(GymConfig(part="response"), ScorersConfig(), sandbox)
    found = scores(whole, gym("ab", ""), ["", "<think>so</think>", "\n"])
    assert [score.value for score in found] == [0.0] * 3


@needs_library
def test_what_a_second_look_finds_is_said(scorer: GymAnswer) -> None:
    (score,) = scores(
        scorer, gym("time_intervals", "34 days", task_type="date"), ["<answer>34 weeks</answer>"]
    )
    assert score.value == 0.0
    assert "reasoning-gym says 1, but it is not written as an answer of time_intervals is" in score.reason


@needs_library
def test_a_group_is_judged_by_one_run(sandbox: Sandbox, group: Group) -> None:
    class Counting:
        prepared = 0

        def __getattr__(self, name: str) -> Any:
            self.prepared += name == "prepare"
            return getattr(sandbox, name)

    counting: Any = Counting()
    scorer = GymAnswer(GymConfig(), ScorersConfig(), counting)
    found = scores(
        scorer, ROWS["arithmetic"], [f"<answer>{number}</answer>" for number in range(-1046, -1038)]
    )
    assert [score.value for score in found] == [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert counting.prepared == 1


@needs_library
def test_the_answer_stands_where_the_option_says(sandbox: Sandbox) -> None:
    boxed = GymAnswer(GymConfig(part="box"), ScorersConfig(), sandbox)
    whole = GymAnswer(GymConfig(part="response"), ScorersConfig(), sandbox)
    row = gym("basic_arithmetic", "5")
    for scorer, right, wrong in (
        (boxed, "\\boxed{5}", "<answer>5</answer>"),
        (whole, "<think>4?</think>\n5\n", "\\boxed{5}"),
    ):
        assert [score.value for score in scores(scorer, row, [right, wrong])] == [1.0, 0.0]


@needs_library
def test_its_self_test_passes(scorer: GymAnswer) -> None:
    scorer.self_test()


def test_where_the_library_is_missing_its_installation_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "DISTRIBUTION", "reasoning-gym-of-nobody")
    monkeypatch.setattr(rows, "data_sets", data_sets.__wrapped__)
    scorer = GymAnswer(GymConfig(), ScorersConfig())
    with pytest.raises(LibraryMissing, match="pip install 'reasoning-gym"):
        scorer.check_row(gym("gcd", "5"))
    with pytest.raises(SelfTestFailed, match="pip install 'reasoning-gym"):
        scorer.self_test()


ENTRY = {
    "question": "4 + 4?",
    "answer": "8",
    "metadata": {"source_dataset": "chain_sum", "difficulty": [1, 2]},
}
INFO = {"type": "reasoning_gym", "answer": {"dataset": "chain_sum", "entry": ENTRY}}
BARE = {"question": "4 + 4?", "answer": "8", "metadata": {}}


@pytest.mark.parametrize(
    ("source", "truth", "extra", "entry"),
    [
        ("reasoning_gym", "8", {"task": "chain_sum", "metadata": json.dumps(ENTRY["metadata"])}, ENTRY),
        ("reasoning_gym", "8", {"task": "chain_sum"}, BARE),
        ("reasoning_gym", "8", {"task": "chain_sum", "entry": ENTRY}, ENTRY),
        ("reasoning_gym/chain_sum", json.dumps(ENTRY), {"index": 3}, ENTRY),
        ("reasoning_gym", ENTRY, None, ENTRY),
    ],
    ids=["metadata", "bare", "entry", "json", "object"],
)
def test_rows_of_verl_are_read_in_every_form(
    source: str, truth: object, extra: object, entry: object
) -> None:
    row = {
        "data_source": source,
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": extra,
        "prompt": np.array([{"role": "user", "content": "4 + 4?"}], object),
    }
    assert route(row) == (
        "gym",
        {"type": "reasoning_gym", "answer": {"dataset": "chain_sum", "entry": entry}},
    )
    assert route({"verification_info": json.dumps(INFO)}) == ("gym", INFO)
