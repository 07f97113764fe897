"""A server of tools that speaks MCP, by the library's own server: on standard input and output, or on a port."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("shop")
PRICES = {"tea": 3, "milk": 2}
BASKET: list[str] = []


@server.tool()
def price(thing: str) -> int:
    """Say what a thing costs."""
    return PRICES[thing]


@server.tool()
def put(thing: str) -> list[str]:
    """Put a thing into the basket."""
    BASKET.append(thing)
    return BASKET


@server.tool()
def about() -> str:
    """Say who serves."""
    return f"{os.getpid()} {os.environ.get('HF_TOKEN')} {os.environ.get('SHOP_API_KEY')}"


@server.tool()
def leave() -> str:
    """Close the shop."""
    os._exit(1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
