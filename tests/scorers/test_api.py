"""Single rows, scored for any program by a process of its own."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from broker.errors import BadMessage
from broker.messages import ScoreStatus, Split
from config.explanations import ConfigError
from config.scorer_kinds import CustomConfig, JudgeConfig, RubricConfig, TinyvConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers import api, score
from scorers.api import TRIES, RowWorkerClient, ScoringFailed, all_tasks, is_json
from tasks.route import route
from tests.conftest import ROOT
from tests.support.endpoint_server import scripted_endpoint
from tests.support.row_worker_here import RowWorkerHere
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

INFO = {"type": "math", "answer": {"value": "72"}}
RIGHT = "so it is \\boxed{72}"


def line(text: str = RIGHT, info: Any = None) -> bytes:
    return json.dumps({"llm_output": text, "verification_info": info or INFO}).encode()


def verl(source: str, truth: Any) -> dict[str, Any]:
    ground_truth = {"style": "rule", "ground_truth": truth}
    return {"data_source": source, "reward_model": ground_truth, "extra_info": {"index": 0}}


def of_custom(task: str, import_path: str) -> ScorersConfig:
    return ScorersConfig(tasks={task: TaskConfig(scorer=CustomConfig(import_path=import_path))})


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "row", "value"),
    [
        (RIGHT, INFO, 1.0), (RIGHT, json.dumps(INFO), 1.0), ("\\boxed{71}", INFO, 0.0), ("", INFO, 0.0),
        (RIGHT, {"verification_info": json.dumps(INFO), "data_source": "ours"}, 1.0),
        (RIGHT, {"verification_info": INFO, "type": "function", "id": 3}, 1.0),
        (RIGHT, verl("math_mathverify", "72") | {"type": "function", "answer": None}, 1.0),
        (RIGHT, verl("math_mathverify", "72"), 1.0),
        (RIGHT, json.dumps(verl("polaris_mathverify", ["72"])), 1.0),
        (RIGHT, {"data_source": "math_mathverify", "ground_truth": "72"}, 1.0),
        (RIGHT, {"data_source": "math_mathverify", "ground_truth": "72", "extra_info": None}, 1.0),
        (RIGHT, {"data_source": "math_mathverify", "ground_truth": "72", "type": "x", "answer": 1}, 1.0),
        ("\\boxed{71}", '{"data_source": "AIME", "ground_truth": "72", "extra_info": {"index": 0}}', 0.0),
        ("\ud800 \\boxed{72}", INFO, 1.0),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("scores_here")
def test_a_row_of_any_shape_is_scored(text: str, row: str | Mapping[str, Any], value: float) -> None:
    found = score(text, row, judge_url="http://judge.test")
    assert (found.status, found.value) == (ScoreStatus.SCORED, value)
    assert (found.scorer, found.components) == ("math", {"math": value})
    assert "72" in found.reason or not text
    assert found.version


def test_an_unknown_shape_is_a_value_error_that_names_the_known_ones(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ({"question": "?"}, r'known are \{"verification_info": .*, or \{"data_source"'),
        ({"type": "mat", "answer": {"value": "72"}}, "no scorer for rows of type 'mat'; did you mean math?"),
        ({"type": "math", "answer": {}}, "no answer to check against"),
        ("nope", "verification_info is not JSON"),
        ("[1]", "must be an object, got list"),
        (verl("openai/gsm8", "72"), "unknown data_source 'openai/gsm8'"),
        (verl("ood__of_tomorrow", "72"), "not scored by this version"),
    ]
    for row, message in cases:
        with subtests.test(row=row), pytest.raises(ValueError, match=message):
            score(RIGHT, row)


def test_a_text_that_is_none_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="llm_output must be text, got NoneType"):
        score(None, INFO)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "answer",
    [
        {"value": np.array(["72"])[0]},
        {"value": "72", "tests": None, 1: 2},
        {"value": "72", "solution": ("a", "tuple")},
        MappingProxyType({"value": "72"}),
        {"value": "72", "metadata": 1 << 200},
    ],
)
@pytest.mark.usefixtures("scores_here")
def test_a_row_that_is_no_json_is_read_as_it_is_where_it_comes_from(answer: Any) -> None:
    assert not is_json(answer)
    row = {"verification_info": {"type": "math", "answer": answer}}
    try:
        _, expected = route(row)
    except BadMessage as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            score(RIGHT, row)
    else:
        assert expected["answer"]["value"] == "72"
        assert score(RIGHT, row).value == 1.0


def test_what_is_doubtful_in_json_is_none() -> None:
    """Texts and numbers that come back as they were, and nesting that any reader takes."""
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    plain = {"a": [1, 2.5, None, True, "é", {"": float("inf")}], "b": {}}
    assert is_json(plain)
    assert json.loads(json.dumps(plain)) == plain
    doubtful = ["\ud83d\ude00", 1 << 100, (1,), {1: 2}, b"", np.float64(1), deep, Split.TRAIN, {"\udc00": 1}]
    assert [value for value in doubtful if is_json(value)] == []


def test_an_impossible_service_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the worker's caller: the worker puts the scorers together, in the same environment."""
    monkeypatch.setenv("SANDBOX_FUSION_SERVERS", "http://user:secret@one.test")
    process = RowWorkerClient()
    with pytest.raises(ConfigError, match="a sandbox's address has no password in it"):
        process.result(line())
    assert process.pid is None
    monkeypatch.delenv("SANDBOX_FUSION_SERVERS")
    assert process.result(line(info={"type": "graph", "answer": {"value": "d"}}))["status"] == "scored"
    process.close()


@pytest.mark.prove
def test_its_worker_loads_what_is_heavy_and_ends_with_the_program_that_asked(tmp_path: Path) -> None:
    """Also from a folder whose own packages are called like ours."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "__init__.py").write_text("raise RuntimeError('the wrong package')")
    program = (
        "import os, signal, sys; from scorers import api, score\n"
        f"value = score({RIGHT!r}, {INFO!r}).value\n"
        "print(api._process.pid, value, {'sympy', 'numpy', 'pydantic'} & set(sys.modules), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    group, said = done.stdout.split(maxsplit=1)
    assert (done.returncode, said, done.stderr) == (-signal.SIGKILL, "1.0 set()\n", "")
    wait_until(lambda: not is_alive(int(group)))


def test_importing_it_loads_nothing_heavy() -> None:
    program = (
        "import sys; from scorers import score; print({'sympy', 'numpy', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == (b"set()\n", b"")


def test_threads_and_forks_get_their_own_answers() -> None:
    """One worker, many threads; and a fork that has the parent's socket must not read the parent's answers."""
    found: dict[int, float | None] = {}

    def ask(number: int) -> None:
        row = {"type": "graph", "answer": {"value": "d"}}  # without sympy
        found[number] = score(f"<answer>{'abcdef'[number]}</answer>", row).value

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: float(number == 3) for number in range(6)}
    process = api._process
    assert process is not None
    before = process.pid
    if (child := os.fork()) == 0:
        ask(3)
        own = process.pid
        process.close()
        os._exit(0 if found[3] == 1.0 and own != before else 1)
    assert os.waitpid(child, 0)[1] == 0
    ask(4)
    assert (found[4], process.pid) == (0.0, before)


@pytest.mark.prove
def test_a_killed_worker_is_replaced_unless_a_row_kills_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deadly.py").write_text(
        "import os, signal\nfrom scorers.custom import SimpleScorer\n"
        "class Deadly(SimpleScorer):\n    name = version = 'deadly'\n"
        "    def score(self, text, verification_info):\n"
        "        open(verification_info['answer'], 'a').write('x')\n"
        "        if text == 'die': os.kill(os.getpid(), signal.SIGKILL)\n"
        "        if text == 'bug': return 1 / 0\n"
        "        return self.scored(1.0, 'lived')\n"
    )
    monkeypatch.chdir(tmp_path)  # where one's own scorers are looked for last
    process = RowWorkerClient(of_custom("deadly", "deadly:Deadly"))
    info = {"type": "deadly", "answer": str(tmp_path / "tries")}
    found = process.result(line("die", info))
    assert (found["status"], found["value"]) == ("unscorable", None)
    tries = f"not scored in {TRIES} tries: its process ended each time, the last time by SIGKILL"
    assert found["reason"] == tries
    assert (tmp_path / "tries").read_text() == "x" * TRIES
    bug = process.result(line("bug", info))
    assert (bug["status"], bug["fault"]) == ("error", "scorer")
    assert bug["reason"] == "the scorer failed: ZeroDivisionError: division by zero (deadly.py:8 in score)"
    assert process.result(line("live", info))["value"] == 1.0
    for begun in (b"nope", line("live", info)):  # what is wrong with a line is for its result to say
        process.prefetch(begun)
    assert [process.result(begun)["value"] for begun in (b"nope", line("live", info))] == [None, 1.0]
    killed = process.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    process.prefetch(line("live", info))
    assert process.result(line("live", info))["value"] == 1.0
    assert process.pid not in {killed, None}
    assert process.close() == 0


@pytest.mark.prove
def test_a_worker_in_the_middle_of_a_row_ends_with_the_program_that_asked(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(
        "import os, subprocess, sys, time\nfrom scorers.custom import SimpleScorer\n"
        "class Sleeper(SimpleScorer):\n    name = version = 'sleeper'\n"
        "    def score(self, text, verification_info):\n"
        "        subprocess.Popen(['sleep', '600'])\n"
        "        print(os.getpgid(0), file=open('group.new', 'w'))\n"
        "        os.rename('group.new', 'group')\n"
        "        time.sleep(600)\n"
    )
    program = (
        "from config.scorer_kinds import *; from config.scorers import *; from scorers.api import RowWorkerClient\n"
        "tasks = {'sleeper': TaskConfig(scorer=CustomConfig(import_path='sleeper:Sleeper'))}\n"
        f"RowWorkerClient(ScorersConfig(tasks=tasks)).result({line(info={'type': 'sleeper'})!r})"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as asking:
        wait_until(lambda: (tmp_path / "group").exists() or asking.poll() is not None)
        asking.kill()
    group = int((tmp_path / "group").read_text())
    wait_until(lambda: not is_alive(group))


@pytest.mark.parametrize("broken", [(socket, "socketpair"), (subprocess, "Popen")])
def test_a_machine_without_room_says_so(broken: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor, no process left: nothing stays open, and the next row may find room."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    process, descriptors = RowWorkerClient(all_tasks()), len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patch:
        patch.setattr(*broken, full)
        with pytest.raises(ScoringFailed, match="no process that scores rows can be started") as caught:
            process.result(line())
        assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert "Too many open files" in str(caught.value)  # whose traceback holds all that was open, until here
    assert process.pid is None


def test_a_worker_that_can_not_start_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    process = RowWorkerClient(all_tasks())
    monkeypatch.setattr(api, "_START", "import sys; sys.exit(3)")
    with pytest.raises(ScoringFailed, match="did not start, it ended with exit code 3"):
        process.result(line())


def test_a_worker_that_is_killed_before_its_first_row_is_replaced() -> None:
    process = RowWorkerClient(all_tasks())
    process.begin()
    killed = process.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert process.result(line(info={"type": "graph", "answer": {"value": "d"}}))["status"] == "scored"
    assert process.pid not in {killed, None}
    process.stop()
    process.close()


def test_a_scorer_that_this_machine_lacks_is_no_value_error() -> None:
    process = RowWorkerHere(of_custom("mine", "no_such:Thing"))
    found = process.result(line(info={"type": "mine", "answer": 1}))
    assert (found["status"], found["fault"]) == ("error", "machine")
    assert "import_path no_such:Thing: No module named 'no_such'" in found["reason"]
    process.close()


@pytest.mark.usefixtures("scores_here")
def test_a_judge_that_the_caller_names_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_JUDGE_BASE_URL", "http://127.0.0.1:9/v1")  # where nobody answers
    info = {"type": "llm_judge", "answer": {"value": "72"}}
    with scripted_endpoint("Verdict: correct", "Verdict: incorrect") as server:
        values = [
            score(text, info, server.url).value for text in ("seventy-two", "seventy-one", "seventy-two")
        ]
        assert (values, len(server.calls)) == ([1.0, 0.0, 1.0], 2)  # the third is known
        row = {"type": "graph", "answer": {"value": "abc"}}
        assert score("<answer>abc</answer>", row, server.url).value == 1.0
    with pytest.raises(ValueError, match="expected http://HOST:PORT"):
        score("seventy-two", info, "judge")


def test_the_environments_services_are_used_without_a_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_FUSION_SERVERS", "http://one.test:8080, http://two.test:8080")
    monkeypatch.setenv("LLM_JUDGE_BASE_URL", "http://judge.test/v1")
    monkeypatch.setenv("STEM_LLM_JUDGE_URL", "http://stem.test")
    assert all_tasks().sandbox_urls == ("http://one.test:8080", "http://two.test:8080")

    def asked() -> dict[str, tuple[str, ...]]:
        return {
            task: config.scorer.endpoint.urls
            for task, config in all_tasks().tasks.items()
            if isinstance(config.scorer, JudgeConfig | RubricConfig | TinyvConfig)
        }

    anyone = dict.fromkeys(("judge", "math_llm_judge", "rubric", "tinyv"), ("http://judge.test/v1",))
    assert asked() == anyone | {"stem_llm_judge": ("http://stem.test",)}
    monkeypatch.delenv("LLM_JUDGE_BASE_URL")  # a verifier of STEM answers is no rubric model
    assert (asked()["rubric"], asked()["tinyv"]) == ((), ())
