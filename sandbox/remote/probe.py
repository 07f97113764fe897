"""The known-answer probe of a sandbox server: what a run alone can know.

In: nothing. Out: a request, and the judgement of the reply. The request's program has to read its input, multiply two
fresh numbers and end with a code of its own. Asked by the client (`sandbox.remote.fusion`) of every server, and
by the service (`sandbox.server.service`) of itself. A server that makes replies up, or that calls every run a
success, fails it.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

from sandbox.packages import ABSENT, PACKAGES
from sandbox.wire import RunReply, RunRequest

PROBE_S: Final = 5.0  # that its program may run
EXIT_CODE: Final = 3
VERSIONS_CHARS: Final = 2000
_VERSION: Final = re.compile(rf"(?:{'|'.join(PACKAGES)})=[\w.+!-]{{1,40}}")
PROGRAM: Final = f"""\
import importlib.metadata, platform, sys
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "{ABSENT}"
first, second = map(int, sys.stdin.read().split())
print(first * second)
sys.stderr.write(platform.python_version() + "".join(f" {{name}}={{version(name)}}" for name in {tuple(PACKAGES)}))
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


def versions_of(reply: RunReply) -> str:
    """Return the versions of the Python that ran the probe, and of the packages there, as far as it says them."""
    result = reply.run_result
    words = ((result.stderr if result else None) or "").strip()[:VERSIONS_CHARS].split() or ["unknown"]
    return " ".join([f"python={words[0][:20]}", *(word for word in words[1:] if _VERSION.fullmatch(word))])
