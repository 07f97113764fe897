#!/usr/bin/env bash
# mcp 2.3.0: what a tool's exception says does not reach the client any more. mcp 1.30.0 sent it.
# Seen: a tool that raises KeyError('no thing is called pear') answers, with 1.30.0, "Error executing tool price: 'no
# thing is called pear'"; with 2.3.0, "Error executing tool price". Both are marked as an error. So a policy or an agent
# that reads the answer can't tell a wrong argument from a broken tool, and does not learn what to do otherwise.
# To do: a server of 2.x raises the package's own error for what the caller may read, or returns it as text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/shop.py" <<'PYTHON'
import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def serve():
    try:
        from mcp.server.mcpserver import MCPServer as Server
    except ImportError:
        from mcp.server.fastmcp import FastMCP as Server
    shop = Server("shop")

    @shop.tool()
    def price(name: str) -> float:
        """The price of a thing."""
        raise KeyError(f"no thing is called {name}")

    shop.run()


async def ask():
    program = StdioServerParameters(command=sys.executable, args=[__file__, "serve"])
    async with stdio_client(program) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        answer = await session.call_tool("price", {"name": "pear"})
    is_error = getattr(answer, "is_error", None) or getattr(answer, "isError", None)
    print(is_error, answer.content[0].text)


serve() if sys.argv[1:] else asyncio.run(ask())
PYTHON
for version in 1.30.0 2.3.0; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "mcp==$version"
    "$folder/$version/bin/python" "$folder/shop.py" 2>"$folder/log" >"$folder/said-$version" || { cat "$folder/log"; exit 1; }
    echo "$version: $(cat "$folder/said-$version")"
done
[ "$(cat "$folder/said-1.30.0")" = "True Error executing tool price: 'no thing is called pear'" ]
[ "$(cat "$folder/said-2.3.0")" = "True Error executing tool price" ]
