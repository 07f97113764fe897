"""Choose the held-out sets of a round, and how the prompts of each are sampled.

In: `data.held_out`, a source or a list of named sets, and `evaluation` for all of them. Out: the prompts of a round,
numbered through all sets, so that a group's id gives its set. Used by `learner.groups.evaluation`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from broker.messages import Prompt
from config.data import SourceConfig
from config.run import Run
from learner.data.held_out_rounds import held_out_rounds, rounds_of
from learner.data.prompts import PromptSource, Sampling, look_for_refused, open_sources

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutSet:
    """One held-out set; its name is "" where the run has one unnamed source."""

    name: str
    source: PromptSource
    every: int  # optimizer steps between its rounds; 0: none
    prompts: int  # per round
    sampling: Sampling


class HeldOut:
    """All sets of a run.

    Args:
        run: every set has a round at its last step.
        sets: in the configured order.
    """

    def __init__(self, run: Run, sets: Sequence[HeldOutSet]) -> None:
        self._run = run
        self.sets = list(sets)
        self._ends = list(accumulate(each.prompts for each in self.sets))

    def __len__(self) -> int:
        return sum(len(each.source) for each in self.sets)

    def is_due(self, version: int) -> bool:
        """Return whether a set has a round at `version`."""
        return bool(self._due(version))

    @property
    def has_rounds(self) -> bool:
        """Whether any set has a period, so that the last weights get a round."""
        return any(each.every for each in self.sets)

    def indices(self, version: int) -> list[int]:
        """Return the prompt numbers of a round: of the sets that are due, or of all where none is.

        The round of the last step has all sets, whatever the periods; so has that of a run that ended early.
        """
        due = self._due(version)
        if not due or version >= self._run.learner.steps:
            due = list(range(len(self.sets)))
        return [
            index for at in due for index in range(self._ends[at] - self.sets[at].prompts, self._ends[at])
        ]

    def prompt(self, group_id: str, index: int) -> Prompt:
        """Return the prompt with that number."""
        at = self._set_at(index)
        found = self.sets[at]
        return found.source.evaluation_prompt(
            group_id, index - (self._ends[at] - found.prompts), found.sampling
        )

    def set_name(self, index: int) -> str:
        """Return the name of the set of a prompt number; "" beyond all sets."""
        return self.sets[self._set_at(index)].name if index < self._ends[-1] else ""

    def _due(self, version: int) -> list[int]:
        return [at for at, each in enumerate(self.sets) if each.every and version % each.every == 0]

    def _set_at(self, index: int) -> int:
        return bisect_right(self._ends, index)


def open_held_out(run: Run, tokenizer: PreTrainedTokenizerBase) -> HeldOut | None:
    """Read every set with rounds; None where there is none. Raises RowError."""
    wanted = [rounds for rounds in held_out_rounds(run) if rounds.every]
    look_for_refused(run, [rounds.source for rounds in wanted])
    sets = [open_set(run, rounds.source, tokenizer, most=rounds.prompts) for rounds in wanted]
    return HeldOut(run, sets) if sets else None


def open_set(
    run: Run, source: SourceConfig, tokenizer: PreTrainedTokenizerBase, *, most: int | None
) -> HeldOutSet:
    """Read one set.

    Args:
        run: has `evaluation` and `sampling` for all sets.
        source: one of `data.held_out`.
        tokenizer: the policy's.
        most: prompts of a round where the set gives no number; None: all.
    Raises:
        RowError: a row can't be used, or none is left.
    """
    rounds = rounds_of(run, source)
    prompts = open_sources(run, (source,), tokenizer, shuffle=False, limit=rounds.max_prompt_tokens)
    return HeldOutSet(
        name=rounds.name,
        source=prompts,
        every=rounds.every,
        prompts=min(rounds.own_prompts or most or len(prompts), len(prompts)),
        sampling=Sampling(
            n=rounds.samples, temperature=rounds.temperature, max_tokens=rounds.max_tokens, top_p=rounds.top_p
        ),
    )
