"""docs/own_agents.md: each agent of the page plays a row of the demo, by an outside model at a real socket."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.loading import load_run
from sandbox.choice import check_walls
from sandbox.program import SandboxMissing
from tests.conftest import ROOT
from tests.support.endpoint_server import Saying, ScriptedEndpoint, scripted_endpoint
from tests.support.redis_servers import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

PAGE = "".join((ROOT / "docs" / name).read_text("utf-8") for name in ("own_agents.md", "agent_apis.md"))
FILES = dict(re.findall(r"^```\w+ ([\w.]+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL))
LAYERS = [name for name in FILES if name.endswith(".yaml")]
RECIPE = str(ROOT / "config" / "recipes" / "demo_agents.yaml")
LOOK = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"box": "8795"}'}}


def says(content: str | None, *calls: Any) -> Saying:
    message = {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
    return Saying(body=json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())


@pytest.fixture
def model() -> Iterator[ScriptedEndpoint]:
    with scripted_endpoint(says("\\boxed{2132}"), models=("m",)) as server:
        yield server


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder with the page's files, which the walls' user can read: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as place:
        made = Path(place)
        made.chmod(0o755)
        for name, text in FILES.items():
            (made / name).write_text(text, encoding="utf-8")
        yield made


def plays(folder: Path, layer: str, url: str, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Start `millrace agent` on a row, with a layer of the page, in the folder of its files."""
    command = [sys.executable, "-m", "tools.main", "agent", RECIPE, "--layer", layer, "--row", "3"]
    words = (*words, f"model.path={ROOT}/config/recipes/demo_agents_model", f"data.cache_dir={folder}/cache")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.Popen(
        [*command, "--endpoint", url, *words], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_of_the_page_is_valid_over_the_demo(folder: Path, layer: str) -> None:
    run = load_run(["--config", RECIPE, "--config", str(folder / layer)])
    assert run.has_agents
    assert run.name == yaml.safe_load(FILES[layer])["name"]


@pytest.mark.prove
def test_the_pages_script_looks_and_answers(folder: Path, model: ScriptedEndpoint) -> None:
    model.script = lambda call: says("\\boxed{2132}") if len(call.body["messages"]) > 1 else says(None, LOOK)
    said, _ = plays(folder, "own.yaml", model.url).communicate(timeout=120)
    assert "score 1 by math" in said, said
    assert "tool: The number is 2132." in said or "tool look: The number is 2132." in said, said


@pytest.mark.prove
def test_the_pages_command_answers_behind_walls(folder: Path, model: ScriptedEndpoint) -> None:
    try:
        check_walls()
    except SandboxMissing as error:
        pytest.skip(str(error))
    said, _ = plays(folder, "command.yaml", model.url).communicate(timeout=120)
    assert "score 1 by environment" in said, said


@pytest.mark.prove
def test_the_pages_agent_elsewhere_opens_an_episode_and_finishes_it(
    folder: Path, model: ScriptedEndpoint
) -> None:
    port, key = free_port(), {"GATEWAY_API_KEY": "sk-of-the-page"}
    playing = plays(folder, "remote.yaml", model.url, f"agents.gateway.port={port}", **key)
    variables = {**os.environ, **key, "GATEWAY": f"http://127.0.0.1:{port}"}
    command = [sys.executable, "agent_elsewhere.py"]

    def has_finished() -> bool:
        return not subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, check=False
        ).returncode

    wait_until(has_finished, "the agent elsewhere, whose gateway comes up meanwhile", within_s=120)
    said, _ = playing.communicate(timeout=120)
    assert "score 1 by environment" in said, said
