"""The keys of `millrace chaos CONFIG --json`: what others read it by."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from config.run import Run
from learner.journal.writer import Journal
from tests.support.chain import make_run
from tests.support.chaos_report import OWN
from tests.support.groups import a_rollout, a_scored_group
from tools.audit.command import audit
from tools.audit.sums import Audit
from tools.chaos.command import Chaos, as_object
from tools.chaos.monkey import Monkey, Orders
from tools.chaos.targets import ROLES
from tools.up.redis_keeper import redis_of
from tools.up.supervisor import RunEnd

pytestmark = pytest.mark.process


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path, name="stormy")


@contextlib.contextmanager
def stormed(run: Run, link: RedisLink, orders: Orders) -> Iterator[Chaos]:
    """Yield a storm with a monkey that does nothing."""
    storm = Chaos(run, orders)
    with redis_of(run) as keeper:
        storm.monkey = Monkey(
            orders, look=lambda: pytest.fail("nobody looks"), forgive=lambda _: None, keeper=keeper,
            client=link.client, lease_s=1.0,
        )  # fmt: skip
        yield storm


def test_the_json_has_the_audits_keys_and_kills_of_every_role(run: Run, link: RedisLink, keys: Keys) -> None:
    group = a_scored_group(a_rollout())
    journal = Journal(run.folder / "journal", 1, run=run.name)
    journal.append(0, [group], [[0.5, -0.5]])
    for version, rate in ((0, 0.25), (1, 0.75)):
        journal.evaluation(version, {"pass_rate": rate, "prompts": 4, "samples": 4, "missing": 0, "dead": 0})
    journal.close()
    orders = Orders(seconds=60, seed=7)
    with stormed(run, link, orders) as storm:
        storm.audit, storm.seconds = audit(link, keys, run.folder / "journal"), 61.26
        storm.monkey.record.kills.update(scorer=2, redis=1)
        storm.monkey.record.disturbances.update({"kill scorer": 2, "kill redis": 1, "stop learner": 1})
        storm.monkey.returns.seconds = {"scorer": [3.0, 9.0], "redis": [0.5]}
        found = json.loads(json.dumps(as_object(run, storm, orders, RunEnd(code=0, reason=""))))
    assert found.keys() == OWN | {field.name for field in fields(Audit)}
    assert (found["trained"], found["lost"], found["twice"]) == (1, 0, 0)
    assert found["kills"] == dict.fromkeys(ROLES, 0) | {"scorer": 2, "redis": 1}
    redis, scorer = {"median": 0.5, "largest": 0.5}, {"median": 6.0, "largest": 9.0}
    assert found["back_s"] == {"redis": redis, "scorer": scorer}
    assert (found["seconds"], found["seed"], found["exit_code"], found["reason"]) == (61.3, 7, 0, "")
    assert (found["eval_pass_rate"], found["learning_curve"]) == (0.75, [[0, 0.25], [1, 0.75]])


def test_a_run_that_never_began_has_no_audit_and_no_rate(run: Run, link: RedisLink) -> None:
    orders = Orders(seconds=60)
    with stormed(run, link, orders) as storm:
        found = as_object(run, storm, orders, RunEnd(code=1, reason="no model"))
    assert found.keys() == OWN
    assert not any(found["kills"].values())
    assert (found["eval_pass_rate"], found["back_s"], found["reason"]) == (None, {}, "no model")
