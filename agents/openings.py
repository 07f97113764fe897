"""Cache the first prompts of a group's episodes: they are usually equal, and rendered once.

In: messages and tools. Out: their ids, or why the policy would not see the tools. Belongs to the play of one group.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from agents.rendering.rendering import Rendering, Unrenderable
from broker.messages import Ids
from broker.messages import Turn as Message


class Openings:
    """The first prompts of one group."""

    def __init__(self) -> None:
        self._ids: dict[str, Ids] = {}
        self._objections: dict[str, str] = {}

    def first(self, rendering: Rendering, messages: Sequence[Message], tools: Sequence[Message]) -> Ids:
        """Return the ids of a first prompt whose tools the policy sees. Raises as `Rendering.first`."""
        # A policy that does not see its tools would learn to do without them.
        if why := self.objection(rendering, tools):
            raise Unrenderable(why)
        return self.ids(rendering, messages, tools)

    def ids(self, rendering: Rendering, messages: Sequence[Message], tools: Sequence[Message]) -> Ids:
        """Return the ids of messages that continue nothing. Raises as `Rendering.first`."""
        key = json.dumps([*messages, list(tools)])
        if key not in self._ids:
            self._ids[key] = rendering.first(messages, tools)
        return self._ids[key]

    def objection(self, rendering: Rendering, tools: Sequence[Message]) -> str:
        """Return why the policy would not see the tools, as `Rendering.objection`."""
        key = json.dumps(list(tools))
        if key not in self._objections:
            self._objections[key] = rendering.objection(tools)
        return self._objections[key]
