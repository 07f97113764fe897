"""Runs tests in forks of the process that has collected them, a file at a time: `pytest --jobs 3`.

In: a session's tests, in their order. Out: their reports, to the session's own hooks.

pytest-xdist has each worker import and collect everything for itself, and its controller read all that they say: with
three workers that was a tenth of this suite's processor time. A fork has what was there before it. One that dies fails
the test that it was at; another one goes on with the rest of its file.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import Any, NoReturn

import msgpack
import pytest

END_S = 10.0  # for a test and the teardown of its session, before it is interrupted, and before it is killed
SHOWN_S = 0.1  # a shorter setup is not among the slowest durations
OF_THE_PARENT = (
    "terminalreporter",
    "terminalprogress-plugin",
    "resumption",
    "jobs",
)  # plugins that speak or write

Part = list[int]  # the numbers of tests that one job runs in turn


class Job:
    """A fork, as its parent sees it. `left` are the tests of its part whose reports have not come."""

    def __init__(self, pid: int, connection: Connection, part: Part) -> None:
        self.pid, self.connection, self.left = pid, connection, deque(part)
        self.exits = os.pidfd_open(pid)  # its end can be waited for, whoever has inherited its connection

    def says(self) -> Iterator[Any]:
        """Yield what it has said up to now."""
        with suppress(EOFError, ConnectionError):
            while self.connection.poll():
                yield msgpack.unpackb(self.connection.recv_bytes(), use_list=False)

    def give(self, part: Part) -> None:
        """Hand it another part; an empty one ends it."""
        self.left.extend(part)
        with suppress(ConnectionError):
            self.connection.send_bytes(msgpack.packb(part))

    def close(self) -> None:
        self.connection.close()
        os.close(self.exits)


class Jobs:
    """The plugin.

    Args:
        count: jobs at once.
        scope_of: names what runs in turn, by a test's file.
    """

    def __init__(self, count: int, scope_of: Callable[[pytest.Item], str]) -> None:
        self._count, self._scope_of = count, scope_of
        self._jobs: dict[int, Job] = {}
        self._started = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all tests; None where pytest's own loop has to: nothing is to run, or a debugger wants the terminal."""
        option = session.config.option
        if session.testsfailed or option.collectonly or option.usepdb:
            return None
        if (reporter := session.config.pluginmanager.getplugin("terminalreporter")) is not None:
            reporter.showfspath = False  # the files of several jobs would take turns
        folders: Any = session.config
        folders._tmp_path_factory.getbasetemp()  # one for all jobs
        self._parts = deque(self._split(session.items))
        try:
            for _ in range(min(self._count, len(self._parts))):
                self._start(session, self._parts.popleft())
            while self._jobs:
                self._hear(session)
        finally:
            self._end()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _split(self, items: Sequence[pytest.Item]) -> list[Part]:
        parts: dict[str, Part] = {}
        for number, item in enumerate(items):
            parts.setdefault(self._scope_of(item), []).append(number)
        return list(parts.values())

    def _start(self, session: pytest.Session, part: Part) -> None:
        ours, theirs = Pipe()
        self._started += 1
        with warnings.catch_warnings(
            action="ignore", category=DeprecationWarning
        ):  # numpy's threads stand still
            pid = os.fork()
        if pid == 0:
            for connection in (ours, *(job.connection for job in self._jobs.values())):
                connection.close()
            _be_a_job(session, theirs, part, self._started)
        theirs.close()
        self._jobs[pid] = Job(pid, ours, part)

    def _hear(self, session: pytest.Session) -> None:
        """Wait until a job has said something or has ended, and do what follows."""
        jobs = list(self._jobs.values())
        wait([one for job in jobs for one in (job.connection, job.exits)])
        for job in jobs:
            has_ended = os.waitpid(job.pid, os.WNOHANG)[0] != 0
            for said in job.says():
                self._take(session, job, said)
            if has_ended:
                del self._jobs[job.pid]
                job.close()
                self._bury(session, job)

    def _take(self, session: pytest.Session, job: Job, said: Any) -> None:
        hook, is_over = session.config.hook, bool(session.shouldfail or session.shouldstop)
        match said:
            case ["next"]:
                job.give([] if is_over or not self._parts else self._parts.popleft())
            case ["stop", reason]:
                session.shouldstop = session.shouldstop or reason
            case ["broken", number, text]:
                _fail(session, session.items[number], "teardown", text)
            case ["warning", text, kind, when, nodeid, location, place]:
                message = warnings.WarningMessage(Warning(text), _warning_named(kind), *place)
                hook.pytest_warning_recorded.call_historic(
                    kwargs={"warning_message": message, "when": when, "nodeid": nodeid, "location": location}
                )
            case ["test", number, reports]:
                job.left.remove(number)
                item = session.items[number]
                hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
                for data in reports:
                    report = hook.pytest_report_from_serializable(config=session.config, data=data)
                    hook.pytest_runtest_logreport(report=report)
                hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if not is_over and (session.shouldfail or session.shouldstop):
            for other in self._jobs.values():
                other.give([])

    def _bury(self, session: pytest.Session, job: Job) -> None:
        """Fail the test that a job died at, and have another one do the rest of its part."""
        if session.shouldfail or session.shouldstop or not job.left:
            return
        number = job.left.popleft()
        _fail(session, session.items[number], "call", "the process that ran it has died at it")
        if job.left:
            self._parts.appendleft(list(job.left))
        if self._parts and not session.shouldfail:
            self._start(session, self._parts.popleft())

    def _end(self) -> None:
        """End what is left after an interruption: each job tears down what it has set up, if it can."""
        for job in self._jobs.values():
            job.connection.close()
        for ends in (signal.SIGINT, signal.SIGKILL):
            until = time.monotonic() + END_S
            for job in self._jobs.values():
                if not wait([job.exits], max(0.0, until - time.monotonic())):
                    os.kill(job.pid, ends)
        for job in self._jobs.values():
            os.waitpid(job.pid, 0)
            os.close(job.exits)


def _fail(session: pytest.Session, item: pytest.Item, when: Any, text: str) -> None:
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, when)
    session.config.hook.pytest_runtest_logreport(report=report)


def _warning_named(name: str) -> type[Warning]:
    module, _, qualified = name.rpartition(".")
    found = getattr(sys.modules.get(module), qualified, None)
    return found if isinstance(found, type) and issubclass(found, Warning) else UserWarning


class Speech:
    """What a job says to its parent, and the hooks by which it hears of it."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection
        self.reports: list[Any] = []
        self.is_heard = False

    def say(self, *words: Any) -> None:
        if self.is_heard:
            self._connection.send_bytes(msgpack.packb(words))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a report until its test is over, without what nobody reads of one that passes."""
        if report.passed:
            report.keywords = {}
            if report.when != "call" and report.duration < SHOWN_S:
                return
        self.reports.append(
            self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        )

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Pass a warning on."""
        one = warning_message
        kind = f"{one.category.__module__}.{one.category.__qualname__}"
        self.say("warning", str(one.message), kind, when, nodeid, location, (one.filename, one.lineno))


def _be_a_job(session: pytest.Session, connection: Connection, part: Part, number: int) -> NoReturn:
    """Run parts until there are none, in the fork."""
    code = 1
    with suppress(BaseException):  # nothing of the parent's may go on here
        config: Any = session.config
        _take_over(config, number)
        speech = Speech(config, connection)
        config.pluginmanager.register(speech)  # which is told of every warning up to now
        speech.is_heard = True
        last = part[0]
        try:
            while part:
                for last, following in zip(part, [*part[1:], None], strict=True):
                    _run(session, speech, last, following)
                    if session.shouldfail or session.shouldstop or connection.poll():
                        break
                else:
                    speech.say("next")
                part = msgpack.unpackb(connection.recv_bytes())
        except (EOFError, ConnectionError, KeyboardInterrupt):
            pass  # the parent has gone, or wants no more
        except pytest.exit.Exception as error:
            speech.say("stop", str(error))
        except BaseException:  # noqa: BLE001 - of a plugin
            speech.say("stop", traceback.format_exc())
        try:
            session._setupstate.teardown_exact(None)
        except BaseException:  # noqa: BLE001 - what a fixture of the session raises
            speech.say("broken", last, traceback.format_exc())
        code = 0
    os._exit(code)


def _run(session: pytest.Session, speech: Speech, number: int, following: int | None) -> None:
    """Run a test. What its session has set up stays behind the last one of a part."""
    item, speech.reports = session.items[number], []
    behind: Any = session if following is None else session.items[following]
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=behind)
    speech.say("test", number, speech.reports)


def _take_over(config: Any, number: int) -> None:
    """Take output, folders and plugins for this fork alone."""
    writer = config.get_terminal_writer()
    for name in filter(config.pluginmanager.hasplugin, OF_THE_PARENT):
        config.pluginmanager.unregister(name=name)
    config.pluginmanager.register(
        SimpleNamespace(_tw=writer), "terminalreporter"
    )  # pytest-timeout writes to it
    config.workerinput = {
        "workerid": f"job{number}"
    }  # by which pytest's own plugins know that another one reports
    if (capture := config.pluginmanager.getplugin("capturemanager")) is not None:
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
    factory = config._tmp_path_factory
    factory._basetemp = factory.mktemp(f"job{number}", numbered=False)
