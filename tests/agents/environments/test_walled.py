"""`type: command` behind walls: the command reaches the policy and nothing else, and dies with its episode."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agents.environments.seam import EnvironmentFailed, Finish
from agents.gateway.calls import PlayCalls
from agents.gateway.dialects.dialect import ApiRequest, Begun, PolicyAnswer, TokenUsage
from agents.gateway.server import Gateway
from config.episodes.own_loop import CommandConfig
from sandbox.choice import walls_without_network
from sandbox.program import SandboxMissing
from tests.support.paths import ROOT
from tests.support.played import Played, played
from tests.support.waiting import wait_in_loop, wait_until

pytestmark = pytest.mark.process

SCRIPT = ROOT / "tests" / "support" / "walled_agent.py"
SECTION = {
    "type": "command",
    "command": ["python3", str(SCRIPT)],
    "readable": [str(SCRIPT)],
    "variables": ["KEPT_API_KEY"],
    "memory_mb": 256,
}
LONG_S = 987


class Parrot(PlayCalls):
    """The policy says what it was told."""

    def count(self, asked: ApiRequest) -> int:
        return len(asked.messages)

    async def _answered(self, asked: ApiRequest, begun: Begun) -> PolicyAnswer:
        message = {"role": "assistant", "content": f"heard {asked.messages[-1]['content']}"}
        usage = TokenUsage(given=1, cached=0, sampled=1)
        return PolicyAnswer(
            id=begun.id,
            model=begun.model,
            created=begun.created,
            message=message,
            is_cut=False,
            stopped_at=None,
            usage=usage,
        )


@pytest.fixture(scope="module")
def play() -> Iterator[Played]:
    try:
        walls_without_network().close()
    except SandboxMissing as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEPT_API_KEY", "kept")
        patch.setenv("OTHER_API_KEY", "other")
        with played({"run": SECTION}) as made:
            yield made


async def ran(play: Played, row: dict[str, Any], *, within_s: float = 30.0) -> Finish:
    gateway, calls = Gateway("m", has_socket=True), Parrot(model="m", created=0)
    await gateway.start()
    episode, _ = await play.begin("run", row)
    try:
        with gateway.opened(calls) as access:
            return await episode.run(access.base_url, access.key, within_s, socket=access.socket)
    finally:
        await episode.close()
        await calls.close()
        await gateway.close()
        assert not Path(access.socket).exists()  # noqa: ASYNC240 - a look


def test_the_command_reaches_the_policy_and_nothing_else(play: Played, tmp_path: Path) -> None:
    (tmp_path / "near").write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as other:
        row = {
            "port": other.getsockname()[1],
            "files": [str(tmp_path / "near"), str(ROOT / "README.md"), "/etc/passwd", str(SCRIPT)],
            "writes": [str(SCRIPT), "/agent/row.json", "/usr/bin/x", "/tmp/own"],
            "secret": "OTHER_API_KEY",
        }
        finish = play.wait(ran(play, row))
    assert finish.reward == 1.0
    said = json.loads(finish.remark)
    assert said.pop("said") == "heard first"
    assert said.pop("other port") == "ConnectionRefusedError"
    assert said.pop("secret") == "not there"
    assert said.pop("/tmp/own") == "written"
    assert {said.pop(path) for path in ("/agent/row.json", "/usr/bin/x", str(SCRIPT))} <= {
        "OSError",
        "PermissionError",
    }
    assert set(said.values()) == {"FileNotFoundError"}, said


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"code": 3}, "python3 ended with exit code 3"),
        ({"fills": 600, "sleeps": 20}, "ended behind its walls: .* MiB of memory, 256 allowed"),
    ],
)
def test_how_the_command_failed_is_said_with_what_it_printed(
    play: Played, row: dict[str, Any], says: str
) -> None:
    with pytest.raises(EnvironmentFailed, match=says) as failed:
        play.wait(ran(play, row))
    assert failed.value.is_policys
    assert ("printed" in str(failed.value)) == ("code" in row)


def sleepers() -> list[int]:
    words = ["sleep", str(LONG_S)]
    return [one.pid for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == words]


def test_the_command_dies_with_its_episode(play: Played) -> None:
    async def left() -> None:
        running = asyncio.create_task(ran(play, {"sleeps": LONG_S}))
        await wait_in_loop(sleepers, "the command's own child", within_s=30)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    play.wait(left())
    wait_until(lambda: not sleepers(), "the end of all that the command started", within_s=20)


def test_what_walls_can_not_be_had_for_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.walls.bubblewrap.find_bwrap", lambda: None)
    with pytest.raises(SandboxMissing, match=r"bwrap is not installed.*Landlock has no wall.*sandbox: false"):
        walls_without_network()
    with pytest.raises(ValueError, match="leave `python` unset"):
        CommandConfig(command=("x",), python="python3")
    with pytest.raises(ValueError, match="goes with `sandbox: true`"):
        CommandConfig(command=("x",), sandbox=False, readable=("/srv",))


@pytest.mark.prove
def test_what_can_not_be_shown_is_said_at_the_start(play: Played, tmp_path: Path) -> None:
    del play
    tmp_path.chmod(0o700)
    (tmp_path / "mine").touch(0o600)
    closed = [
        (
            SECTION | {"readable": [str(tmp_path / "mine")]},
            r"can.t be shown: behind walls root.*Permission denied",
        )
    ]
    for section, says in (
        *(closed if os.getuid() == 0 else ()),
        (SECTION | {"command": ["no-such-agent"]}, "there is no program no-such-agent"),
        (SECTION | {"readable": ["/no/such"]}, "readable: there is no /no/such"),
    ):
        with played({"run": section}) as broken, pytest.raises(EnvironmentFailed, match=says):
            broken.wait(broken.begin("run"))
