"""The judge that a run serves itself: its command, and a supervisor that starts, awaits, watches and ends it.

In place of vLLM stands a small server, a real process that speaks HTTP.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.endpoint import EndpointConfig, ServeConfig
from config.explanations import ConfigError
from config.loading import at_served_judge
from tests.support.paths import ROOT
from tests.support.told import Patch
from tests.support.waiting import wait_until
from tests.support.watched import WORKER, Watched, command, living
from tests.tools.conftest import MakeRun
from tools.up.role_commands import Command, commands
from tools.up.served_judge import free_port, served_judge
from tools.up.supervisor import RunEnd

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

RUBRIC = {"rubric": {"scorer": {"type": "rubric"}}}
SERVE = {"serve": {"model": "Org/Judge"}}


def server(folder: Path, *, delay_s: float = 0.0, **limits: Any) -> Command:
    port, waits = str(free_port()), {"start_timeout_s": 30.0, "silence_s": 30.0, **limits}
    return replace(
        command("judge", ""),
        args=(sys.executable, "-m", "tests.support.health_server", port, str(folder), str(delay_s)),
        variables={"PYTHONPATH": str(ROOT)},
        health_url=f"http://127.0.0.1:{port}/health",
        **waits,
    )


def started(folder: Path) -> list[int]:
    """Return the ids of the servers' processes; on a busy machine the first may be ended before it is one."""
    file = folder / "pids"
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def test_nothing_starts_before_the_judge_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watched = Watched(
        tmp_path, server(tmp_path, delay_s=1.0), command("learner", "exit 0"), command("scorers-0", WORKER)
    )
    assert watched.run() == RunEnd(code=0, reason="")
    events = [record.getMessage().split(" took_s")[0].split(" pid")[0] for record in caplog.records]
    roles = ["started role=judge", "ready role=judge", "started role=learner", "started role=scorers-0"]
    assert events[:4] == roles
    assert not living(started(tmp_path)), "it ends with the run"


def test_a_judge_that_does_not_answer_in_time_ends_the_run_and_is_named(tmp_path: Path) -> None:
    judge = server(tmp_path, delay_s=60.0, start_timeout_s=0.4)
    watched = Watched(tmp_path, judge, command("learner", "echo begun"))
    reason = f"judge has not answered at {judge.health_url} for 0.4 s"
    assert watched.run() == RunEnd(code=1, failed_role="judge", reason=reason)
    assert not watched.lines, "the learner never began"
    assert not living(started(tmp_path))


def test_a_judge_that_cant_start_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    judge = replace(server(tmp_path), args=("bash", "-c", "echo no such model; exit 2"))
    watched = Watched(tmp_path, judge, command("learner", "echo begun"))
    reason = "judge ended with code 2: another start would change nothing"
    assert watched.run() == RunEnd(code=1, failed_role="judge", reason=reason)
    assert watched.lines == [("judge", "no such model")]


@pytest.mark.prove
def test_a_judge_that_falls_silent_is_killed_and_started_again_while_the_run_goes_on(tmp_path: Path) -> None:
    finish = f"until [ $(wc -l < {tmp_path}/pids) = 2 ]; do sleep 0.05; done; exit 0"
    watched = Watched(
        tmp_path, server(tmp_path, silence_s=0.8), command("learner", f"touch {tmp_path}/silent; {finish}")
    )
    assert watched.run() == RunEnd(code=0, reason="")
    assert [role for role, _, _ in watched.deaths] == ["judge"]


@pytest.mark.prove
def test_a_judge_without_a_fault_that_ends_is_started_again(tmp_path: Path) -> None:
    once = server(tmp_path)
    script = f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; exit 0; }}; exec {' '.join(once.args)}"
    again = replace(once, args=("bash", "-c", script))
    assert Watched(tmp_path, again, command("learner", "exit 0")).run() == RunEnd(code=0, reason="")


def test_a_stop_while_the_judge_is_awaited_ends_it(tmp_path: Path) -> None:
    def stop() -> None:
        if (tmp_path / "pids").exists():
            watched.stop.set()

    watched = Watched(tmp_path, server(tmp_path, delay_s=60.0), command("learner", "exit 0"), on_tick=stop)
    assert watched.run() == RunEnd(code=143, reason="stopped")
    wait_until(lambda: not living(started(tmp_path)))


def test_the_judges_command_has_its_settings_and_a_hidden_key(make_run: MakeRun, monkeypatch: Patch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    serve = {"model": "Org/Judge", "gpus": [3, 5], "tensor_parallel": 2, "max_model_len": 8192}
    serve |= {"kv_cache_mb": 64, "enforce_eager": True, "port": 8123, "arguments": ["--dtype", "float32"]}
    judge, *roles = commands(make_run(scorers={"tasks": RUBRIC}, judge={"serve": serve}), [])
    assert (judge.role, judge.gpus, judge.health_url) == ("judge", "3,5", "http://127.0.0.1:8123/health")
    assert " ".join(judge.args[1:]) == (
        "-m vllm.entrypoints.openai.api_server --model Org/Judge --host 127.0.0.1 --port 8123 "
        "--tensor-parallel-size 2 --gpu-memory-utilization 0.9 --max-num-seqs 256 --max-model-len 8192 "
        "--kv-cache-memory-bytes 67108864 --disable-uvicorn-access-log --enforce-eager --dtype float32"
    )
    key = judge.environment["VLLM_API_KEY"]
    assert len(key) == 32
    assert key not in str(judge)
    told = {role.role: role.environment.get("SERVED_JUDGE_API_KEY") for role in roles}
    assert told == {"learner": None, "generator-0": None, "scorers-0": key}
    assert roles[-1].environment["SERVED_JUDGE_URL"] == "http://127.0.0.1:8123/v1"


def test_each_start_has_a_port_and_a_key_of_its_own() -> None:
    serve = ServeConfig(model="Org/Judge")
    first, second = (served_judge(serve, on_cpu=True) for _ in range(2))
    assert first.key != second.key
    assert first.address.startswith("http://127.0.0.1:")


def test_an_endpoint_without_servers_asks_the_served_judge_and_others_their_own(monkeypatch: Patch) -> None:
    own = EndpointConfig(urls=("http://10.0.0.7:8000",))
    assert at_served_judge(EndpointConfig()) == EndpointConfig()
    monkeypatch.setenv("SERVED_JUDGE_URL", "http://127.0.0.1:8123/v1")
    assert at_served_judge(own) == own
    found = at_served_judge(EndpointConfig(max_tokens=64))
    assert (found.urls, found.key_variable) == (("http://127.0.0.1:8123/v1",), "SERVED_JUDGE_API_KEY")
    assert found.max_tokens == 64
    monkeypatch.setenv("SERVED_JUDGE_URL", "judge:8000")
    with pytest.raises(ConfigError, match=r"SERVED_JUDGE_URL: .*http://HOST:PORT"):
        at_served_judge(EndpointConfig())


NONSENSE: list[Any] = [
    ({"judge": SERVE}, "no scorer asks it"),
    ({"judge": SERVE, "scorers": {"tasks": {"rubric": {"scorer": {"type": "rubric",
        "endpoint": {"urls": ["http://10.0.0.7:8000"]}}}}}}, "no scorer asks it"),
    ({"judge": {"serve": {"model": "Org/Judge", "max_model_len": 2048}}, "scorers": {"tasks": RUBRIC}},
        r"scorers.tasks.rubric.scorer.endpoint.max_tokens=2048 leaves no room .*max_model_len=2048"),
    ({"judge": {"serve": {"model": "Org/Judge", "gpus": [1], "tensor_parallel": 2}}, "scorers": {"tasks": RUBRIC}},
        "judge.serve.gpus names 1 GPUs"),
    ({"judge": SERVE, "scorers": {"tasks": {"rubric": {"scorer": {"type": "rubric"}},
        "tinyv": {"scorer": {"type": "tinyv", "endpoint": {"concurrency": 8}}}}}}, "have to be the same"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "says"), NONSENSE)
def test_a_judge_that_makes_no_sense_is_refused_when_the_configuration_is_read(
    settings: dict[str, object], says: str, make_run: MakeRun
) -> None:
    with pytest.raises(ConfigError, match=says):
        make_run(**settings)
