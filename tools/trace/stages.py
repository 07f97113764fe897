"""List the stages of one group: when each began and ended, and which process did it.

In: the facts of a group (`learner.groups.discarded.facts_of`), and for one in flight its data in Redis. Out:
`GroupStage`s in order, for `millrace trace`. Works on values alone. Times are by the clocks of the machines that did
the work. Where clocks differ, a stage may seem to end before it began, and lasts 0 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from broker.keys import EPISODES, PROMPTS, ROLLOUTS, SCORED
from broker.monitoring.group_view import Sight
from broker.monitoring.snapshot import ROLES
from broker.protocol.streams import NOBODY

STATES = 2  # of a role's processes, named
# Between the streams in which a group waits; groups of episodes are played, all others sampled.
SAMPLING, PLAYING, SCORING, TRAINING = "sampling", "playing", "scoring", "training"
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStage:
    """One stage of a group's history."""

    stage: str  # prompts | sampling | rollouts | scoring | scored | training | dropped | dead | …
    began: float | None  # Unix seconds; None: unknown
    ended: float | None  # Unix seconds; None: the stage has not ended, or unknown
    seconds: float | None  # until now, where the stage has not ended
    who: str  # the process that does the work or has the group; "" for none
    says: str  # for people


def done(facts: Facts) -> Iterator[GroupStage]:
    """Yield the completed stages of a group, from its messages: the last of them is work, and no wait."""
    issued = facts.get("issued_at") or None
    if "generator" not in facts:
        return
    began, ended = _work(facts, "sampled_at", "sample_seconds")
    stream, work = (EPISODES, PLAYING) if facts.get("is_played") else (PROMPTS, SAMPLING)
    yield wait(stream, issued, began, f"issued with floor {facts['floor']}")
    versions = ", ".join(f"version {version}: {tokens} tokens" for version, tokens in facts["versions"])
    yield GroupStage(
        stage=work,
        began=began,
        ended=ended,
        seconds=facts["sample_seconds"],
        who=facts["generator"],
        says=versions + _attempt(facts["sample_attempts"]),
    )
    if "worker" not in facts:
        return
    sampled = ended
    began, ended = _work(facts, "scored_at", "score_seconds")
    yield wait(ROLLOUTS, sampled, began, "waited for a scorer")
    yield GroupStage(
        stage=SCORING,
        began=began,
        ended=ended,
        seconds=facts["score_seconds"],
        who=facts["worker"],
        says=rewards_text(facts["rewards"]) + _attempt(facts["score_attempts"]),
    )


def under_way(facts: Facts, sight: Sight) -> Iterator[GroupStage]:
    """Yield the completed stages of a group, and its current one."""
    stages = list(done(_filled(facts, sight)))
    yield from stages
    since = (stages[-1].ended if stages else facts.get("issued_at")) or sight.arrived_at
    match sight.stream:
        case "prompts" | "episodes":
            yield from _unsampled(facts, sight, since)
        case "rollouts":
            yield from _in_rollouts(sight, since)
        case "scored":
            state = next((f": {beat.state}" for beat in sight.beats.values() if beat.state), "")
            yield _open(
                SCORED,
                since,
                sight,
                "",
                f"the learner has it until a step takes it{state}" if sight.beats else "no learner is alive",
            )


def wait(stage: str, began: float | None, ended: float | None, says: str) -> GroupStage:
    """Make a stage in which a group waited in a stream."""
    seconds = max(0.0, ended - began) if began is not None and ended is not None else None
    return GroupStage(stage=stage, began=began, ended=ended, seconds=seconds, who="", says=says)


def moment(stage: str, at: float | None, says: str) -> GroupStage:
    """Make a stage that takes no time."""
    return GroupStage(stage=stage, began=at or None, ended=at or None, seconds=None, who="", says=says)


def rewards_text(rewards: list[float | None]) -> str:
    """Format the mean of rewards, and how many completions have none."""
    known = [reward for reward in rewards if reward is not None]
    if not known:
        return "no reward: none could be scored"
    without = (
        f", {len(rewards) - len(known)} of {len(rewards)} unscorable" if len(known) < len(rewards) else ""
    )
    return f"mean reward {sum(known) / len(known):.3f}{without}"


def _unsampled(facts: Facts, sight: Sight, since: float) -> Iterator[GroupStage]:
    role, work = ROLES[sight.stream], PLAYING if sight.stream == EPISODES else SAMPLING
    issued, lease = f"issued with floor {facts.get('floor', '?')}", sight.lease
    if lease is None or lease.consumer == NOBODY:
        back = f"handed back by {_a(role)} that ended" if lease else ""
        yield _open(
            sight.stream,
            since,
            sight,
            "",
            issued,
            *_tries(sight),
            back,
            f"waits for {_a(role)}",
            _crew(sight, role),
        )
        return
    beat = sight.beats.get(lease.consumer)
    began = beat.began.get(str(facts.get("group_id", ""))) if beat else None
    yield wait(sight.stream, since, began, issued)
    silent = "" if beat else "it has no heartbeat: another takes over when the lease runs out"
    yield _open(
        work, began, sight, lease.consumer, *_tries(sight), f"its lease is {lease.idle_s:.1f} s old", silent
    )


def _in_rollouts(sight: Sight, since: float) -> Iterator[GroupStage]:
    lease, job, tries = sight.lease, sight.job, _tries(sight)
    if lease is None or job is None or not job.worker:
        yield _open(ROLLOUTS, since, sight, "", *tries, _delivery(sight), _crew(sight, "scorer"))
        return
    beat = sight.beats.get(job.worker)
    group_id = sight.entry.group_id if sight.entry else ""
    if beat is not None and beat.state != f"scoring group {group_id}":
        yield _open(
            ROLLOUTS,
            since,
            sight,
            job.worker,
            *tries,
            f"its job {job.id} was taken by a worker that says: {beat.state or '?'}",
        )
        return
    began = beat.since if beat else job.started_at or None
    silent = (
        "" if beat else ("it has no heartbeat: a dispatcher delivers the group again when the lease runs out")
    )
    yield wait(ROLLOUTS, since, began, f"delivered as job {job.id}")
    yield _open(SCORING, began, sight, job.worker, *tries, silent)


def _delivery(sight: Sight) -> str:
    """Describe the state of a group that no worker has taken."""
    if sight.lease is None:
        return "waits for a dispatcher"
    if sight.lease.consumer == NOBODY:
        return "handed back by a scorer that ended, waits for a dispatcher"
    if sight.job is None:
        return "the dispatcher holds it until its queue has room"
    if sight.job.ahead is None:
        return f"its job {sight.job.id} is in no queue's list: it is delivered again when the lease runs out"
    return f"job {sight.job.id} of queue {sight.job.queue}, {sight.job.ahead} before it"


def _tries(sight: Sight) -> Iterator[str]:
    """Yield the progress of its episodes, the workers that began the group before, how they ended, and errors."""
    if sight.played:
        yield str(sight.played)
    if sight.began:
        ends = sight.ends
        before = ", ".join(f"{name} ({ends[name]})" if name in ends else name for name in sight.began[:-1])
        yield f"attempt {len(sight.began)}{f' after {before}' if before else ''}"
    if sight.error:
        yield f"the last error: {sight.error}"


def _crew(sight: Sight, role: str) -> str:
    """Return which processes could take the group, and what they do instead."""
    states = Counter(beat.state or "?" for beat in sight.beats.values())
    if not states:
        return f"no {role} is alive"
    return ", ".join(
        f"{count} {role}{'' if count == 1 else 's'}: {state}" for state, count in states.most_common(STATES)
    )


def _a(role: str) -> str:
    return f"an {role}" if role == "agent" else f"a {role}"


def _open(stage: str, began: float | None, sight: Sight, who: str, *says: str) -> GroupStage:
    seconds = None if began is None else max(0.0, sight.now - began)
    return GroupStage(
        stage=stage, began=began, ended=None, seconds=seconds, who=who, says="; ".join(filter(None, says))
    )


def _filled(facts: Facts, sight: Sight) -> Facts:
    """Return the facts, with the entry's time where the worker gave none."""
    said = {"rollouts": "sampled_at", "scored": "scored_at"}.get(sight.stream)
    return {**facts, said: facts.get(said) or sight.arrived_at} if said else facts


def _work(facts: Facts, ended_at: str, seconds: str) -> tuple[float | None, float | None]:
    """Return when a piece of work began and ended."""
    ended = facts[ended_at] or None
    return (ended - facts[seconds], ended) if ended else (None, None)


def _attempt(number: int) -> str:
    return f"; attempt {number}" if number > 1 else ""
