"""Import the user's code once, and fork a child for each episode, or for several: a task's parent process.

In: frames on its socket, the first one the environment's section; each later one requests a child, with the descriptors
of the child's link, its output and its mark, or a child's end. Out: `ready` or `failed`, `forked`, `ended` with the
wait status. Started by `agents.environments.processes`. It has one thread and runs no user code except the imports.
When its socket is closed it ends its children, whole process groups, and itself.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import sys
from typing import Any, Dict, List, NoReturn

from agents.environments.child.errors import last_lines
from agents.environments.child.frames import receive, receive_with_descriptors, send
from agents.environments.child.kinds import KINDS
from agents.environments.child.prepared import PreparedKind
from agents.environments.child.serving import serve

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
CHILD = "MILLRACE_ENVIRONMENT_CHILD"  # variable for programs that a child starts: the child's process id
MARK = f"{CHILD}=".encode()


def main(descriptor: int) -> None:
    """Serve until the worker is gone."""
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    try:
        section = receive(control)
        libc = ctypes.CDLL(None)
        try:
            module = importlib.import_module(f"agents.environments.child.{KINDS[section['type']]}")
            prepared = module.prepare(section)
        except BaseException as error:  # noqa: BLE001 - an import may raise anything; the worker reports it
            send(control, {"failed": last_lines(error)})
            return
        libc.prctl(
            PR_SET_PDEATHSIG, 0, 0, 0, 0
        )  # from now on a closed socket ends this process and its children
        Parent(control, prepared, section, libc).serve()
    except (EOFError, OSError):
        pass


class Parent:
    """The parent process, after its imports."""

    def __init__(
        self, control: socket.socket, prepared: PreparedKind, section: Dict[str, Any], libc: Any
    ) -> None:
        self._control, self._prepared, self._section, self._libc = control, prepared, section, libc
        self._children: List[int] = []

    def serve(self) -> None:
        """Fork, end and reap children until the worker is gone."""
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._own = [woken, wake]
        gc.collect()
        gc.freeze()
        several = self._prepared.is_async or self._section["episodes_per_child"] > 1
        send(self._control, {"ready": True, "stops_episodes": several})
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        try:
            while True:
                ready = [descriptor for descriptor, _ in poll.poll()]
                if woken in ready:
                    os.read(woken, 4096)
                    self._reap()
                if self._control.fileno() in ready:
                    self._obey(*receive_with_descriptors(self._control))
        finally:
            for pid in self._children:
                end_group(pid)
                os.waitpid(pid, 0)
            self._children.clear()
            self._end_orphans()

    def _obey(self, message: Dict[str, Any], descriptors: List[int]) -> None:
        if "end" in message:
            if message["end"] in self._children:  # not yet reaped, so its pid is not reused
                end_group(message["end"])
            return
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError as error:
            pid = 0
            send(self._control, {"forked": message["fork"], "reason": str(error)})
        else:
            if pid == 0:
                self._be_child(*descriptors)
            self._children.append(pid)
            send(self._control, {"forked": message["fork"], "pid": pid})
        for descriptor in descriptors:
            os.close(descriptor)

    def _be_child(self, link: int, output: int, mark: int) -> NoReturn:
        try:
            os.setsid()
            os.environ[CHILD] = str(os.getpid())
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            for descriptor in (1, 2):
                os.dup2(output, descriptor)
            for descriptor in (*self._own, output):
                os.close(descriptor)
            self._control.close()
            serve(socket.socket(fileno=link), mark, self._prepared, self._section)
        except BaseException as error:  # noqa: BLE001 - the parent's stack must never continue here
            os.write(2, last_lines(error).encode("utf-8", "replace"))
        finally:
            os._exit(1)

    def _reap(self) -> None:
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            pid = found.si_pid
            if pid in self._children:
                end_group(pid)  # its leftovers; its pid stays in use until it is reaped
            status = os.waitpid(pid, 0)[1]
            if pid in self._children:
                self._children.remove(pid)
                self._end_orphans()
                send(self._control, {"ended": pid, "status": status})

    def _end_orphans(self) -> None:
        """End processes that ended children left in other groups: they are children of this process now."""
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            mine = [int(word) for word in file.read().split()]
        for pid in mine:
            if pid in self._children:
                continue
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
            except OSError:
                continue
            marks = [one for one in variables if one.startswith(MARK)]
            if marks and int(marks[-1][len(MARK) :]) not in self._children:
                end_group(pid)


def end_group(pid: int) -> None:
    """Kill a child, and its whole process group."""
    for kill in (os.killpg, os.kill):  # it may not have its group yet
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            pass
