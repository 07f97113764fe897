"""What the worker asks of a policy's tokens: the ids of messages, and the message that sampled ids say.

In: messages as OpenAI's API has them, ids that were given and sampled. Out: ids for the next turn; a message with its
thought and its tool calls. Used by the agents' worker, for each turn. What a policy sampled is never tokenized again:
the next prompt is what it was given, what it sampled, and a tail.
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
    """What the policy said in one turn."""

    # `role`, `content`; `reasoning_content` where it thought; `tool_calls` as OpenAI's API has them, their `arguments`
    # as JSON's text of an object. Their ids come from the turn's own tokens: a turn played again has the same.
    message: Turn
    unread: str = ""  # why what looks like a tool call is none; it is in the content then


class Rendering(Protocol):
    """Knows how messages become tokens of a policy, and what its tokens say."""

    def objection(self, tools: Sequence[Turn]) -> str:
        """Return why the policy would not see tools or what they answer; "" where it does."""
        ...

    def first(self, messages: Sequence[Turn], tools: Sequence[Turn]) -> Ids:
        """Return the ids of all messages, up to where the policy's turn begins.

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
        """Return the next prompt: `given`, `sampled`, and the tail that says what came behind.

        Args:
            given: ids of the turn's prompt.
            sampled: ids that the policy answered.
            finish: why it ended; a turn that was cut gets its end in the tail, unsampled.
            history: all messages before `said`; the last is the message of `sampled`.
            said: what a tool, an environment or a user said then; at least one message.
            tools: as in `first`.
        Returns:
            None where the template has no such tail: then the whole is rendered, and a new sequence begins.
        """
        ...

    def plain(self, text: str) -> Ids:
        """Return the ids of a text that the policy goes on with, without a template."""
        ...

    def message(
        self, given: Ids, sampled: Ids, finish: FinishReason, *, tools: Sequence[Turn] = ()
    ) -> Spoken:
        """Return what the policy said, with its thought and its tool calls told apart."""
        ...

    def text(self, given: Ids, sampled: Ids, finish: FinishReason) -> str:
        """Return the text that scorers and people see, as of a completion of one turn."""
        ...
