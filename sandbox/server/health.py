"""`python -m sandbox.server.health URL`: does the sandbox at URL run a program? A container's health check.

Exit code 0 if a program that prints a sum printed it, else 1 and what the server said.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

TIMEOUT_S = 15.0
PROGRAM = "print(6 * 7)"


def main(argv: Sequence[str] | None = None) -> int:
    """Ask the sandbox once, and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) != 1:
        sys.stderr.write("usage: python -m sandbox.server.health URL\n")
        return 2
    try:
        said = _ask(f"{words[0]}/run_code")
    except HTTPError as error:
        sys.stderr.write(f"{words[0]} answered {error.code}: {error.read(500).decode(errors='replace')}\n")
        return 1
    except (OSError, ValueError, RecursionError) as error:
        sys.stderr.write(f"{words[0]}: {error}\n")
        return 1
    result = said.get("run_result") if isinstance(said, dict) else None
    if isinstance(result, dict) and (result.get("stdout") or "").strip() == "42":
        return 0
    sys.stderr.write(f"{words[0]} answered 200: {json.dumps(said)[:500]}\n")
    return 1


def _ask(url: str) -> object:
    """Have the program run. No proxy of the environment is asked: the sandbox is this machine's."""
    body = json.dumps({"code": PROGRAM, "language": "python", "run_timeout": 10}).encode()
    request = Request(url, body, {"content-type": "application/json"})  # noqa: S310 - the caller's own address
    with build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT_S) as answer:
        return json.loads(answer.read())


if __name__ == "__main__":
    sys.exit(main())
