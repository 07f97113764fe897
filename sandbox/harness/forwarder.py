"""The first program behind the walls of an agent's command: it brings the policy to a port, and starts the command.

In: the path of the gateway's socket, the port on loopback, a file to report to, and the command's words. Each
connection to the port goes to the socket, byte for byte; the walls let nothing else out. Out: the report, one JSON
object with `code`, how the command ended, or `lost`, why it did not begin, and `reward`, what it wrote to the file that
MILLRACE_REWARD names. The standard library alone, for any Python from 3.8 on. It ends with the command.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CHUNK_BYTES = 1 << 16
MOST_REWARD_BYTES = 1 << 16


async def forward(socket_path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry one connection to the socket."""
    try:
        others_reader, others_writer = await asyncio.open_unix_connection(socket_path)
    except OSError as error:
        sys.stderr.write(f"the policy can't be reached: {error}\n")
        writer.close()
        return
    await asyncio.gather(carry(reader, others_writer), carry(others_reader, writer))


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry what comes one way, to its end."""
    try:
        while True:
            data = await reader.read(CHUNK_BYTES)
            if not data:
                break
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


async def run(socket_path: str, port: int, command: list[str]) -> dict[str, Any]:
    """Serve the port while the command runs."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await forward(socket_path, reader, writer)

    await asyncio.start_server(connected, "127.0.0.1", port)
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.DEVNULL)
    except OSError as error:
        return {"lost": f"{command[0]}: {error.strerror}"}
    return {"code": await process.wait(), "reward": reward()}


def reward() -> str:
    """Return what the command wrote as its reward; "" where it wrote nothing."""
    try:
        with Path(os.environ["MILLRACE_REWARD"]).open("rb") as file:
            return file.read(MOST_REWARD_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def main(words: list[str]) -> None:
    """Run the command, and report."""
    socket_path, port, report, *command = words
    found = asyncio.run(run(socket_path, int(port), command))
    Path(report).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
