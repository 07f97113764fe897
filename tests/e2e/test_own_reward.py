"""The example of an own reward in docs/scorers.md, typed as it stands in an empty folder, on a machine without a GPU."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.paths import PACKAGES, ROOT
from tests.support.verl_runs import millrace

pytestmark = pytest.mark.e2e

OURS = [name for name in PACKAGES if name != "scorers"]


@pytest.mark.prove
def test_the_pages_own_reward_trains_as_it_stands_beside_modules_of_our_names(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "scorers.md").read_text(encoding="utf-8")
    files = re.findall(r"^```\w+ ([\w.]+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert [name for name, _ in files] == ["my_scorer.py", "run.yaml", "rows.jsonl"]
    for name, content in files:
        (tmp_path / name).write_text(content, encoding="utf-8")
    for name in OURS:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    assert "`.venv/bin/millrace up run.yaml`" in text
    done = millrace("up", "run.yaml", folder=tmp_path, timeout_s=280.0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "run digits: finished after 20 of 20 steps" in done.stdout
    steps = [json.loads(line) for line in (tmp_path / "runs/digits/metrics.jsonl").read_text().splitlines()]
    rewards = [step["reward_mean"] for step in steps if "reward_mean" in step]
    assert len(rewards) == 20
    assert 0 < min(rewards) < max(rewards) <= 1, "the function's own values, not a constant"
