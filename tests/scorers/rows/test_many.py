"""Many rows, scored side by side by processes that stay for the next call."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from broker.messages import ScoreStatus
from scorers import score, score_many
from scorers.api import RowWorkerClient, ScoringFailed
from scorers.child.frames import Result, failure
from scorers.rows import many
from tests.support.endpoint_server import Saying, ScriptedEndpoint, scripted_endpoint
from tests.support.paths import ROOT

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

MATH = {"type": "math", "answer": {"value": "72"}}
GRAPH = {"type": "graph", "answer": {"value": "abc"}}
JUDGED = {"type": "llm_judge", "answer": {"value": "72", "question": "6 x 12?"}}
DELAY_S = 0.5  # of a judge's reply


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedEndpoint]:
    with scripted_endpoint("False") as running:
        monkeypatch.setenv("LLM_JUDGE_BASE_URL", running.url)
        yield running


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    many.close()
    yield
    many.close()


@pytest.mark.usefixtures("scores_here")
def test_scores_come_in_order_and_are_those_of_score() -> None:
    pairs: list[tuple[str, Any]] = [(f"\\boxed{{{number}}}", MATH) for number in range(66, 80)]
    pairs += [
        ("#### 72", {"data_source": "openai/gsm8k", "ground_truth": "72"}),
        ("<answer>abc</answer>", '{"type": "graph", "answer": {"value": "abc"}}'),
        ("", {"verification_info": MATH}),
    ]
    found = score_many(pairs, workers=2)
    assert [one.value for one in found] == [*[float(number == 72) for number in range(66, 80)], 1.0, 1.0, 0.0]
    alone = [score(*pair) for pair in pairs]
    assert [(one.status, one.value, one.reason, one.version) for one in found] == [
        (one.status, one.value, one.reason, one.version) for one in alone
    ]
    assert score_many([]) == []
    assert score_many(iter(pairs[:1]))[0].value == 0.0


@pytest.mark.prove
def test_a_judges_calls_are_under_way_together_beside_other_rows(server: ScriptedEndpoint) -> None:
    server.script = lambda _: Saying("False", delay_s=DELAY_S)
    pairs: list[tuple[str, Any]] = [(f"about {number}", JUDGED) for number in range(24)]
    pairs[::3] = [("\\boxed{72}", MATH)] * 8
    found = score_many(pairs, workers=1)
    assert [one.value for one in found] == [1.0, 0.0, 0.0] * 8
    assert server.most_at_once == len(server.calls) == 16


def test_as_many_rows_as_there_are_workers_are_scored_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(3, timeout=20.0)

    def meet(_: RowWorkerClient, line: bytes) -> Result:
        meeting.wait()
        return {**failure(line.decode(), fault="machine", status="unscorable"), "task": "math"}

    monkeypatch.setattr(RowWorkerClient, "result", meet)
    found = score_many([(f"{number}", MATH) for number in range(6)], workers=3)
    assert [f'"{number}"' in one.reason for number, one in enumerate(found)] == [True] * 6
    assert {one.status for one in found} == {ScoreStatus.UNSCORABLE}


@pytest.mark.usefixtures("scores_here")
def test_a_row_that_can_not_be_used_is_named_by_its_place(subtests: pytest.Subtests) -> None:
    for row, message in (
        ({"question": "?"}, "pair 1: a row of no known shape"),
        ({"data_source": "openai/gsm8", "ground_truth": "1"}, "pair 1: unknown data_source 'openai/gsm8'"),
        ("nope", "pair 1: verification_info is not JSON"),
    ):
        with subtests.test(row=row), pytest.raises(ValueError, match=message):
            score_many([("\\boxed{72}", MATH), ("\\boxed{72}", row), ("\\boxed{72}", MATH)], workers=1)
    assert many.pids() == [], "nothing has begun"
    abc, broken = ("<answer>abc</answer>", GRAPH), {"type": "zebra", "answer": {"value": "many"}}
    with pytest.raises(ValueError, match=r"pair 1: "):
        score_many([abc, ("\\boxed{72}", broken)], workers=1)
    assert [one.value for one in score_many([abc] * 2, workers=1)] == [1.0, 1.0]


def test_a_text_that_is_none_and_a_number_of_workers_that_is_none_are_said() -> None:
    with pytest.raises(TypeError, match="pair 1: llm_output must be text, got NoneType"):
        score_many([("", MATH), (None, MATH)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        score_many([("", MATH)], workers=0)


def test_what_this_machine_can_not_score_is_no_value_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_: RowWorkerClient, line: bytes) -> Result:
        return failure("no sandbox", fault="machine")

    monkeypatch.setattr(RowWorkerClient, "result", lost)
    with pytest.raises(ScoringFailed, match="pair 0: no sandbox"):
        score_many([("", MATH)])


@pytest.mark.prove
def test_processes_stay_for_the_next_call_and_for_every_thread_and_a_fork_has_its_own() -> None:
    score_many([("\\boxed{72}", MATH)], workers=1)
    before = many.pids()
    assert len(before) == 1
    found: dict[int, list[float | None]] = {}

    def ask(number: int) -> None:
        info = {"type": "math", "answer": {"value": str(number)}}
        found[number] = [
            one.value for one in score_many([("\\boxed{1}", info), ("\\boxed{2}", info)], workers=1)
        ]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [float(number == 1), float(number == 2)] for number in range(4)}
    assert many.pids() == before
    if (child := os.fork()) == 0:
        ask(1)
        own = many.pids()
        many.close()
        os._exit(0 if found[1] == [1.0, 0.0] and own != before and len(own) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    ask(2)
    assert (found[2], many.pids()) == ([0.0, 1.0], before)


def test_a_program_that_ends_leaves_no_process() -> None:
    program = inspect.cleandoc(
        """
        from scorers import score_many
        from scorers.rows import many
        row = {"type": "graph", "answer": {"value": "abc"}}
        pairs = [("<answer>abc</answer>", row), ("", row)]
        assert [one.value for one in score_many(pairs, workers=1)] == [1.0, 0.0]
        print(*many.pids())
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    for pid in map(int, done.stdout.split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
