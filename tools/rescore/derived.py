"""Measure how many right held-out answers have a derivation: pass@k, verified pass@k and miracle rate by round.

In: the held-out groups kept in a run's journal, or the groups of a collected run, such as from `millrace evaluate`; the
verifying scorer, and one that decides what is right. Out: the figures of `tools.evaluate.derivations` for each round,
with the sources of the verdicts. Used by `tools.rescore.command` for `--derivations K`. A group is one problem. Memory
holds two verdicts per sample.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, repeat, tee
from typing import Any, Final

from msgspec.structs import replace

from broker.messages import JsonObject, Score, ScoredGroup
from learner.journal.ledger import COLLECTED
from learner.journal.untrained import EVALUATED
from tools.evaluate.derivations import Derivations, Sample, derivations
from tools.evaluate.rates import Estimate
from tools.journal.rows import JournalReader
from tools.rescore.comparison import FULL, Rescored

RULE: Final = "rule"  # a score's component with a rule's verdict in addition to a model's
RULES_TYPE: Final = "prime_math"  # the type by which the rule reads these rows' reference
JUDGED: Final = frozenset({"rubric", "tinyv"})  # types of rows whose scorers have such a rule

# Scores groups: yields each with the results for its completions.
Rescore = Callable[[Iterator[tuple[int, ScoredGroup]]], Iterator[tuple[int, ScoredGroup, list[Rescored]]]]


def held_out_groups(reading: JournalReader, rounds: range | None = None) -> Iterator[tuple[int, ScoredGroup]]:
    """Yield each held-out group of a run with the version of its round; 0 for a collected one.

    Args:
        reading: records what can't be read.
        rounds: versions to read; None: all.
    """
    for found in chain(reading.untrained(), reading.collected(reading.ledger.collected)):
        if found.outcome in {EVALUATED, COLLECTED} and (rounds is None or found.step in rounds):
            yield found.step, found.group


@dataclass(slots=True)
class Derived:
    """Collect the two verdicts of each sample.

    Args:
        k: of pass@k.
        accepts: the lowest score of an accepted derivation.
    """

    k: int
    accepts: float = FULL
    problems: dict[int, list[list[Sample]]] = field(default_factory=lambda: defaultdict(list))
    right_by: Counter[str] = field(default_factory=Counter)  # source of the verdict on the result -> samples
    verified_by: Counter[str] = field(default_factory=Counter)
    not_scored: Counter[str] = field(default_factory=Counter)  # why a sample has no verdict -> samples

    def gather(
        self, groups: Iterator[tuple[int, ScoredGroup]], verify: Rescore, rule: Rescore | None
    ) -> Iterator[int]:
        """Score all groups with both scorers, and yield the version of each finished one. Raises ScoringFailed.

        Args:
            groups: each with the version of its round.
            verify: the verifying scorer.
            rule: the scorer that decides what is right; None: the recorded scores decide.
        """
        ruled: Iterator[list[Rescored] | None] = repeat(None)
        if rule is not None:
            groups, same = tee(groups)
            ruled = (found for _, _, found in rule(as_rules_rows(same)))
        for (version, group, verified), by_rule in zip(verify(groups), ruled, strict=False):
            rules = [recorded_rule(score) for score in group.scores] if by_rule is None else None
            self.problems[version].append(
                [
                    Sample(
                        is_right=rules[place] if rules is not None else self._verdict(by_rule, place, FULL),
                        is_derived=self._verdict(verified, place, self.accepts),
                    )
                    for place in range(len(group.scores))
                ]
            )
            self.verified_by.update(_who(verified))
            self.right_by.update(
                _who(by_rule)
                if by_rule is not None
                else (recorded_by(score) for score in group.scores if score.value is not None)
            )
            yield version

    def figures(self) -> dict[int, Derivations]:
        """Return the figures of each round by version, the earliest first."""
        return {version: derivations(self.problems[version], k=self.k) for version in sorted(self.problems)}

    def as_json(self) -> dict[str, Any]:
        """Make one object of everything, for programs."""
        return {
            "k": self.k,
            "accepts": self.accepts,
            "right_by": dict(self.right_by),
            "verified_by": dict(self.verified_by),
            "not_scored": dict(self.not_scored),
            "rounds": [
                {
                    "version": version,
                    "problems": len(self.problems[version]),
                    "samples": found.samples,
                    "right": found.right,
                    "without_derivation": found.miracles,
                    "miracle_rate": found.miracle_rate,
                    f"pass@{self.k}": None if found.passed is None else asdict(found.passed),
                    f"verified_pass@{self.k}": None if found.verified is None else asdict(found.verified),
                }
                for version, found in self.figures().items()
            ],
        }

    def lines(self) -> Iterator[str]:
        """Write everything for people."""
        yield f"  right by {_names(self.right_by)}; verified by {_names(self.verified_by)}"
        for reason, count in self.not_scored.most_common(5):
            yield f"  {count} without a verdict: {reason}"
        yield (
            f"  {'version':>8}{'problems':>10}{f'pass@{self.k}':>22}{f'verified pass@{self.k}':>22}"
            f"{'right':>14}{'miracle rate':>14}"
        )
        for version, found in self.figures().items():
            rate = "" if found.miracle_rate is None else f"{found.miracle_rate:.1%}"
            yield (
                f"  {version:>8}{len(self.problems[version]):>10}{_rate(found.passed):>22}{_rate(found.verified):>22}"
                f"{f'{found.right} of {found.samples}':>14}{rate:>14}"
            )

    def _verdict(self, found: Sequence[Rescored] | None, place: int, least: float) -> bool | None:
        if found is None:
            return None
        score = found[place].score
        if score is None or score.value is None:
            self.not_scored[found[place].error if score is None else score.reason] += 1
            return None
        return score.value >= least


def recorded_rule(score: Score) -> bool | None:
    """Return whether a recorded score means a right result: by its rule where it has one, else by its value."""
    if RULE in score.components:
        return score.components[RULE] >= FULL
    return None if score.value is None else score.value >= FULL


def recorded_by(score: Score) -> str:
    """Name the source of the verdict of `recorded_rule`."""
    part = ", its rule" if RULE in score.components else ""
    return f"the recorded score ({score.scorer} {score.version}{part})"


def as_rules_rows(groups: Iterator[tuple[int, ScoredGroup]]) -> Iterator[tuple[int, ScoredGroup]]:
    """Yield the groups with the rows of a rubric or of TinyV in the form of their rule: with the reference alone."""
    for version, group in groups:
        prompt = group.rollout.prompt
        if prompt.verification_info.get("type") in JUDGED:
            info = JsonObject({**prompt.verification_info, "type": RULES_TYPE})
            prompt = replace(prompt, verification_info=info)
            yield version, replace(group, rollout=replace(group.rollout, prompt=prompt))
        else:
            yield version, group


def _who(found: Sequence[Rescored]) -> Iterator[str]:
    return (f"{one.score.scorer} {one.score.version}" for one in found if one.score is not None)


def _names(counts: Counter[str]) -> str:
    return ", ".join(counts) or "nobody"


def _rate(found: Estimate | None) -> str:
    return "" if found is None else f"{found.value:.3f} ({found.low:.3f}-{found.high:.3f})"
