"""A Slurm of one node on this machine, for a proof: its own munged, slurmctld and slurmd, in a folder of its own.

In: an empty folder. Out: the variables with which sbatch and its like find this cluster, and what they say. Everything
listens on loopback and ends with the context; a Slurm that the machine has is neither asked nor touched. Debian's
packages slurmctld, slurmd, slurm-client and munge have the programs. Works as root and as any other user.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel", "srun")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
PROCESSORS = 16  # that Slurm may hand out, whatever the machine has: a proof is patient
CREDENTIAL_S = 5  # a requeued job waits for so long and a second (by default 121)
KILL_WAIT_S = 30  # Slurm's own default
ASK_S = 60.0
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"})


class SlurmError(Exception):
    """Slurm has refused something, or is not there."""


def missing() -> tuple[str, ...]:
    """Return the programs that this machine lacks."""
    return tuple(program for program in PROGRAMS if shutil.which(program, path=PATH) is None)


class Cluster:
    """One node that runs jobs, and how it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables: Mapping[str, str] = {
            **os.environ,
            "PATH": PATH,
            "SLURM_CONF": str(folder / "slurm.conf"),
        }

    def asks(self, *words: str, timeout_s: float = ASK_S) -> str:
        """Run a command with this cluster's variables. Raises SlurmError with its last lines where it fails."""
        done = subprocess.run(
            words, env=self.variables, check=False, text=True, capture_output=True, timeout=timeout_s
        )
        if done.returncode:
            raise SlurmError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-400:]}")
        return done.stdout

    def job(self, job: str) -> dict[str, str]:
        """Return what `scontrol show job` says of a job: JobState, Restarts, ExitCode and others."""
        said = self.asks("scontrol", "show", "job", "--oneliner", job)
        return dict(re.findall(r"(\w+)=(\S*)", said))

    def has_ended(self, job: str) -> bool:
        """Return whether a job will not go on."""
        return self.job(job)["JobState"] in ENDED


@contextlib.contextmanager
def a_cluster(folder: Path) -> Iterator[Cluster]:
    """Start the three daemons, and end them and every job with them. Raises SlurmError."""
    cluster = Cluster(folder)
    _write(folder)
    daemons: list[subprocess.Popen[bytes]] = []
    log = (folder / "daemons.log").open("wb")
    commands = (
        ("munged", "--foreground", "--force", *_munge_words(folder)),
        ("slurmctld", "-D", "-c"),
        ("slurmd", "-D", "-N", socket.gethostname()),
    )
    try:
        daemons.extend(
            subprocess.Popen(command, env=dict(cluster.variables), stdout=log, stderr=subprocess.STDOUT)
            for command in commands
        )
        yield cluster
    finally:
        with contextlib.suppress(SlurmError, subprocess.TimeoutExpired):
            cluster.asks("scancel", f"--user={getpass.getuser()}")
            cluster.asks("scontrol", "shutdown")
        for daemon in reversed(daemons):
            daemon.terminate()
            try:
                daemon.wait(KILL_WAIT_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
        log.close()


def _munge_words(folder: Path) -> list[str]:
    return [
        f"--socket={folder / 'munge.socket'}",
        f"--key-file={folder / 'munge.key'}",
        f"--pid-file={folder / 'munge.pid'}",
        f"--seed-file={folder / 'munge.seed'}",
        f"--log-file={folder / 'munge.log'}",
    ]


def _write(folder: Path) -> None:
    """Write the key and the configuration, on two ports that nobody has."""
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host, user = socket.gethostname(), getpass.getuser()
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in (one, other)]
    settings = {
        "ClusterName": "proof",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmUser": user,
        "SlurmdUser": user,
        "SlurmctldPort": ports[0],
        "SlurmdPort": ports[1],
        "AuthInfo": f"socket={folder / 'munge.socket'},cred_expire={CREDENTIAL_S}",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd.pid",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU",
        "SlurmdParameters": "config_overrides",
        "SchedulerParameters": "sched_interval=2,bf_interval=2",  # seconds between two looks at the queue
        "MpiDefault": "none",
        "JobAcctGatherType": "jobacct_gather/none",
        "KillWait": KILL_WAIT_S,
        "ReturnToService": 2,
    }
    lines = [f"{name}={value}" for name, value in settings.items()]
    lines += [
        f"NodeName={host} NodeAddr=127.0.0.1 CPUs={PROCESSORS} RealMemory=1000 State=UNKNOWN",
        f"PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP",
    ]
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
