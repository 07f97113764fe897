"""A pytest file against the answer: the tests run in T, and `import solution` gives stand-ins.

In: the text of the file. Out: passed or failed, with a reason, for every test that was not skipped. Nothing of it is
ever written to disk, where C could change it: the module is made in memory. pytest runs without configuration, conftest
files, plugins and cache, and is imported before the first line of the answer runs.
"""

# ruff: noqa: PTH100, PTH109, S102 -- tests are run here

from __future__ import annotations

import builtins
import os
import sys

from sandbox.harness.cases import Failed, Run, Stopped
from sandbox.harness.checks import parsed
from sandbox.harness.remote import MODULE, TEST_TOOLS, is_standard

if False:
    from typing import Any


FINISHED = (0, 1, 5)  # pytest's codes: all passed, some failed, none was found


class AnswerModule(MODULE):  # type: ignore[misc,valid-type]
    """The module that the tests import; its names are looked up in C when they are used."""

    def __init__(self, name: str, state: Run) -> None:
        super().__init__(name)
        self.__dict__["_tests"] = state.tests

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [name for name in self._tests.link.ask("names") if self._is_free(name)]
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._tests.named(name)
        except NameError as error:
            raise AttributeError(str(error)) from None

    def _is_free(self, name: Any) -> bool:
        """Return whether `from solution import *` may bring this name: no test, and no name that the tests use."""
        return (
            isinstance(name, str)
            and not name.startswith("test")
            and not hasattr(builtins, name)
            and not is_standard(name)
            and name not in TEST_TOOLS
            and name not in vars(sys.modules["__main__"])
        )


class Plugin:
    """Makes the one module, keeps the time of collection and of every test, and remembers what came out."""

    def __init__(self, state: Run, text: str) -> None:
        self.state, self.text = state, text
        self.outcomes: dict[str, list[Any]] = {}
        self.unended: set[str] = set()  # tests that were found, and neither ended nor were skipped
        self.stopped: Stopped | None = None

    def pytest_collect_file(self, file_path: Any, parent: Any) -> Any:
        """Return the module, in place of the file that pytest was pointed at."""
        import pytest

        plugin = self

        class InMemory(pytest.Module):
            def _getobj(self) -> Any:
                module: Any = sys.modules["__main__"]
                module.__name__ = "tests"
                exec(compile(plugin.text, "tests.py", "exec", dont_inherit=True), vars(module))
                return module

        return InMemory.from_parent(parent, path=file_path)

    def pytest_collection(self, session: Any) -> bool:
        """Collect the tests within a case's time: a module's own lines may call the answer."""
        import pytest

        refused: list[Any] = []

        def collect() -> None:
            try:
                session.perform_collect()
            except pytest.UsageError as error:  # of our own options
                refused.append(error)

        try:
            self.state.timed(collect)
        except Failed as failure:
            self.outcomes["collection"] = [False, str(failure)]
        except Stopped as stopped:
            self.stopped = stopped
            raise pytest.exit.Exception(str(stopped)) from None
        if refused:
            raise refused[0]
        return True

    def pytest_collection_modifyitems(self, items: Any) -> None:
        """Note which tests have to run, before the first test runs."""
        self.unended = {item.nodeid for item in items}

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool:
        """Run one test with its set-up and clean-up, within a case's time."""
        import pytest
        from _pytest.runner import runtestprotocol

        try:
            self.state.timed(lambda: runtestprotocol(item, nextitem=nextitem))
            self.unended.discard(item.nodeid)
        except Failed as failure:
            self.outcomes[item.nodeid] = [False, str(failure)]
        except Stopped as stopped:
            self.stopped = stopped
            raise pytest.exit.Exception(str(stopped)) from None
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a test as passed where each of its phases passed and its call was not skipped."""
        if report.failed:
            reason = " ".join(str(getattr(report.longrepr, "reprcrash", None) or report.longrepr).split())
            self.outcomes[report.nodeid] = [False, f"{report.nodeid.rpartition('::')[2]}: {reason[:160]}"]
        elif report.passed and report.when == "call":
            self.outcomes.setdefault(report.nodeid, [True, ""])

    def pytest_collectreport(self, report: Any) -> None:
        """Count a file that can't be imported, since the answer lacks a name, as one failed case."""
        if report.failed:
            self.outcomes[report.nodeid] = [False, " ".join(str(report.longrepr).split())[-160:]]


def run_file(state: Run, text: str) -> list[list[Any]]:
    """Run every test of the file; each gives [passed, reason]. Raises Stopped, and Failed where there was none."""
    import pytest

    name = state.payload["module"]
    sys.modules[name] = AnswerModule(name, state)
    sys.path.insert(0, os.devnull)  # some plugins look at it; nothing can be imported from there
    parsed(text)
    plugin = Plugin(state, text)
    os.environ.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", HOME=os.getcwd())
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    folder, file = os.path.split(os.path.abspath(sys.executable))  # something that exists
    code = pytest.main(
        [
            "--noconftest",
            "-c",
            os.devnull,
            "--rootdir",
            "/",
            "--confcutdir",
            folder,  # lists no other
            "--import-mode=importlib",
            "--capture=no",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:terminal",
            "-p",
            "no:faulthandler",
            *(("-x",) if "stubs" in state.payload else ()),  # one failed test says enough
            f"{folder}/{file}",
        ],
        plugins=[plugin],
    )
    if plugin.stopped is not None:
        raise plugin.stopped
    if code == pytest.ExitCode.USAGE_ERROR:
        raise RuntimeError("this pytest does not know our options")
    for name in plugin.unended:
        plugin.outcomes[name] = [False, f"{name.rpartition('::')[2]} did not run to its end"]
    if code not in FINISHED and all(passed for passed, _ in plugin.outcomes.values()):
        raise Failed(f"pytest ended with code {int(code)}")
    if not plugin.outcomes:
        raise Failed("no test ran")
    if not all(passed for passed, _ in plugin.outcomes.values()):
        state.refuse_missing()
    return list(plugin.outcomes.values())
