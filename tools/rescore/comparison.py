"""Compare two scorings of the same completions, and what the difference would have done to training.

In: groups from the journal, each with another scorer's results. Out: one JSON object, or the same for people. Pure
arithmetic, used by `tools.rescore.command`. Memory holds counts and the few most different samples, so that a run of
any length fits.
"""

from __future__ import annotations

import heapq
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker.messages import Score, ScoredGroup, ScoreStatus, Turn
from config.learner.objective import AdvantageScale
from learner.objective.advantages import SAME_REWARD, group_advantages
from tasks.turns import asked

RIGHT, WRONG, UNSCORABLE = "right", "wrong", "unscorable"
CLASSES: Final = (RIGHT, WRONG, UNSCORABLE)
FULL: Final = 1.0  # score of a right answer
THRESHOLDS: Final = (0.25, 0.5, 0.75, FULL)  # lowest values that count as right
SHOWN_CHARS: Final = 300  # of a prompt or an answer, for people
INDENT: Final = " " * 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """The other scorer's result for one completion."""

    score: Score | None  # None: the scorer could not judge the completion
    reward: float | None = None  # training's reward; None where unscorable or not judged
    error: str = ""  # why there is no score


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A completion on which the two scorings disagree."""

    size: float  # |new - old|; 1 where one of the two is unscorable
    step: int
    group_id: str
    completion: int  # index in the group
    prompt: str
    answer: str
    messages: tuple[Turn, ...]  # of an episode
    old: Score
    new: Score

    @property
    def rank(self) -> tuple[float, int, str, int]:
        """Return the size of the difference; of equals the earlier one ranks higher."""
        return (self.size, -self.step, self.group_id, -self.completion)

    def __lt__(self, other: Difference) -> bool:
        return self.rank < other.rank

    def as_json(self) -> dict[str, Any]:
        """Make the object that --json prints of a difference."""
        return {
            "step": self.step,
            "group": self.group_id,
            "completion": self.completion,
            "prompt": self.prompt,
            "answer": self.answer,
            **({"messages": [dict(turn) for turn in self.messages]} if self.messages else {}),
            "old": score_json(self.old),
            "new": score_json(self.new),
        }


class ScoringComparison:
    """Count the agreement of two scorings.

    Args:
        samples: how many of the most different completions to keep.
    """

    def __init__(self, samples: int) -> None:
        self.completions = 0  # with a new score, unscorable ones included
        self.groups = 0  # whose completions all have a new score
        self.changed = 0
        self.changed_at_same_version = 0
        self.flipped: list[str] = []  # groups with a changed sign or variance
        self.variance_lost = 0
        self.variance_gained = 0
        self.not_scored: Counter[str] = Counter()  # completions by reason
        self.versions: Counter[tuple[str, str]] = Counter()  # (old, new): scorer and version of each
        self._samples = samples
        self._most_different: list[Difference] = []  # a heap: the least different is first
        self._cells: Counter[tuple[float, str, str]] = Counter()  # (threshold, old class, new class)
        self._compared = 0  # completions with a value in both
        self._distance = 0.0  # sum of |new - old| over these
        self._has_fractions = False

    def add(self, step: int, group: ScoredGroup, rescored: Sequence[Rescored], scale: AdvantageScale) -> None:
        """Count one group.

        Args:
            step: number of the step that trained on it.
            rescored: one per completion.
            scale: `learner.advantage.scale` at that step.
        """
        for place, (old, new) in enumerate(zip(group.scores, rescored, strict=True)):
            if new.score is None:
                self.not_scored[new.error] += 1
            else:
                self._add_completion(step, group, place, old, new.score)
        if all(new.score is not None for new in rescored):
            self._add_group(group, [new.reward for new in rescored], scale)

    def most_different(self) -> list[Difference]:
        """Return the most different samples, the most different first."""
        return sorted(self._most_different, reverse=True)

    def as_json(self) -> dict[str, Any]:
        """Make one object of everything, for programs."""
        tables = {
            threshold: {old: {new: self._cells[threshold, old, new] for new in CLASSES} for old in CLASSES}
            for threshold in THRESHOLDS
        }
        return {
            "completions": self.completions,
            "same": self.completions - self.changed,
            "changed": self.changed,
            "changed_at_same_version": self.changed_at_same_version,
            "not_scored": dict(self.not_scored),
            "confusion": tables[FULL],
            "confusion_by_threshold": (
                {str(threshold): table for threshold, table in tables.items()} if self._has_fractions else {}
            ),
            "mean_absolute_difference": self._mean_distance(),
            "groups": self.groups,
            "advantages_flipped": len(self.flipped),
            "flipped_groups": self.flipped,
            "variance_lost": self.variance_lost,
            "variance_gained": self.variance_gained,
            "versions": [
                {"old": old, "new": new, "completions": count}
                for (old, new), count in self.versions.most_common()
            ],
            "samples": [sample.as_json() for sample in self.most_different()],
        }

    def lines(self) -> Iterable[str]:
        """Write everything for people."""
        yield (
            f"  {self.completions} completions: {self.completions - self.changed} with the same score, "
            f"{self.changed} with another one"
        )
        if self.changed_at_same_version:
            yield (
                f"  {self.changed_at_same_version} of those by the same scorer in the same version: other options, "
                "or a scorer that does not say the same twice"
            )
        for reason, count in self.not_scored.most_common(5):
            yield f"  {count} not scored: {textwrap.shorten(reason, SHOWN_CHARS)}"
        for (old, new), count in self.versions.most_common(5):
            yield f"  {count} scored by {old}, " + ("both times" if old == new else f"now by {new}")
        for threshold in THRESHOLDS if self._has_fractions else [FULL]:
            yield from self._table(threshold)
        if self._compared:
            yield f"  mean absolute difference of the values: {self._mean_distance():.4f}"
        yield (
            f"  advantages would flip in {len(self.flipped)} of {self.groups} groups "
            f"({self.variance_lost} lose their variance, {self.variance_gained} gain one)"
        )
        yield from self._samples_for_people()

    def _add_completion(self, step: int, group: ScoredGroup, place: int, old: Score, new: Score) -> None:
        self.completions += 1
        self.versions[f"{old.scorer} {old.version}", f"{new.scorer} {new.version}"] += 1
        for threshold in THRESHOLDS:
            self._cells[threshold, _class_of(old, threshold), _class_of(new, threshold)] += 1
        size = 0.0 if old.value == new.value else 1.0
        if old.value is not None and new.value is not None:
            size = abs(new.value - old.value)
            self._compared += 1
            self._distance += size
        self._has_fractions |= not {old.value, new.value} <= {None, 0.0, FULL}
        if not size:
            return
        self.changed += 1
        self.changed_at_same_version += (old.scorer, old.version) == (new.scorer, new.version)
        prompt = group.rollout.prompt
        found = Difference(
            size=size,
            step=step,
            group_id=group.group_id,
            completion=place,
            prompt=asked(prompt.messages),
            answer=group.rollout.completions[place].text,
            messages=group.rollout.completions[place].messages,
            old=old,
            new=new,
        )
        if len(self._most_different) < self._samples:
            heapq.heappush(self._most_different, found)
        elif self._samples:
            heapq.heappushpop(self._most_different, found)

    def _add_group(self, group: ScoredGroup, rewards: Sequence[float | None], scale: AdvantageScale) -> None:
        self.groups += 1
        old, new = (_signs(group_advantages(given, scale)) for given in (group.rewards, rewards))
        if old != new:
            self.flipped.append(group.group_id)
            self.variance_lost += not any(new)
            self.variance_gained += not any(old)

    def _mean_distance(self) -> float | None:
        return self._distance / self._compared if self._compared else None

    def _table(self, threshold: float) -> Iterable[str]:
        said = "" if threshold == FULL else f" from {threshold} on"
        yield f"  {f'(right{said})' if said else '':<18}" + "".join(
            f"{f'now {name}':>16}" for name in CLASSES
        )
        for old in CLASSES:
            yield f"  {f'was {old}':<18}" + "".join(
                f"{self._cells[threshold, old, new]:>16}" for new in CLASSES
            )

    def _samples_for_people(self) -> Iterable[str]:
        if self._most_different:
            yield "  the most different:"
        for sample in self.most_different():
            yield (
                f"    step {sample.step}, group {sample.group_id}, completion {sample.completion}: "
                f"{_in_words(sample.old)} -> {_in_words(sample.new)}"
            )
            for name, text in (
                ("prompt", sample.prompt),
                ("answer", sample.answer),
                ("was", sample.old.reason),
                ("now", sample.new.reason),
            ):
                yield f"{INDENT}{name:<7}{textwrap.shorten(text, SHOWN_CHARS)}"


def score_json(score: Score) -> dict[str, Any]:
    """Make an object of a score."""
    return {
        "status": score.status.value,
        "value": score.value,
        "reason": score.reason,
        "scorer": score.scorer,
        "version": score.version,
        "components": dict(score.components),
    }


def _class_of(score: Score, threshold: float) -> str:
    if score.value is None:
        return UNSCORABLE
    return RIGHT if score.value >= threshold else WRONG


def _signs(advantages: Sequence[float | None]) -> list[int]:
    """Return the direction of each completion's advantage: 1, -1, or 0 for none."""
    return [
        0 if advantage is None or abs(advantage) < SAME_REWARD else 1 if advantage > 0 else -1
        for advantage in advantages
    ]


def _in_words(score: Score) -> str:
    return UNSCORABLE if score.status is ScoreStatus.UNSCORABLE else f"{score.value:g}"
