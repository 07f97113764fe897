"""Penalties are taken off a reward: for length, and for saying the same again.

In: a completion, and the longest completion that its prompt allowed. Out: the penalties that are due, each with its
reason. Of an episode the tokens are those that the policy sampled, over all turns, and the text is its last message.
Pure, linear in the length of the text. `scorers.reward.combine` subtracts penalties; a score has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.rewards import LengthConfig, OverlongConfig, PenaltiesConfig, RepetitionConfig
from scorers.text.extract import MAX_RESPONSE_CHARS

if TYPE_CHECKING:  # the module brings numpy, which a process that scores single rows does without
    from broker.messages import Completion


@dataclass(frozen=True, slots=True)
class Penalty:
    """A penalty that the task asks for; its amount may be 0."""

    name: str  # of the component in the score
    amount: float  # >= 0, taken off the reward
    reason: str  # for people; "" where nothing is due


def penalties_of(config: PenaltiesConfig, completion: Completion, allowed_tokens: int) -> list[Penalty]:
    """Compute every penalty that the task asks for.

    Args:
        config: which penalties the task asks for.
        completion: its tokens count, the last of a turn too, and its text, thinking included.
        allowed_tokens: the longest completion that its prompt allowed.
    """
    tokens = completion.num_sampled
    found = []
    if config.overlong is not None:
        found.append(_overlong(config.overlong, tokens, allowed_tokens))
    if config.length is not None:
        found.append(_length(config.length, tokens, allowed_tokens))
    if config.repetition is not None:
        found.append(_repetition(config.repetition, completion.text))
    return found


def _overlong(config: OverlongConfig, tokens: int, allowed_tokens: int) -> Penalty:
    """Take off 0 up to the buffer, `weight` at the limit, and linearly more between. arXiv:2503.14476, eq. 13."""
    most = config.max_tokens or allowed_tokens
    buffer = min(config.buffer_tokens, most)  # of a prompt that leaves less room, all of it
    share = min(max((tokens - (most - buffer)) / buffer, 0.0), 1.0)
    return Penalty("overlong", config.weight * share, f"{tokens} tokens of {most}" if share else "")


def _length(config: LengthConfig, tokens: int, allowed_tokens: int) -> Penalty:
    most = config.max_tokens or allowed_tokens
    return Penalty("length", config.weight * min(tokens / most, 1.0), f"{tokens} tokens of {most}")


def _repetition(config: RepetitionConfig, text: str) -> Penalty:
    if len(text) > MAX_RESPONSE_CHARS:  # too long to look through, and nobody's answer
        return Penalty("repetition", config.weight, f"a text of {len(text)} characters")
    place = repeated_span(text, config.span_chars)
    if place is None:
        return Penalty("repetition", 0.0, "")
    return Penalty(
        "repetition",
        config.weight,
        f"the {config.span_chars} characters from {place + 1} on have been there before",
    )


def repeated_span(text: str, length: int) -> int | None:
    """Find where the first span of `length` characters begins that stands whole before it too; None: nowhere."""
    first: dict[int, int] = {}  # hash of a span to where it begins first
    for place in range(len(text) - length + 1):
        before = first.setdefault(hash(text[place : place + length]), place)
        if place - before >= length and text[before : before + length] == text[place : place + length]:
            return place
    return None
