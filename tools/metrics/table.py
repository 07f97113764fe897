"""List every metric that `millrace metrics` serves: its name, type, labels, and how to read it from a snapshot.

In: a `Snapshot`. Out: samples. docs/metrics.md is written from this table. A name is
`millrace_{role}_{noun}_{unit}`. A counter ends with `_total` and begins at 0 with its `process`: compute rates of each
series separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from broker.monitoring.counters import ScorerStats
from broker.monitoring.snapshot import Snapshot
from broker.monitoring.work_meter import WAITS
from tools.run_view.flow import AGES

Sample = tuple[tuple[str, ...], float]  # values of the labels, in order, and the number
Read = Callable[[Snapshot], Iterator[Sample]]

UP = "millrace_up"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric's name, type, labels, meaning, and how to read it from a snapshot."""

    name: str  # in Prometheus
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    says: str  # for people: what it counts
    read: Read


def _one(read: Callable[[Snapshot], float | None]) -> Read:
    """Make the reader of a metric without labels; it has no sample where the value is unknown."""

    def samples(now: Snapshot) -> Iterator[Sample]:
        if (value := read(now)) is not None:
            yield (), float(value)

    return samples


def _of_streams(field: Literal["depth", "waiting", "leased", "oldest_s"]) -> Read:
    def samples(now: Snapshot) -> Iterator[Sample]:
        for stream, state in now.streams.items():
            yield (stream,), float(getattr(state, field))

    return samples


def _of_processes(role: str, sum_name: str) -> Read:
    def samples(now: Snapshot) -> Iterator[Sample]:
        for process in now.processes:
            if process.role == role and process.sums:
                yield (process.id,), process.sums.get(sum_name, 0.0)

    return samples


def _split(role: str, prefix: str, parts: tuple[str, ...]) -> Read:
    """Make the reader of each process's sum, divided by the label's parts."""

    def samples(now: Snapshot) -> Iterator[Sample]:
        for process in now.processes:
            if process.role == role:
                for part in parts:
                    if (value := process.sums.get(f"{prefix}_{part}_s")) is not None:
                        yield (process.id, part), value

    return samples


def _policy(now: Snapshot) -> Iterator[Sample]:
    for process in now.processes:
        if process.role == "generator" and process.version.isdecimal():
            yield (process.id,), float(process.version)


def _of_scorers(read: Callable[[ScorerStats], float]) -> Read:
    def samples(now: Snapshot) -> Iterator[Sample]:
        for stats in now.scorers:
            yield (stats.queue, stats.scorer), float(read(stats))

    return samples


def _failures(now: Snapshot) -> Iterator[Sample]:
    for stats in now.scorers:
        for error, number in stats.failures.items():
            yield (stats.queue, stats.scorer, error), float(number)


def _ends(now: Snapshot) -> Iterator[Sample]:
    for process in now.processes:
        for end, number in process.ends.items():
            yield (process.id, end), float(number)


def _status(now: Snapshot) -> Iterator[Sample]:
    yield (now.status or "not_begun",), 1.0


def _jobs(now: Snapshot) -> Iterator[Sample]:
    for queue, jobs in now.queued_jobs.items():
        yield (queue,), float(jobs)


def _works(role: str, does: str) -> list[Metric]:
    """Make the metrics of the processes of any stage."""
    what = {"generator": "groups", "agent": "episodes"}.get(role)
    weight = f", weighted by the share of its room for {what} that was taken" if what else ""
    return [
        Metric(
            f"millrace_{role}_alive_processes",
            "gauge",
            (),
            f"{role}s whose heart beats",
            _one(lambda now: now.alive(role)),
        ),
        Metric(
            f"millrace_{role}_up_seconds_total",
            "counter",
            ("process",),
            "seconds since the process was ready to work",
            _of_processes(role, "up_s"),
        ),
        Metric(
            f"millrace_{role}_busy_seconds_total",
            "counter",
            ("process",),
            f"seconds that the process worked{weight}",
            _of_processes(role, "busy_s"),
        ),
        Metric(
            f"millrace_{role}_waiting_seconds_total",
            "counter",
            ("process", "for"),
            "seconds that the process waited, by what it waited for",
            _split(role, "wait", WAITS),
        ),
        Metric(
            f"millrace_{role}_groups_total",
            "counter",
            ("process",),
            f"groups that the process has {does}",
            _of_processes(role, "groups"),
        ),
    ]


METRICS: tuple[Metric, ...] = (
    Metric(UP, "gauge", (), "1 if Redis answered, else 0 and no other metric", _one(lambda _: 1.0)),
    Metric(
        "millrace_run_status_info",
        "gauge",
        ("status",),
        "1; the status is running, finished, stopped, failed or not_begun",
        _status,
    ),
    Metric(
        "millrace_run_version_steps",
        "gauge",
        (),
        "newest policy version: optimizer steps done",
        _one(lambda now: max(0, now.version)),
    ),
    Metric(
        "millrace_run_planned_steps",
        "gauge",
        (),
        "optimizer steps of the whole run",
        _one(lambda now: now.steps),
    ),
    Metric(
        "millrace_run_issued_groups_total",
        "counter",
        (),
        "training groups issued, retries included",
        _one(lambda now: now.issued),
    ),
    Metric(
        "millrace_stream_depth_groups", "gauge", ("stream",), "entries of a work stream", _of_streams("depth")
    ),
    Metric(
        "millrace_stream_waiting_groups",
        "gauge",
        ("stream",),
        "entries that no worker has taken",
        _of_streams("waiting"),
    ),
    Metric(
        "millrace_stream_leased_groups",
        "gauge",
        ("stream",),
        "entries that a worker has leased",
        _of_streams("leased"),
    ),
    Metric(
        "millrace_stream_oldest_seconds",
        "gauge",
        ("stream",),
        "age of the stream's first entry",
        _of_streams("oldest_s"),
    ),
    Metric(
        "millrace_budget_used_groups",
        "gauge",
        (),
        "slots held: training groups without an outcome",
        _one(lambda now: now.slots),
    ),
    Metric(
        "millrace_budget_bound_groups",
        "gauge",
        (),
        "slots of the budget",
        _one(lambda now: now.bound if now.run else None),
    ),
    Metric(
        "millrace_budget_floor_steps",
        "gauge",
        (),
        "lowest floor of a group in flight",
        _one(lambda now: now.floor if now.floor >= 0 else None),
    ),
    *_works("generator", "sampled"),
    Metric(
        "millrace_generator_tokens_total",
        "counter",
        ("process",),
        "tokens that the process has sampled",
        _of_processes("generator", "tokens"),
    ),
    Metric(
        "millrace_generator_prompt_tokens_total",
        "counter",
        ("process",),
        "tokens of prompts and turns that the process was given, where its engine is vLLM",
        _of_processes("generator", "prompt_tokens"),
    ),
    Metric(
        "millrace_generator_cached_prompt_tokens_total",
        "counter",
        ("process",),
        "of these, tokens that vLLM found in its cache of prefixes",
        _of_processes("generator", "prefix_hits"),
    ),
    Metric(
        "millrace_generator_version_steps",
        "gauge",
        ("process",),
        "policy version that the process samples with",
        _policy,
    ),
    Metric(
        "millrace_dispatcher_alive_processes",
        "gauge",
        (),
        "dispatchers whose heart beats",
        _one(lambda now: now.alive("dispatcher")),
    ),
    *_works("scorer", "scored"),
    Metric("millrace_scorer_queued_jobs", "gauge", ("queue",), "RQ jobs that no worker has taken", _jobs),
    Metric(
        "millrace_scorer_completions_total",
        "counter",
        ("queue", "scorer"),
        "completions of scored groups",
        _of_scorers(lambda stats: stats.completions),
    ),
    Metric(
        "millrace_scorer_unscorable_completions_total",
        "counter",
        ("queue", "scorer"),
        "completions without a score",
        _of_scorers(lambda stats: stats.unscorable),
    ),
    Metric(
        "millrace_scorer_over_limit_completions_total",
        "counter",
        ("queue", "scorer"),
        "completions that are 0 for exceeding their own limits",
        _of_scorers(lambda stats: stats.over_limit),
    ),
    Metric(
        "millrace_scorer_work_seconds_total",
        "counter",
        ("queue", "scorer"),
        "work on scored groups, waits before retries included",
        _of_scorers(lambda stats: stats.seconds),
    ),
    Metric(
        "millrace_scorer_retries_total",
        "counter",
        ("queue", "scorer"),
        "tries after a failure of the machinery",
        _of_scorers(lambda stats: stats.retries),
    ),
    Metric(
        "millrace_scorer_failures_total",
        "counter",
        ("queue", "scorer", "error"),
        "failures of the machinery, by the error's name",
        _failures,
    ),
    Metric(
        "millrace_scorer_cached_questions_total",
        "counter",
        ("queue", "scorer"),
        "questions to a served model that the cache answered",
        _of_scorers(lambda stats: stats.cache_hits),
    ),
    Metric(
        "millrace_scorer_asked_questions_total",
        "counter",
        ("queue", "scorer"),
        "questions that a served model was asked",
        _of_scorers(lambda stats: stats.cache_misses),
    ),
    *_works("learner", "trained on"),
    Metric(
        "millrace_learner_steps_total",
        "counter",
        ("process",),
        "optimizer steps of this incarnation",
        _of_processes("learner", "steps"),
    ),
    Metric(
        "millrace_learner_age_seconds_total",
        "counter",
        ("process", "part"),
        "age of the groups trained on, by stage: waiting in prompts, sampling, waiting in rollouts, "
        "scoring, waiting in scored",
        _split("learner", "age", AGES),
    ),
)

SAYS_OF_PLAYED = {
    "turns": ("turns", "turns of the policy that its episodes got"),
    "tool_calls": ("tool_calls", "calls of tools that the policy made"),
    "tool_errors": ("tool_errors", "calls of tools that ended in an error, which the policy read"),
    "tokens_sampled": ("sampled_tokens", "tokens of those turns"),
    "tokens_observed": ("observed_tokens", "tokens that the policy was given between its turns"),
    "breaks": ("broken_sequences", "sequences that began anew, since a template can't render what follows"),
    "environment_s": ("environment_seconds", "seconds that tools and environments worked"),
    "queue_s": ("queue_seconds", "seconds that those turns waited for a generator, without their sampling"),
    "sampling_s": ("sampling_seconds", "seconds that generators sampled those turns"),
    "overridden": ("overridden_calls", "calls of agents whose own sampling options gave way to the run's"),
    "auxiliary": ("auxiliary_calls", "calls of agents beside their task, which do not train"),
    "replayed": ("replayed_turns", "turns that an episode which was played again found recorded"),
    "replayed_s": ("replayed_seconds", "seconds of sampling that those saved"),
}
# For runs whose groups are played, or that have agents.
AGENT_METRICS: tuple[Metric, ...] = (
    Metric(
        "millrace_generator_turns_total",
        "counter",
        ("process",),
        "turns of episodes that the process has sampled",
        _of_processes("generator", "turns"),
    ),
    *_works("agent", "played"),
    *(
        Metric(f"millrace_agent_{name}_total", "counter", ("process",), says, _of_processes("agent", what))
        for what, (name, says) in SAYS_OF_PLAYED.items()
    ),
    Metric(
        "millrace_agent_ended_episodes_total",
        "counter",
        ("process", "by"),
        "episodes that have ended, by what ended them",
        _ends,
    ),
)
