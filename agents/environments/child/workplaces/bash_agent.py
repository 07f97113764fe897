"""The agent that Millrace has: the policy calls bash in a place until it says something and calls nothing.

In: the address and the key of the policy, the row and the place. It is a client of OpenAI's API like any other, and
each command is a process of its own in the place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import aiohttp

from agents.environments.child.workplaces.place import Environment, ExecResult

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
CALL_S = 86_400.0  # of the policy: the episode has deadlines of its own


def solver(section: Mapping[str, Any]) -> Any:
    """Return the agent with the settings of a section."""
    most = section["result_characters"]

    async def solve(base_url: str, api_key: str, row: Mapping[str, Any], environment: Environment) -> None:
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


async def _said(function: Mapping[str, Any], environment: Environment, most: int) -> str:
    """Return what a call is answered."""
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
    """Return what came of a command, at most so many characters of it: the beginning and the end."""
    text = "\n".join(part.rstrip("\n") for part in (result.stdout, result.stderr) if part.strip())
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]}\n[{len(text) - most} characters are left out]\n{text[len(text) - half :]}"
    return f"{text}\n[exit code {result.return_code}]".lstrip("\n") if result.return_code else text
