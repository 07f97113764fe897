r"""A reward server like the old one: FastAPI, calling math-verify inside the request. For `benchmarks.measures.server`.

Five workers of uvicorn, one `async` endpoint, no deadline but math-verify's own, as II-Thought's server is described:
what `server` is measured beside. Only `POST /reward` of mathematics and `GET /ping`.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

from pydantic import BaseModel


class InlineRequest(BaseModel):
    """The body of one request."""

    llm_output: str
    verification_info: str


def build() -> Any:
    """Build the application, anew in each of uvicorn's workers."""
    peer, web = import_module("math_verify"), import_module("fastapi")  # as its users call it
    app = web.FastAPI()

    async def reward(asked: InlineRequest) -> dict[str, float]:
        value = json.loads(asked.verification_info)["answer"]["value"]
        gold, answer = peer.parse(f"\\boxed{{{value}}}"), peer.parse(asked.llm_output)
        return {"score": float(peer.verify(gold, answer))}

    async def ping() -> dict[str, str]:
        return {"status": "ok"}

    app.post("/reward")(reward)
    app.get("/ping")(ping)
    return app


def main() -> None:
    """Serve on the port that the first argument names."""
    uvicorn = import_module("uvicorn")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    uvicorn.run(
        "benchmarks.rigs.inline_server:build",
        factory=True,
        port=int(sys.argv[1]),
        workers=5,
        log_level="error",
    )


if __name__ == "__main__":
    main()
