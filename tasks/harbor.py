"""Read a Harbor task directory: an instruction, limits, an environment and tests.

In: a folder in the format of Harbor (harborframework.com/docs/tasks; schema 1.4 and older, as of harbor 0.25.0, read on
2026-11-28): `task.toml`, `instruction.md`, `environment/`, `tests/`, maybe `solution/`. Out: a `HarborTask`. Features
that this version does not support are refused by name. Nothing of the folder is run here. Used by `millrace prepare`
and by agents.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from broker.errors import BadMessage

SETTINGS: Final = "task.toml"
INSTRUCTION: Final = "instruction.md"
ENVIRONMENT, TESTS = "environment", "tests"
DOCKERFILE: Final = "Dockerfile"
COMPOSE: Final = ("docker-compose.yaml", "docker-compose.yml")
TEST_SCRIPTS: Final = ("test.sh", "run-tests.sh")  # the first that exists is run
OLDER: Final = "task.yaml"  # of Terminal-Bench's own format
MOST_BYTES: Final = 256 << 20  # of a folder

_Network = Literal["public", "no-network", "allowlist"]


class _Part(BaseModel):
    """A table of task.toml. As in Harbor, keys that are not listed here do not change how a task is played."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Agent(_Part):
    timeout_sec: float | None = Field(None, gt=0)
    user: str | int | None = None
    network_mode: _Network | None = None


class _Verifier(_Part):
    timeout_sec: float = Field(600.0, gt=0)
    env: dict[str, str] = {}
    user: str | int | None = None
    network_mode: _Network | None = None
    environment_mode: str = "shared"
    collect: list[Any] = []


class _Environment(_Part):
    docker_image: str | None = None
    build_timeout_sec: float = Field(600.0, gt=0)
    cpus: float = Field(1, gt=0)
    memory_mb: int = Field(2048, ge=64)
    memory: str | None = None  # an older key: 2G
    gpus: int = 0
    env: dict[str, str] = {}
    os: str = "linux"
    allow_internet: bool = True
    network_mode: _Network | None = None
    mcp_servers: list[Any] = []
    healthcheck: Any = None


class _Settings(_Part):
    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    environment: _Environment = _Environment()
    steps: list[Any] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class HarborTask:
    """One task directory."""

    folder: Path
    instruction: str
    agent_s: float | None  # for the agent's own work; None: no limit
    verifier_s: float  # for the tests
    build_s: float  # for building the image
    image: str | None  # to pull; None: it is built from `environment/`, or not needed
    has_dockerfile: bool
    cpus: float
    memory_mb: int
    env: Mapping[str, str]  # for agent and tests; values may be templates, ${NAME} or ${NAME:-default}
    verifier_env: Mapping[str, str]  # for the tests, in addition
    agent_user: str | None  # None: the image's
    verifier_user: str | None
    wants_network: bool  # while the agent works
    script: str  # in `tests/`

    @property
    def needs_image(self) -> bool:
        """Whether the task runs in a container."""
        return self.image is not None or self.has_dockerfile

    @property
    def environment(self) -> Path:
        """Folder of the Dockerfile, or of the files that the agent works on."""
        return self.folder / ENVIRONMENT

    @property
    def tests(self) -> Path:
        """Folder of the tests."""
        return self.folder / TESTS


def read_task(folder: Path) -> HarborTask:
    """Read a task directory. Raises BadMessage that names what is wrong or not supported."""
    settings = _settings(folder)
    environment, agent, verifier = settings.environment, settings.agent, settings.verifier
    if lacking := _unplayable(folder, settings):
        raise BadMessage(f"{folder}: {lacking}")
    script = next((name for name in TEST_SCRIPTS if (folder / TESTS / name).is_file()), None)
    if script is None:
        raise BadMessage(f"{folder}: there is no {TESTS}/{TEST_SCRIPTS[0]}")
    has_dockerfile = (folder / ENVIRONMENT / DOCKERFILE).is_file()
    if not (environment.docker_image or has_dockerfile or (folder / ENVIRONMENT).is_dir()):
        raise BadMessage(
            f"{folder}: there is no {ENVIRONMENT}/ with a {DOCKERFILE} or the files to work on, and {SETTINGS} names "
            "no docker_image"
        )
    mode = agent.network_mode or environment.network_mode
    return HarborTask(
        folder=folder,
        instruction=_text(folder / INSTRUCTION),
        agent_s=agent.timeout_sec,
        verifier_s=verifier.timeout_sec,
        build_s=environment.build_timeout_sec,
        image=environment.docker_image,
        has_dockerfile=has_dockerfile,
        cpus=environment.cpus,
        memory_mb=_megabytes(folder, environment.memory) or environment.memory_mb,
        env=environment.env,
        verifier_env=verifier.env,
        agent_user=None if agent.user is None else str(agent.user),
        verifier_user=None if verifier.user is None else str(verifier.user),
        wants_network=mode == "public" if mode else environment.allow_internet,
        script=script,
    )


def _settings(folder: Path) -> _Settings:
    path = folder / SETTINGS
    if not path.is_file():
        is_older = (folder / OLDER).is_file()
        hint = f"; {OLDER} is of Terminal-Bench's older format, which `harbor` migrates" if is_older else ""
        raise BadMessage(f"{folder}: there is no {SETTINGS}{hint}")
    try:
        return _Settings.model_validate(tomllib.loads(_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise BadMessage(f"{path} is no TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise BadMessage(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _unplayable(folder: Path, settings: _Settings) -> str:
    """Return which feature of a task is not supported; "" if none."""
    environment, verifier = settings.environment, settings.verifier
    compose = next((name for name in COMPOSE if (folder / ENVIRONMENT / name).is_file()), None)
    modes = {environment.network_mode, settings.agent.network_mode, verifier.network_mode}
    found = {
        "several [[steps]]": bool(settings.steps),
        f"{ENVIRONMENT}/{compose}, several containers": compose is not None,
        "[environment] mcp_servers": bool(environment.mcp_servers),
        "[environment] healthcheck": environment.healthcheck is not None,
        "[environment] gpus": environment.gpus > 0,
        f"[environment] os = {environment.os!r}": environment.os != "linux",
        "network_mode = 'allowlist'": "allowlist" in modes,
        f"[verifier] environment_mode = {verifier.environment_mode!r}": verifier.environment_mode != "shared",
        "[[verifier.collect]]": bool(verifier.collect),
    }
    return ", ".join(f"{name} is not played here" for name, is_there in found.items() if is_there)


def _megabytes(folder: Path, size: str | None) -> int | None:
    """Return the size of an older key, `2G` or `512M`. Raises BadMessage."""
    if size is None:
        return None
    number, unit = size.strip()[:-1], size.strip()[-1:].upper()
    try:
        return int(float(number) * {"G": 1024, "M": 1}[unit])
    except (ValueError, KeyError):
        raise BadMessage(f"{folder / SETTINGS}: environment.memory: {size!r} is no size such as 2G") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadMessage(f"{path} can't be read: {error}") from None


def digest_of(folder: Path) -> str:
    """Return the SHA-256 of all files of a folder: of their names, their contents and whether they are executable.

    Raises:
        BadMessage: the folder can't be read, or is larger than MOST_BYTES.
    """
    whole, left = hashlib.sha256(), MOST_BYTES
    try:
        for path in _files(folder):
            kind = b"link" if path.is_symlink() else b"run" if path.stat().st_mode & stat.S_IXUSR else b"file"
            data = os.fsencode(os.readlink(path)) if kind == b"link" else path.read_bytes()  # noqa: PTH115
            left -= len(data)
            if left < 0:
                raise BadMessage(f"{folder} has more than {MOST_BYTES >> 20} MiB")
            name = os.fsencode(path.relative_to(folder))
            for part in (name, kind, data):
                whole.update(len(part).to_bytes(8, "big") + part)
    except OSError as error:
        raise BadMessage(f"{folder} can't be read: {error}") from None
    return whole.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files and links below a folder in order, except Python's caches."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            if path.name not in {"__pycache__", ".git"}:
                yield from _files(path)
        elif path.is_symlink() or path.is_file():
            yield path
