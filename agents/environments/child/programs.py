"""Give the policy a Python and a bash behind the sandbox's walls, with a state that lasts for the episode.

In: calls of the tools `python` and `bash`. Out: their output. Needs Millrace's own interpreter, whose package `sandbox`
has the walls. Failures of the walls raise `ServerGone`: the policy did not cause them.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Tuple

from agents.environments.child.schemas import ServerGone, UnfitArguments, fitted

SCHEMAS = {
    "python": (
        "code",
        "Run Python code. Names stay for the next call. Returns what is printed, and the value of a last expression.",
        "The code.",
    ),
    "bash": (
        "command",
        "Run a bash command. Variables, files and the working folder stay for the next call. Returns what is printed.",
        "The command.",
    ),
}


class Programs:
    """The sandbox of a task, and the session of an episode."""

    def __init__(self, section: Dict[str, Any]) -> None:
        """Find working walls, once for all episodes. Raises the errors of `sandbox.choice`, where there are none."""
        self._tools, self._deadline_s = section["programs"], section["program_deadline_s"]
        self._most_bytes = 4 * section["result_characters"]
        sys.path.insert(0, section["source"])
        try:
            from config.scorers import ScorersConfig
            from sandbox.choice import build_sandbox
            from sandbox.limits import Limits
            from sandbox.local.sandbox import LocalSandbox
            from sandbox.local.session import SandboxSession
            from sandbox.program import SandboxMissing, SandboxUnavailable
        finally:
            sys.path.remove(section["source"])
        found = build_sandbox(ScorersConfig(sandbox=section["walls"]))
        if not isinstance(found, LocalSandbox):
            raise SandboxMissing(
                f"`programs` needs walls on this machine, and scorers.sandbox={section['walls']}"
            )
        self._sandbox, self._unavailable, self._make = found, SandboxUnavailable, SandboxSession
        self._limits = Limits(memory_bytes=section["program_memory_mb"] << 20)
        self._session: Optional[SandboxSession] = None

    @property
    def schemas(self) -> List[Dict[str, Any]]:
        """Return the schemas of the tools."""
        found = []
        for tool in self._tools:
            parameter, what, whole = SCHEMAS[tool]
            properties = {parameter: {"type": "string", "description": whole}}
            parameters = {"type": "object", "properties": properties, "required": [parameter]}
            found.append(
                {
                    "type": "function",
                    "function": {"name": tool, "description": what, "parameters": parameters},
                }
            )
        return found

    def call(self, tool: str, arguments: Dict[str, Any]) -> Tuple[bool, str]:
        """Return whether the call failed, and its output. Raises ServerGone and UnfitArguments."""
        parameter = SCHEMAS[tool][0]
        if [*arguments] != [parameter]:
            raise UnfitArguments(f"it takes {parameter}, and nothing else")
        text = fitted(arguments[parameter], str, parameter)
        self._session = self._session or self._make(self._sandbox, limits=self._limits)
        try:
            reply = self._session.call(tool, text, deadline_s=self._deadline_s, most_bytes=self._most_bytes)
        except self._unavailable as error:
            raise ServerGone(str(error)) from error
        return reply.failed, reply.text

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()
            self._session = None
        self._sandbox.close()
