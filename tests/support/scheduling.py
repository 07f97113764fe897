"""Which xdist worker runs which tests, under `--dist loadfile`."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.support.tiers import scope_of


class FilesTogether(LoadFileScheduling):  # type: ignore[misc]
    """Gives every file to one worker, or all files of a name, and all whole runs to one worker in turn."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return scope_of(self.config.rootpath / file, file)

    def remove_node(self, node: WorkerController) -> str | None:
        """Leave to other workers what a dead one had yet to run, and return the test that it died at.

        xdist would have that test run again, until as many workers as it starts have died at it.
        """
        work = self.assigned_work[node]
        died_at = next(
            (test for tests in work.values() for test, is_over in tests.items() if not is_over), None
        )
        for scope, tests in list(work.items()):
            if died_at in tests:
                tests[died_at] = True
            if all(tests.values()):
                del work[scope]
        super().remove_node(node)
        return died_at
