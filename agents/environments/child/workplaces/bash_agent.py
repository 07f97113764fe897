"""Millrace's own agent: the policy calls bash in a place until it sends a message without calls.

In: the address and the key of the policy, the row and the place. It is an ordinary client of OpenAI's API; each command
is a separate process in the place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import aiohttp

from agents.environments.child.workplaces.place import ExecResult, WorkplaceEnvironment

TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": (
            "Run a bash command in the work folder. Files stay for the next call. Returns what is printed, and the "
            "exit code where it is not 0."
        ),
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command."}},
            "required": ["command"],
        },
    },
}
CALL_S = 86_400.0  # of the policy: the episode has its own deadlines


def solver(section: Mapping[str, Any]) -> Any:
    """Return the agent with the settings of a section."""
    most = section["result_characters"]

    async def solve(
        base_url: str, api_key: str, row: Mapping[str, Any], environment: WorkplaceEnvironment
    ) -> None:
        chat: list[dict[str, Any]] = list(row["messages"])
        headers = {"Authorization": f"Bearer {api_key}"}
        limits = aiohttp.ClientTimeout(total=CALL_S)
        async with aiohttp.ClientSession(headers=headers, timeout=limits) as session:
            while True:
                body = {"model": "policy", "messages": chat, "tools": [TOOL]}
                async with session.post(f"{base_url}/chat/completions", json=body) as answer:
                    found = await answer.json()
                    if answer.status != 200:
                        raise RuntimeError(f"the policy answered {answer.status}: {found}")
                message = found["choices"][0]["message"]
                chat.append(message)
                if not message.get("tool_calls"):
                    return
                for call in message["tool_calls"]:
                    told = await _said(call["function"], environment, most)
                    chat.append({"role": "tool", "tool_call_id": call["id"], "content": told})

    return solve


async def _said(function: Mapping[str, Any], environment: WorkplaceEnvironment, most: int) -> str:
    """Return the answer to a call."""
    if function["name"] != "bash":
        return f"Error: there is no tool {function['name']!r}; there is bash"
    try:
        command = json.loads(function["arguments"])["command"]
    except (ValueError, TypeError, KeyError, RecursionError):
        command = None
    if not isinstance(command, str):
        return 'Error: bash takes an object with "command", a text'
    return shown(await environment.exec(command), most)


def shown(result: ExecResult, most: int) -> str:
    """Return a command's result with at most `most` characters: the beginning and the end."""
    text = "\n".join(part.rstrip("\n") for part in (result.stdout, result.stderr) if part.strip())
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]}\n[{len(text) - most} characters are left out]\n{text[len(text) - half :]}"
    return f"{text}\n[exit code {result.return_code}]".lstrip("\n") if result.return_code else text
