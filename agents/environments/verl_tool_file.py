"""Read verl's YAML of tools, for the children's section.

In: the section of an environment of type `verl_tools`. Out: `entries`, each a class with its configuration and schema,
and `servers`, those of MCP in the form of our own section. Unsupported entries raise ConfigError with their names. Used
by `agents.environments.processes`, where the agents run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from config.episodes.environments import ToolServerConfig, VerlToolsConfig
from config.explanations import ConfigError
from config.yaml_text import read_yaml_file, read_yaml_text

MCP_CLASS: Final = (
    "verl.tools.mcp_base_tool.MCPBaseTool"  # only returns a server's answer; other classes process it
)
REFERENCE: Final = re.compile(r"\$\{")  # of OmegaConf


def children_read(section: VerlToolsConfig) -> dict[str, Any]:
    """Return the additional keys of the children's section. Raises ConfigError."""
    entries: list[dict[str, Any]] = []
    servers: dict[str, Any] = {}
    path = section.tool_config_path
    for place, entry in enumerate(_entries(path) if path else []):
        where = f"{path}: tools[{place}]"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("class_name"), str):
            raise ConfigError(f"{where}: an entry has a class_name, got {entry!r:.200}")
        if "." not in entry["class_name"]:
            raise ConfigError(f"{where}: class_name is module.Class, got {entry['class_name']}")
        config = entry.get("config") or {}
        kind = config.get("type", "native")
        if kind == "mcp":
            servers |= _servers(entry, where)
        elif kind == "native":
            if found := next(_references(entry), None):
                raise ConfigError(f"{where}: {found} refers to something else: write its value")
            named = {"class_name": entry["class_name"], "tool_schema": entry.get("tool_schema")}
            entries.append({**named, "config": config})
        else:
            raise ConfigError(f"{where}: config.type is native or mcp, got {kind!r}")
    return {"entries": entries, "servers": servers}


def _entries(path: str) -> list[Any]:
    found = read_yaml_text(read_yaml_file(Path(path).expanduser()), path)
    entries = found.get("tools") if isinstance(found, dict) else None
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: a list `tools` is expected")
    return entries


def _servers(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the servers of an MCP entry."""
    if entry["class_name"] != MCP_CLASS:
        raise ConfigError(
            f"{where}: {entry['class_name']} may do something with what a server says; of entries of type mcp, only "
            f"{MCP_CLASS} is read"
        )
    section = entry.get("mcp") or {}
    path = section.get("mcp_servers_config_path")
    if not isinstance(path, str):
        raise ConfigError(f"{where}: mcp.mcp_servers_config_path has to name a file")
    try:
        found = json.loads(read_yaml_file(Path(path).expanduser()))["mcpServers"]
        listed = dict(found.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{where}: {path} has no object `mcpServers`: {error}") from None
    chosen = section.get("tool_selected_list")
    if chosen and len(listed) > 1:
        raise ConfigError(
            f"{where}: tool_selected_list does not say which of {len(listed)} servers has a tool"
        )
    return {name: _server(f"{path}: {name}", one, chosen) for name, one in listed.items()}


def _server(where: str, given: Any, tools: Any) -> dict[str, Any]:
    """Return a server in the form of our section. Raises ConfigError for unsupported settings."""
    known = {"command", "args", "url", "type", "transport"}
    if not isinstance(given, dict) or (strange := sorted(given.keys() - known)):
        told = f"has {', '.join(strange)}, which" if isinstance(given, dict) else "is no object, and"
        raise ConfigError(
            f"{where} {told} does not map on a server here: name it in an environment of type tools, with "
            "key_variable for its token and variables for what it reads"
        )
    words = [given["command"], *(given.get("args") or ())] if "command" in given else ()
    try:
        server = ToolServerConfig(command=tuple(map(str, words)), url=given.get("url"), tools=tools)
    except ValidationError as error:
        raise ConfigError(f"{where}: {error.errors()[0]['msg']}") from None
    return server.model_dump(mode="json")


def _references(value: Any) -> Iterator[str]:
    """Yield texts with references."""
    if isinstance(value, str) and REFERENCE.search(value):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)
