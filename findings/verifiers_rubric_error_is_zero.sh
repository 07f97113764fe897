#!/usr/bin/env bash
# verifiers 0.1.14: a reward function of a Rubric that raises is worth 0.0, and the rollout's state has no error.
# Seen: two functions, one of which can't reach its judge (ConnectionError). The rollout ends with reward 1.0 of 2.0,
# metrics {'exact': 1.0, 'judged': 0.0} and state["error"] None; the only sign is a line at level ERROR of the package's
# logger. A wrong answer of the same rubric has the same 0.0, so a judge that is down looks like a policy that got worse.
# To do: let a function raise where nobody answered only behind a wrapper that remembers it, and leave such rollouts out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'verifiers==0.1.14'
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import logging

import verifiers as vf


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append((record.levelname, record.getMessage()))


def exact(completion, answer) -> float:
    return float(completion[-1]["content"] == answer)


def judged(completion) -> float:
    raise ConnectionError("judge:8000 refuses the connection")


rubric = vf.Rubric(funcs=[exact, judged])
lines = Lines()
rubric.logger.addHandler(lines)
state = vf.State(
    input={"prompt": [{"role": "user", "content": "2 + 2?"}], "answer": "4", "task": "sum", "example_id": 0},
    completion=[{"role": "assistant", "content": "4"}],
)
asyncio.run(rubric.score_rollout(state))
print(state["reward"], state["metrics"], state.get("error"), lines.seen)
assert (state["reward"], state["metrics"]) == (1.0, {"exact": 1.0, "judged": 0.0})
assert state.get("error") is None, "the state knows of the error now"
assert [level for level, _ in lines.seen] == ["ERROR"], lines.seen
PYTHON
