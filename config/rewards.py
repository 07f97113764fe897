"""These sections say what becomes of scores: the shape of an answer, and what is taken off a reward."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from config.section import Section

Language = Literal[
    "en", "de", "fr", "es", "it", "pt", "vi", "zh", "ja", "ko", "ru", "uk", "el", "ar", "fa", "he", "hi", "th"
]


class ShapeConfig(Section):
    """What an answer looks like, whatever it says."""

    think: Literal["required", "optional"] = "optional"
    """Whether an answer needs a closed thinking span; an unclosed one is always wrong."""
    min_think: int = Field(1, ge=1)
    """Words that a required thinking span holds at least: an empty one is none."""
    answer: Literal["auto", "box", "block", "tag", "any"] = "auto"
    """What has to stand after the thinking, closed and filled: a box, a fenced block, an `<answer>`, or any text.
    `auto`: what the row's type is scored by."""
    finish: Literal["required", "optional"] = "required"
    """Whether the model has to have ended by itself; a completion that was cut off at its longest has not. Of a text
    alone nobody knows, unless its row says so."""
    language: Language | None = None
    """Script that the text is written in. One letter of another script is wrong; languages of one script can't be told
    apart."""

    @model_validator(mode="after")
    def _thinks(self) -> ShapeConfig:
        if self.think == "optional" and self.min_think > 1:
            raise ValueError(f"`min_think: {self.min_think}` needs `think: required`")
        return self


class FormatConfig(ShapeConfig):
    """The shape of an answer, beside its content."""

    box: bool | None = None
    """An older word for `answer`: true is `box`, false is `any`."""
    mode: Literal["gate", "mix", "penalty"] = "gate"
    """`gate`: a wrong shape makes the reward 0. `mix`: the reward is (1 - weight) x score + weight x format.
    `penalty`: a wrong shape takes `weight` off the reward."""
    weight: float = Field(0.1, gt=0, le=1)
    """The share of the format in `mix`, the price of a wrong one in `penalty`."""

    @model_validator(mode="after")
    def _one_meaning(self) -> FormatConfig:
        if self.box is not None and self.answer != "auto":
            raise ValueError(
                f"`box: {str(self.box).lower()}` and `answer: {self.answer}` say the same thing twice; "
                "keep `answer`"
            )
        if self.mode == "gate" and self.weight != type(self).model_fields["weight"].default:
            raise ValueError(
                f"`weight: {self.weight:g}` belongs to `mode: mix` or `mode: penalty`; a gate has none"
            )
        if self.mode == "mix" and self.weight == 1:
            raise ValueError("in `mix` a weight of 1 leaves nothing for the content")
        return self


class OverlongConfig(Section):
    """Soft punishment of answers near the limit: DAPO, arXiv:2503.14476, eq. 13."""

    buffer_tokens: int = Field(ge=1)
    """Last tokens before the limit, over which the penalty grows from 0 to `weight`."""
    max_tokens: int | None = Field(None, ge=1)
    """The limit, from which on the penalty is `weight`; unset: the longest completion that the prompt allows."""
    weight: float = Field(1.0, gt=0)
    """The penalty at the limit."""

    @model_validator(mode="after")
    def _room(self) -> OverlongConfig:
        if self.max_tokens is not None and self.buffer_tokens > self.max_tokens:
            raise ValueError(
                f"a buffer of {self.buffer_tokens} tokens is longer than max_tokens, {self.max_tokens}"
            )
        return self


class LengthConfig(Section):
    """A price of every token."""

    weight: float = Field(gt=0)
    """What an answer of `max_tokens` costs; a shorter one its share of it."""
    max_tokens: int | None = Field(None, ge=1)
    """Tokens from which on no more is taken off; unset: the longest completion that the prompt allows."""


class RepetitionConfig(Section):
    """A price of saying the same again, thinking included."""

    span_chars: int = Field(300, ge=20)
    """Characters in a row that may not occur a second time."""
    weight: float = Field(1.0, gt=0)
    """The penalty where they do."""


class PenaltiesConfig(Section):
    """What is taken off a reward, which may become negative; the score stays as it is."""

    overlong: OverlongConfig | None = None
    """For answers near the limit of their length."""
    length: LengthConfig | None = None
    """For every token."""
    repetition: RepetitionConfig | None = None
    """For a long span that occurs twice."""
