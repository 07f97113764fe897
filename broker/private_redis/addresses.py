"""Keep the address of each run's private Redis: one file for each run, readable by its user alone.

In: the URL, password included, that `broker.private_redis.server` started a server with. Out: the same, for any program
of this user that knows the run's name. The file stays when the server stops, so that the server restarts at the address
that clients may be waiting for; `millrace rm` removes it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from broker.errors import WrongBroker
from config.loading import state_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A run's private server, running or not."""

    url: str  # with the password
    folder: str  # the run's folder, absolute


def file_of(folder: Path) -> Path:
    """Return the file that keeps the address of the run in `folder`."""
    path = folder.absolute()
    return state_folder() / f"{path.name}-{hashlib.sha256(str(path).encode()).hexdigest()[:12]}.json"


def read(folder: Path) -> Address | None:
    """Read the address of the run in `folder`; None where there is none.

    Raises:
        WrongBroker: the file is damaged.
    """
    return _read(file_of(folder))


def write(address: Address) -> None:
    """Write `address`, readable by this user alone from the first byte."""
    path = file_of(Path(address.folder))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    aside = path.with_suffix(f".{os.getpid()}")
    aside.unlink(missing_ok=True)
    with os.fdopen(
        os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8"
    ) as stream:
        json.dump(asdict(address), stream)
    aside.replace(path)


def discard(folder: Path) -> None:
    """Remove the address of the run in `folder`."""
    file_of(folder).unlink(missing_ok=True)


def find(name: str, runs_dir: Path) -> Address | None:
    """Find the address of run `name` in `runs_dir`, else of the only run with that name whose folder exists.

    Raises:
        WrongBroker: several folders hold a run of that name, and none of them is in `runs_dir`.
    """
    exact = read(runs_dir / name)
    if exact is not None:
        return exact
    others = [
        address
        for path in state_folder().glob(f"{name}-*.json")
        if (address := _read(path)) and Path(address.folder).name == name and Path(address.folder).is_dir()
    ]
    if len(others) > 1:
        folders = "\n".join(sorted(f"  {Path(address.folder).parent}" for address in others))
        raise WrongBroker(f"run {name!r} is in several folders; say which one with --runs-dir:\n{folders}")
    return others[0] if others else None


def _read(path: Path) -> Address | None:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return Address(url=known["url"], folder=known["folder"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise WrongBroker(
            f"{path} is damaged ({error}); remove it, and the next start writes a new one"
        ) from None
