"""A run that is the least which a private Redis is started for."""

from __future__ import annotations

from pathlib import Path

from config.loading import build_run
from config.run import Run


def tiny_run(runs_dir: Path, name: str = "demo", maxmemory_mb: int = 0) -> Run:
    sections = {"model": {"path": "tiny"}, "data": {"train": {"type": "procedural"}}}
    named = {"name": name, "runs_dir": str(runs_dir), "broker": {"maxmemory_mb": maxmemory_mb}}
    return build_run([("a test", sections | named)])
