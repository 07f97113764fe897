"""T for reasoning-gym: ask C for the value of each answer, and write the line that proves them.

In: the payload, and a pipe to C (`gym_library`). Out: one line, `NONCE {"said": [...], "unfit": ...}`, a value of
`said` for each answer that C spoke of, in order. What C says is looked at here: a number, or one of few words.
"""

from __future__ import annotations

import os
from _signal import SIGKILL, SIGSTOP  # type: ignore[import-not-found]

from sandbox.harness.pipe import Gone, Pipe, ProtocolError, json_text

if False:
    from typing import Any

WORDS = {
    "value": (float, int),
    "raised": (str,),
    "absent": (str,),
    "over": (str,),
    "late": (bool,),
    "died": (int,),
}


def run(payload: dict[str, Any], pipe: Pipe, child: int) -> bytes:
    """Return the line of results, after C has been ended."""
    said: list[Any] = []
    unfit = None
    try:
        pipe.send(payload["job"])
        started = pipe.receive()
        if started == {"ready": True}:
            for answer in payload["answers"]:
                pipe.send(answer)
                said.append(_looked_at(pipe.receive()))
        else:
            unfit = str(started.get("unfit")) if type(started) is dict else "no word of ours"
    except (Gone, ProtocolError) as error:
        unfit = None if said else f"the library's process ended: {error!r}"
    for number in (SIGKILL, SIGSTOP):  # walls may forbid the first; what is left of it ends with the sandbox
        try:
            os.killpg(child, number)
            break
        except OSError:
            continue
    return f"{payload['nonce']} {json_text({'said': said, 'unfit': unfit})}\n".encode("ascii")


def _looked_at(message: Any) -> dict[str, Any]:
    if type(message) is not dict or len(message) != 1:
        raise ProtocolError("no message of ours")
    ((word, what),) = message.items()
    if type(what) not in WORDS.get(word, ()):
        raise ProtocolError("no message of ours")
    return {word: what}
