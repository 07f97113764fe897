"""This module chooses the sandbox that a pool of scorers uses: the config's, else the best that works here.

In: `scorers.sandbox` and `scorers.sandbox_urls` of the config. Out: a `Sandbox` that has passed its self test. Called
once a scoring process. What works is found out by really running a program that tries to get out, not by asking for
versions. Raises `SandboxMissing`, which names what is missing and what to do; nothing falls back to no walls.
"""

from __future__ import annotations

import logging

from config.scorers import ScorersConfig
from sandbox.local.sandbox import LocalSandbox
from sandbox.packages import REMEDY as INSTALL
from sandbox.packages import absent
from sandbox.program import NoRoom, Sandbox, SandboxMissing, SandboxUnavailable
from sandbox.walls import bubblewrap, landlock
from sandbox.walls.seccomp import Walls, supported

log = logging.getLogger(__name__)

REMEDY = (
    "install bubblewrap 0.8 or newer (sudo apt-get install bubblewrap, or make setup) where user namespaces are "
    "allowed (sysctl kernel.apparmor_restrict_unprivileged_userns=0, kernel.unprivileged_userns_clone=1), or "
    "use a kernel with Landlock (Linux 5.13 or newer, booted with lsm=landlock,...), or name a server in "
    "scorers.sandbox_urls; to run programs without any protection: scorers.sandbox=unsafe"
)

UNSCORED = "'an answer that imports one of them and is not right has no score here'"


class LazySandbox:
    """Holds the sandbox of one scorer: the one that it is given, else one that is built when it is first needed."""

    def __init__(self, config: ScorersConfig, given: Sandbox | None = None) -> None:
        """Start nothing: what the configuration asks for is tried out by the first `get`."""
        self._config = config
        self._sandbox = given

    def get(self) -> Sandbox:
        """Return the sandbox. Raises SandboxMissing and SandboxUnavailable as `build_sandbox`, at the first call."""
        if self._sandbox is None:
            self._sandbox = build_sandbox(self._config)
        return self._sandbox

    def close(self) -> None:
        """Close the sandbox where there is one. A closed sandbox can be used again."""
        if self._sandbox is not None:
            self._sandbox.close()


def build_sandbox(config: ScorersConfig) -> Sandbox:
    """Build the sandbox that the configuration asks for.

    Raises:
        SandboxMissing: none works here, or not the one that was asked for.
        SandboxUnavailable: the machine has no room to try them now.
    """
    match config.sandbox:
        case "fusion":
            return fusion(config)
        case "auto" if config.sandbox_urls:
            return fusion(config)
        case "auto":
            return best_local()
        case name:
            walls = Walls(name)
            reason = obstacle(walls)
            if reason:
                raise SandboxMissing(f"no sandbox: {reason}. What to do: {REMEDY}")
            return tried(walls)


def fusion(config: ScorersConfig) -> Sandbox:
    """Return a sandbox of servers that speak SandboxFusion's API."""
    if not config.sandbox_urls:
        raise SandboxMissing("scorers.sandbox=fusion needs the servers' addresses in scorers.sandbox_urls")
    from sandbox.remote.fusion import FusionSandbox

    log.info("sandbox walls=fusion servers=%d", len(config.sandbox_urls))
    return FusionSandbox(config.sandbox_urls)


def best_local() -> LocalSandbox:
    """Return a sandbox behind Bubblewrap, else behind Landlock."""
    reasons: list[str] = []
    for walls in (Walls.BUBBLEWRAP, Walls.LANDLOCK):
        reason = obstacle(walls)
        if not reason:
            try:
                sandbox = tried(walls)
            except SandboxMissing as error:
                reason = str(error)
            else:
                for passed_over in reasons:
                    log.info("sandbox not_used=%r", passed_over)
                return sandbox
        reasons.append(reason)
    raise SandboxMissing(f"no sandbox: {'; '.join(reasons)}. What to do: {REMEDY}")


def walls_without_network() -> LocalSandbox:
    """Return a sandbox behind bubblewrap, whose programs reach no address, whatever the scorers' walls are.

    Raises:
        SandboxMissing: there is none; Landlock has no wall against the network.
    """
    reason = obstacle(Walls.BUBBLEWRAP)
    try:
        if not reason:
            return tried(Walls.BUBBLEWRAP)
    except SandboxMissing as error:
        reason = str(error)
    raise SandboxMissing(
        f"environment of type command with sandbox: true: no walls that keep it from the network: {reason}. What to "
        "do: install bubblewrap 0.8 or newer (sudo apt-get install bubblewrap, or make setup) where user namespaces "
        "are allowed; Landlock has no wall against the network; to run the command with the agents' rights, write "
        "sandbox: false"
    )


def check_walls() -> None:
    """Look whether such walls hold here. Raises SandboxMissing, and NoRoom: try later."""
    walls_without_network().close()


def obstacle(walls: Walls) -> str:
    """Return the reason that rules these walls out without a trial, or an empty text."""
    if walls is Walls.UNSAFE:
        return ""
    if not supported():
        return f"{walls.value}: no filter of system calls is known for this processor"
    if walls is Walls.BUBBLEWRAP and bubblewrap.find_bwrap() is None:
        return "bubblewrap: bwrap is not installed"
    if walls is Walls.LANDLOCK and landlock.abi_version() == 0:
        return "landlock: the kernel has none"
    return ""


def tried(walls: Walls) -> LocalSandbox:
    """Return the sandbox with these walls, after its self-test. Raises SandboxMissing, and NoRoom: try later."""
    sandbox = LocalSandbox(walls)
    try:
        sandbox.self_test()
    except NoRoom:
        sandbox.close()
        raise
    except (SandboxMissing, SandboxUnavailable) as error:
        sandbox.close()
        raise SandboxMissing(str(error)) from error
    except BaseException:
        sandbox.close()
        raise
    if walls is Walls.UNSAFE:
        log.warning(
            "sandbox walls=none: what a model writes runs here WITHOUT PROTECTION, with this user's rights, "
            "files and network, because scorers.sandbox=unsafe asks for it"
        )
    log.info("sandbox walls=%s %s", sandbox.name, sandbox.version)
    if lacking := absent(sandbox.version):
        log.warning("sandbox lacks=%s meaning=%s do=%r", ",".join(lacking), UNSCORED, INSTALL)
    return sandbox
