"""Where the corpus is judged: things planted to be attacked, and worker processes that see what attacks leave behind.

Each worker judges its share one after the other, as an RQ worker does, attacks and honest answers by turns. It is
the one that orphans are given to, so that no process that an attack leaves can hide from it.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from broker.errors import Retryable
from broker.messages import Score
from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox.choice import build_sandbox
from sandbox.program import CROWDED
from scorers.code.scorer import CodeTests
from tests.conftest import ROOT
from tests.scorers.code.corpus.rows import Case
from tests.support.sandbox.numpy_inside import lack_of_numpy
from tests.support.waiting import comes_true
from tools.up.process_tree import below

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
DEADLINE_S, CASE_TIMEOUT_S = 8.0, 1.0
TRIES = 4
WHOLE_S = 2.0  # beside the deadline: for an answer to be judged in whole
END_S = 2.0  # to be gone, once the scorer is closed
WRITABLE = ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/home", "/root", "/mnt", "/srv", "/opt", str(ROOT))


@dataclass(slots=True)
class Planted:
    """What lies about to be attacked, and whether it was."""

    folder: Path  # anyone may write into it, and into its file `planted`
    port: int
    visitors: list[str] = field(default_factory=list)
    victim: int = 0  # a process of the user who runs the scorers

    def fill(self, case: Case) -> Case:
        marks = {"PORT": self.port, "FOLDER": self.folder, "SOCKET": self.folder / "socket", "ROOT": ROOT}
        text = case.text
        for mark, value in (marks | {"PID": self.victim, "COMM": "sleep\\n"}).items():
            text = text.replace(f"@{mark}@", str(value))
        return replace(case, text=text)

    def damage(self) -> list[str]:
        """Return what is not as it was planted."""
        planted = self.folder / "planted"
        found = [f"contacted: {visitor}" for visitor in self.visitors]
        names = sorted(path.name for path in self.folder.iterdir())
        if names != ["planted", "socket"]:
            found.append(f"the folder holds {names}")
        else:
            state = planted.read_text(), planted.stat().st_mode & 0o777, os.listxattr(planted)
            found += [f"the planted file was changed: {state}"] * (state != ("as it was", 0o666, []))
        if not Path(f"/proc/{self.victim}").exists():
            found.append("the planted process was killed")
        for folder in WRITABLE:
            with suppress(PermissionError):  # closed to us, and so to programs
                found += [f"{path} exists" for path in Path(folder).glob("millrace-attack")]
        with suppress(OSError):
            lines = [
                line
                for name in ("shm", "msg")
                for line in Path(f"/proc/sysvipc/{name}").read_text().splitlines()
            ]
            found += [f"System V: {line.strip()}" for line in lines if str(0x6D696C6C) in line]
        return found


@contextmanager
def planted(folder: Path) -> Iterator[Planted]:
    """Plant a folder, a file, listeners of every kind, and a process."""
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (folder / "planted").write_text("as it was")
    (folder / "planted").chmod(0o666)
    with ExitStack() as stack:

        def listen(name: str, family: int, kind: int, address: object) -> socket.socket:
            listener = stack.enter_context(closing(socket.socket(family, kind)))
            listener.bind(address)  # type: ignore[arg-type]
            if kind == socket.SOCK_STREAM:
                listener.listen()
            threading.Thread(target=_watch, args=(name, listener, ground.visitors), daemon=True).start()
            return listener

        ground = Planted(folder, 0)
        ground.port = listen("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)).getsockname()[1]
        listen("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", ground.port))
        listen("Unix", socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "socket"))
        listen("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{folder / 'socket'}")
        (folder / "socket").chmod(0o666)
        victim = stack.enter_context(subprocess.Popen(["sleep", "3600"]))
        stack.callback(victim.kill)
        ground.victim = victim.pid
        yield ground


def _watch(name: str, listener: socket.socket, visitors: list[str]) -> None:
    with suppress(OSError):
        while True:
            listener.recv(64) if listener.type == socket.SOCK_DGRAM else listener.accept()[0].close()
            visitors.append(name)


@dataclass(frozen=True, slots=True)
class Judged:
    name: str
    score: Score | None
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    judged: list[Judged]
    left: list[str]  # processes that outlived the scorer, and the case that they were first seen after
    lack_of_numpy: str  # why programs could not import it; empty where they could


def judge(
    attacks: Sequence[Case],
    honest: Sequence[Case],
    walls: str,
    *,
    workers: int,
    right_timeout_s: float = CASE_TIMEOUT_S,
) -> Mapping[str, Judged | str]:
    """Judge all cases. Attacks and honest answers take turns in each worker.

    Args:
        right_timeout_s: of a case of what shall score; its deadline, and so the compiler's, grows alike.
    Returns:
        By name, what became of each case; "left" names the processes that were left behind, "" where none was, and
        "lack of numpy" says why programs could not import it.
    """
    turns = in_turns(attacks, honest)
    shares = [turns[first::workers] for first in range(workers)]
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        reports = list(pool.map(_judge_share, shares, [walls] * workers, [right_timeout_s] * workers))
    found: dict[str, Judged | str] = {judged.name: judged for report in reports for judged in report.judged}
    return found | {
        "left": "\n".join(chain.from_iterable(report.left for report in reports)),
        "lack of numpy": "\n".join({report.lack_of_numpy for report in reports} - {""}),
    }


def in_turns(attacks: Sequence[Case], honest: Sequence[Case]) -> list[Case]:
    """Return all cases, the fewer ones spread evenly among the others."""
    fewer, more = sorted((attacks, honest), key=len)
    placed = [
        ((number + 0.5) / len(cases), case) for cases in (more, fewer) for number, case in enumerate(cases)
    ]
    return [case for _, case in sorted(placed, key=lambda place: place[0])]


def _judge_share(cases: Sequence[Case], walls: str, right_timeout_s: float) -> Share:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.environ["MILLRACE_PLANTED"] = "a secret"
    scorers = ScorersConfig.model_validate({"sandbox": walls})
    sandbox = build_sandbox(scorers)
    wrong, right = [
        CodeTests(
            CodeConfig(
                deadline_s=DEADLINE_S * timeout_s / CASE_TIMEOUT_S, case_timeout_s=timeout_s, memory_mb=512
            ),
            scorers,
            sandbox,
        )
        for timeout_s in (CASE_TIMEOUT_S, right_timeout_s)
    ]
    lack = lack_of_numpy(sandbox)
    judged: list[Judged] = []
    seen: dict[int, str] = {}
    try:
        for case in cases:
            judged.append(_judge_case(right if case.value else wrong, case))
            seen |= {process.pid: case.name for process in below(os.getpid()) if process.pid not in seen}
    finally:
        sandbox.close()
    comes_true(lambda: not below(os.getpid()), within_s=END_S)
    left = below(os.getpid())
    found = [f"{' '.join(one.words) or one.pid}: first seen after {seen.get(one.pid, '?')!r}" for one in left]
    return Share(judged, found, lack)


def _judge_case(scorer: CodeTests, case: Case) -> Judged:
    """Tries again, as a worker does, what other programs of this user stood in the way of."""
    for attempt in range(TRIES):
        started = time.monotonic()
        try:
            score = scorer.score(case.text, case.info)
        except Retryable as error:
            why = repr(error)
            if CROWDED not in why:
                break
            time.sleep(attempt + 0.5)
        except Exception as error:  # noqa: BLE001 - the test shows it
            why = repr(error)
            break
        else:
            return Judged(case.name, score, time.monotonic() - started)
    return Judged(case.name, None, time.monotonic() - started, why)
