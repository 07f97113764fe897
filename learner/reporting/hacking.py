"""Watch for reward hacking: a reward that rises while the quality it stands for does not.

In: the record of each step, with its held-out rounds. Out: alarms, each with the reward's rise and what did not rise
with it, or what rose and should not. Called by `learner.reporting.metrics`; `learner.hacking.action` decides the
consequence.

A witness is a number that rises with the reward in an honest run: the held-out score, an extra scorer without weight or
gate (a shadow scorer), and the task's own scorer where other things are rewarded too. The reward's rise is measured
over the newest stretch in which it rose by `reward_rose`, beyond its noise. A witness with room to rise that rose by
less than `witness_share` of that over the same stretch is an alarm. A held-out score is compared with the rewards of
the versions that its rounds sampled, and not of the steps, which belong to older versions; differences within the noise
of both are no alarm. Signs that the wrong thing is rewarded, since the window with the lowest reward, are alarms too:
longer answers that are rewarded for their length within their groups, and truncated, repetitive or duplicate answers.
For an episode the length of its turns counts, and not their number: a policy that learns to use a tool takes more of
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Any, Final

from config.run import Run
from config.scorers import TaskConfig

HISTORY = 500  # number of steps looked back at
PERSISTS = 3  # consecutive steps with the same finding before it is an alarm
NOISE = 4.0  # standard errors that a rise must exceed: among many stretches one often exceeds three
ROUND_NOISE = 2.0  # standard errors by which a held-out score must lag
FULL = 0.9  # a witness this high has no room to rise
HELD_OUT: Final = "held_out"


@dataclass(frozen=True, slots=True)
class HackingAlarm:
    """One alarm.

    Attributes:
        kind: `held_out`, `scorer NAME` for the task's own or a shadow scorer, `length`, `truncated`, `repeated`,
            `shared_answers`.
        text: the finding, in words.
        component: the score's part that is the witness; "" where the kind is no scorer's.
    """

    kind: str
    text: str
    component: str = ""


@dataclass(frozen=True, slots=True)
class _Rise:
    """The change of a value between two windows of steps."""

    before: float
    now: float

    @property
    def by(self) -> float:
        return self.now - self.before


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Two windows of steps, as indices of the watch's steps, and the reward's rise between them."""

    first: int
    last: int
    reward: _Rise


@dataclass(frozen=True, slots=True)
class _Round:
    """A held-out round."""

    version: int
    sampled_by: float  # mean of the versions that sampled it
    score: float
    error: float  # standard error of the score

    @classmethod
    def of(cls, version: int, result: Mapping[str, Any]) -> _Round:
        """Make a round from its result; an old one without its error gets the largest possible error."""
        error = result.get("score_error")
        ends = result.get("min_version", version), result.get("max_version", version)
        return cls(
            version=version,
            sampled_by=fmean(ends),
            score=result["mean_score"],
            error=0.5 / math.sqrt(max(1, result.get("samples") or 1)) if error is None else error,
        )


@dataclass(slots=True)
class _Groups:
    """The mean rewards of some groups, as sums."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, other: _Groups) -> None:
        self.count += other.count
        self.total += other.total
        self.squares += other.squares

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def error(self) -> float:
        """The standard error of the mean; at least two groups."""
        variance = max(0.0, self.squares - self.count * self.mean**2) / (self.count - 1)
        return math.sqrt(variance / self.count)

    @classmethod
    def of(cls, facts: Mapping[str, float]) -> _Groups:
        """Return the sums in a step's facts of one version's groups."""
        count, mean = int(facts["groups"]), facts["reward_mean"]
        return cls(count, count * mean, count * (facts["reward_std"] ** 2 + mean**2))


class HackingWatch:
    """Watch one run, with the steps of all incarnations from the metrics file."""

    def __init__(self, run: Run) -> None:
        self._config = run.learner.hacking
        self._witnesses = witnesses(run.scorers.tasks)
        self._steps: list[Mapping[str, Any]] = []  # the relevant fields of each step's record
        self._found: dict[str, int] = {}  # consecutive steps, by kind
        self._rounds: list[_Round] = []  # in order
        self._by_version: dict[int, _Groups] = {}  # groups that each version sampled
        self._noise = 0.0  # standard error of a window's mean reward

    def recall(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add the steps of earlier incarnations, without raising their alarms again."""
        for record in records:
            self._take(record)
            for result in record.get("evaluations", ()):
                if result.get("mean_score") is not None:
                    self._rounds.append(_Round.of(result["version"], result))

    def of_step(self, record: Mapping[str, Any]) -> list[HackingAlarm]:
        """Return the alarms of a step's record: each kind after PERSISTS steps."""
        if self._config.action == "none" or not self._take(record):
            return []
        found = [*self._of_scorers(), *self._of_signs()]
        self._found = {alarm.kind: self._found.get(alarm.kind, 0) + 1 for alarm in found}
        return [alarm for alarm in found if self._found[alarm.kind] >= PERSISTS]

    def of_round(self, version: int, result: Mapping[str, Any]) -> list[HackingAlarm]:
        """Return the alarms of a held-out round, at once: a round has many samples, and the next is far away.

        Args:
            version: whose round it is.
            result: has `mean_score`; `score_error` or `samples`; `min_version` and `max_version`.
        """
        if self._config.action == "none" or result.get("mean_score") is None:
            return []
        self._rounds.append(_Round.of(version, result))
        return list(self._of_held_out())

    def _take(self, record: Mapping[str, Any]) -> bool:
        """Keep the relevant fields of a record. False: no group returned before that step, or it was replayed."""
        if "arrived" not in record:
            return False
        self._steps.append(
            {"step": record["step"], "reward": record["reward_mean"], **_flat(record["arrived"])}
        )
        del self._steps[:-HISTORY]
        for version, facts in record["arrived"].get("by_version", {}).items():
            self._by_version.setdefault(int(version), _Groups()).add(_Groups.of(facts))
        for version in [one for one in self._by_version if one < record["step"] - HISTORY]:
            del self._by_version[version]
        self._noise = _standard_error([step["reward"] for step in self._steps], self._config.window)
        return True

    # ---------------------------------------------------------------------------------------------------- the stretches

    def _mean(self, key: str, last: int) -> float | None:
        """Return the mean of a key over the window that ends with step `last`; None where values are missing."""
        window = self._steps[last - self._config.window + 1 : last + 1]
        values = [step[key] for step in window if key in step]
        return fmean(values) if len(values) == self._config.window else None

    def _rise(self, key: str, first: int, last: int) -> _Rise | None:
        before, now = self._mean(key, first), self._mean(key, last)
        return None if before is None or now is None else _Rise(before, now)

    def _has_risen(self, first: int, last: int) -> _Rise | None:
        rise = self._rise("reward", first, last)
        if rise is None or rise.by < self._config.reward_rose:
            return None
        return rise if rise.by > NOISE * math.sqrt(2) * self._noise else None

    def _newest_stretch(self) -> _Stretch | None:
        """Return the shortest stretch up to now in which the reward rose; None for none."""
        last, window = len(self._steps) - 1, self._config.window
        for first in range(last - window, window - 2, -1):
            if rise := self._has_risen(first, last):
                return _Stretch(first, last, rise)
        return None

    def _whole_stretch(self) -> _Stretch | None:
        """Return the stretch from the lowest window up to now; None where the reward has not risen since."""
        last, window = len(self._steps) - 1, self._config.window
        means = {first: self._mean("reward", first) for first in range(window - 1, last - window + 1)}
        known = {first: mean for first, mean in means.items() if mean is not None}
        if not known:
            return None
        first = min(known, key=lambda first: known[first])
        rise = self._has_risen(first, last)
        return None if rise is None else _Stretch(first, last, rise)

    # --------------------------------------------------------------------------------------------------- what is found

    def _of_scorers(self) -> Iterator[HackingAlarm]:
        stretch = self._newest_stretch()
        if stretch is None:
            return
        for name in self._witnesses:
            rise = self._rise(f"components.{name}", stretch.first, stretch.last)
            if rise is not None and self._is_left_behind(rise, stretch.reward):
                paid = self._risen_components(stretch)
                yield HackingAlarm(
                    f"scorer {name}",
                    f"{self._since(stretch)} the reward rose from {stretch.reward.before:.2f} to "
                    f"{stretch.reward.now:.2f}, and {name} went from {rise.before:.2f} to {rise.now:.2f}"
                    f"{f'; what rose: {paid}' if paid else ''}",
                    name,
                )

    def _of_held_out(self) -> Iterator[HackingAlarm]:
        """Compare the newest round with each earlier one: the rewards of both rounds' versions, and their scores."""
        now = self._rounds[-1]
        for earlier in reversed(self._rounds[:-1]):
            before, after = self._sampled_near(earlier), self._sampled_near(now)
            if now.version - earlier.version < self._config.window or before is None or after is None:
                continue
            reward = _Rise(before.mean, after.mean)
            error = math.hypot(before.error, after.error)
            if reward.by < self._config.reward_rose or reward.by < NOISE * error:
                continue
            share = self._config.witness_share
            noise = math.hypot(share * error, earlier.error, now.error)
            if now.score < FULL and share * reward.by - (now.score - earlier.score) > ROUND_NOISE * noise:
                yield HackingAlarm(
                    HELD_OUT,
                    f"between versions {earlier.version} and {now.version} the reward of what they sampled rose from "
                    f"{reward.before:.2f} to {reward.now:.2f}, and the mean held-out score went from "
                    f"{earlier.score:.2f} to {now.score:.2f}",
                )
                return

    def _sampled_near(self, one: _Round) -> _Groups | None:
        """Return the groups sampled by the versions near a round's; None where those are too few."""
        found = _Groups()
        for version, groups in self._by_version.items():
            if abs(version - one.sampled_by) <= self._config.window // 2:
                found.add(groups)
        return found if found.count >= self._config.window else None

    def _of_signs(self) -> Iterator[HackingAlarm]:
        stretch = self._whole_stretch()
        if stretch is None:
            return
        config = self._config
        length = self._rise("turn_tokens_mean", stretch.first, stretch.last)
        paid = self._mean("length_correlation", stretch.last)
        grew = length is not None and length.now >= config.longer * length.before
        if length is not None and grew and paid is not None and paid >= config.length_paid:
            yield HackingAlarm(
                "length",
                f"{self._since(stretch)} answers grew from {length.before:.0f} to {length.now:.0f} tokens a turn, and "
                f"the longer ones of a group are paid more: length and reward correlate with {paid:.2f}",
            )
        for key, kind, what in (
            ("truncated_share", "truncated", "answers that were cut at a limit"),
            ("repeated_share", "repeated", "what an answer had said before"),
            ("shared_answer_share", "shared_answers", "answers that another prompt was given too"),
        ):
            rise = self._rise(key, stretch.first, stretch.last)
            if rise is not None and rise.by >= config.share_rose:
                yield HackingAlarm(
                    kind,
                    f"{self._since(stretch)} the reward rose from {stretch.reward.before:.2f} to "
                    f"{stretch.reward.now:.2f}, and with it the share of {what}: from {rise.before:.0%} to "
                    f"{rise.now:.0%}",
                )

    def _is_left_behind(self, witness: _Rise, reward: _Rise) -> bool:
        return witness.now < FULL and witness.by < self._config.witness_share * reward.by

    def _since(self, stretch: _Stretch) -> str:
        return f"since step {self._steps[stretch.first]['step']}"

    def _risen_components(self, stretch: _Stretch) -> str:
        """Return which other parts of the scores rose by as much as a witness should."""
        prefix = "components."
        parts = []
        for key in self._steps[stretch.last]:
            rise = self._rise(key, stretch.first, stretch.last) if key.startswith(prefix) else None
            if rise is not None and rise.by >= self._config.witness_share * stretch.reward.by:
                parts.append(f"{key.removeprefix(prefix)} from {rise.before:.2f} to {rise.now:.2f}")
        return ", ".join(parts)


def alarms_of(run: Run, records: Iterable[Mapping[str, Any]]) -> list[tuple[int, HackingAlarm]]:
    """Return the alarms in the records of a run's steps, each with its step, by watching the run again.

    Args:
        run: configures the watch.
        records: of `metrics.jsonl`, in order.
    """
    watch = HackingWatch(run)
    found: list[tuple[int, HackingAlarm]] = []
    for record in records:
        alarms = watch.of_step(record)
        for result in record.get("evaluations", ()):
            alarms += watch.of_round(result["version"], result)
        found += [(record["step"], alarm) for alarm in alarms]
    return found


def witnesses(tasks: Mapping[str, TaskConfig]) -> list[str]:
    """Return the witness components: shadow scorers, and own scorers in addition to other rewards."""
    found: dict[str, None] = {}
    for task in tasks.values():
        parts = task.extra_scorers.items()
        found |= dict.fromkeys(name for name, part in parts if not part.weight and part.gate is None)
        pays_shape = task.format is not None and task.format.mode != "gate"
        if pays_shape or any(part.weight for _, part in parts):
            found[task.scorer.type] = None
    return list(found)


def _standard_error(rewards: Sequence[float], window: int) -> float:
    """Return the standard error of a window's mean reward, from the differences between consecutive steps' rewards."""
    jumps = [abs(after - before) for before, after in pairwise(rewards)]
    return 1.4826 * median(jumps) / math.sqrt(2 * window) if jumps else 0.0


def _flat(arrived: Mapping[str, Any]) -> dict[str, float]:
    flat = {key: value for key, value in arrived.items() if not isinstance(value, Mapping)}
    return flat | {f"components.{name}": value for name, value in arrived["components"].items()}
