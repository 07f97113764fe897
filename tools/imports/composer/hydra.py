"""Compose verl's base configuration with a call's overrides by Hydra itself, given a folder with verl.

In: a checkout or an installed verl, the trainer, the call's configuration, and its overrides. Out: each key with its
value. hydra-core 1.3.8 needs another antlr runtime than math-verify, so it runs in a separate environment, which the
first such import makes in the cache folder, or in verl's own (`--verl-python`). Raises ConfigError: no verl there,
Hydra's own error, no environment.
"""

from __future__ import annotations

import fcntl
import json
import logging
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from config.explanations import ConfigError
from config.loading import cache_folder

VERSION: Final = "1.3.8"
MADE: Final = "installed"  # a file in a complete environment
TIMEOUT_S: Final = 120.0
INSTALL_S: Final = 600.0
_PROGRAM: Final = Path(__file__).parent / "program.py"
_BASE: Final = ("verl/trainer/config", "trainer/config")  # in a checkout; in an installed package
_DECLARED: Final = re.compile(r"hydra\.main\(([^)]*)\)")
_ARGUMENT: Final = r"{name}\s*=\s*['\"]([^'\"]+)['\"]"

log = logging.getLogger(__name__)


class NoHydra(Exception):
    """There is no environment with Hydra, and making one failed; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verl:
    """A folder with verl."""

    folder: Path  # root of the call's module names
    base: Path  # folder of its configurations

    @classmethod
    def at(cls, folder: Path) -> Verl:
        """Find verl in a folder. Raises ConfigError."""
        for one in _BASE:
            if (folder / one / "ppo_trainer.yaml").is_file():
                is_package = one == _BASE[1]
                return cls(
                    folder=(folder.parent if is_package else folder).resolve(), base=(folder / one).resolve()
                )
        raise ConfigError(f"--verl {folder}: no verl in it: {_BASE[0]}/ppo_trainer.yaml is not there")


def compose(
    verl: Verl,
    *,
    module: str,
    config_path: str | None,
    config_name: str | None,
    words: Sequence[str],
    python: str | None,
) -> dict[str, Any]:
    """Compose a call's configuration.

    Args:
        verl: location of the base configuration.
        module: the trainer's, such as `verl.trainer.main_ppo`.
        config_path: the call's folder; None: the trainer's own.
        config_name: the call's file; None: the trainer's own.
        words: overrides.
        python: of an environment with hydra-core; None: made here.
    """
    folder, name = _primary(verl, module, config_path, config_name)
    request = {
        "folder": str(folder),
        "name": name.removesuffix(".yaml"),
        "search": [str(verl.base)],
        "words": list(words),
    }
    ran = subprocess.run(
        [python or environment(), "-I", str(_PROGRAM)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=verl.folder,
        check=False,
    )
    try:
        found = json.loads(ran.stdout)
    except (ValueError, RecursionError):
        last = ran.stderr.strip().splitlines()[-1:] or [f"exit code {ran.returncode}"]
        raise ConfigError(f"Hydra could not be asked by {python or 'its own Python'}: {last[0]}") from None
    if "error" in found:
        raise ConfigError(f"Hydra: {' '.join(str(found['error']).split())}")
    values: dict[str, Any] = found["values"]
    return values


def _primary(verl: Verl, module: str, config_path: str | None, config_name: str | None) -> tuple[Path, str]:
    """Return the folder and the name of the configuration that a call starts from."""
    file = verl.folder / f"{module.replace('.', '/')}.py"
    declared = _DECLARED.search(file.read_text(encoding="utf-8")) if file.is_file() else None
    arguments = declared[1] if declared else ""
    own_path, own_name = (
        found[1] if (found := re.search(_ARGUMENT.format(name=name), arguments)) else None
        for name in ("config_path", "config_name")
    )
    name = config_name or own_name or "ppo_trainer"
    places = [verl.base]
    if config_path is not None:
        places = [Path(config_path), verl.folder / config_path, file.parent / config_path]
    elif own_path is not None:
        places = [file.parent / own_path, verl.base]
    for place in places:
        if (place / f"{name.removesuffix('.yaml')}.yaml").is_file():
            return place.resolve(), name
    raise ConfigError(f"the configuration {name} is in none of {', '.join(map(str, places))}")


def environment() -> str:
    """Return the Python of the environment with Hydra, made once under a lock. Raises NoHydra."""
    folder = cache_folder() / f"hydra-{VERSION}"
    python = folder / "bin" / "python"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f"{folder.name}.lock").open("a") as lock:
            _wait_for(lock)
            if not ((folder / MADE).is_file() and python.exists()):
                _make(folder, python)
    except subprocess.CalledProcessError as error:
        said = error.stderr or error.stdout or str(error)
        last = (said.decode(errors="replace") if isinstance(said, bytes) else said).strip().splitlines()[-1]
        raise NoHydra(f"hydra-core {VERSION} could not be installed in {folder}: {last}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoHydra(f"no environment for Hydra in {folder}: {error}") from None
    return str(python)


def _wait_for(lock: IO[str]) -> None:
    """Wait for another import that makes the environment. Raises OSError after the deadline."""
    deadline = time.monotonic() + INSTALL_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError(f"another import has been making it for {INSTALL_S:.0f} s") from None
            time.sleep(0.1)
        else:
            return


def _make(folder: Path, python: Path) -> None:
    log.info("making an environment with hydra-core==%s in %s", VERSION, folder)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True, symlinks=True)
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    subprocess.run(
        [*pip, f"hydra-core=={VERSION}"], check=True, capture_output=True, text=True, timeout=INSTALL_S
    )
    (folder / MADE).write_text(sys.version, encoding="utf-8")
