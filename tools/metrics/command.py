"""`millrace metrics RUN`: serve a run's numbers to Prometheus.

In: one snapshot of the run for each request. Out: the metrics of `tools.metrics.table` as text, on every path except
the library's own. While Redis does not answer, only `millrace_up 0` is served. Runs until a signal. Exit code: 0; 1
where there is no such run, or the port is not available.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator

import redis
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from broker.errors import Permanent
from broker.joining import find_redis
from broker.monitoring.snapshot import Snapshot, snapshot
from broker.processes import stop_on_signals
from config.logs import mask, set_up_logging
from tools.arguments import add_run, add_runs_dir
from tools.metrics.table import AGENT_METRICS, METRICS, UP
from tools.run_view.follower import client_of

log = logging.getLogger(__name__)

PORT = 9090


class CannotServe(Permanent):
    """The address can't be listened on; the message says why."""


class RunCollector(Collector):
    """Take a snapshot of a run at each request of Prometheus. Requests may be concurrent."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._client = client
        self._name = name
        self._is_away = False

    def collect(self) -> Iterator[Metric]:
        """Take one snapshot of the run. Yields it as metrics."""
        now = self._look()
        for metric in (*METRICS, *(AGENT_METRICS if now is not None and now.has_agents else ())):
            if now is None and metric.name != UP:
                continue
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.says, labels=metric.labels)
            for labels, value in [((), 0.0)] if now is None else metric.read(now):
                family.add_metric(labels, value)
            yield family

    def _look(self) -> Snapshot | None:
        try:
            found = snapshot(self._client, self._name)
        except redis.RedisError as error:
            if not self._is_away:
                log.warning("redis_away run=%s error=%s", self._name, mask(str(error)))
            self._is_away = True
            return None
        if self._is_away:
            log.info("redis_is_back run=%s", self._name)
        self._is_away = False
        return found


EPILOG = "`millrace keys` says what a name means; docs/metrics.md lists all."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace metrics`."""
    add_run(parser)
    parser.add_argument("--port", type=_port, default=PORT, metavar="PORT", help=f"({PORT}); 0: a free one")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1); 0.0.0.0: all")
    add_runs_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal. Raises NoRun, WrongBroker, CannotServe."""
    set_up_logging("metrics")
    client = client_of(find_redis(options.run, options.runs_dir))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(client, options.run))
    stop = stop_on_signals()
    try:
        server, thread = start_http_server(options.port, options.host, registry=registry)
    except OSError as error:
        raise CannotServe(
            f"{options.host}:{options.port} can't be served: {error.strerror or error}; "
            "--port and --host choose another"
        ) from error
    log.info("serving run=%s url=http://%s:%d/metrics", options.run, options.host, server.server_port)
    try:
        stop.wait()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        client.close()
    return 0


def _port(text: str) -> int:
    """Read a port, 0 to 65535."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)
