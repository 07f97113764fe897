"""Agents that work in a place: each asks the policy for a command of bash, and runs what it says."""

from __future__ import annotations

import asyncio
from typing import Any

import openai


async def obey(base_url: str, api_key: str, row: dict[str, Any], environment: Any) -> None:
    """Run what the policy says, and tell it what came of it, until it says nothing more."""
    chat: list[Any] = list(row["messages"])
    async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
        while True:
            answer = await client.chat.completions.create(model="any", messages=chat)
            said = answer.choices[0].message.content or ""
            if not said.startswith("$ "):
                return
            done = await environment.exec(said.removeprefix("$ "), timeout_sec=row.get("command_s"))
            told = f"{done.stdout}{done.stderr}[{done.return_code}]"
            chat += [answer.choices[0].message, {"role": "user", "content": told}]


async def obey_once(base_url: str, api_key: str, row: dict[str, Any], environment: Any) -> None:
    """Run one thing that the policy says."""
    async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
        answer = await client.chat.completions.create(model="any", messages=row["messages"])
    await environment.exec(answer.choices[0].message.content)


async def breaks(base_url: str, api_key: str, row: dict[str, Any], environment: Any) -> None:
    """Break."""
    raise ValueError("broken on purpose")


async def hangs(base_url: str, api_key: str, row: dict[str, Any], environment: Any) -> None:
    """Write the answer, and never end."""
    await environment.exec("cp number.txt answer.txt; sleep 600 &")
    await environment.exec("sleep 600")
    await asyncio.sleep(600)
