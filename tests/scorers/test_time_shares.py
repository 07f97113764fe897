"""The completions of a group share its time: slow ones are zeros within it, and take no other one's share."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.errors import Retryable
from broker.messages import SampledGroup, Score, ScoreStatus
from config.run import Run
from config.scorers import ScorersConfig
from scorers import time_shares
from scorers.group import GroupScorer
from scorers.math.scorer import HANGING
from scorers.retries import score_together
from scorers.scorer import OVER_LIMIT, Asked, OwnTime, TakesLong, make_score
from scorers.time_shares import score_in_shares
from tests.support.station import make_run

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

Group = Callable[..., SampledGroup]
CONFIG = ScorersConfig(retries=2, retry_backoff_s=0.0)
GROUP_S = 12.0


class Paced:
    """A scorer on a clock of its own: an answer runs as long as it needs or may, and is right where it ends."""

    name = "paced"
    version = "1"

    def __init__(self, needs: Mapping[str, float], *, deadline_s: float = 10.0, wrong: str = "") -> None:
        self.own_time = OwnTime(deadline_s=deadline_s)
        self.patience_s: float | None = None
        self.needs = needs
        self.wrong = wrong
        self.ran: list[tuple[str, float]] = []
        self.failures = 0

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Every row will do."""

    def self_test(self) -> None:
        """It tells right from wrong."""

    def close(self) -> None:
        """It holds nothing."""

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        most_s = self.own_time.most_s
        took_s = min(self.needs[text], most_s)
        self.own_time.ran_s += took_s
        self.ran.append((text, took_s))
        if self.failures:
            self.failures -= 1
            raise Retryable("no route to the sandbox")
        if self.needs[text] > most_s:
            return make_score(self, 0.0, "late", components={OVER_LIMIT: 1.0})
        return make_score(self, 0.0 if text in self.wrong else 1.0, "in time")


def shared(scorer: Paced, texts: Sequence[str] = (), *, deadline_s: float = GROUP_S) -> dict[Asked, Score]:
    def failed(*_: object) -> None:
        scorer.own_time.ran_s = 0.0

    return score_in_shares(
        scorer,
        texts or list(scorer.needs),
        lambda some: score_together(scorer, some, {}, CONFIG, failed),
        deadline_s=deadline_s,
    )


@pytest.fixture(autouse=True)
def _small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_shares, "LEAST_S", 0.1)


HANGS = math.inf


def test_slow_answers_are_zeros_within_the_groups_time(subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple[float, ...], str]] = [
        ((0.1, 0.1, 0.1, 0.1), "abcd"),
        ((9.9,), "a"),  # alone it has its whole deadline
        ((10.1,), ""), ((HANGS, HANGS, HANGS, HANGS), ""), ((HANGS, HANGS, HANGS, 0.1), "d"),
        ((HANGS, HANGS, HANGS, 0.75), "d"),  # its share of the first quarter
        ((HANGS, HANGS, HANGS, 2.2), "d"),  # three quarters of an equal share are its own
        ((0.1, 0.1, 0.1, 9.9), "abcd"),  # what quick ones leave is the slow one's
        ((9.9, 0.1, 0.1, 0.1), "abcd"),  # in any order
        ((0.1, 0.1, 4.0, 4.0), "abcd"),
        ((4.0, 4.0, 0.1, 0.1), "abcd"),
        ((HANGS, 2.4, 0.1, 0.1), "bcd"),  # a hang takes no other one's second share
        ((2.4, HANGS, HANGS, 0.1), "ad"),
        ((2.0, 2.0, 2.0, 7.0), "abc"),  # the time that is left is no longer than the share of the last
        ((2.7, 1.6, 1.6, 0.8), "abcd"),  # cut off twice, and then there was more
        ((HANGS,) * 15 + (0.55,), "p"),
        ((HANGS,) * 15 + (0.1,), "p"),
        ((9.9,) * 2, ""),  # all need more than there is: the share of each is its limit
        ((5.0,) * 2, ""),
        ((4.4,) * 2, "ab"),
    ]  # fmt: skip
    for needs, right in cases:
        with subtests.test(needs=needs):
            names = "abcdefghijklmnop"[: len(needs)]
            scorer = Paced(dict(zip(names, needs, strict=True)))
            scores = shared(scorer)
            assert "".join(name for name in names if scores[name].value == 1.0) == right
            assert all(scores[name].value == 0.0 for name in names if name not in right)
            if len(needs) * 10.0 > GROUP_S:
                assert sum(took_s for _, took_s in scorer.ran) <= GROUP_S + 1e-9
            for name in set(names) - set(right):
                runs = [took_s for text, took_s in scorer.ran if text == name]
                if len(needs) * 10.0 > GROUP_S:
                    assert len(runs) >= 2, "nothing is called wrong for one run"
                    assert max(runs) >= 0.75 * GROUP_S / len(needs) - 1e-9, "a share that nobody can take"
                    assert "twice its share of the group's 12 s" in scores[name].reason
                else:
                    assert "share" not in scores[name].reason


def test_no_order_makes_a_right_answer_wrong(subtests: pytest.Subtests) -> None:
    for order in [*itertools.permutations("abcd")]:
        with subtests.test(order=order):
            needs = {"a": 0.2, "b": 1.4, "c": 2.9, "d": HANGS}
            scores = shared(Paced({name: needs[name] for name in order}))
            assert {name: score.value for name, score in scores.items()} == {
                "a": 1.0,
                "b": 1.0,
                "c": 1.0,
                "d": 0.0,
            }


def test_a_wrong_answer_that_ends_in_time_is_run_once() -> None:
    scorer = Paced({"a": 0.1, "b": 0.1, "c": 0.1}, wrong="b")
    assert [score.value for score in shared(scorer).values()] == [1.0, 0.0, 1.0]
    assert [text for text, _ in scorer.ran] == ["a", "b", "c"]


def test_what_the_machinery_breaks_off_is_no_answers_time() -> None:
    scorer = Paced({"a": HANGS, "b": 0.1, "c": 0.1, "d": 2.9})
    scorer.failures = 2  # while `a` ran
    scores = shared(scorer)
    assert [scores[name].value for name in "abcd"] == [0.0, 1.0, 1.0, 1.0]
    assert sum(took_s for _, took_s in scorer.ran[2:]) <= GROUP_S + 1e-9


def test_a_completion_whose_machinery_fails_is_unscorable_however_long_it_ran() -> None:
    scorer = Paced({"a": HANGS, "b": 0.1, "c": 4.0})
    scorer.failures = 3  # all tries of `a`
    scores = shared(scorer)
    assert scores["a"].status is ScoreStatus.UNSCORABLE
    assert (scores["b"].value, scores["c"].value) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("patience_s", "needs", "is_put_off"),
    [
        (0.5, (0.1, 0.1, 0.1, 0.1), False),
        (0.5, (0.1, 0.1, 0.1, 1.6), True),  # at its first cut, before the others have all of the time again
        (0.5, (1.4, 1.4, 1.4, 1.4), False),
        (None, (0.1, 0.1, 0.1, 1.6), False),
    ],
)
def test_under_patience_the_first_cut_puts_the_group_off(
    patience_s: float | None, needs: tuple[float, ...], *, is_put_off: bool
) -> None:
    scorer = Paced(dict(zip("abcd", needs, strict=True)))
    scorer.patience_s = patience_s
    if not is_put_off:
        assert all(score.value == 1.0 for score in shared(scorer).values())
        return
    with pytest.raises(TakesLong, match=r"longer than 1\.5 s"):
        shared(scorer)
    assert sum(took_s for _, took_s in scorer.ran) <= GROUP_S / 2
    assert scorer.own_time.share_s == math.inf


def test_a_share_is_never_so_small_that_it_says_more_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_shares, "LEAST_S", 2.0)
    scorer = Paced({"a": 1.9, **dict.fromkeys("bcdefgh", HANGS), "i": 1.9})
    scores = shared(scorer)
    assert [scores[name].value for name in "abi"] == [1.0, 0.0, 1.0]
    assert {took_s for _, took_s in scorer.ran} == {1.9, 2.0}
    assert sum(took_s for _, took_s in scorer.ran) <= 2 * 9 * 2.0


def test_without_a_deadline_every_answer_has_its_own() -> None:
    scorer = Paced(dict.fromkeys("abcdefgh", 9.9))
    assert all(score.value == 1.0 for score in shared(scorer, deadline_s=math.inf).values())


SLEEPS = "```python\nimport time\ndef double(x):\n    time.sleep(60)\n    return 2 * x\n# {}\n```"
RIGHT = "```python\ndef double(x):\n    return 2 * x\n```"
MATH_ROW = {"type": "math", "answer": {"value": "5"}}
CODE_ROW = {"type": "code", "answer": {"tests": ["assert double(2) == 4"]}}


SPIN = """
def compute_score(data_source, solution_str, ground_truth, extra_info):
    while "spin" in solution_str:
        pass
    return 1.0
"""


@pytest.mark.prove(cases=("math", "verl_function"))
@pytest.mark.parametrize(
    ("scorer", "info", "slow", "right", "group_s"),
    [
        ({"type": "code"}, CODE_ROW, SLEEPS, RIGHT, 3.0),
        ({"type": "math"}, MATH_ROW, f"{{}} \\boxed{{{HANGING}}}", "\\boxed{5}", 2.4),
        ({"type": "verl_function"}, {"type": "any", "answer": {"value": "5"}}, "spin {}", "5", 2.4),
    ],
    ids=["code", "math", "verl_function"],
)
def test_slow_answers_of_processes_are_zeros_within_the_groups_time_and_an_honest_one_is_right(
    *,
    scorer: dict[str, Any],
    info: dict[str, Any],
    slow: str,
    right: str,
    group_s: float,
    group: Group,
    tmp_path: Path,
) -> None:
    (tmp_path / "reward.py").write_text(SPIN, encoding="utf-8")
    named = {"path": str(tmp_path / "reward.py")} if scorer["type"] == "verl_function" else {}
    config = ScorersConfig.model_validate({"tasks": {"math": {"scorer": scorer | named}}})
    groups = GroupScorer(config, deadline_of=lambda _: group_s)
    texts = [*(slow.replace("{}", str(number)) for number in range(3)), right]
    try:
        groups.score(group(right, verification_info=info), "w")  # what it runs in is tried out
        started = time.monotonic()
        found = groups.score(group(*texts, verification_info=info), "w")
        took_s = time.monotonic() - started
    finally:
        groups.close()
    assert found.rewards == (0.0, 0.0, 0.0, 1.0)
    assert all(f"share of the group's {group_s:g} s" in score.reason for score in found.scores[:3])
    assert all(OVER_LIMIT in score.components for score in found.scores[:3])
    assert took_s < group_s + 7.0, "alone they would have taken 18 s or more"


PLAYED = {"type": "custom", "import_path": "my_game:Guess"}


def test_a_groups_scoring_has_a_deadline_below_the_groups(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], float, float]] = [
        ({}, 120.0, 60.0),
        ({"learner": {"group_deadline_s": 100.0}}, 40.0, 25.0),
        ({"learner": {"group_deadline_s": 1800.0}}, 720.0, 60.0),
        ({"scorers": {"group_deadline_s": 7.0}}, 7.0, 60.0),
        ({"scorers": {"tasks": {"math": {"deadline_s": 100.0}}}}, 40.0, 25.0),
        ({"scorers": {"tasks": {"math": {"environment": PLAYED}}}}, 60.0, 37.5),
        ({"scorers": {"tasks": {"math": {"environment": PLAYED, "deadline_s": 80.0}}}}, 16.0, 10.0),
        ({"scorers": {"group_deadline_s": 7.0, "tasks": {"math": {"deadline_s": 100.0}}}}, 7.0, 25.0),
    ]
    for sections, scoring_s, slow_wait_s in cases:
        with subtests.test(sections=sections):
            run: Run = make_run(**sections)
            assert (run.scoring_deadline_of("math"), run.slow_wait_s) == pytest.approx(
                (scoring_s, slow_wait_s)
            )
            window_s = run.scoring_window_of("math")
            assert run.plays("math") == (window_s == run.deadline_of("math") / 2)
            assert 1.5 * scoring_s + slow_wait_s < window_s, "a slow group that is put off is scored in time"
