"""A group: each completion alone, retries, the self-test."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from msgspec import structs

from broker.connection import RedisLink
from broker.errors import BadMessage, Retryable, UnknownTask
from broker.keys import Keys
from broker.messages import SampledGroup, Score, ScoreStatus
from broker.monitoring.counters import ScorerStats, read_stats
from config.rewards import FormatConfig
from config.scorer_kinds import CodeConfig, MathConfig, ScorerConfig, SweConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers.group import GroupScorer
from scorers.math.scorer import HANGING, MathAnswer
from scorers.scorer import OVER_LIMIT, Counting, SelfTestFailed, Timed
from tests.support.child_waits import child_waits
from tests.support.endpoint_server import Saying, ScriptedEndpoint, scripted_endpoint
from tests.support.scores import a_score
from tests.support.tried_again import on_a_busy_machine, unless_starved

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

Group = Callable[..., SampledGroup]
CONFIG = ScorersConfig(
    retries=2,
    retry_backoff_s=0.05,
    tasks={
        "math": TaskConfig(scorer=MathConfig(deadline_s=1.0)),
        "strict": TaskConfig(scorer=MathConfig(deadline_s=1.0), format=FormatConfig(think="required")),
    },
)


class FlakyScorer:
    """A scorer whose machinery fails the first `failures` times, then scores 1."""

    name = "flaky"
    version = "1"

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.texts: list[str] = []
        self.asked_at: list[float] = []

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        pass

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        self.texts.append(text)
        self.asked_at.append(time.monotonic())
        if len(self.texts) <= self.failures:
            raise Retryable("no route to the sandbox")
        return a_score(1.0)

    def self_test(self) -> None:
        if self.failures:
            raise SelfTestFailed("the flaky scorer's self-test failed")

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def scorer() -> Iterator[GroupScorer]:
    scorer = GroupScorer(CONFIG)
    yield scorer
    scorer.close()


Flaky = TypeVar("Flaky", bound=FlakyScorer)


def flaky_group_scorer(
    monkeypatch: pytest.MonkeyPatch, flaky: Flaky, config: ScorersConfig = CONFIG
) -> tuple[GroupScorer, Flaky]:
    monkeypatch.setattr("scorers.build.build_scorer", lambda *_: flaky)
    return GroupScorer(config), flaky


def test_a_group_is_scored_in_order(scorer: GroupScorer, group: Group) -> None:
    rollout = group("\\boxed{5}", "\\boxed{6}", "no box", "\\boxed{2 + 3}")
    scored = scorer.score(rollout, worker="w1")
    assert scored.rewards == (1.0, 0.0, 0.0, 1.0)
    assert [score.components["math"] for score in scored.scores] == [1.0, 0.0, 0.0, 1.0]
    assert scored.rollout is rollout
    assert (scored.worker, scored.group_id) == ("w1", "17")


def test_a_hang_costs_one_deadline_and_the_others_get_their_scores(scorer: GroupScorer, group: Group) -> None:
    scorer.score(group("\\boxed{5}"), worker="w1")
    rollout = group("\\boxed{5}", f"\\boxed{{{HANGING}}}", *["\\boxed{4 + 1}", "\\boxed{6}"] * 3)
    with child_waits() as waits, on_a_busy_machine():
        scored = scorer.score(rollout, worker="w1")
    assert scored.rewards == (1.0, 0.0, *[1.0, 0.0] * 3)
    assert "deadline" in scored.scores[1].reason
    assert waits == [0.5] * 3, "two answers to compute, the hanging one twice"


def test_equal_texts_are_scored_once(monkeypatch: pytest.MonkeyPatch, group: Group) -> None:
    scorer, flaky = flaky_group_scorer(monkeypatch, FlakyScorer(0))
    assert scorer.score(group("a", "b", "a", "a"), worker="w").rewards == (1.0, 1.0, 1.0, 1.0)
    assert flaky.texts == ["a", "b"]


def test_the_format_gates_the_reward_of_its_task_alone(scorer: GroupScorer, group: Group) -> None:
    texts = ("<think>2 + 3</think>\\boxed{5}", "\\boxed{5}")
    assert scorer.score(group(*texts, task="math"), worker="w").rewards == (1.0, 1.0)
    strict = scorer.score(group(*texts, task="strict"), worker="w")
    assert strict.rewards == (1.0, 0.0)
    assert strict.scores[1].components == {"math": 1.0, "format": 0.0}


def test_broken_machinery_is_tried_after_longer_waits(monkeypatch: pytest.MonkeyPatch, group: Group) -> None:
    scorer, flaky = flaky_group_scorer(monkeypatch, FlakyScorer(2))
    assert scorer.score(group("a"), worker="w").rewards == (1.0,)
    first, second, third = flaky.asked_at
    assert second - first >= 0.05
    assert third - second >= 0.1


def test_waits_before_retries_are_capped(monkeypatch: pytest.MonkeyPatch, group: Group) -> None:
    config = CONFIG.model_copy(update={"retries": 8, "retry_backoff_s": 1.0})
    scorer, _ = flaky_group_scorer(monkeypatch, FlakyScorer(8), config)
    waits: list[float] = []
    monkeypatch.setattr("scorers.retries.time.sleep", waits.append)
    assert scorer.score(group("a"), worker="w").rewards == (1.0,)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_what_was_done_is_counted_by_queue_and_scorer(
    monkeypatch: pytest.MonkeyPatch, group: Group, link: RedisLink, keys: Keys
) -> None:
    scorer, flaky = flaky_group_scorer(monkeypatch, FlakyScorer(4))
    scorer.score(group("a", "b", "c", "c"), worker="w")  # a fails three times, b once
    wrong = a_score(0.0, "it says 'exceeded its deadline'")
    over_limit = structs.replace(wrong, components={OVER_LIMIT: 1.0})
    monkeypatch.setattr(flaky, "score", lambda text, _: over_limit if text == "d" else wrong)
    scorer.score(group("d"), worker="w")
    scorer.score(group("e"), worker="w")
    scorer.tally.write(link.client, keys, is_due=True)
    (stats,) = read_stats(link.client, keys)
    assert stats.seconds > 0.15
    assert replace(stats, seconds=0.0) == ScorerStats(
        queue="math",
        scorer="flaky",
        groups=3,
        completions=6,
        unscorable=1,
        over_limit=1,
        retries=3,
        failures={"Retryable": 4},
    )
    assert stats.scored == 5


class Prefetching(FlakyScorer):
    """Notes what is begun, and counts like a scorer that asks a served model."""

    def __init__(self) -> None:
        super().__init__(failures=0)
        self.begun: list[str] = []

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        assert not self.texts, "before the first is scored"
        self.begun.append(text)

    def take_counts(self) -> Mapping[str, int]:
        return {"cache_hits": 1, "cache_misses": 2}


def test_what_a_scorer_will_wait_for_begins_for_all_texts_of_a_group_and_is_counted(
    monkeypatch: pytest.MonkeyPatch, group: Group, link: RedisLink, keys: Keys
) -> None:
    scorer, foreseeing = flaky_group_scorer(monkeypatch, Prefetching())
    rollout = group("a", "b", "a")
    scorer.prefetch(rollout)
    scorer.prefetch(group("a", task="unheard-of"))
    assert foreseeing.begun == ["a", "b"]
    scorer.score(rollout, worker="w")
    assert foreseeing.begun == ["a", "b"] * 2, "to begin again is the scorer's to take for nothing"
    scorer.tally.write(link.client, keys, is_due=True)
    (stats,) = read_stats(link.client, keys)
    assert (stats.cache_hits, stats.cache_misses, stats.cache_hit_rate) == (1, 2, 1 / 3)


AWAY = Saying(status=500, delay_s=0.02, meets=16)


def judged_group(server: ScriptedEndpoint, extra: bool) -> GroupScorer:
    endpoint = {"urls": [server.url], "timeout_s": 5.0, "cache": False}
    judge: dict[str, Any] = {"scorer": {"type": "judge", "endpoint": endpoint}}
    both = {"scorer": {"type": "math"}, "extra_scorers": {"free": {**judge, "weight": 0.5}}}
    tasks = {"math": both if extra else judge}
    config = {"retries": 2, "retry_backoff_s": 0.05, "tasks": tasks}
    return GroupScorer(ScorersConfig.model_validate(config))


@pytest.mark.parametrize("extra", [False, True], ids=["the task's own scorer", "a part beside it"])
def test_a_judge_that_is_away_is_waited_for_by_a_whole_group_together(group: Group, extra: bool) -> None:
    """Each alone, a group of 16 waited 16 times as long as one completion."""
    texts = [f"\\boxed{{5}} by way {number}" for number in range(16)]
    with scripted_endpoint("False") as server:
        server.script = lambda call: AWAY
        scorer = judged_group(server, extra)
        try:
            away = scorer.score(group(*texts), worker="w")
            asked = len(server.calls)
            server.script = lambda call: Saying("False")
            back = scorer.score(group(*texts), worker="w")
        finally:
            scorer.close()
    assert {score.status for score in away.scores} == {ScoreStatus.UNSCORABLE}
    assert all("not scored in 3 tries: " in score.reason for score in away.scores)
    assert (asked, server.most_at_once) == (3 * 16, 16)
    assert {score.status for score in back.scores} == {ScoreStatus.SCORED}


def test_only_those_completions_that_failed_are_tried_again(
    monkeypatch: pytest.MonkeyPatch, group: Group, link: RedisLink, keys: Keys
) -> None:
    class Failing(Prefetching):
        def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
            self.begun.append(text)

        def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
            self.texts.append(text)
            if text == "c" or (text in "ab" and self.texts.count(text) == 1):
                raise Retryable("the judge is away")
            return a_score(1.0)

    scorer, failing = flaky_group_scorer(monkeypatch, Failing())
    waits: list[float] = []
    monkeypatch.setattr("scorers.retries.time.sleep", waits.append)
    assert scorer.score(group("a", "b", "c", "d"), worker="w").rewards == (1.0, 1.0, None, 1.0)
    assert "".join(failing.begun) == "abcd" + "abc" + "c"
    assert "".join(failing.texts) == "abcd" + "abc" + "c"
    assert waits == [0.05, 0.1], "one wait for all, then twice as long"
    scorer.tally.write(link.client, keys, is_due=True)
    (stats,) = read_stats(link.client, keys)
    assert (stats.retries, stats.failures) == (4, {"Retryable": 5})


def test_the_failures_of_a_group_that_ends_in_an_exception_are_counted(
    monkeypatch: pytest.MonkeyPatch, group: Group, link: RedisLink, keys: Keys
) -> None:
    scorer, flaky = flaky_group_scorer(monkeypatch, FlakyScorer(2))
    score = flaky.score

    def then_a_bug(text: str, info: Mapping[str, Any]) -> Score:
        score(text, info)
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(flaky, "score", then_a_bug)
    with pytest.raises(ZeroDivisionError):
        scorer.score(group("a"), worker="w")
    scorer.tally.write(link.client, keys, is_due=True)
    assert read_stats(link.client, keys) == (
        ScorerStats(queue="math", scorer="flaky", retries=2, failures={"Retryable": 2}),
    )


def test_only_the_scorers_of_the_served_queues_are_built_and_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def build(section: ScorerConfig, *_: object) -> FlakyScorer:
        built.append(section.type)
        return FlakyScorer(failures=0)

    monkeypatch.setattr("scorers.build.build_scorer", build)
    config = ScorersConfig(
        tasks={
            "math": TaskConfig(),
            "again": TaskConfig(),
            "patch": TaskConfig(scorer=SweConfig()),
            "program": TaskConfig(scorer=CodeConfig()),
        }
    )
    GroupScorer(config, queues=("math", "light")).self_test()
    assert built == ["math", "swe"]


def test_broken_machinery_is_unscorable_and_no_zero(monkeypatch: pytest.MonkeyPatch, group: Group) -> None:
    scorer, _ = flaky_group_scorer(monkeypatch, FlakyScorer(3))
    scored = scorer.score(group("a", "b"), worker="w")
    assert scored.rewards == (None, 1.0)
    assert scored.scores[0].status is ScoreStatus.UNSCORABLE
    assert scored.scores[0].reason == "not scored in 3 tries: no route to the sandbox"


def test_a_child_killed_between_two_groups_costs_a_try_and_no_score(group: Group) -> None:
    scorer = GroupScorer(CONFIG)
    try:
        scorer.score(group("\\boxed{2 + 3}"), worker="w")
        math_answer = scorer._scorers.of(CONFIG.tasks["math"])
        assert isinstance(math_answer, MathAnswer)
        assert math_answer.child_pid is not None
        os.kill(math_answer.child_pid, signal.SIGKILL)
        assert scorer.score(group("\\boxed{4 + 1}", "\\boxed{6}"), worker="w").rewards == (1.0, 0.0)
    finally:
        scorer.close()


def test_a_broken_reference_leaves_the_whole_group_without_rewards(scorer: GroupScorer, group: Group) -> None:
    scored = scorer.score(group("\\boxed{5}", "no box", value="\\frac{1}{"), worker="w")
    assert scored.rewards == (None, None)


def test_what_no_retry_can_mend_goes_to_the_caller(scorer: GroupScorer, group: Group) -> None:
    with pytest.raises(UnknownTask, match="did you mean 'math'"):
        scorer.score(group("\\boxed{5}", task="mathe"), worker="w")
    with pytest.raises(BadMessage, match="a row without an answer"):
        scorer.score(group("\\boxed{5}", verification_info={"type": "math", "answer": {}}), worker="w")


@pytest.mark.prove
def test_the_self_test_holds_here(scorer: GroupScorer) -> None:
    unless_starved(scorer.self_test)


def test_a_self_test_that_fails_names_the_answer_that_came_out_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scorers.math.equality.judge", lambda _request: {"equal": True, "parsed": True})
    scorer = GroupScorer(CONFIG)
    try:
        with pytest.raises(SelfTestFailed, match=r"\\frac\{3\\pi\}\{4\} gave 1.0 .* expected 0.0"):
            scorer.self_test()
    finally:
        scorer.close()


def test_what_a_scorer_can_do_is_asked_of_each_and_not_of_its_class() -> None:
    class Wrapper:
        def __init__(self, *, counts: bool) -> None:
            if counts:
                self.take_counts = lambda: {"seen": 1}

    plain, counting = Wrapper(counts=False), Wrapper(counts=True)
    for _ in range(2):  # the second time from memory
        assert not isinstance(plain, Counting)
        assert isinstance(counting, Counting)
        assert not isinstance(counting, Timed)
        assert not isinstance({}, Counting)  # which has no hash
