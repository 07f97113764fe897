"""Agents in places: task directories of Harbor's behind walls and in a container, and a row about a patch.

The agent is a script on the unmodified `openai` client, with a scripted policy behind the gateway at a real socket.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agents.environments.child.workplaces.engine import ENGINES
from agents.environments.seam import EnvironmentFailed, Finish
from agents.gateway.calls import Calls
from agents.gateway.dialects.dialect import Answer, Asked, Begun, Usage
from agents.gateway.server import Gateway
from benchmarks.proofs.agents.stage import TASK, Missing, Player, Stage
from config.scorer_kinds import SweConfig
from config.scorers import ScorersConfig
from sandbox.choice import check_walls
from sandbox.program import SandboxMissing
from scorers.swe.scorer import SwePatch

RUN_S: Final = 300.0
AGENT: Final = """
import openai

async def solve(base_url, api_key, row, environment):
    chat = list(row["messages"])
    async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
        while True:
            answer = await client.chat.completions.create(model="policy", messages=chat)
            message = answer.choices[0].message
            if not message.content.startswith("$ "):
                return
            done = await environment.exec(message.content[2:])
            chat += [message, {"role": "user", "content": f"{done.stdout}{done.stderr}"}]
"""
COMMAND: Final = """
import json, os, subprocess, urllib.request

row = json.load(open(os.environ["MILLRACE_ROW"]))
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "policy", "messages": row["messages"]}).encode(),
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
)
said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
subprocess.run(["bash", "-c", said[2:]], check=True)
"""
TEST: Final = """#!/bin/bash
if python3 /tests/look.py; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
LOOK: Final = (
    "import pathlib, sys\nsys.exit(pathlib.Path('answer.txt').read_text().split() != ['hidden', '42'])\n"
)
SETTINGS: Final = "schema_version = '1.4'\n[agent]\ntimeout_sec = 120.0\n[verifier]\ntimeout_sec = 60.0\n"
BASE: Final = "python:3.11-slim-bookworm"
DOCKERFILE: Final = f"FROM {BASE}\nWORKDIR /app\nCOPY secret.txt .\n"
READS, WRITES = "$ cat secret.txt; ls /tests /logs/verifier", "$ (cat secret.txt; echo 42) > answer.txt"
PLANTS: Final = (
    "$ mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.json; touch /tests/x; echo {} > answer.txt"
)
ROW: Final = {
    "type": "swe",
    "answer": {
        "code_context": {"prices.py": "def total(prices):\n    return 0\n"},
        "oracle_new_content": {"prices.py": "def total(prices):\n    return sum(prices)\n"},
        "files": {
            "tests/test_prices.py": "from prices import total\n\ndef test():\n    assert total([1, 2]) == 3\n"
        },
        "test_command": "pytest tests/test_prices.py",
    },
}


class Scripted(Calls):
    """A policy that says one thing after the other."""

    def __init__(self, said: Sequence[str]) -> None:
        super().__init__(model="policy", created=0)
        self._said, self.heard = list(said), list[str]()

    def count(self, asked: Asked) -> int:
        """Return the number of messages."""
        return len(asked.messages)

    async def _answered(self, asked: Asked, begun: Begun) -> Answer:
        self.heard.append(str(asked.messages[-1]["content"]))
        message = {"role": "assistant", "content": self._said.pop(0)}
        usage = Usage(given=1, cached=0, sampled=1)
        return Answer(
            id=begun.id,
            model=begun.model,
            created=begun.created,
            message=message,
            is_cut=False,
            stopped_at=None,
            usage=usage,
        )


async def _worked(player: Player, row: Mapping[str, Any], said: Sequence[str]) -> tuple[Finish, str]:
    """Play an agent to its end and have what it has made judged: with all that the policy heard."""
    gateway, calls = Gateway("policy", has_socket=True), Scripted(said)
    await gateway.start()
    asked = [{"role": "user", "content": "Do it."}]
    episode, _ = await player.environments.begin(
        TASK,
        {"messages": asked, **row},
        asked,
        seed=1,
        own_seed=1,
        token="proof",  # noqa: S106 - of an attempt's name
    )
    try:
        with gateway.opened(calls) as access:
            await episode.run(access.base_url, access.key, RUN_S, socket=access.socket)
        return await episode.judge(RUN_S), "\n".join(calls.heard)
    finally:
        await episode.close()
        await calls.close()
        await gateway.close()


def _works(player: Player, row: Mapping[str, Any], *said: str) -> tuple[Finish, str]:
    player.stage.episodes += 1
    return player.wait(_worked(player, row, said))


def _failure(player: Player, row: Mapping[str, Any], *said: str) -> str:
    """Return how an episode failed, and whose doing that was."""
    try:
        _works(player, row, *said)
    except EnvironmentFailed as error:
        return f"{error.stage} {'agent' if error.is_policys else 'nobody'} {error}"
    return ""


def _task(stage: Stage, name: str, **files: str) -> dict[str, Any]:
    """Make a task directory, and a row with it."""
    folder = stage.folder / name
    given = {
        "instruction.md": "Write what secret.txt has, and 42, into answer.txt.",
        "task.toml": SETTINGS,
        "environment/secret.txt": "hidden\n",
        "tests/test.sh": TEST,
        "tests/look.py": LOOK,
        **files,
    }
    for path, text in given.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    for place in (stage.folder, *folder.rglob("*"), folder):
        place.chmod(0o755)
    return {"type": "harbor", "answer": {"folder": str(folder)}}


def _plays_tasks(stage: Stage, where: str, *, build_words: Sequence[str] = (), **files: str) -> None:
    """Play task directories of one kind of place, by a function and by a command."""
    stage.file("own_agent.py", AGENT)
    section: dict[str, Any] = {"type": "harbor", "build_words": list(build_words)}
    with stage.plays({**section, "import_path": "own_agent:solve"}, scorer="environment") as player:
        right, heard = _works(player, _task(stage, "right", **files), READS, WRITES, "done")
        wrong, _ = _works(player, _task(stage, "right", **files), PLANTS, "done")
        broken = _failure(player, _task(stage, "broken", **files, **{"tests/test.sh": "exit 3"}), "done")
        late = {"task.toml": SETTINGS.replace("60.0", "1.0"), "tests/test.sh": "sleep 60"}
        hung = _failure(player, _task(stage, "hung", **files, **late), "done")
    stage.holds(
        f"{where}: the tests pay what is right, and not what is wrong",
        right.reward == 1.0,
        wrong.reward == 0.0,
    )
    stage.holds(
        f"{where}: no test and no folder of rewards is there while the agent works", "look.py" not in heard
    )
    stage.holds(
        f"{where}: tests that break, or run out of time, are nobody's doing and no zero",
        broken.startswith("judge nobody") and "exit code 3 and no reward" in broken,
        hung.startswith("judge nobody") and "1 s of time" in hung,
    )


def harbor(stage: Stage) -> None:
    """Play task directories behind walls, with a command too, and in a container where there is an engine."""
    try:
        check_walls()
    except SandboxMissing as error:
        raise Missing(str(error)) from None
    _plays_tasks(stage, "behind walls")
    section = {"type": "harbor", "command": ["python3", "-c", COMMAND]}
    with stage.plays(section, scorer="environment") as player:
        right, _ = _works(player, _task(stage, "right"), WRITES)
        broken = _failure(player, _task(stage, "right"), "$ exit 3")
    stage.holds(
        "behind walls: a command, on the standard library alone, is paid the same", right.reward == 1.0
    )
    stage.holds("behind walls: an agent that breaks is told by its exit code", "exit code 1" in broken)
    engine = next((name for name in ENGINES if shutil.which(name)), None)
    if engine is None or not _has_base(engine):
        stage.holds(f"in a container: left out, for want of podman or docker with {BASE}", True)
        return
    build_words = ["--network=host"] if engine == "podman" else []
    _plays_tasks(
        stage, f"in a container ({engine})", build_words=build_words, **{"environment/Dockerfile": DOCKERFILE}
    )
    names = [engine, "ps", "--all", "--filter", "name=millrace-harbor", "--format", "{{.Names}}"]
    left = subprocess.run(names, capture_output=True, text=True, check=True).stdout
    stage.holds("in a container: none is left behind", left.strip() == "")


def _has_base(engine: str) -> bool:
    return (
        subprocess.run([engine, "image", "inspect", BASE], check=False, capture_output=True).returncode == 0
    )


def swe(stage: Stage) -> None:
    """Mend a row's repository, and have the diff judged by the scorer of one turn."""
    try:
        check_walls()
    except SandboxMissing as error:
        raise Missing(str(error)) from None
    stage.file("own_agent.py", AGENT)
    scorer = {"type": "swe", "answer": "diff"}
    with stage.plays({"type": "swe", "import_path": "own_agent:solve"}, scorer=scorer) as player:
        mended, heard = _works(player, ROW, "$ ls; ls tests", "$ sed -i 's/0/sum(prices)/' prices.py", "done")
        spoiled, _ = _works(
            player, ROW, "$ sed -i 's/0/1/' prices.py; mkdir tests; touch tests/test_prices.py", "done"
        )
        nothing, _ = _works(player, ROW, "done")
    judge = SwePatch(SweConfig(answer="diff"), ScorersConfig())
    try:
        scores = [judge.score(one.answer or "", ROW).value for one in (mended, spoiled, nothing)]
    finally:
        judge.close()
    stage.holds(
        "the agent finds the repository, and not its tests", "prices.py" in heard, "No such file" in heard
    )
    stage.holds(
        "what it changes is a diff", (mended.answer or "").startswith("diff --git a/prices.py b/prices.py")
    )
    stage.holds(
        "the row's tests pay what mends it, and neither another change nor none", scores == [1.0, 0.0, 0.0]
    )
