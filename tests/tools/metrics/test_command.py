"""`millrace metrics`: what Prometheus is served. Real Redis."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from broker.connection import RedisLink
from broker.keys import Keys
from tests.conftest import free_port
from tests.support.forked_program import fork_verb
from tests.support.laid_heartbeats import Laid
from tests.support.told import Millrace
from tests.support.waiting import wait_until
from tools.metrics.command import RunCollector
from tools.metrics.table import AGENT_METRICS, METRICS

pytestmark = pytest.mark.process

NAME = re.compile(
    r"millrace_(run|stream|budget|generator|agent|dispatcher|scorer|learner)(_[a-z]+)*_"
    r"(groups|steps|seconds|processes|jobs|tokens|completions|retries|failures|questions|turns|calls|errors|"
    r"sequences|episodes|info)(_total)?"
)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def registry_of(client: redis.Redis) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(client, "test"))
    return registry


def samples(source: CollectorRegistry | str) -> Samples:
    text = source if isinstance(source, str) else generate_latest(source).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def laid(link: RedisLink, keys: Keys) -> Laid:
    return Laid(link, keys)


@pytest.mark.parametrize("metric", [*METRICS[1:], *AGENT_METRICS], ids=lambda metric: metric.name)
def test_a_name_says_whose_it_is_what_it_counts_and_in_which_unit(metric: object) -> None:
    name, kind = metric.name, metric.kind  # type: ignore[attr-defined]
    assert NAME.fullmatch(name), name
    assert name.endswith("_total") is (kind == "counter")


def test_names_types_and_labels_are_served_as_the_table_says(laid: Laid) -> None:
    families = {
        family.name: family
        for family in text_string_to_metric_families(generate_latest(registry_of(laid.client)).decode())
    }
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert family.type == metric.kind
        assert family.documentation == metric.says
        for sample in family.samples:
            assert sample.name == metric.name
            assert set(sample.labels) == set(metric.labels)
    assert len(families) == len(METRICS)


def test_a_run_is_served_as_it_stands(laid: Laid) -> None:
    found = samples(registry_of(laid.client))
    for name, labels, value in (
        ("millrace_up", {}, 1),
        ("millrace_run_status_info", {"status": "running"}, 1),
        ("millrace_run_version_steps", {}, 5),
        ("millrace_run_planned_steps", {}, 60),
        ("millrace_run_issued_groups_total", {}, 6),
        ("millrace_stream_depth_groups", {"stream": "prompts"}, 4),
        ("millrace_stream_waiting_groups", {"stream": "prompts"}, 3),
        ("millrace_budget_used_groups", {}, 6),
        ("millrace_budget_bound_groups", {}, 8),
        ("millrace_budget_floor_steps", {}, 5),
        ("millrace_generator_alive_processes", {}, 1),
        ("millrace_dispatcher_alive_processes", {}, 1),
        ("millrace_generator_busy_seconds_total", {"process": "box-2"}, 50),
        ("millrace_generator_version_steps", {"process": "box-2"}, 5),
        ("millrace_scorer_waiting_seconds_total", {"for": "rollouts", "process": "box-3"}, 1),
        ("millrace_scorer_queued_jobs", {"queue": "math"}, 1),
        ("millrace_scorer_completions_total", {"queue": "math", "scorer": "math"}, 64),
        ("millrace_scorer_failures_total", {"error": "ChildDied", "queue": "math", "scorer": "math"}, 2),
        ("millrace_learner_steps_total", {"process": "box-1"}, 40),
        ("millrace_learner_age_seconds_total", {"part": "sampling", "process": "box-1"}, 80),
    ):
        assert found[name, tuple(sorted(labels.items()))] == value, name


def test_of_a_run_whose_groups_are_played_it_serves_what_agents_do(laid: Laid) -> None:
    plain = {name for name, _ in samples(registry_of(laid.client))}
    assert not any("agent" in name or "turns" in name for name in plain)
    laid.play()
    found = samples(registry_of(laid.client))
    assert {name for name, _ in found} >= {metric.name for metric in AGENT_METRICS}
    for name, labels, value in (
        ("alive_processes", {}, 1),
        ("busy_seconds_total", {}, 25),
        ("waiting_seconds_total", {"for": "episodes"}, 75),
        ("turns_total", {}, 90),
        ("tool_calls_total", {}, 60),
        ("tool_errors_total", {}, 2),
        ("observed_tokens_total", {}, 700),
        ("environment_seconds_total", {}, 12.5),
        ("queue_seconds_total", {}, 4.5),
        ("overridden_calls_total", {}, 1),
        ("auxiliary_calls_total", {}, 5),
        ("replayed_seconds_total", {}, 1.5),
        ("ended_episodes_total", {"by": "message"}, 28),
        ("ended_episodes_total", {"by": "turns"}, 2),
    ):
        of = {} if name == "alive_processes" else {"process": "box-5"}
        assert found[f"millrace_agent_{name}", tuple(sorted({**of, **labels}.items()))] == value, name


def test_a_run_that_has_not_begun_is_served_without_what_is_not_known(link: RedisLink) -> None:
    found = samples(registry_of(link.client))
    assert found["millrace_up", ()] == 1
    assert found["millrace_run_status_info", (("status", "not_begun"),)] == 1
    assert not {"millrace_budget_bound_groups", "millrace_budget_floor_steps"} & {name for name, _ in found}


@pytest.mark.parametrize("spoil", ["away", "no stream"])
def test_without_redis_it_serves_millrace_up_0_and_recovers(laid: Laid, redis_url: str, spoil: str) -> None:
    client = redis.Redis.from_url(redis_url, socket_timeout=1, socket_connect_timeout=1)
    registry = registry_of(client)
    if spoil == "away":
        options = client.connection_pool.connection_kwargs
        port, options["port"] = options["port"], free_port()  # nobody listens there
    else:
        laid.client.rename(laid.keys("rollouts"), "aside")
        laid.client.set(laid.keys("rollouts"), "by hand")
    assert samples(registry) == {("millrace_up", ()): 0.0}
    if spoil == "away":
        options["port"] = port
        client.connection_pool.reset()
    else:
        laid.client.rename("aside", laid.keys("rollouts"))
    assert samples(registry)["millrace_up", ()] == 1.0


@pytest.fixture
def server(laid: Laid, redis_url: str, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yield the real command on a free port."""
    port, log = free_port(), tmp_path / "metrics.log"
    with log.open("wb") as stream:
        process = fork_verb("metrics", "test", "--port", port, stderr=stream, REDIS_URL=redis_url)

    def has_begun_or_ended() -> bool:
        return b"serving" in log.read_bytes() or process.poll() is not None

    wait_until(has_begun_or_ended, within_s=60, log=log.read_text)
    assert process.poll() is None, log.read_text()
    yield f"http://127.0.0.1:{port}/metrics", process
    process.kill()
    process.wait()


def test_the_command_serves_until_a_signal_and_refuses_a_port_that_is_taken(
    server: tuple[str, subprocess.Popen[bytes]], at_redis: str, millrace: Millrace
) -> None:
    url, process = server
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert samples(answer.read().decode())["millrace_up", ()] == 1
    told = millrace("metrics", "test", "--port", url.split(":")[2].split("/")[0])
    assert (told.code, "--port and --host choose another" in told.err) == (1, True)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
