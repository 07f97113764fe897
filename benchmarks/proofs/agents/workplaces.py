"""Agents in places: task directories of Harbor's behind walls and in a container, and a row about a patch.

The agent is a script on the unmodified `openai` client, with a scripted policy behind the gateway at a real socket.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agents.environments.child.workplaces.engine import ENGINES
from benchmarks.proofs.agents.player import Player, Ran
from benchmarks.proofs.agents.stage import KindStage, Missing
from config.scorer_kinds import SweConfig
from config.scorers import ScorersConfig
from sandbox.choice import check_walls
from sandbox.program import SandboxMissing
from scorers.swe.scorer import SwePatch

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


def _works(player: Player, row: Mapping[str, Any], *said: str) -> Ran:
    return player.run(*said, row={"messages": [{"role": "user", "content": "Do it."}], **row}, judged=True)


def _task(stage: KindStage, name: str, **files: str) -> dict[str, Any]:
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


def _plays_tasks(stage: KindStage, where: str, *, build_words: Sequence[str] = (), **files: str) -> None:
    """Play task directories of one kind of place, by a function and by a command."""
    stage.file("own_agent.py", AGENT)
    section: dict[str, Any] = {"type": "harbor", "build_words": list(build_words)}
    with stage.plays({**section, "import_path": "own_agent:solve"}, scorer="environment") as player:
        right = _works(player, _task(stage, "right", **files), READS, WRITES, "done")
        wrong = _works(player, _task(stage, "right", **files), PLANTS, "done")
        broken = _works(player, _task(stage, "broken", **files, **{"tests/test.sh": "exit 3"}), "done")
        late = {"task.toml": SETTINGS.replace("60.0", "1.0"), "tests/test.sh": "sleep 60"}
        hung = _works(player, _task(stage, "hung", **files, **late), "done")
    stage.holds(
        f"{where}: the tests pay what is right, and not what is wrong",
        right.reward == 1.0,
        wrong.reward == 0.0,
    )
    stage.holds(
        f"{where}: no test and no folder of rewards is there while the agent works",
        bool(right.heard),
        "look.py" not in right.heard,
    )
    stage.holds(
        f"{where}: tests that break, or run out of time, are nobody's doing and no zero",
        broken.failed("judge", "exit code 3 and no reward", is_policys=False),
        hung.failed("judge", "1 s of time", is_policys=False),
    )


def harbor(stage: KindStage) -> None:
    """Play task directories behind walls, with a command too, and in a container where there is an engine."""
    try:
        check_walls()
    except SandboxMissing as error:
        raise Missing(str(error)) from None
    _plays_tasks(stage, "behind walls")
    section = {"type": "harbor", "command": ["python3", "-c", COMMAND]}
    with stage.plays(section, scorer="environment") as player:
        right = _works(player, _task(stage, "right"), WRITES)
        broken = _works(player, _task(stage, "right"), "$ exit 3")
    stage.holds(
        "behind walls: a command, on the standard library alone, is paid the same", right.reward == 1.0
    )
    stage.holds(
        "behind walls: an agent that breaks is told by its exit code",
        broken.failed("run", "exit code 1", is_policys=True),
    )
    engine = next((name for name in ENGINES if shutil.which(name)), None)
    if engine is None or not _has_base(engine):
        stage.leaves_out(f"in a container, for want of podman or docker with {BASE}")
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


def swe(stage: KindStage) -> None:
    """Mend a row's repository, and have the diff judged by the scorer of one turn."""
    try:
        check_walls()
    except SandboxMissing as error:
        raise Missing(str(error)) from None
    stage.file("own_agent.py", AGENT)
    scorer = {"type": "swe", "answer": "diff"}
    with stage.plays({"type": "swe", "import_path": "own_agent:solve"}, scorer=scorer) as player:
        mended = _works(player, ROW, "$ ls; ls tests", "$ sed -i 's/0/sum(prices)/' prices.py", "done")
        spoiled = _works(
            player, ROW, "$ sed -i 's/0/1/' prices.py; mkdir tests; touch tests/test_prices.py", "done"
        )
        nothing = _works(player, ROW, "done")
    judge = SwePatch(SweConfig(answer="diff"), ScorersConfig())
    try:
        scores = [judge.score(one.answer, ROW).value for one in (mended, spoiled, nothing)]
    finally:
        judge.close()
    stage.holds(
        "the agent finds the repository, and not its tests",
        "prices.py" in mended.heard,
        "No such file" in mended.heard,
    )
    stage.holds("what it changes is a diff", mended.answer.startswith("diff --git a/prices.py b/prices.py"))
    stage.holds(
        "the row's tests pay what mends it, and neither another change nor none",
        all(one.finish is not None for one in (mended, spoiled, nothing)),
        scores == [1.0, 0.0, 0.0],
    )
