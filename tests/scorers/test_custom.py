"""One's own scorers: what is asked of them, and what is said to their authors."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from broker.errors import Permanent
from broker.messages import End, SampledGroup, ScoreStatus
from config.scorer_kinds import CustomConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers.custom import CustomScorerError, SimpleScorer, load_scorer
from scorers.group import GroupScorer
from scorers.scorer import Conversation, Conversing
from tests.support.paths import PACKAGES, ROOT

SOURCE = '''
from broker.messages import Score, ScoreStatus
from scorers.custom import SimpleScorer

class Parity(SimpleScorer):
    name = "parity"
    version = "1"

    def __init__(self, even: float = 1.0) -> None:
        self.even = even

    def score(self, text, verification_info):
        if verification_info["answer"]["value"] == "broken":
            return self.unscorable("the row is broken")
        return self.scored(self.even if int(text) % 2 == 0 else 0.0, f"{text} of {verification_info['type']}")

class Bare(SimpleScorer):
    name = "bare"

class Nothing:
    name = "nothing"
    version = 3

class Whole:
    """Without the base class."""
    name = "whole"
    version = "1"
    def check_row(self, verification_info): pass
    def score(self, text, verification_info):
        return Score(status=ScoreStatus.SCORED, value=1.0, reason="", scorer="whole", version="1")
    def self_test(self): pass
    def close(self): pass

class Talk(Parity):
    def score_conversation(self, conversation, verification_info):
        if conversation.text == "a number":
            return 1.0
        return self.scored(len(conversation.messages) / 4, conversation.ended_by)

class Float(Parity):
    def score(self, text, verification_info): return 1.0

class NoNumber(Parity):
    def score(self, text, verification_info): return self.scored(verification_info["answer"], "")

class Stranger(Parity):
    def score(self, text, verification_info):
        return Score(status=ScoreStatus.SCORED, value=1.0, reason="", scorer="math", version="", seconds=2.5)

class Outer:
    class Inner(Parity): pass

an_instance = Parity()

def even(text, verification_info, *, paid=1.0):
    """Even numbers are paid."""
    if text == "broken":
        return None
    if text == "said":
        return 0.5, "half of it"
    if text == "whole":
        return Score(status=ScoreStatus.SCORED, value=1.0, reason="its own", scorer="x", version="y")
    return paid if int(text) % 2 == 0 else False

def odd(text, verification_info):
    return int(text) % 2 == 1

def too_many(text, verification_info, reference): return 1.0

def too_few(text): return 1.0

def no_number(text, verification_info): return verification_info["answer"]

async def waits(text, verification_info): return 1.0
'''


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "one_of_ours.py").write_text(SOURCE)
    (tmp_path / "broken_on_import.py").write_text("raise RuntimeError('no GPU')\n")
    (tmp_path / "broken_syntax.py").write_text("def\n")
    monkeypatch.syspath_prepend(tmp_path)


def config(name: str, module: str = "one_of_ours", **options: Any) -> CustomConfig:
    return CustomConfig(import_path=f"{module}:{name}", options=options)


def test_a_name_a_version_and_one_function_make_a_scorer() -> None:
    scorer = load_scorer(config("Parity"))
    assert (scorer.name, scorer.version) == ("parity", "1")
    info = {"type": "parity", "answer": {"value": "even"}}
    scorer.check_row(info)
    scorer.self_test()
    found = [scorer.score(text, info) for text in "45"]
    assert [(score.value, score.reason) for score in found] == [(1.0, "4 of parity"), (0.0, "5 of parity")]
    assert {(score.scorer, score.version) for score in found} == {("parity", "1")}
    broken = scorer.score("4", {"type": "parity", "answer": {"value": "broken"}})
    assert (broken.status, broken.value) == (ScoreStatus.UNSCORABLE, None)
    scorer.close()


@pytest.mark.parametrize(("name", "expected"), [("Whole", "whole"), ("Outer.Inner", "parity")])
def test_any_class_that_keeps_to_the_contract_will_do(name: str, expected: str) -> None:
    assert load_scorer(config(name)).name == expected


def test_options_are_the_arguments_of_the_class() -> None:
    scorer = load_scorer(config("Parity", even=0.5))
    assert scorer.score("4", {"type": "t", "answer": {"value": ""}}).value == 0.5


def test_what_is_wrong_with_a_scorer_is_named_when_it_is_loaded(subtests: pytest.Subtests) -> None:
    cases: list[tuple[CustomConfig, str]] = [
        (config("Parity", "no_such_module"), "Parity: No module named 'no_such_module'.*importable where"),
        (config("Parity", "broken_on_import"), r"importing it failed: RuntimeError\('no GPU'\)"),
        (config("Parity", "broken_syntax"), "importing it failed: SyntaxError"),
        (config("Party"), "one_of_ours has no Party; did you mean Parity?"),
        (config("Outer.Iner"), "has no Outer.Iner; did you mean Inner?"),
        (config("an_instance"), "a class is wanted, got Parity"),
        (config("Parity", odd=1.0), "can't be built from the options odd: .*keyword argument 'odd'"),
        (config("Bare"), r"one_of_ours:Bare is no scorer, it lacks version: text, score\(\); derive it from"),
        (config("Nothing"), r"lacks version: text, check_row\(\), score\(\), self_test\(\), close\(\)"),
        (config("too_many"), r"can't be called as a scorer is.*missing a required argument: 'reference'"),
        (config("too_few"), r"too_few can't be called as a scorer is, \(text, verification_info\): too many"),
        (config("even", price=1), r"even can't be called.*unexpected keyword argument 'price'"),
        (config("waits"), r"waits is `async`: a scorer returns its value"),
    ]
    for section, message in cases:
        with subtests.test(section=section), pytest.raises(CustomScorerError, match=message):
            load_scorer(section)


def test_what_is_no_score_is_refused_for_good() -> None:
    with pytest.raises(Permanent, match=r"Float: score\(\) must return a Score, got float; .*self.scored"):
        load_scorer(config("Float")).score("4", {})


def test_what_is_no_number_from_0_to_1_is_refused_for_good_naming_the_class() -> None:
    for value in (1.5, -0.5, float("nan"), None, "one"):
        scorer = load_scorer(config("NoNumber"))
        with pytest.raises(CustomScorerError, match=rf":NoNumber: scored\(\) takes .* 0 to 1, got {value!r}"):
            scorer.score("4", {"answer": value})
        assert [scorer.score("4", {"answer": good}).value for good in (0, 1, True, 0.5)] == [
            0.0,
            1.0,
            1.0,
            0.5,
        ]


def test_a_class_that_reads_conversations_is_seen_to_and_checked_as_it_is_by_texts() -> None:
    texts, talk = load_scorer(config("Parity")), load_scorer(config("Talk"))
    assert not isinstance(texts, Conversing)
    assert isinstance(talk, Conversing)
    asked = Conversation(text="4", messages=({"role": "assistant", "content": "4"},), ended_by=End.MESSAGE)
    found = talk.score_conversation(asked, {})
    assert (found.value, found.reason, found.scorer, found.version) == (0.25, "message", "parity", "1")
    with pytest.raises(Permanent, match=r"Talk: score_conversation\(\) must return a Score, got float"):
        talk.score_conversation(replace(asked, text="a number"), {})


def test_a_score_carries_the_name_and_version_of_its_class_whatever_it_says() -> None:
    found = load_scorer(config("Stranger")).score("4", {})
    assert (found.scorer, found.version, found.seconds) == ("parity", "1", 2.5)


def test_the_base_class_scores_nothing_by_itself() -> None:
    with pytest.raises(NotImplementedError):
        SimpleScorer().score("", {})


def test_a_group_is_scored_by_a_custom_scorer(group: Callable[..., SampledGroup]) -> None:
    scorer = GroupScorer(ScorersConfig(tasks={"parity": TaskConfig(scorer=config("Parity"))}))
    scorer.self_test()
    info = {"type": "parity", "answer": {"value": ""}}
    scored = scorer.score(group("4", "5", task="parity", verification_info=info), worker="w")
    assert scored.rewards == (1.0, 0.0)
    assert textwrap.shorten(scored.scores[0].reason, 20) == "4 of parity"


SERVED = '''
import threading
from concurrent.futures import ThreadPoolExecutor

from scorers.custom import SimpleScorer

class Served(SimpleScorer):
    """Asks a service that answers once `wanted` questions wait at the same time."""
    name, version = "served", "1"

    def __init__(self, wanted: int) -> None:
        self.barrier = threading.Barrier(wanted)
        self.threads = ThreadPoolExecutor(wanted)
        self.asked = {}
        self.hits = 0

    def prefetch(self, text, verification_info):
        self.asked.setdefault(text, self.threads.submit(self.barrier.wait, 10))

    def score(self, text, verification_info):
        self.hits += text in self.asked
        self.prefetch(text, verification_info)
        self.asked[text].result()
        return self.scored(1.0, "the service has answered")

    def take_counts(self):
        hits, self.hits = self.hits, 0
        return {"cache_hits": hits}

    def close(self):
        self.threads.shutdown()

class Hasty(Served):
    """Fails to look ahead; its score of the same text does not."""
    def prefetch(self, text, verification_info):
        raise RuntimeError("no service")

    def score(self, text, verification_info):
        return self.scored(1.0, "asked again")

class Miscounting(Served):
    def take_counts(self):
        return {"groups": 1}
'''


def served(tmp_path: Path, name: str, wanted: int) -> GroupScorer:
    (tmp_path / "served_scorer.py").write_text(SERVED)
    task = TaskConfig(scorer=config(name, "served_scorer", wanted=wanted))
    return GroupScorer(ScorersConfig(tasks={"served": task}))


def asked(group: Callable[..., SampledGroup], count: int = 1) -> SampledGroup:
    return group(*map(str, range(count)), task="served", verification_info={"type": "served", "answer": {}})


def test_a_custom_scorer_that_prefetches_has_the_calls_of_a_group_under_way_at_once(
    group: Callable[..., SampledGroup], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its service answers only when all eight questions wait: asked one after the other, the first would fail."""
    counted: list[tuple[str, Mapping[str, int]]] = []
    scorer = served(tmp_path, "Served", 8)
    monkeypatch.setattr(scorer.tally, "count", lambda _, name, counts, **__: counted.append((name, counts)))
    assert scorer.score(asked(group, 8), worker="w").rewards == (1.0,) * 8
    assert counted[-1] == ("served", {"cache_hits": 8})
    scorer.close()


def test_a_prefetch_that_fails_is_said_and_the_completion_is_scored_all_the_same(
    group: Callable[..., SampledGroup], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scorer = served(tmp_path, "Hasty", 1)
    assert scorer.score(asked(group), worker="w").rewards == (1.0,)
    assert "prefetch_failed scorer=served_scorer:Hasty error=RuntimeError('no service')" in caplog.text
    scorer.close()


def test_counts_of_unknown_names_are_refused(group: Callable[..., SampledGroup], tmp_path: Path) -> None:
    scorer = served(tmp_path, "Miscounting", 1)
    with pytest.raises(CustomScorerError, match=r"served_scorer:Miscounting: take_counts\(\) must return"):
        scorer.score(asked(group), worker="w")
    scorer.close()


def test_a_plain_function_is_a_scorer_too(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, float | None, str]] = [
        ("4", 1.0, "even gave 1"), ("5", 0.0, "even gave 0"), ("said", 0.5, "half of it"),
        ("whole", 1.0, "its own"),
        ("broken", None, "even gave no value"),
    ]  # fmt: skip
    for text, value, reason in cases:
        with subtests.test(text=text, value=value):
            scorer = load_scorer(config("even"))
            scorer.check_row({"type": "parity"})
            scorer.self_test()
            found = scorer.score(text, {"type": "parity"})
            assert (found.value, found.reason, found.scorer) == (value, reason, "even")
            scorer.close()


def test_the_version_of_a_function_is_its_text_and_its_options() -> None:
    versions = [load_scorer(section).version for section in (config("even"), config("even"), config("odd"))]
    assert versions[0] == versions[1] != versions[2]
    paid = load_scorer(config("even", paid=0.5))
    assert paid.version != versions[0]
    assert paid.score("4", {}).value == 0.5


def test_what_a_function_returns_is_a_number_from_0_to_1_or_refused_for_good(
    subtests: pytest.Subtests,
) -> None:
    for value in (1.5, -0.5, float("nan"), "one", (1.0, "a", "b"), ("one", ""), [1.0]):
        with (
            subtests.test(value=value),
            pytest.raises(CustomScorerError, match=r"one_of_ours:no_number.*a number from 0 to 1"),
        ):
            load_scorer(config("no_number")).score("4", {"answer": value})


@pytest.mark.prove
def test_modules_of_our_names_beside_a_scorer_do_no_harm(tmp_path: Path) -> None:
    """The folder of the start comes last on the path, and the roles that `up` starts leave it out at first."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in PACKAGES:
        (folder / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    (folder / "reward_of_mine.py").write_text("def reward(text, verification_info): return 1.0")
    program = (
        "from config.scorer_kinds import CustomConfig; from scorers.custom import load_scorer; "
        "print(load_scorer(CustomConfig(import_path='reward_of_mine:reward')).score('', {}).value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONSAFEPATH": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("1.0\n", "")


@pytest.mark.parametrize(
    ("given", "example"), [("sort_reward.reward", "sort_reward:reward"), ("reward", "my_scorer:reward")]
)
def test_a_path_without_a_colon_is_answered_with_one(given: str, example: str) -> None:
    with pytest.raises(ValidationError, match=f"MODULE:NAME with a colon, as in {example}"):
        CustomConfig(import_path=given)
