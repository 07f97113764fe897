"""`millrace evaluate --endpoint`: held-out rows are answered by a model at a real socket, one way or by an agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.endpoint_server import Call, Saying, scripted_endpoint
from tests.support.paths import ROOT
from tests.support.told import Millrace

pytestmark = pytest.mark.process

MODEL = str(ROOT / "config" / "recipes" / "demo_agents_model")
AGENT = {"type": "agent", "import_path": "tests.support.arena_agents:ask_twice"}


def write_run(folder: Path) -> Path:
    """Write a run with a set for an agent, and one of questions of one turn."""
    row = {"messages": [{"role": "user", "content": "?"}]}
    asked = [row | {"verification_info": {"type": "twice", "answer": {"value": name}}} for name in ("a", "b")]
    digits = [row | {"verification_info": {"type": "math", "answer": {"value": "7"}}}]
    for name, rows in (("asked", asked), ("digits", digits)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    sets = [
        {"type": "dataset", "name": name, "path": str(folder / f"{name}.jsonl"), "samples": 2}
        for name in ("asked", "digits")
    ]
    tree = {
        "name": "e",
        "runs_dir": str(folder / "runs"),
        "model": {"path": MODEL},
        "data": {"train": {"type": "procedural"}, "held_out": sets, "cache_dir": str(folder / "cache")},
        "scorers": {
            "workers": 1,
            "tasks": {"twice": {"environment": AGENT, "scorer": {"type": "environment"}}, "math": {}},
        },
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(tree))
    return folder / "run.yaml"


@pytest.mark.prove
def test_an_endpoint_that_goes_away_loses_no_row_and_the_same_command_goes_on(
    tmp_path: Path, millrace: Millrace
) -> None:
    config, out = write_run(tmp_path), tmp_path / "found.json"

    def says(call: Call) -> Saying | str:
        if len(server.calls) > 3 and is_away:
            return Saying(status=401)
        usage = {"prompt_tokens": 3, "completion_tokens": 5}
        is_first = len(call.body["messages"]) == 1
        text = "\\boxed{7}" if "7" in call.prompt else "wrong" if is_first else "right"
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        return Saying(body=json.dumps({"choices": [choice], "usage": usage}).encode())

    is_away = True
    words: list[Any] = [config, "--endpoint"]
    with scripted_endpoint(models=("gpt",)) as server:
        server.script = says
        few = ("agents.episodes=1", "-o", out)
        told = millrace("evaluate", *words, server.url, *few)
        assert (told.code, "the same command goes on" in told.err) == (1, True), told.err
        (kept,) = (tmp_path / "runs").glob("e-evaluation-*/played.jsonl")
        before, asked = kept.read_bytes(), len(server.calls)
        is_away = False
        told = millrace("evaluate", *words, server.url, *few)
        assert told.code == 0, told.err
        assert kept.read_bytes().startswith(before)
        assert len(server.calls) - asked <= 2 * 2 * 2 + 2 - 2 * before.count(b"\n")
        found = json.loads(out.read_bytes())
        again, asked = millrace("evaluate", *words, server.url, *few), len(server.calls)
        assert (again.code, len(server.calls), json.loads(out.read_bytes())) == (0, asked, found)
        kept.write_bytes(kept.read_bytes()[:-9])
        assert millrace("evaluate", *words, server.url, *few).code == 0
        assert (len(server.calls), json.loads(out.read_bytes())) == (asked + 2, found), (
            "a line that was cut short"
        )
        server.models = ("another",)
        told_other = millrace("evaluate", *words, server.url, *few)
        assert (told_other.code, "rows that gpt answered, and another is there" in told_other.err) == (
            1,
            True,
        )
    assert found["model"] == {"path": "gpt", "revision": None, "weights": None, "endpoint": server.url}
    rows = [(row["set"], row["scores"], row["tokens"], row["cut"]) for row in found["rows"]]
    assert rows == [
        ("asked", [1.0, 1.0], [10, 10], [False, False]),
        ("asked", [1.0, 1.0], [10, 10], [False, False]),
        ("digits", [0.0, 0.0], [5, 5], [False, False]),
    ]
    assert {one["set"]: one["average"]["value"] for one in found["summary"]} == {"asked": 1.0, "digits": 0.0}
    assert "digits" in told.out
    lines = [json.loads(line) for line in kept.read_bytes().splitlines()]
    said = {
        tuple(turn["content"] for turn in one["episodes"][0]["conversation"]["messages"]) for one in lines
    }
    assert said == {("wrong", "Sure?", "right"), ("wrong",)}
