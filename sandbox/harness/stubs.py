"""T, of a row that is tried: which of several answers pass every case.

In: a payload with `stubs`, answers that are ours, in place of one of a model's. Out: one line, `NONCE [true, false]`,
with a word for each stub, in their order. They are loaded into the same C one after the other. A stub with which the
tests run out of time, or C ends, is the last one of this run, and has not passed.
"""

from __future__ import annotations

import time

from sandbox.harness.cases import Run, judged
from sandbox.harness.pipe import Pipe, json_text

if False:
    from typing import Any


def run(payload: dict[str, Any], pipe: Pipe, child: int, run_file: Any = None) -> bytes:
    """Run all cases with one stub after the other, each up to its first case that fails."""
    deadline = time.monotonic() + payload["total_s"]
    passed: list[bool] = []
    for source in payload["stubs"]:
        left_s = deadline - time.monotonic()
        state = Run({**payload, "source": source, "total_s": left_s}, pipe, child)
        verdict = judged(state, run_file)
        is_whole = len(verdict["cases"]) >= len(payload["cases"]) and verdict["cases"]
        is_open = verdict["stopped"] is None and verdict["broken"] is None
        passed.append(bool(is_whole) and is_open and all(case[0] for case in verdict["cases"]))
        if verdict["stopped"] is not None:
            break
    state.kill()
    return f"{payload['nonce']} {json_text(passed)}\n".encode("ascii")
