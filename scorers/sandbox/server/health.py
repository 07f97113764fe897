"""`python -m scorers.sandbox.server.health URL`: does the sandbox at URL run a program? A container's health check.

Exit code 0 if a program that prints a sum printed it, else 1 and what the server said.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import httpx

TIMEOUT_S = 15.0
PROGRAM = "print(6 * 7)"


def main(argv: Sequence[str] | None = None) -> int:
    """Ask the sandbox once, and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) != 1:
        sys.stderr.write("usage: python -m scorers.sandbox.server.health URL\n")
        return 2
    try:
        answer = httpx.post(
            f"{words[0]}/run_code",
            timeout=TIMEOUT_S,
            trust_env=False,
            json={"code": PROGRAM, "language": "python", "run_timeout": 10},
        )
        said = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        sys.stderr.write(f"{words[0]}: {error}\n")
        return 1
    result = said.get("run_result") if isinstance(said, dict) else None
    if isinstance(result, dict) and (result.get("stdout") or "").strip() == "42":
        return 0
    sys.stderr.write(f"{words[0]} answered {answer.status_code}: {answer.text[:500]}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
