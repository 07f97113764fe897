"""T: run every case against the answer and write the line that proves it.

In: the payload, and a pipe to C. Out: one line, `NONCE {"cases": [[passed, reason], ...], "stopped": ..., ...}`. A
case that runs out of time, or during which C ends, is the last one of this run: `stopped` says which and why, and the
scorer goes on with the others in a fresh sandbox.
"""

# ruff: noqa: S102, S307, SIM105 -- tests are run here; contextlib costs 3 ms

from __future__ import annotations

import os
import sys
import time
from _signal import (  # type: ignore[import-not-found]
    ITIMER_PROF,
    ITIMER_REAL,
    SIG_DFL,
    SIGALRM,
    SIGINT,
    SIGKILL,
    SIGPROF,
    SIGSTOP,
    setitimer,
    signal,
)

from sandbox.harness.arguments import KEPT, OWN
from sandbox.harness.checks import CHECKED, compiled, parsed, same, shown, sides, told
from sandbox.harness.pipe import Gone, Pipe, ProtocolError, json_text
from sandbox.harness.remote import FUNCTION, MODULE, Tests, is_standard

if False:
    from typing import Any

DEAF_S = 0.1  # of processor time, beyond a case's limit, in which T may still hear its alarm
ENDED_S = 0.2  # for a process whose pipe is closed to be found dead
TOLD = 4  # failures whose reasons are told
CONSTANTS = {"true": True, "false": False, "null": None}  # JSON's, in tests that were made from it


class Failed(Exception):
    """A check that did not hold; the message is its reason."""


class UnfitForTests(Exception):
    """This machine lacks what the tests need; the message says what. No answer can be judged here."""


class OutOfTime(BaseException):
    """Says that a case's time is over."""


class Stopped(Exception):
    """No further case can run in this process; `is_limit` where more time might have helped."""

    def __init__(self, reason: str, *, is_limit: bool) -> None:
        super().__init__(reason)
        self.is_limit = is_limit


class Run:
    """The run of one payload."""

    def __init__(self, payload: dict[str, Any], pipe: Pipe, child: int) -> None:
        self.payload = payload
        self.tests = Tests(pipe)
        self.child = child
        self.deadline = time.monotonic() + payload["total_s"]
        self.is_timed = self.is_late = False
        self.checks = 0
        self.missing: list[str] = []  # what the tests import, and this machine does not have
        main: Any = MODULE("__main__")
        sys.modules["__main__"] = main  # tests run as a script does; unittest looks there
        sys.argv[:] = ["tests.py"]
        self.namespace: dict[str, Any] = vars(main)
        self.namespace[CHECKED] = self._count
        self.namespace[OWN], self.namespace[KEPT] = self.tests.arguments.own, self.tests.arguments.kept
        self.tests.written.update(payload["written"])
        signal(SIGALRM, self._on_alarm)
        signal(SIGPROF, SIG_DFL)
        signal(SIGINT, SIG_DFL)  # from C, where the walls let it through: an end by a signal, no failure of T

    def _count(self) -> None:
        self.checks += 1

    def _on_alarm(self, *_: Any) -> None:
        if not self.is_timed:
            return  # C's doing
        self.is_late = True
        self.kill()
        raise OutOfTime

    def kill(self) -> None:
        """End C, or at least halt it: walls may forbid SIGKILL. What is left of it ends with the sandbox."""
        for end, number in ((os.killpg, SIGKILL), (os.kill, SIGKILL), (os.kill, SIGSTOP)):
            try:
                end(self.child, number)
            except OSError:
                continue
            return

    def timed(self, work: Any) -> None:
        """Call `work` within a case's time. Raises Failed or Stopped with the reason."""
        limit_s = min(self.payload["case_s"], self.deadline - time.monotonic())
        if limit_s <= 0:
            raise Stopped("the deadline", is_limit=True)
        try:
            try:
                self.is_timed = True
                setitimer(ITIMER_REAL, limit_s, 0.1)  # again and again, should it be swallowed
                # Ends T, by SIGPROF, in a call that hears no alarm: `sum` of C's endless range. Such a call computes,
                # so its clock is of T's processor time: a T that waits for a processor is not ended.
                setitimer(ITIMER_PROF, limit_s + DEAF_S)
                work()
            finally:
                self.is_timed = False
                setitimer(ITIMER_REAL, 0)
                setitimer(ITIMER_PROF, 0)
        except BaseException as error:  # noqa: BLE001 - tests may raise anything
            self._judge(error)
        if self.is_late:
            self._judge(OutOfTime())
        if self.tests.link.broken is not None:
            self._judge(self.tests.link.broken)

    def _judge(self, error: BaseException) -> None:
        """Raise what an exception says of the case; return where it says that the case is finished."""
        if self.is_late:
            raise Stopped(f"{self.payload['case_s']:g} s of time", is_limit=True) from None
        if isinstance(error, Gone) or isinstance(self.tests.link.broken, Gone):
            raise Stopped(self._end_of_child(), is_limit=False) from None
        if isinstance(error, ProtocolError) or self.tests.link.broken is not None:
            raise Stopped(
                f"the program sent no data: {self.tests.link.broken or error}", is_limit=False
            ) from None
        if isinstance(error, SystemExit) and not error.code:
            return  # of the tests themselves: an answer's never gets here
        if isinstance(error, Failed):
            raise error from None
        if isinstance(error, (ImportError, NameError)):
            self.refuse_missing()
        text = told(error) if not isinstance(error, SystemExit) else f"code {told(error)}"
        raise Failed(" ".join(f"{type(error).__name__}: {text}".split())[:160].rstrip(": ")) from None

    def refuse_missing(self) -> None:
        """Raise UnfitForTests where something that failed may have failed for want of a package."""
        if self.missing:
            raise UnfitForTests(f"the tests need {' and '.join(self.missing)}, which can't be imported here")

    def _end_of_child(self) -> str:
        """Say how C ended. One that gave up its pipe may live on: no alarm is set here, so it is not waited for."""
        until = time.monotonic() + ENDED_S
        try:
            while not (ended := os.waitpid(self.child, os.WNOHANG))[0]:
                if time.monotonic() > until:
                    return "the program closed its pipe"
                time.sleep(0.001)
        except OSError:
            return "the program ended"
        status = ended[1]
        if os.WIFSIGNALED(status):
            return f"the program was ended by signal {os.WTERMSIG(status)}"
        return f"the program ended itself with exit code {os.WEXITSTATUS(status)}"

    def prepare(self) -> None:
        """Load the answer, and give the tests the names that they use. Raises Failed or Stopped."""
        payload, link = self.payload, self.tests.link
        for name in payload["imports"]:  # before the first line of the answer runs
            try:
                __import__(name)
            except ImportError:
                if name.partition(".")[0] != payload["module"]:
                    self.missing.append(name)
        self.namespace.update(CONSTANTS if payload["constants"] else {})
        link.ask("limit", payload["memory_bytes"])

        def load() -> None:
            link.ask("load", payload["module"], payload["prefix"], payload["source"])
            for name in payload["names"]:
                try:
                    self.namespace[name] = self.tests.named(name)
                except NameError:
                    pass
            for name in payload["modules"]:
                if is_standard(name):
                    self.namespace[name] = __import__(name)
            self.execute(payload["own_prefix"])
            self.tests.records = {
                name: kind
                for name, kind in self.namespace.items()
                if isinstance(kind, type) and kind.__module__ == "__main__"
            }
            link.ask("share", list(self.tests.records))
            self.execute(payload["setup"])

        self.timed(load)

    def execute(self, text: str) -> None:
        """Run trusted text among the tests' names."""
        if text:
            exec(compile(text, "tests.py", "exec", dont_inherit=True), self.namespace)

    def case(self, case: dict[str, Any]) -> None:
        """Run one case. Raises Failed or Stopped."""
        self.checks, self.tests.calls = 0, 0
        if "entry" in case:
            self.timed(lambda: self._call(case))
            return
        tree = parsed(case["text"])
        both = sides(tree)
        if both is not None:
            self.timed(lambda: self._compare(*both))
            return
        code = compiled(tree.body)
        self.timed(lambda: exec(code, self.namespace))
        if case["asserts"] and self.checks == 0:
            raise Failed("no check ran")
        if not case["asserts"] and self.tests.calls == 0:
            raise Failed("the program was never called")

    def _compare(self, left: Any, right: Any) -> None:
        got = eval(left, self.namespace)
        expected = eval(right, self.namespace)
        if not got == expected:
            raise Failed(f"expected {shown(expected)}, got {shown(got)}")

    def _call(self, case: dict[str, Any]) -> None:
        entry = self.tests.asked(FUNCTION, "entry", case["entry"])
        got = entry(*case["arguments"])
        if not any(same(got, expected) for expected in case["expected"]):
            raise Failed(f"expected {shown(case['expected'][0])}, got {shown(got)}")


def run(payload: dict[str, Any], pipe: Pipe, child: int, run_file: Any = None) -> bytes:
    """Run all cases, up to the first that stops the run, and return the proof as a line of bytes.

    `run_file` is `pytest_file.run_file` where the payload has a pytest file.
    """
    state = Run(payload, pipe, child)
    verdict = judged(state, run_file)
    state.kill()
    failures = [case for case in verdict["cases"] if not case[0]]
    for case in failures[TOLD:]:  # the reason of every case may be more than a sandbox carries
        case[1] = ""
    return f"{payload['nonce']} {json_text(verdict)}\n".encode("ascii")


def judged(state: Run, run_file: Any = None) -> dict[str, Any]:
    """Load the answer, run its cases, and return the verdict."""
    payload = state.payload
    verdict: dict[str, Any] = {"cases": [], "stopped": None, "broken": None, "loaded": False}
    try:
        state.prepare()
        verdict["loaded"] = True
        if "pytest" in payload:
            verdict["cases"] = run_file(state, payload["pytest"])
        for case in payload["cases"]:
            try:
                state.case(case)
                verdict["cases"].append([True, ""])
            except Failed as failure:
                verdict["cases"].append([False, str(failure)])
                if payload["stop"]:
                    break
    except Failed as failure:  # while it was loaded: no case can pass
        verdict["broken"] = str(failure)
    except Stopped as stopped:
        verdict["stopped"] = [str(stopped), stopped.is_limit]
    except MemoryError:  # C has sent all that T may hold
        state.namespace.clear()
        verdict["stopped"] = ["the tests ran out of memory", True]
    return verdict
