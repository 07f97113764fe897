"""`millrace agent`: one row, played by an outside model at a real socket, or by a run of real roles."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.connection import RedisLink
from broker.keys import Keys
from broker.monitoring.snapshot import Process, Snapshot
from config.loading import load_run
from learner.collect.session import CollectingSession
from tests.support.collecting import working
from tests.support.endpoint_server import Saying, scripted_endpoint
from tests.support.paths import ROOT
from tests.support.told import Millrace, Patch
from tools.agent.console import PlayConsole
from tools.agent.progress import Progress
from tools.agent.shown import show_played
from tools.run_view.follower import RunView

pytestmark = pytest.mark.process

MODEL = str(ROOT / "config" / "recipes" / "demo_agents_model")
LOOK = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"box": "8795"}'}}
AGENT = {"type": "agent", "import_path": "tests.support.arena_agents:ask"}
CONVERSING = {"type": "agent", "import_path": "tests.support.arena_agents:ask_twice"}
KEY = "sk-of-the-outside"


def saying(content: str | None, *calls: Any, **more: Any) -> Saying:
    """Return a reply with calls of tools and a count of tokens."""
    message = {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
    usage = {"prompt_tokens": 11, "completion_tokens": 5}
    choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message, **more}
    return Saying(body=json.dumps({"id": "1", "choices": [choice], "usage": usage}).encode())


def write_run(folder: Path, environment: Any = None, **task: Any) -> Path:
    """Write a run of the boxes with a tool, or with another environment."""
    tree = yaml.safe_load((ROOT / "config" / "recipes" / "demo_agents.yaml").read_text())
    tree |= {"name": "d", "runs_dir": str(folder / "runs"), "model": {"path": MODEL, "dtype": "float32"}}
    tree["data"] |= {"cache_dir": str(folder / "cache")}
    if environment is not None:
        tree["scorers"]["tasks"]["math"] = {"environment": environment, **task}
        tree["agents"] = {}
    (folder / "run.yaml").write_text(yaml.safe_dump(tree))
    return folder / "run.yaml"


def test_an_outside_model_plays_a_row_with_tools(
    tmp_path: Path, millrace: Millrace, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("OUTSIDE_API_KEY", KEY)
    monkeypatch.delenv("REDIS_URL", raising=False)
    script = (saying(None, LOOK), saying("\\boxed{2132}"))
    with scripted_endpoint(*script, models=("gpt",), api_key=KEY) as server:
        words = ["--row", "3", "--endpoint", server.url, "--key-variable", "OUTSIDE_API_KEY"]
        told = millrace("agent", write_run(tmp_path), *words)
    assert told.code == 0, told.err
    steps = (
        "reading row 3 with",
        "starting the environment of task math",
        "the row is played",
        "played; starting a",
    )
    for line, step in zip(told.err.splitlines()[: len(steps)], steps, strict=True):
        assert re.match(r" *\d+ s  ", line), told.err
        assert step in line
    for line in (
        "row 3, seed",
        "gives no token ids, so there is no sequence",
        "episode 0: score 1 by math",
        "2 calls; 22 tokens given and 10 sampled, as the server counts; ended by message",
        "user: Which number is in box 8795?",
        'calls look({"box": "8795"})',
        "tool look: The number is 2132.",
        "assistant: \\boxed{2132}",
    ):
        assert line in told.out, line
    assert KEY not in told.out + told.err
    first, second = (call.body for call in server.calls)
    assert first["tools"][0]["function"]["name"] == "look"
    assert first["max_tokens"] == 32, "turn_tokens"
    assert [one["role"] for one in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][1]["tool_calls"] == [LOOK]
    assert second["messages"][2] == {
        "role": "tool",
        "content": "The number is 2132.",
        "tool_call_id": "c1",
        "name": "look",
    }
    assert not (tmp_path / "runs").exists()


def test_an_agent_that_owns_its_loop_calls_an_outside_model_through_the_gateway(
    tmp_path: Path, millrace: Millrace
) -> None:
    config = write_run(tmp_path, AGENT, scorer={"type": "environment"})
    with scripted_endpoint(saying("wrong"), saying("right"), models=("gpt",)) as server:
        told = millrace("agent", config, "--endpoint", server.url)
    assert told.code == 0, told.err
    assert "score 1 by environment" in told.out
    assert "reward: 1 of 0 to 1" in told.out
    assert [one["role"] for one in server.calls[1].body["messages"]] == ["user", "assistant", "user"]
    assert {"temperature", "max_tokens"}.isdisjoint(server.calls[0].body), "the run's 1, and no limit"


@pytest.mark.prove
@pytest.mark.parametrize(("section", "script", "says"), [
    (CONVERSING, [Saying(status=401)], "HTTP 401 told to"),
    (CONVERSING | {"max_turns": 1}, ["wrong"], "1 call; no count of tokens; ended by turns"),
    (
        AGENT | {"auxiliary": [{"last_message": "Sure?"}]},
        ["wrong", "right"],
        "2 calls, 1 beside the task; no count of tokens; ended by message",
    ),
    ({**AGENT, "import_path": "tests.support.arena_agents:breaks"}, ["x"], "no box: broken on purpose"),
], ids=["refused", "turns", "beside", "broken"])  # fmt: skip
def test_what_ends_an_outside_episode_is_said(
    tmp_path: Path, millrace: Millrace, *, section: Any, script: list[Any], says: str
) -> None:
    config = write_run(tmp_path, section, scorer={"type": "environment"})
    with scripted_endpoint(*script, models=("gpt",)) as server:
        told = millrace("agent", config, "--endpoint", server.url)
    assert says in told.out, told.out + told.err
    assert told.code == int("score none" in told.out)


def test_one_row_is_collected_and_shown_with_its_sequences(
    tmp_path: Path, link: RedisLink, millrace: Millrace, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = yaml.safe_load((ROOT / "config" / "recipes" / "demo_cpu.yaml").read_text())
    source = {"type": "procedural", "size": 3}
    tree |= {"name": "d", "runs_dir": str(tmp_path / "runs"), "model": {"path": MODEL, "dtype": "float32"}}
    tree["evaluation"] = {}
    tree["data"] = {"train": [source, source | {"split": "eval"}], "cache_dir": str(tmp_path / "cache")}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(tree))
    words = ["--config", str(tmp_path / "run.yaml"), "sampling.group_size=2"]
    session = CollectingSession(load_run([*words, "name=one"]), link, "train", 4)
    session.open()
    with working(link, Keys("one"), lambda _: [1.0, None]) as hands:
        assert session.collect(threading.Event()) == 0
    assert hands.sampled == ["0"]
    assert show_played(load_run([*words, "name=one"])) == 1, "a completion has no score"
    said = capsys.readouterr().out
    assert "group 0: task math, row 4 of epoch 0" in said, "counted through both sources"
    sequence = r"\n    1: \d+ tokens of prompt, 1 turn of (\d+) tokens sampled \(version 0: \1\), 0 observed"
    assert re.search(f"completion 1: 1 sequence{sequence}", said), said


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--row", "-1"], 2, "'-1' is no number of a row"),
        (["--row", "x"], 2, "is no number of a row"),
        (["--episodes", "0"], 2, "must be at least 1"),
        (["--row", "99999"], 1, "has no row 99999 to sample: it has 4096, numbered 0 to 4095"),
        (["--key-variable", "A_API_KEY"], 2, "goes with --endpoint"),
        (["--endpoint", "http://h:1/v1", "--dry-run"], 2, "goes without --endpoint"),
        (["--endpoint", "http://h:1/v1", "--key-variable", "PATH"], 2, "ends with _API_KEY"),
        (["--endpoint", "http://h:1/v1", "--key-variable", "NO_SUCH_API_KEY"], 2, "is not set"),
        (["--endpoint", "h:1"], 2, "expected http://HOST:PORT"),
        (["scorers.tasks.math.environment=null"], 2, "no task of scorers.tasks has an environment"),
    ],
)
def test_words_that_can_not_be_used(
    tmp_path: Path, millrace: Millrace, *, words: list[str], code: int, says: str
) -> None:
    told = millrace("agent", write_run(tmp_path), *words)
    assert (told.code, says in told.err) == (code, True), told.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.prove
def test_an_endpoint_of_several_models_wants_a_name(tmp_path: Path, millrace: Millrace) -> None:
    with scripted_endpoint(models=("a", "b")) as server:
        told = millrace("agent", write_run(tmp_path), "--endpoint", server.url)
    assert (told.code, "lists 2 models (a, b): name one by --model" in told.err) == (1, True)


@pytest.mark.prove
def test_the_runs_own_policy_plays_a_row_by_real_roles(
    tmp_path: Path, millrace: Millrace, monkeypatch: Patch
) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    told = millrace("agent", write_run(tmp_path), "--row", "3", "--episodes", "2")
    assert told.code == 0, told.err
    assert "user: Which number is in box 8795?" in told.out
    assert "completion 1: 1 sequence" in told.out
    assert "millrace journal show d-agent-1 --group 0" in told.out


def test_a_play_says_who_is_ready_and_for_whom_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    def seen(**states: str) -> RunView:
        plain: dict[str, Any] = {"pid": 7, "host": "here", "since": 0.0, "version": ""}
        processes = tuple(Process(role=role, id=role, state=does, **plain) for role, does in states.items())
        now = Snapshot(status="", reason="", version=0, steps=0, processes=processes)
        return RunView(name="d", snapshot=now)

    progress = Progress()
    console = PlayConsole(progress)
    ready = {"learner": "0 of 1 rows", "scorer": "waiting for rollouts"}
    console.tick(RunView(name="d"), 4)
    assert capsys.readouterr().err == "", "nothing new, and no ten seconds"
    progress.said_at -= 11
    console.tick(RunView(name="d"), 4)
    assert "waiting for the collector (not there yet), the gen" in capsys.readouterr().err
    console.tick(seen(**ready, generator="starting the engine", agent="starting"), 4)
    progress.said_at -= 11
    console.tick(seen(**ready, generator="starting the engine", agent="waiting for episodes"), 4)
    console.tick(seen(**ready, generator="starting the engine", agent="waiting for episodes"), 4)
    progress.said_at -= 11
    console.tick(seen(**ready, generator="starting the engine", agent="waiting for episodes"), 4)
    for _ in range(2):
        console.tick(seen(**ready, generator="waiting for prompts", agent="playing"), 4)
    assert [line.partition(" s  ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "the collector is ready",
        "the scorer is ready",
        "the agent is ready",
        "waiting for the generator (starting the engine)",
        "the generator is ready",
        "all are ready, and the row is played",
    ]


def test_a_dry_run_shows_the_collector_of_one_row(tmp_path: Path, millrace: Millrace) -> None:
    told = millrace("agent", write_run(tmp_path), "--row", "7", "--dry-run")
    assert told.code == 0
    assert any("-m learner.collect --of=train --row=7" in line for line in told.lines)
    assert sum("-m agents --run d-agent-1" in line for line in told.lines) == 1
