"""docs/environments.md: tools, environments and sections work as they are written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.messages import Turn
from config.scorers import ScorersConfig
from tests.conftest import ROOT
from tests.support.played import Played, played, said
from verdicts.code.judging import CaseTally
from verdicts.code.output import difference
from verdicts.code.public import public_tests

pytestmark = pytest.mark.process

PAGE = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```\w+ ([\w.]+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL))
SECTIONS = [name for name in FILES if name.endswith(".yaml")]


def environment(name: str) -> dict[str, Any]:
    (task,) = yaml.safe_load(FILES[name])["scorers"]["tasks"].values()
    found: dict[str, Any] = task["environment"]
    return found


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_of_the_page_is_valid(name: str) -> None:
    (task,) = ScorersConfig.model_validate(yaml.safe_load(FILES[name])["scorers"]).tasks.values()
    assert task.environment


def test_the_pages_tool_and_its_game_are_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    call: Turn = {"function": {"name": "price", "arguments": '{"thing": "tea", "unit": "cents"}'}}

    async def both(play: Played) -> list[Any]:
        tool, beginning = await play.begin("tool")
        first = await tool.step({**said(""), "tool_calls": [call]})
        game, _ = await play.begin("game", seed=41)
        steps = [await game.step(said(text)) for text in ("It is 50?", "maybe 7", "42!")]
        schema = beginning.tools[0]["function"]["parameters"]["properties"]["unit"]
        return [
            first.messages[0]["content"],
            schema,
            [(step.messages[0]["content"], step.reward) for step in steps],
        ]

    with played({"tool": environment("tools.yaml"), "game": environment("game.yaml")}) as play:
        price, unit, game = play.wait(both(play))
    assert price == "300"
    assert unit == {"type": "string", "enum": ["coins", "cents"], "description": "of the answer"}
    assert game == [("It is less.", 0.0), ("It is more.", 0.0), ("That is it.", 1.0)]


def test_the_pages_row_shows_the_test_that_it_says() -> None:
    info = json.loads(FILES["rows.jsonl"])["verification_info"]
    public = public_tests(info, environment("tries.yaml")["public"])
    tally = CaseTally(2, is_all=False)
    tally.add(None)
    tally.add(difference("6\n", "9\n"), printed="6\n")
    assert public.told(tally, 500) in PAGE
