"""Sections of rewards: the format of an answer, and penalties."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from config.section import Section

Language = Literal[
    "en", "de", "fr", "es", "it", "pt", "vi", "zh", "ja", "ko", "ru", "uk", "el", "ar", "fa", "he", "hi", "th"
]


class ShapeConfig(Section):
    """The format of an answer, apart from its content."""

    think: Literal["required", "optional"] = "optional"
    """Whether an answer needs a closed thinking span. An unclosed one is always wrong."""
    min_think: int = Field(1, ge=1)
    """Least number of words in a required thinking span."""
    answer: Literal["auto", "box", "block", "tag", "any"] = "auto"
    """What must follow the thinking, closed and filled: a box, a fenced block, an `<answer>`, or any text. `auto`: what
    rows of this type are scored by."""
    finish: Literal["required", "optional"] = "required"
    """Whether the model must have ended the completion itself, rather than reached `max_tokens`. Ignored for plain
    texts, of which this is unknown unless their row says it."""
    language: Language | None = None
    """Require the script of this language, in the thinking too: one letter of another script is wrong. Greek letters
    and Latin words are allowed in every text. Languages of one script can't be told apart."""

    @model_validator(mode="after")
    def _thinks(self) -> ShapeConfig:
        if self.think == "optional" and self.min_think > 1:
            raise ValueError(f"`min_think: {self.min_think}` needs `think: required`")
        return self


class FormatConfig(ShapeConfig):
    """The format of an answer, scored besides its content."""

    box: bool | None = None
    """Old form of `answer`: true means `box`, false means `any`."""
    mode: Literal["gate", "mix", "penalty"] = "gate"
    """`gate`: a wrong format makes the reward 0. `mix`: the reward is (1 - weight) x score + weight x format.
    `penalty`: a wrong format subtracts `weight` from the reward."""
    weight: float = Field(0.1, gt=0, le=1)
    """Share of the format in `mix`; penalty of a wrong one in `penalty`."""

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
    """Soft penalty for answers near the length limit (DAPO, arXiv:2503.14476, eq. 13)."""

    buffer_tokens: int = Field(ge=1)
    """Tokens before the limit over which the penalty grows from 0 to `weight`."""
    max_tokens: int | None = Field(None, ge=1)
    """Limit from which on the penalty is `weight`. Unset: the longest completion that the prompt allows."""
    weight: float = Field(1.0, gt=0)
    """Penalty at the limit."""

    @model_validator(mode="after")
    def _room(self) -> OverlongConfig:
        if self.max_tokens is not None and self.buffer_tokens > self.max_tokens:
            raise ValueError(
                f"a buffer of {self.buffer_tokens} tokens is longer than max_tokens, {self.max_tokens}"
            )
        return self


class LengthConfig(Section):
    """Penalty for each token."""

    weight: float = Field(gt=0)
    """Penalty for an answer of `max_tokens` tokens; less in proportion for shorter ones."""
    max_tokens: int | None = Field(None, ge=1)
    """Tokens beyond which the penalty no longer grows. Unset: the longest completion that the prompt allows."""


class RepetitionConfig(Section):
    """Penalty for repetition, in the thinking too."""

    span_chars: int = Field(300, ge=20)
    """Length in characters of a span that must not occur twice."""
    weight: float = Field(1.0, gt=0)
    """Penalty where one does."""


class PenaltiesConfig(Section):
    """Penalties, subtracted from the reward, which may become negative. The score is unchanged."""

    overlong: OverlongConfig | None = None
    """Penalty near the length limit."""
    length: LengthConfig | None = None
    """Penalty for each token."""
    repetition: RepetitionConfig | None = None
    """Penalty for a long span that occurs twice."""
