"""Find alarms in the metrics of a step: what an operator should look at.

In: the metrics of one step, and of each held-out round. Out: sentences with what to do. Used by
`learner.reporting.metrics`; alarms decide nothing, except where `learner.hacking.action` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker.messages import End
from config.run import Run
from learner.reporting.crashes import CrashSums
from learner.reporting.hacking import HackingAlarm, HackingWatch
from learner.training.backend import MISMATCH_KL

TRUNCATED_SHARE = 0.2  # of the completions of a step
CRASHED_SHARE = 0.01  # of all episodes so far, from which on an exception is reported
LATE_SHARE = 0.1  # of this incarnation's time, with enough groups that max_lag does not allow to take
LATE_AFTER_STEPS = 20  # steps of this incarnation; before them LATE_SHARE means little
AGAIN_STEPS = 20  # steps until the same alarm is repeated


class Alarms:
    """Find the alarms of each step, and repeat an alarm only after AGAIN_STEPS."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._steps = 0  # of this incarnation, like `late_wait_seconds`: a continued run begins with 0
        self._seconds = 0.0
        self._step = 0
        self._said: dict[str, int] = {}
        self._hacking = HackingWatch(run)
        self._crashes = CrashSums()
        self._crashes_said: dict[str, int] = {}  # episodes by kind, at the last report
        self._crashes_text = ""  # the last report

    def recall(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add the steps of earlier incarnations, for comparison with a rise or a growth."""
        records = list(records)
        self._hacking.recall(records)
        for record in records:
            self._crashes.add(record)
        self._crashes_said = dict(self._crashes.counts)

    def of_round(self, version: int, result: Mapping[str, Any]) -> list[HackingAlarm]:
        """Return the alarms of a held-out round, compared with the rewards of the steps."""
        return self._new(self._hacking.of_round(version, result))

    def of_rewards(self, record: Mapping[str, Any]) -> list[HackingAlarm]:
        """Return the alarms of the rewards of one step; called after `of`."""
        return self._new(self._hacking.of_step(record))

    def of(self, record: Mapping[str, Any]) -> list[str]:
        """Return the alarms of one step, in words."""
        self._steps += 1
        self._seconds += record["seconds"]
        found = {
            "mismatch": self._mismatch(record),
            "late": self._late(record),
            "truncated": self._truncated(record),
        }
        self._step = int(record["step"])
        crashed = self._crashed(record)
        return [*(text for name, text in found.items() if text and self._is_new(name)), *crashed]

    def at_end(self) -> str:
        """Return the summary of crashed episodes, however rare; "" for none, or if it was the last report."""
        text = self._crashes.text() if self._crashes.crashed else ""
        last, self._crashes_text = self._crashes_text, text
        return "" if text == last else text

    def _new(self, alarms: Iterable[HackingAlarm]) -> list[HackingAlarm]:
        return [alarm for alarm in alarms if self._is_new(alarm.kind)]

    def _is_new(self, name: str) -> bool:
        """Return whether an alarm was not reported recently, and note it as reported."""
        if self._step - self._said.get(name, -AGAIN_STEPS) < AGAIN_STEPS:
            return False
        self._said[name] = self._step
        return True

    def _mismatch(self, record: Mapping[str, Any]) -> str:
        bound = self._run.learner.mismatch.warn_above
        generators = {
            name: facts.get(MISMATCH_KL, 0.0) for name, facts in record.get("generators", {}).items()
        }
        worst = max(generators, key=lambda name: generators[name], default="")
        value = max(record.get(MISMATCH_KL, 0.0), generators.get(worst, 0.0))
        if value <= bound:
            return ""
        return (
            f"mismatch_kl={value:.4f}{f' of generator {worst}' if worst else ''} is above {bound}: with the same "
            "weights its log-probabilities are not the learner's. Look for weights that were loaded in part, a stale "
            "cache, or another precision"
        )

    def _late(self, record: Mapping[str, Any]) -> str:
        waited, lag = record["late_wait_seconds"], self._run.learner.max_lag
        if self._steps < LATE_AFTER_STEPS or waited <= LATE_SHARE * self._seconds:
            return ""
        more = 2 * lag or 1
        return (
            f"{waited / self._seconds:.0%} of the time was spent waiting for late groups with enough others at "
            f"hand: learner.max_lag={more} instead of {lag} would let them come {more} versions late"
        )

    def _crashed(self, record: Mapping[str, Any]) -> list[str]:
        """Return the summary of crashed episodes, if a kind is new, or has doubled since the last report."""
        sums, said = self._crashes, self._crashes_said
        sums.add(record)
        due = {
            kind
            for kind, count in sums.counts.items()
            if count >= max(2 * said.get(kind, 0), CRASHED_SHARE * sums.episodes)
        }
        if not due:
            return []
        said |= {kind: sums.counts[kind] for kind in due}
        self._crashes_text = sums.text()
        return [self._crashes_text]

    def _truncated(self, record: Mapping[str, Any]) -> str:
        share = record["truncated_share"]
        if share <= TRUNCATED_SHARE:
            return ""
        run = self._run
        limit = f" or a limit of their episode{_cut_by(record)}" if run.has_agents else ""
        fate = {
            "mask": "not trained on",
            "keep": "trained on as it is",
            None: f"not trained on{', unless it is an episode' if run.has_agents else ''}",
        }[run.learner.filters.truncated]
        return (
            f"{share:.0%} of the completions were cut at sampling.max_tokens={run.sampling.max_tokens}{limit}; "
            f"what is cut is {fate}"
        )


def _cut_by(record: Mapping[str, Any]) -> str:
    """Return how many of a step's episodes each limit ended, as ` (turns 20%, context 5%)`; "" for none."""
    shares = record.get("episodes", {}).get("ended_by", {})
    cut = [f"{end} {shares[end]:.0%}" for end in End if end.is_cut and shares.get(end)]
    return f" ({', '.join(cut)})" if cut else ""
