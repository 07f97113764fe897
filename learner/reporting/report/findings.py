"""List what an operator should look at in a run, each in one sentence with what to do.

In: a `RunFacts`. Out: findings, the most serious first. The thresholds are written here; none decides anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from learner.journal.ledger import DROPPED
from learner.reporting.alarms import TRUNCATED_SHARE
from learner.reporting.crashes import CrashSums
from learner.reporting.report.facts import RunFacts, newest, oldest

Level = Literal["problem", "note"]

DROPPED_SHARE = 0.6  # of recently returned groups, above which most sampling is wasted
WAIT_SHARE = 0.5  # of the learner's time
ENTROPY_LEFT = 0.1  # of the entropy at the run's start
HELD_OUT_FELL = 0.05  # below its best
REWARD_ROSE = 0.05  # since that round
CRASHED_SHARE = 0.05  # of all episodes, from which on exceptions are a problem of the run
TRUNCATED_ROSE = 0.1  # rise of the share of completions since the run began
FEW_STEPS = 20  # of a run too short for trends


@dataclass(frozen=True, slots=True)
class ReportFinding:
    """One sentence for an operator."""

    level: Level
    text: str


def findings_of(facts: RunFacts) -> list[ReportFinding]:
    """Return the findings, problems first; empty for none."""
    found = [*_of_the_end(facts), *_of_the_weights(facts), *_of_learning(facts), *_of_the_time(facts)]
    return sorted(found, key=lambda finding: finding.level == "note")


def _of_the_end(facts: RunFacts) -> Iterator[ReportFinding]:
    if facts.status.get("status") == "failed":
        yield ReportFinding("problem", f"The run failed: {facts.status.get('reason', '')}")
    if facts.ledger.problems:
        yield ReportFinding(
            "problem", f"The journal is damaged: {facts.ledger.problems[0]}. `millrace audit {facts.name}`"
        )
    if facts.ledger.twice:
        yield ReportFinding(
            "problem", f"{len(facts.ledger.twice)} groups have two outcomes: please report it."
        )
    if dead := facts.outcomes.get("dead", 0):
        yield ReportFinding(
            "problem",
            f"{dead} groups could not be processed. `millrace dead list {facts.name}` has the reason of each.",
        )


def _of_the_weights(facts: RunFacts) -> Iterator[ReportFinding]:
    skipped = facts.series("skipped")
    if skipped is not None and (count := sum(value > 0 for value in skipped.values)):
        yield ReportFinding(
            "problem",
            f"{count} steps had a gradient that is not finite, and changed nothing. Look at the learning rate and at "
            "model.dtype.",
        )
    breaches = facts.series("lag_breaches")
    if breaches is not None and max(breaches.values):
        yield ReportFinding("problem", "Groups were trained beyond learner.max_lag: please report it.")
    bound = 0.02 if facts.run is None else facts.run.learner.mismatch.warn_above
    for generator in facts.generators:
        if generator.mismatch_mean is not None and generator.mismatch_mean > bound:
            yield ReportFinding(
                "problem",
                f"Generator {generator.name} and the learner see the same weights differently: "
                f"{generator.mismatch_mean:.4f} nats a token (k3), above {bound:g}. Look for weights that were loaded "
                "in part, a stale cache, or another precision.",
            )


def _of_learning(facts: RunFacts) -> Iterator[ReportFinding]:
    yield from _of_hacking(facts)
    crashes = CrashSums()
    for record in facts.records:
        crashes.add(record)
    if crashes.crashed:
        yield ReportFinding("problem" if crashes.share > CRASHED_SHARE else "note", f"{crashes.text()}.")
    truncated = facts.series("truncated_share")
    if truncated is not None:
        now, before = newest(truncated.values), oldest(truncated.values)
        if now > TRUNCATED_SHARE or (facts.steps >= FEW_STEPS and now - before > TRUNCATED_ROSE):
            limit = "sampling.max_tokens" if facts.series("episodes.turns_mean") is None else "a limit"
            yield ReportFinding(
                "note",
                f"{now:.0%} of the latest completions were cut at {limit}, and {before:.0%} of the first.",
            )
    entropy = facts.series("entropy")
    if entropy is not None and facts.steps >= FEW_STEPS:
        now, before = newest(entropy.values), oldest(entropy.values)
        if now < ENTROPY_LEFT * before:
            yield ReportFinding(
                "note",
                f"The entropy fell from {before:.3g} to {now:.3g} nats a token: the policy hardly explores any more.",
            )
    dropped = facts.shares_dropped()
    if dropped is not None and (share := newest(dropped.values)) > DROPPED_SHARE:
        reasons = [reason for reason in facts.reasons if reason.startswith(DROPPED)]
        why = f" ({reasons[0].partition(': ')[2]})" if reasons else ""
        yield ReportFinding(
            "note",
            f"{share:.0%} of the latest groups were dropped{why}: most of what is sampled teaches nothing. Other "
            "problems would teach more.",
        )
    yield from _of_held_out(facts)


def _of_held_out(facts: RunFacts) -> Iterator[ReportFinding]:
    rounds, reward = facts.rounds(), facts.series("reward_mean")
    if rounds is None or reward is None or len(rounds.values) < 3:
        return
    best = max(range(len(rounds.values)), key=lambda index: rounds.values[index])
    since = [
        value for step, value in zip(reward.steps, reward.values, strict=True) if step > rounds.steps[best]
    ]
    fell = rounds.values[best] - rounds.last
    if fell > HELD_OUT_FELL and since and newest(since) - oldest(since) > REWARD_ROSE:
        yield ReportFinding(
            "problem",
            f"The held-out pass rate fell by {fell:.3f} since version {rounds.steps[best]:.0f}, while the training "
            "reward rose: the policy may have found what the scorer overlooks. Read the examples below.",
        )


def _of_hacking(facts: RunFacts) -> Iterator[ReportFinding]:
    """Yield the first alarm of each kind: later ones only differ in numbers."""
    seen: set[str] = set()
    for record in facts.records:
        for text in record.get("alarms", ()):
            kind, _, what = text.partition(": ")
            if kind.startswith("reward_hacking") and kind not in seen:
                seen.add(kind)
                yield ReportFinding(
                    "problem", f"Step {record['step']}: the reward rose alone. {what[:1].upper()}{what[1:]}."
                )


def _of_the_time(facts: RunFacts) -> Iterator[ReportFinding]:
    total = sum(facts.seconds.values())
    waited = facts.seconds.get("wait", 0.0)
    if total and waited / total > WAIT_SHARE:
        ages = {
            stage: newest(series.values)
            for stage in ("prompts", "sampling", "rollouts", "scoring")
            if (series := facts.series(f"age_{stage}_s")) is not None
        }
        slowest = max(ages, key=lambda stage: ages[stage], default="")
        where = f" A group spends most of its time in {slowest} ({ages[slowest]:.3g} s)." if slowest else ""
        role = {
            "prompts": "agents" if facts.run is not None and facts.run.has_agents else "generators",
            "sampling": "generators",
            "rollouts": "scorers",
            "scoring": "scorers",
        }
        more = f" More {role[slowest]} would shorten it." if slowest else ""
        yield ReportFinding(
            "note", f"The learner waited for groups {waited / total:.0%} of its time.{where}{more}"
        )
