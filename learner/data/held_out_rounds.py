"""This module resolves how each held-out set is sampled: what the set says, else what `evaluation` and `sampling` say.

In: a run. Out: one record a set, in the order of the configuration. Nothing is read. Used by the learner, which opens
the sets, and by the estimates, which count what their rounds take.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.data import HeldOutSection, SourceConfig
from config.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutRounds:
    """The rounds of one set."""

    name: str  # "" where the run has one source without a name
    source: SourceConfig
    every: int  # optimizer steps between two rounds; 0: none
    own_prompts: int | None  # of a round, where the set itself says so
    prompts: int  # of a round, at most: the set may have fewer rows
    samples: int  # completions of each; 1 where the set is greedy, since greedy ones are alike
    temperature: float
    top_p: float
    max_tokens: int  # longest completion
    max_prompt_tokens: int

    @property
    def completions(self) -> int:
        """Count the completions of a round, at most."""
        return self.prompts * self.samples


def held_out_rounds(run: Run) -> tuple[HeldOutRounds, ...]:
    """Resolve every set of `data.held_out`, those without rounds too."""
    return tuple(rounds_of(run, source) for source in run.data.held_out_sources)


def rounds_of(run: Run, source: SourceConfig) -> HeldOutRounds:
    """Resolve one source of `data.held_out`."""
    evaluation = run.evaluation
    own = source if isinstance(source, HeldOutSection) else None
    temperature = evaluation.temperature if own is None or own.temperature is None else own.temperature
    return HeldOutRounds(
        name="" if own is None else own.name,
        source=source,
        every=evaluation.every if own is None or own.every is None else own.every,
        own_prompts=None if own is None else own.prompts,
        prompts=(own and own.prompts) or evaluation.prompts,
        samples=1 if temperature == 0 else (own and own.samples) or evaluation.samples,
        temperature=temperature,
        top_p=(own and own.top_p) or evaluation.top_p,
        max_tokens=(own and own.max_tokens) or run.sampling.max_tokens,
        max_prompt_tokens=(own and own.max_prompt_tokens) or run.data.max_prompt_tokens,
    )
