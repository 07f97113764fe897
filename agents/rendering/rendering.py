"""Define the interface to a policy's tokens: the ids of messages, and the message of sampled ids.

In: messages in the format of OpenAI's API, prompt ids and sampled ids. Out: ids for the next turn; a message with its
thought and its tool calls. Used by the agents' worker, for each turn. Sampled tokens are never tokenized again: the
next prompt is the previous prompt, the sampled tokens, and a tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.errors import Permanent
from broker.messages import FinishReason, Ids, Turn


class Unrenderable(Permanent):
    """The chat template can't make a prompt of these messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The policy's message of one turn."""

    # `role`, `content`; `reasoning_content` for a thought; `tool_calls` in the format of OpenAI's API, their
    # `arguments` as the JSON text of an object. Their ids derive from the turn's own tokens: a replayed turn has the
    # same.
    message: Turn
    unread: str = ""  # why an apparent tool call is invalid; it then stays in the content


class Rendering(Protocol):
    """Converts messages to tokens of a policy, and its tokens to messages."""

    def objection(self, tools: Sequence[Turn]) -> str:
        """Return why the policy would not see tools or their answers; "" where it does."""
        ...

    def first(self, messages: Sequence[Turn], tools: Sequence[Turn]) -> Ids:
        """Return the ids of all messages, up to the start of the policy's turn.

        Raises:
            Unrenderable: the template refuses them.
        """
        ...

    def following(
        self,
        given: Ids,
        sampled: Ids,
        finish: FinishReason,
        *,
        history: Sequence[Turn],
        said: Sequence[Turn],
        tools: Sequence[Turn],
    ) -> Ids | None:
        """Return the next prompt: `given`, `sampled`, and a tail with the messages since.

        Args:
            given: ids of the turn's prompt.
            sampled: the policy's answer.
            finish: why it ended; the end of a cut turn is in the tail, unsampled.
            history: all messages before `said`; the last is the message of `sampled`.
            said: the following messages of a tool, an environment or a user; at least one.
            tools: as in `first`.
        Returns:
            None where the template has no such tail: then everything is rendered, and a new sequence begins.
        """
        ...

    def plain(self, text: str) -> Ids:
        """Return the ids of a text that the policy continues, without a template."""
        ...

    def message(
        self, given: Ids, sampled: Ids, finish: FinishReason, *, tools: Sequence[Turn] = ()
    ) -> Spoken:
        """Return the policy's message, with its thought and its tool calls separated."""
        ...

    def text(self, given: Ids, sampled: Ids, finish: FinishReason) -> str:
        """Return the text for scorers and people, as for a completion of one turn."""
        ...
