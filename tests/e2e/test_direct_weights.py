"""A whole run whose weights arrive directly, by gloo, as `learner.weights.direct` says; a generator is killed in it."""

from __future__ import annotations

import re

import pytest

from broker.direct_weights.board import Board
from broker.direct_weights.records import State
from tests.e2e.conftest import Roles

pytestmark = pytest.mark.e2e

STEPS = 30
VLLM = "generators.engine={type: vllm, kv_cache_mb: 256, enforce_eager: true}"


@pytest.mark.prove
@pytest.mark.parametrize("engine", ["generators.engine.type=hf", VLLM], ids=["hf", "vllm"])
def test_a_run_takes_its_weights_directly_loses_a_generator_and_its_audit_is_clean(
    roles: Roles, engine: str
) -> None:
    learner = roles.learner(
        engine,
        f"learner.steps={STEPS}",
        "evaluation.every=0",
        "learner.checkpoint.every=0",
        "learner.weights.direct={type: gloo, address: 127.0.0.1, bucket_mb: 1, timeout_s: 60}",
    )
    first, second = roles.generator(), roles.generator()
    roles.until(lambda: is_open(roles, members=2), "an epoch of both generators", timeout_s=180)
    roles.scorers()
    roles.until(lambda: roles.version() >= 5, "five steps")
    second.kill()
    assert roles.wait(learner) == 0, roles.all_logs()
    assert roles.wait(first) == 0
    sent = re.findall(r"weights_sent version=\d+ bytes=(\d+)", learner.log.read_text())  # type: ignore[attr-defined]
    assert set(sent) == {str(weights_bytes(roles))}, roles.log_of(learner)
    loaded = re.findall(r"weights_loaded version=\d+ file=(/proc)?", first.log.read_text())  # type: ignore[attr-defined]
    assert loaded.count("/proc") >= 3, loaded  # from memory
    assert roles.audit().is_clean


def is_open(roles: Roles, *, members: int) -> bool:
    epoch = Board(roles.redis, roles.keys).read_epoch()
    return epoch is not None and epoch.state is State.OPEN and len(epoch.members) == members


def weights_bytes(roles: Roles) -> int:
    return next((roles.folder / "weights").glob("v*/model.safetensors")).stat().st_size
