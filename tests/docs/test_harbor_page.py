"""docs/harbor.md: its task directories become rows, and its agent plays one by an outside model at a real socket."""

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

from config.loading import load_run
from sandbox.choice import check_walls
from sandbox.program import SandboxMissing
from tests.conftest import ROOT
from tests.support.endpoint_server import Saying, scripted_endpoint
from tests.support.task_folders import task_folder

pytestmark = pytest.mark.process

PAGE = (ROOT / "docs" / "harbor.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```\w+ ([\w.]+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL))
RECIPE = str(ROOT / "config" / "recipes" / "demo_agents.yaml")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder with the page's files, which the walls' user can read: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as place:
        made = Path(place)
        made.chmod(0o755)
        for name, text in FILES.items():
            (made / name).write_text(text, encoding="utf-8")
        yield made


def types(folder: Path, *words: str) -> str:
    """Type a command of `millrace` in the folder."""
    command = [sys.executable, "-m", "tools.main", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def says(content: str, *calls: Any) -> Saying:
    message = {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
    return Saying(body=json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())


@pytest.mark.parametrize("layer", ["harbor.yaml", "swe.yaml"])
def test_every_layer_of_the_page_is_valid_over_the_demo(folder: Path, layer: str) -> None:
    assert load_run(["--config", RECIPE, "--config", str(folder / layer)]).has_agents


@pytest.mark.prove
def test_the_pages_commands_make_rows_and_play_one_with_the_pages_agent(folder: Path) -> None:
    try:
        check_walls()
    except SandboxMissing as error:
        pytest.skip(str(error))
    task_folder(folder / "tasks" / "one")
    assert "1 rows" in types(folder, "prepare", "harbor", "--source", "tasks", "-o", "tasks.parquet")
    function = {"name": "bash", "arguments": json.dumps({"command": "cp number.txt answer.txt; ls"})}
    call = {"id": "c1", "type": "function", "function": function}
    with scripted_endpoint(says("Done."), models=("m",)) as model:
        model.script = lambda asked: says("Done.") if len(asked.body["messages"]) > 1 else says("", call)
        words = ("--layer", "harbor.yaml", "--row", "0", "--endpoint", model.url)
        paths = (f"model.path={ROOT}/config/recipes/demo_agents_model", f"data.cache_dir={folder}/cache")
        said = types(folder, "agent", RECIPE, *words, *paths)
    assert "[exit code 0]" in said, said
    assert "score 1 by environment" in said, said
