"""The known-answer probe of a sandbox server: what a run alone can know.

In: nothing. Out: a request, and the judgement of the reply. The request's program has to read its input, multiply two
fresh numbers and end with a code of its own. Asked by the client (`scorers.sandbox.remote.fusion`) of every server, and
by the service (`scorers.sandbox.server.service`) of itself. A server that makes replies up, or that calls every run a
success, fails it.
"""

from __future__ import annotations

import secrets
from typing import Final

from scorers.sandbox.wire import RunReply, RunRequest

PROBE_S: Final = 5.0  # that its program may run
EXIT_CODE: Final = 3
PROGRAM: Final = f"""\
import platform, sys
first, second = map(int, sys.stdin.read().split())
print(first * second)
sys.stderr.write(platform.python_version())
sys.exit({EXIT_CODE})
"""


class Probe:
    """One question; every one has another answer."""

    def __init__(self) -> None:
        first, second = (secrets.randbelow(1 << 40) + (1 << 40) for _ in range(2))
        self._product = str(first * second)
        self.request = RunRequest(
            code=PROGRAM, language="python", stdin=f"{first} {second}\n", run_timeout=PROBE_S
        )

    def trouble(self, reply: RunReply) -> str | None:
        """Return what is wrong with the reply; None: nothing."""
        result = reply.run_result
        if result is None:
            return f"no result of the probe's run: {reply.status} {(reply.message or '')[:200]}"
        if result.return_code == EXIT_CODE and (result.stdout or "").strip() == self._product:
            return None
        said = f"{result.status}, code {result.return_code}, {(result.stdout or '')[:80]!r}"
        return f"it says {said} of a program that prints {self._product} and ends with code {EXIT_CODE}"


def python_version(reply: RunReply) -> str:
    """Return the version of the Python that ran the probe."""
    result = reply.run_result
    return ((result.stderr if result else None) or "").strip()[:20] or "unknown"
