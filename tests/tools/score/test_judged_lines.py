"""`millrace score` and `millrace rescore` of rows that a served model judges: its calls are under way side by side."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.messages import SampledGroup, ScoredGroup
from config.endpoint import EndpointConfig
from config.scorer_kinds import JudgeConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers.api import ScoringFailed
from scorers.rows.judged_lines import AHEAD, JudgedLines
from tests.support.endpoint_server import FAILING, SILENT, Call, Saying, Script, ScriptedEndpoint, busy
from tests.support.forked_program import fork_verb
from tests.support.groups import a_prompt, a_rollout
from tests.support.scores import a_score
from tests.support.scripted_judge import says, server
from tests.support.waiting import wait_until
from tools.main import main
from tools.rescore.command import Rescorer

__all__ = ["server"]

pytestmark = pytest.mark.process

PATIENCE_S = 120.0  # of a busy machine


def once_there_are(count: int) -> Script:
    """Return a judge that has everybody come again until so many different questions were put to it: never, one by one."""
    seen: set[str] = set()

    def script(call: Call) -> Saying:
        seen.add(call.prompt)
        return says(call) if len(seen) >= count else busy("0.2")

    return script


def judged(text: str) -> dict[str, Any]:
    return {"llm_output": text, "verification_info": {"type": "llm_judge", "answer": {"value": "72"}}}


def line(text: str) -> bytes:
    return json.dumps(judged(text)).encode()


def config_of(server: ScriptedEndpoint, **options: Any) -> ScorersConfig:
    section = JudgeConfig(endpoint=EndpointConfig(urls=(server.url,), timeout_s=60.0, cache=False))
    tasks = {"judge": TaskConfig(scorer=section)}
    return ScorersConfig(**{"retry_backoff_s": 0.01, "tasks": tasks, **options})


@pytest.mark.prove
def test_the_judges_calls_are_under_way_side_by_side_beside_other_lines(
    tmp_path: Path, server: ScriptedEndpoint, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    server.script = once_there_are(12)
    rows = [judged(f"{'YES' if number % 3 else 'NO'} {number}") for number in range(12)]
    rows.insert(5, {"llm_output": "#### 72", "verification_info": {"type": "gsm8k", "answer": "72"}})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "nope\n")
    assert main(["score", str(tmp_path / "rows.jsonl"), "--workers", "1"]) == 3
    found = [json.loads(result) for result in capfdbinary.readouterr().out.splitlines()]
    assert [result["line"] for result in found] == list(range(1, 15))
    assert found.pop()["reason"].startswith("line 14: not JSON")
    assert found.pop(5)["scorer"] == "math"
    assert [result["value"] for result in found] == [float(number % 3 > 0) for number in range(12)]


@pytest.mark.usefixtures("scored_here")
def test_calls_that_fail_are_begun_anew_together(server: ScriptedEndpoint) -> None:
    failed: set[str] = set()
    anew = once_there_are(6)

    def script(call: Call) -> Saying | str:
        if call.prompt in failed:
            return anew(call)
        failed.add(call.prompt)
        return FAILING

    server.script = script
    lines = JudgedLines(config_of(server, retries=1))
    try:
        futures = [lines.submit(line(f"YES {number}")) for number in range(6)]
        assert [future.result(PATIENCE_S)["value"] for future in futures] == [1.0] * 6
    finally:
        lines.close(is_interrupted=True)


@pytest.mark.usefixtures("scored_here")
def test_what_fails_in_every_try_is_unscorable_and_says_how_many_there_were(server: ScriptedEndpoint) -> None:
    server.script = lambda _: FAILING
    lines = JudgedLines(config_of(server, retries=2))
    try:
        result = lines.submit(line("YES")).result(PATIENCE_S)
        assert (result["status"], result["components"]) == ("unscorable", {"failed_tries": 3.0})
        assert result["reason"].startswith("not scored in 3 tries: ")
        assert len(server.calls) == 3
    finally:
        lines.close(is_interrupted=False)


def test_whoever_does_not_wait_is_not_waited_for(server: ScriptedEndpoint) -> None:
    server.script = lambda _: SILENT
    lines = JudgedLines(config_of(server))
    futures = [lines.submit(line(f"YES {number}")) for number in range(3)]
    wait_until(lambda: len(server.calls) >= 3, within_s=PATIENCE_S)
    lines.close(is_interrupted=True)
    assert wait(futures, 0).not_done == set()
    assert [type(future.exception()) for future in futures] == [ScoringFailed] * 3


@pytest.mark.prove
def test_a_program_gets_the_verdict_before_it_asks_again(server: ScriptedEndpoint) -> None:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with fork_verb("score", "-", "--workers", "1", **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in (1, 2):
            process.stdin.write(line(f"YES {number}") + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["value"] == 1.0
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
    assert server.most_at_once == 1


def test_only_lines_for_a_served_model_are_taken(server: ScriptedEndpoint) -> None:
    config = config_of(server)
    math = b'{"llm_output": "1", "verification_info": {"type": "math", "answer": "1"}}'
    lines = JudgedLines(config.model_copy(update={"tasks": {**config.tasks, "math": TaskConfig()}}))
    assert [lines.takes(data) for data in (line("a"), math, b"nope", b"{}")] == [True, False, False, False]
    assert EndpointConfig().concurrency < AHEAD
    lines.close(is_interrupted=False)


@pytest.mark.prove
def test_a_group_that_is_rescored_has_its_calls_under_way_together(server: ScriptedEndpoint) -> None:
    completion = a_rollout().completions[0]
    texts = [*(f"YES {number}" for number in range(6)), "YES 0"]
    prompt = a_prompt(task="judge", n=7, verification_info=judged("")["verification_info"])
    completions = tuple(replace(completion, text=text) for text in texts)
    rollout = SampledGroup(prompt=prompt, completions=completions, generator="g", seconds=0.0)
    old = (a_score(0.0, scorer="judge"),) * 7
    scored = ScoredGroup(rollout=rollout, scores=old, rewards=(0.0,) * 7, worker="w", seconds=0.0)
    config = config_of(server)
    server.script = once_there_are(6)
    with Rescorer(config, lambda _: "judge", 1) as pool:
        ((_, _, found),) = pool.rescored(iter([(0, scored)]))
    assert [rescored.score.value for rescored in found if rescored.score is not None] == [1.0] * 7
