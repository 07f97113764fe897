"""Agents that own their loop, for runs under chaos: OpenAI's client as it comes, which tries again by itself.

In: an address and a key of the policy, and a row. Out: nothing; the task's scorer judges the last message. As a
function (`type: agent`), and as a command, `python own_agents.py`. The client waits for less time than a killed
generator takes to come back, and marks what it asks again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openai

TURNS = 3
WORK_S = 0.2  # between two turns
PATIENCE_S = 1.0  # of one try
TRIES = 1000  # of one call: a Redis may be away for minutes


def ask_again(base_url: str, api_key: str, row: Mapping[str, Any]) -> None:
    """Ask three times in one conversation; the last answer counts."""
    chat: list[Any] = list(row["messages"])
    with openai.OpenAI(base_url=base_url, api_key=api_key, timeout=PATIENCE_S, max_retries=TRIES) as client:
        for turn in range(TURNS):
            if turn:
                time.sleep(WORK_S)
                chat.append({"role": "user", "content": "Say it again."})
            answer = client.chat.completions.create(model="policy", messages=chat)
            chat.append(answer.choices[0].message)


if __name__ == "__main__":
    ask_again(
        os.environ["OPENAI_BASE_URL"],
        os.environ["OPENAI_API_KEY"],
        json.loads(Path(os.environ["MILLRACE_ROW"]).read_text(encoding="utf-8")),
    )
