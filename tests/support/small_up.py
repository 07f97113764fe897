"""`millrace up` from its Redis to its report, with small scripts of bash in place of the roles."""

from __future__ import annotations

import sys
from pathlib import Path

from broker.errors import PipelineError
from config.loading import build_run
from tools.up import local_run
from tools.up.console import PlainConsole
from tools.up.role_commands import Command


def play(runs_dir: str | Path, learner: str, generator: str, redis_url: str = "") -> int:
    """Run a learner and a generator under the name `demo`, and return the exit code."""
    sections = {"model": {"path": "tiny"}, "data": {"train": {"type": "procedural"}}, "learner": {"steps": 3}}
    place = {"name": "demo", "runs_dir": str(runs_dir), "broker": {"url": redis_url or None}}
    plan = [
        Command(role="learner", args=("bash", "-c", learner), ends_the_run=True),
        Command(role="generator-0", args=("bash", "-c", generator)),
    ]
    try:
        return local_run.start(build_run([("a test", place | sections)]), plan, PlainConsole()).code
    except PipelineError as error:
        sys.exit(str(error))
