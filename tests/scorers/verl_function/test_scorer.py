"""Reward files of verl's as scorers: what their function gives is the score, and what it does costs one answer alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.errors import BadMessage, Permanent, Retryable
from broker.messages import Score, ScoreStatus
from config.scorer_kinds import VerlFunctionConfig
from config.scorers import TaskConfig
from scorers.scorer import OVER_LIMIT
from scorers.verl_function.scorer import VerlFunction
from tasks.route import route
from tests.support.tried_again import unless_starved

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

FILE = """
import asyncio, os, time

def compute_score(data_source, solution_str, ground_truth, extra_info=None, bonus=0.0):
    if solution_str == "hang":
        while True:
            pass
    if solution_str == "wait":
        time.sleep(60)
    if solution_str == "crash":
        os.abort()
    if solution_str == "service":
        raise ConnectionRefusedError("judge at :9000")
    if solution_str == "bug":
        return float("no number")
    if solution_str == "memory":
        return len(bytearray(1 << 40))
    return float(solution_str == ground_truth) * (1 - bonus) + bonus

def as_dict(solution_str, ground_truth, **_):
    return {"score": 0.25, "acc": solution_str == ground_truth, "pred": solution_str, "over_limit": 3}

def as_pair(data_source, solution_str, ground_truth, extra_info):
    return (extra_info["weight"], data_source)

def signed(data_source, solution_str, ground_truth, extra_info):
    return 1.0 if solution_str == ground_truth else -1.0

def of_lists(data_sources, solution_strs, ground_truths, extra_infos):
    return [float(one == truth) for one, truth in zip(solution_strs, ground_truths, strict=True)]

async def waits(data_source, solution_str, ground_truth, extra_info):
    await asyncio.sleep(0)
    return 1.0

def nothing(**_):
    return None

def infinite(**_):
    return float("inf")
"""
ROW = {"type": "reward", "answer": {"value": "42"}, "data_source": "mine", "extra_info": {"weight": 0.5}}
Make = Callable[..., VerlFunction]


@contextmanager
def built_of(path: Path, source: str, deadline_s: float) -> Iterator[Make]:
    path.write_text(source, encoding="utf-8")
    made: list[VerlFunction] = []

    def build(function: str = "compute_score", **settings: Any) -> VerlFunction:
        settings = {"path": str(path), "function": function, "deadline_s": deadline_s, **settings}
        made.append(VerlFunction(VerlFunctionConfig(**settings)))
        return made[-1]

    yield build
    for scorer in made:
        scorer.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with built_of(tmp_path / "my_reward.py", FILE, 2.0) as build:
        yield build


@pytest.mark.parametrize(
    ("function", "settings", "text", "value"),
    [
        ("compute_score", {}, "42", 1.0),
        ("compute_score", {}, "41", 0.0),
        ("compute_score", {"options": {"bonus": 0.5}}, "41", 0.5),
        ("as_dict", {}, "42", 0.25),
        ("as_pair", {}, "42", 0.5),
        ("signed", {"value_range": (-1, 1)}, "42", 1.0),
        ("signed", {"value_range": (-1, 1)}, "41", 0.0),
        ("signed", {"value_range": (-3, 1)}, "41", 0.5),
        ("of_lists", {"takes_lists": True}, "42", 1.0),
        ("waits", {}, "", 1.0),
    ],
)
def test_the_functions_value_is_the_score(
    make: Make, function: str, settings: dict[str, Any], text: str, value: float
) -> None:
    assert make(function, **settings).score(text, ROW).value == value


def test_the_other_numbers_of_a_dict_are_components_but_for_names_of_ours(make: Make) -> None:
    assert make("as_dict").score("42", ROW).components == {"acc": 1.0}


def test_a_function_that_gives_nothing_leaves_the_answer_unscorable(make: Make) -> None:
    found = make("nothing").score("42", ROW)
    assert (found.status, found.value) == (ScoreStatus.UNSCORABLE, None)


@pytest.mark.parametrize("text", ["hang", "crash", "memory"])
def test_an_answer_that_exceeds_a_limit_is_wrong_and_costs_no_other(make: Make, text: str) -> None:
    scorer = make(memory_mb=512, deadline_s=1.0)
    found: Score = unless_starved(lambda: scorer.score(text, ROW))
    assert (found.value, found.components) == (0.0, {OVER_LIMIT: 1.0})
    assert scorer.score("42", ROW).value == 1.0


def test_a_service_that_is_away_is_tried_again(make: Make) -> None:
    with pytest.raises(Retryable, match="judge at :9000"):
        make().score("service", ROW)


def test_a_function_that_waits_past_its_deadline_is_tried_again(make: Make) -> None:
    with pytest.raises(Retryable, match="processor time"):
        make().score("wait", ROW)


def test_a_child_that_is_killed_from_outside_is_tried_again(make: Make) -> None:
    scorer = make(deadline_s=20.0)
    scorer.self_test()
    pid = scorer.child_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(Retryable):
        scorer.score("42", ROW)
    assert scorer.score("42", ROW).value == 1.0


def test_a_bug_of_the_function_surfaces_with_its_traceback(make: Make) -> None:
    with pytest.raises(RuntimeError, match=r"my_reward\.py(.|\n)*no number"):
        make().score("bug", ROW)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("signed", r"gave -1, .* value_range: \[LEAST, GREATEST\]"),
        ("infinite", "a number is expected, got inf"),
    ],
)
def test_a_value_that_is_none_is_refused_by_its_number(make: Make, function: str, words: str) -> None:
    with pytest.raises(Permanent, match=words):
        make(function).score("41", ROW)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("import nobody_has_this", "nobody_has_this"),
        ("x = 1", "compute_score"),
        ("def (", "SyntaxError"),
        ("import sys\nsys.exit()", "importing"),
        ("import os\nos._exit(1)", "importing"),
    ],
)
def test_a_broken_file_is_named_by_the_self_test(tmp_path: Path, written: str, words: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(written, encoding="utf-8")
    scorer = VerlFunction(VerlFunctionConfig(path=str(path)))
    try:
        with pytest.raises(Permanent, match=words):
            scorer.self_test()
    finally:
        scorer.close()


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(Permanent, match=r"no_such_file\.py"):
        VerlFunction(VerlFunctionConfig(path="no_such_file.py"))


def test_the_version_changes_with_the_file_and_with_what_it_is_told(make: Make, tmp_path: Path) -> None:
    versions = [make().version, make("signed").version, make(options={"bonus": 0.5}).version]
    (tmp_path / "my_reward.py").write_text(FILE + "# changed\n", encoding="utf-8")
    assert len({*versions, make().version}) == 4


def test_rows_of_any_data_source_go_to_the_function_as_verl_has_them() -> None:
    task = TaskConfig.model_validate({"scorer": {"type": "verl_function", "path": "my_reward.py"}})
    told = {"data_source": "nobody/knows-this", "extra_info": {"index": 3}}
    row = {**told, "reward_model": {"ground_truth": {"a": [1, 2]}}}
    info = {**told, "type": "reward", "answer": {"value": {"a": [1, 2]}}}
    assert route(row, {"reward": task}) == ("reward", info)
    gsm8k = {"data_source": "openai/gsm8k", "reward_model": {"ground_truth": "4"}}
    assert route(gsm8k, {"reward": task})[0] == "reward"
    assert route(gsm8k, {"reward": task, "math": TaskConfig()})[0] == "math", "a task of its own comes first"
    with pytest.raises(BadMessage):
        route(row, {"math": TaskConfig()})


def test_a_range_needs_two_different_ends() -> None:
    with pytest.raises(ValueError, match="least, greatest"):
        VerlFunctionConfig(path="x.py", value_range=(1, 1))


# A function that runs what a model wrote: what the answer does there is the answer's doing.
RUNS = """
import argparse, json, os, sys

def compute_score(solution_str, ground_truth, **_):
    if "\\n" not in solution_str:
        return 0.0
    names = {}
    exec(solution_str, names)
    return float(str(names["answer"]) == ground_truth)

def caught(solution_str, ground_truth, **_):
    try:
        return compute_score(solution_str, ground_truth)
    except Exception as error:
        raise RuntimeError("the answer's program failed") from error

def parsed(solution_str, **_):
    if solution_str.startswith("--"):
        argparse.ArgumentParser().parse_args(solution_str.split())
    if solution_str.startswith("["):
        json.loads(solution_str)
    return 0.0

def exits(solution_str, **_):
    sys.exit(3)

def exits_at_programs(solution_str, **_):
    if "```python" in solution_str:
        os._exit(0)
    return 0.0

def recurses(solution_str, **_):
    return recurses(solution_str)

def spins(solution_str, **_):
    while True:
        pass

def wrong_type(solution_str, **_):
    return Pair(1)

from dataclasses import dataclass

@dataclass
class Pair:
    one: int
    def __post_init__(self):
        raise TypeError("a bug of the file")
"""
# An end of each kind; `make prove-suite` has the others.
TELLING = ("sys.exit", "an exception of its own", "os._exit", "SIGKILL", "a closed link", "no program")
WAYS_OUT = {
    "sys.exit": "import sys\nsys.exit()",
    "sys.exit with success": "import sys\nsys.exit(0)",
    "sys.exit with a text": "import sys\nsys.exit('done')",
    "exit": "\nexit()",
    "SystemExit": "\nraise SystemExit",
    "KeyboardInterrupt": "\nraise KeyboardInterrupt",
    "GeneratorExit": "\nraise GeneratorExit",
    "an exception of its own": "class Out(BaseException): pass\nraise Out",
    "os._exit": "import os\nos._exit(0)",
    "os._exit with 77": "import os\nos._exit(77)",
    "os.abort": "import os\nos.abort()",
    "SIGKILL": "import os\nos.kill(os.getpid(), 9)",
    "SIGALRM": "import os\nos.kill(os.getpid(), 14)",
    "another program": "import os\nos.execv('/bin/true', ['true'])",
    "a closed link": "import os\nos.closerange(3, 4096)",
    "a closed link, and a wait": "import os, time\nos.closerange(3, 4096)\ntime.sleep(60)",
    "recursion": "def f(): f()\nf()",
    "recursion without a limit": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "ValueError": "\nraise ValueError",
    "OSError": "\nraise ConnectionRefusedError",
    "no answer": "\nx = y",
    "no program": "\n1 +",
    "memory": "\nraise MemoryError",
    "an answer without text": "import sys\nclass A:\n def __str__(self): sys.exit()\nanswer = A()",
    "a file of its own": (
        "import runpy, tempfile\nfile = tempfile.NamedTemporaryFile('w', suffix='.py')\n"
        "file.write('raise ValueError')\nfile.flush()\nrunpy.run_path(file.name)"
    ),
}


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Make]:
    with built_of(tmp_path / "runs_answers.py", RUNS, 4.0) as build:
        yield build


def scored(scorer: VerlFunction, text: str, row: dict[str, Any] = ROW) -> Score:
    """Score as a worker does: what is to be tried again is tried again."""
    for _ in range(3):
        try:
            return scorer.score(text, row)
        except Retryable:
            continue
    return scorer.score(text, row)


@pytest.mark.parametrize("ways", [TELLING, WAYS_OUT.keys() - set(TELLING)], ids=["telling", "others"])
def test_no_answer_finds_a_way_out_of_its_zero(runs: Make, ways: Iterable[str]) -> None:
    scorer = runs(memory_mb=512)
    found = {what: scored(scorer, WAYS_OUT[what]) for what in ways}
    assert {what: score.reason for what, score in found.items() if score.value != 0.0} == {}
    assert scored(scorer, "\nanswer = 42").value == 1.0


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("caught", "\nraise ValueError"), ("caught", "import sys\nsys.exit()"), ("parsed", "--help"),
        ("parsed", "--no-such-option"),
        ("parsed", "[" * 100_000),
    ],
)  # fmt: skip
def test_an_answer_that_has_the_functions_own_code_end_is_wrong(runs: Make, function: str, text: str) -> None:
    found = scored(runs(function), text)
    assert found.value == 0.0, found.reason
    assert "and again alone in a fresh child" in found.reason


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("exits", "was ended by SystemExit at any answer"),
        ("exits_at_programs", "ended its process at any answer"),
        ("spins", "exceeded its deadline of 0.5 s at any answer"),
    ],
)
def test_a_function_that_ends_with_any_answer_is_at_fault(runs: Make, function: str, words: str) -> None:
    found = unless_starved(lambda: scored(runs(function, deadline_s=1.0), "```python\nanswer = 42\n```"))
    assert (found.status, found.value) == (ScoreStatus.UNSCORABLE, None)
    assert words in found.reason


@pytest.mark.parametrize(
    ("function", "words"), [("recurses", "RecursionError"), ("wrong_type", "a bug of the file")]
)
def test_a_bug_that_shows_with_any_answer_surfaces(runs: Make, function: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        runs(function).score("\nanswer = 42", ROW)
