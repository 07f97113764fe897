"""Resolve how each held-out set is sampled: the set's own settings, else those of `evaluation` and `sampling`.

In: a run. Out: one record per set, in the configured order. No data are read. Used by the learner, which opens the
sets, and by the estimates, which count the cost of their rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.data import HeldOutSection, SourceConfig
from config.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutRounds:
    """The rounds of one set."""

    name: str  # "" where the run has one unnamed source
    source: SourceConfig
    every: int  # optimizer steps between rounds; 0: none
    own_prompts: int | None  # per round, where the set itself gives a number
    prompts: int  # per round, at most: the set may have fewer rows
    samples: int  # completions of each; 1 where the set is greedy, since all would be equal
    temperature: float
    top_p: float
    max_tokens: int  # per completion
    max_prompt_tokens: int

    @property
    def completions(self) -> int:
        """Count the completions of a round, at most."""
        return self.prompts * self.samples


def held_out_rounds(run: Run) -> tuple[HeldOutRounds, ...]:
    """Resolve every set of `data.held_out`, including those without rounds."""
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
