"""The scoring child: deadlines, memory, crashes and the death of either side."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from scorers.child.process import LAST, ChildDied, KillableChild, LimitExceeded, Reply, Request
from tests.support.paths import ROOT
from tests.support.tried_again import unless_starved
from tests.support.waiting import wait_until, wait_until_gone

pytestmark = pytest.mark.process

MOST_LOOKS = 6


def act(request: Request) -> Reply:  # noqa: C901, PLR0911, PLR0912 - a case each
    match request["do"]:
        case "echo":
            return {"said": request["text"]}
        case "spin until last":
            while os.getpriority(os.PRIO_PROCESS, 0) < LAST:
                pass
            return {"cpu_s": time.process_time()}
        case "spin":  # one C call that looks at no signal for hours
            return {"sum": sum(range(10**12))}
        case "allocate":
            return {"size": len(bytearray(int(request["bytes"])))}
        case "hoard":
            _hoard.append(
                mmap.mmap(-1, int(request["bytes"]))
            )  # malloc may have as much from before the fork
            return {"size": len(_hoard)}
        case "spin once":  # in the first child that reads the flag, which is gone for the next one
            flag = Path(str(request["flag"]))
            if flag.exists():
                flag.unlink()
                sum(range(10**12))
            return {"said": "in time"}
        case "burn":
            while time.process_time() < float(request["cpu_s"]):
                pass
            return {}
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "recurse":
            return {"frames": _frames()}
        case "descriptors":
            return {"open": [str(entry.readlink()) for entry in _descriptors()]}
        case "signals":
            return {
                "interrupt": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
                "alarm": signal.getsignal(signal.SIGALRM) == signal.SIG_DFL,
            }
    raise ValueError(f"nobody told me to {request['do']}")


_hoard: list[mmap.mmap] = []


def _frames() -> int:
    try:
        return _frames() + 1
    except RecursionError:
        return 0


def _descriptors() -> list[Path]:
    return [entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink() and int(entry.name) > 2]


def state_of(pid: int) -> str | None:
    """Return the kernel's one letter for a process; None where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


@pytest.fixture
def child() -> Iterator[KillableChild]:
    with closing(KillableChild(act, memory_bytes=128 << 20)) as child:
        yield child


def pid_of(child: KillableChild) -> int:
    child.ask({"do": "echo", "text": ""}, timeout_s=10)
    assert child.pid is not None
    return child.pid


def test_one_child_answers_many_requests(child: KillableChild) -> None:
    pid = pid_of(child)
    for text in ("1", "\\frac{1}{2}", "ünïcödé \ud800", "x" * 1_000_000):
        assert child.ask({"do": "echo", "text": text}, timeout_s=10) == {"said": text}
    assert child.pid == pid


def hang_s(ask: Callable[[Request, float], Reply], deadline_s: float) -> float:
    """Return what a hang takes: the least of some looks where that is long, since others only ever add to it."""
    looks: list[float] = []
    while not looks or (min(looks) > deadline_s + 1.0 and len(looks) < MOST_LOOKS):
        started = time.monotonic()
        with pytest.raises(LimitExceeded, match=r"deadline of 0\.3 s"):
            ask({"do": "spin"}, deadline_s)
        looks.append(time.monotonic() - started)
    return min(looks)


def test_a_hang_costs_its_deadline_and_leaves_no_process(child: KillableChild) -> None:
    pid = pid_of(child)
    assert 0.3 <= hang_s(child.ask, 0.3) < 1.3
    assert child.pid is None
    assert state_of(pid) is None  # not even a zombie
    assert child.ask({"do": "echo", "text": "again"}, timeout_s=10) == {"said": "again"}


def test_a_request_that_hangs_once_is_answered_by_a_fresh_child(child: KillableChild, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    pid = pid_of(child)

    def ask() -> Reply:
        flag.touch()
        return child.ask_with_fresh_child_retry({"do": "spin once", "flag": str(flag)}, 1.2)

    assert unless_starved(ask) == {"said": "in time"}
    assert child.pid not in {None, pid}


def test_a_request_that_hangs_twice_costs_the_deadline_once(child: KillableChild) -> None:
    assert 0.6 <= hang_s(child.ask_with_fresh_child_retry, 0.6) < 1.6
    assert child.pid is None


def test_a_child_without_processor_time_is_the_machines_doing_and_no_answers(child: KillableChild) -> None:
    """A stopped process stands for one that a busy machine never lets run."""
    pid = pid_of(child)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ChildDied, match=r"had [0-9.]+ s of processor time within its deadline of 0\.6 s"):
        child.ask({"do": "echo", "text": "late"}, timeout_s=0.6)
    assert child.pid is None
    assert state_of(pid) is None
    assert child.ask({"do": "echo", "text": "again"}, timeout_s=10) == {"said": "again"}
    os.kill(pid_of(child), signal.SIGSTOP)
    with pytest.raises(ChildDied):  # at the first attempt: a second one would have no more
        child.ask_with_fresh_child_retry({"do": "echo", "text": "late"}, 1.2)


def test_a_child_that_works_is_held_to_its_deadline_whatever_it_did_before(child: KillableChild) -> None:
    """The processor time of earlier requests is not this one's, and a hang on a busy machine stays a hang."""
    child.ask({"do": "burn", "cpu_s": 0.2}, timeout_s=10)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(ChildDied):
        child.ask({"do": "echo", "text": "late"}, timeout_s=0.6)
    with pytest.raises(LimitExceeded, match=r"deadline of 0\.6 s"):
        unless_starved(lambda: child.ask({"do": "spin"}, timeout_s=0.6))


def test_a_child_that_gave_way_is_held_to_its_deadline_however_little_it_got() -> None:
    """It was sent to the end of the queue on purpose, so that what hangs costs the others little."""
    with closing(KillableChild(act, give_way_s=0.1)) as child:
        pid = pid_of(child)

        def stop() -> None:
            wait_until(lambda: os.getpriority(os.PRIO_PROCESS, pid) == LAST)
            os.kill(pid, signal.SIGSTOP)

        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(LimitExceeded, match="deadline of 2 s"):
            child.ask({"do": "spin"}, timeout_s=2.0)
        stopper.join()


def test_a_child_that_dies_by_itself_is_retryable_and_not_asked_again(child: KillableChild) -> None:
    with pytest.raises(ChildDied, match="ended with 3"):
        child.ask_with_fresh_child_retry({"do": "exit"}, 10.0)


def test_too_much_memory_is_the_requests_own_doing(child: KillableChild) -> None:
    assert child.ask({"do": "allocate", "bytes": 25 << 20}, timeout_s=10) == {"size": 25 << 20}
    with pytest.raises(LimitExceeded, match="memory limit of 128 MiB"):
        child.ask({"do": "allocate", "bytes": 150 << 20}, timeout_s=10)


def test_a_child_that_has_used_half_its_room_is_replaced(child: KillableChild) -> None:
    first = pid_of(child)
    piece = {"do": "hoard", "bytes": 25 << 20}
    for count in (1, 2, 3):
        assert child.ask(piece, timeout_s=10) == {"size": count}
    assert child.pid is None
    assert child.ask(piece, timeout_s=10) == {"size": 1}
    assert child.pid != first


def test_a_crash_inside_a_c_library_is_the_requests_own_doing(child: KillableChild) -> None:
    with pytest.raises(LimitExceeded, match="crash by SIGSEGV"):
        child.ask({"do": "segfault"}, timeout_s=10)


def test_a_child_that_somebody_kills_is_retryable(child: KillableChild) -> None:
    os.kill(pid_of(child), signal.SIGKILL)
    with pytest.raises(ChildDied, match="ended with -9"):
        child.ask({"do": "echo", "text": "1"}, timeout_s=10)
    assert child.ask({"do": "echo", "text": "2"}, timeout_s=10) == {"said": "2"}


def test_an_exception_of_the_target_is_a_bug_and_surfaces_with_its_traceback(child: KillableChild) -> None:
    with pytest.raises(RuntimeError, match="nobody told me to dance"):
        child.ask({"do": "dance"}, timeout_s=10)


def test_the_reply_to_an_interrupted_request_answers_no_other(child: KillableChild) -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise InterruptedError("a job's time is over")

    pid_of(child)  # an alarm in a fork is lost, with the lock of logging
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(InterruptedError):
            child.ask({"do": "spin"}, timeout_s=30)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert child.ask({"do": "echo", "text": "mine"}, timeout_s=10) == {"said": "mine"}


def test_the_child_holds_no_descriptor_of_its_parent_but_its_socket(child: KillableChild) -> None:
    with Path(__file__).open() as _held:
        names = child.ask({"do": "descriptors"}, timeout_s=10)["open"]
    assert len(names) == 1
    assert names[0].startswith("socket:")


def test_the_child_leaves_ctrl_c_and_all_handlers_to_its_parent(child: KillableChild) -> None:
    before = signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    try:
        assert child.ask({"do": "signals"}, timeout_s=10) == {"interrupt": True, "alarm": True}
    finally:
        signal.signal(signal.SIGALRM, before)


def test_the_room_for_recursion_does_not_depend_on_the_parents_stack() -> None:
    def frames(depth: int) -> int:
        if depth:
            return frames(depth - 1)
        with closing(KillableChild(act)) as child:
            return int(child.ask({"do": "recurse"}, timeout_s=10)["frames"])

    assert frames(0) == frames(100)


@pytest.mark.parametrize("where", ["socket.socketpair", "os.fork"])
def test_a_child_that_can_not_be_started_is_tried_again_and_leaks_nothing(
    child: KillableChild, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fail() -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    before = len(_descriptors())
    with monkeypatch.context() as patch:
        patch.setattr(f"scorers.child.process.{where}", fail)
        with pytest.raises(ChildDied, match=r"can't start a scoring child: .*Too many open files"):
            child.ask({"do": "echo", "text": ""}, timeout_s=10)
    assert len(_descriptors()) == before
    assert child.ask({"do": "echo", "text": "again"}, timeout_s=10) == {"said": "again"}


def test_the_child_dies_with_its_parent() -> None:
    program = textwrap.dedent("""
        import os, time
        from scorers.child.process import KillableChild

        def act(request):
            if request["hang"]:
                time.sleep(600)
            return {"pid": os.getpid()}

        child = KillableChild(act)
        print(child.ask({"hang": False}, timeout_s=10)["pid"], flush=True)
        child.ask({"hang": True}, timeout_s=600)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert state_of(pid) is not None
        parent.kill()
    wait_until_gone(pid)


def test_what_is_to_go_before_other_children_goes_before_each_but_the_first(tmp_path: Path) -> None:
    measuring: list[int] = []
    called: list[int] = []  # with as many clocks running

    @contextmanager
    def measured() -> Iterator[None]:
        measuring.append(1)
        try:
            yield
        finally:
            measuring.pop()

    (tmp_path / "flag").touch()
    with closing(KillableChild(act, before_others=lambda: called.append(len(measuring)))) as child:
        assert child.ask({"do": "echo", "text": "first"}, timeout_s=10)["said"] == "first"
        assert called == []
        spin = {"do": "spin once", "flag": str(tmp_path / "flag")}
        asked = partial(child.ask_with_fresh_child_retry, spin, 1.2, measured=measured)
        assert unless_starved(asked)["said"] == "in time"
        assert set(called) == {0}, "nobody's time"


def test_a_child_that_works_for_long_yields_to_the_others_and_is_replaced() -> None:
    with closing(KillableChild(act, give_way_s=0.1)) as child:
        pid_of(child)
        assert child.ask({"do": "spin until last"}, timeout_s=20)["cpu_s"] >= 0.1
        assert child.pid is None  # the next one has its full share again
        pid_of(child)
        with pytest.raises(LimitExceeded, match="deadline"):
            unless_starved(lambda: child.ask({"do": "spin"}, timeout_s=0.5))
