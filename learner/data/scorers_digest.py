"""Make a digest that tells whether stored verdicts of scorers on rows are still valid.

In: a run. Out: a digest of its section `scorers`, of this program's code for scorers, and of the user's own files. Used
by `learner.data.gold` and `learner.data.refused`, which store verdicts with the rows. A user's file is read and not
imported; its own imports are not followed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from config.episodes.environments import CustomEnvironmentConfig, EnvironmentConfig
from config.run import Run
from config.scorer_kinds import CustomConfig, ScorerConfig, VerlFunctionConfig

_ROOT: Final = Path(__file__).parent.parent.parent


def scorers_digest(run: Run) -> str:
    """Return a digest of everything that decides a run's scores: configuration, code, and the user's own files."""
    every = [
        section
        for task in run.scorers.tasks.values()
        for section in (*task.all_scorers.values(), task.environment)
        if section is not None
    ]
    packages = ("scorers", "verdicts", "sandbox", "web", *(["agents"] if run.has_agents else []))
    said = [run.scorers.model_dump_json(), _code_digest(packages), *map(_own_file, every)]
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=8).hexdigest()


def _own_file(section: ScorerConfig | EnvironmentConfig) -> str:
    """Return a digest of the user's file in a section; "" where there is none."""
    match section:
        case CustomConfig() | CustomEnvironmentConfig():
            name = section.import_path.partition(":")[0].replace(".", "/")
            folders = dict.fromkeys([*(sys.path), str(Path.cwd())])
            files = [Path(folder) / f"{name}{end}" for folder in folders for end in (".py", "/__init__.py")]
        case VerlFunctionConfig():
            files = [Path(section.path).expanduser()]
        case _:
            return ""
    for file in files:
        with suppress(OSError):
            return hashlib.blake2b(file.read_bytes(), digest_size=8).hexdigest()
    return ""


@cache
def _code_digest(packages: tuple[str, ...]) -> str:
    """Return a digest of the code that scores or plays: another version may score differently."""
    digest = hashlib.blake2b(digest_size=8)
    for package in packages:
        for file in sorted((_ROOT / package).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
