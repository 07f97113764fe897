"""Real data: GSM8K through the `datasets` library, and rows of II-Thought's shape, with the demo's tiny model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from learner.journal.ledger import read_ledger, read_step
from tests.e2e.conftest import Roles
from tests.support.paths import ROOT

pytestmark = pytest.mark.e2e

GSM8K = ROOT.parent / "shared" / "data" / "gsm8k_train.jsonl"
SMALL = (
    "data.held_out=", "evaluation.every=0", "learner.steps=3", "learner.groups_per_step=4",
    "data.max_prompt_tokens=400", "sampling.group_size=4", "sampling.max_tokens=8",
    "learner.checkpoint.every=0",
)  # fmt: skip

needs_gsm8k = pytest.mark.skipif(
    not GSM8K.exists(), reason=f"no {GSM8K.name} in ../shared/data beside the checkout"
)


def gsm8k() -> str:
    """GSM8K's training split as a source."""
    how = {"prompt_template": "{question}", "answer_column": "answer", "answer_pattern": "#### (.+)"}
    return json.dumps({"type": "dataset", "path": str(GSM8K), "limit": 300, **how})


@pytest.mark.prove
@needs_gsm8k
def test_gsm8k_trains_three_steps_and_counts_what_is_too_long(roles: Roles) -> None:
    learner = roles.learner(
        f"data.train={gsm8k()}",
        "learner.filters.zero_variance=keep",
        "learner.filters.truncated=keep",
        *SMALL,
    )
    roles.generator()
    roles.scorers()
    assert roles.wait(learner) == 0, roles.all_logs()
    assert [record["step"] for record in roles.metrics()] == [1, 2, 3]
    assert "prompts_left_out" in roles.log_of(learner)
    found = roles.audit()
    assert (found.is_clean, found.trained) == (True, 12)


@pytest.mark.prove
@needs_gsm8k
def test_a_run_of_nothing_but_variance_free_groups_stops_and_says_why(roles: Roles) -> None:
    learner = roles.learner(
        f"data.train={gsm8k()}",
        "learner.filters.zero_variance=replace",
        "learner.filters.max_empty_groups=24",
        *SMALL,
    )
    generator, scorers = roles.generator(), roles.scorers()
    assert roles.wait(learner) == 1
    assert roles.status()["status"] == "failed"
    said = re.match(r"(\d+) groups in a row had nothing to learn from", roles.status()["reason"])
    assert said, roles.status()
    assert int(said[1]) >= 24, "counted after a whole read: more than the 24th may have come with it"
    assert roles.wait(generator) == roles.wait(scorers) == 1, "the other roles end with the run, and say so"
    assert "nothing to learn from" in roles.log_of(generator)
    found = roles.audit()
    assert found.is_clean
    assert found.dropped_by_reason["zero_variance"] >= 24


@pytest.mark.prove
def test_rows_of_ii_thoughts_shape_train_beside_garbage_in_every_stream(roles: Roles, tmp_path: Path) -> None:
    lines, table = tmp_path / "rows.jsonl", tmp_path / "rows.parquet"
    info = [{"type": "math_verifiable", "answer": {"value": str(n)}} for n in range(1, 60)]
    rows = [
        {
            "id": f"math-{n}",
            "data_source": "numina",
            "messages": [{"role": "user", "content": f"What is {n} + 0?"}],
            "verification_info": json.dumps(one),
        }
        for n, one in enumerate(info)
    ]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows[:30]))
    pq.write_table(pa.Table.from_pylist([row | {"origin": "elsewhere"} for row in rows[30:]]), table)
    garbage: Any = {"v": "1", "group": "0", "floor": "0", "payload": b"\xc1 no msgpack"}
    for stream in ("prompts", "rollouts", "scored"):
        roles.redis.xadd(roles.keys(stream), garbage)
        roles.redis.xadd(roles.keys(stream), {"hello": "world"})
    learner = roles.learner(
        f"data.train=[{{type: dataset, path: {lines}}}, {{type: dataset, path: {table}, weight: 30}}]",
        "learner.filters.zero_variance=keep",
        "learner.filters.truncated=keep",
        "scorers.tasks.math.format={mode: mix}",
        *SMALL,
    )
    roles.generator()
    roles.scorers()
    assert roles.wait(learner) == 0, roles.all_logs()
    found = roles.audit()
    assert (found.is_clean, found.trained, found.foreign) == (True, 12, 6)
    dead: Any = roles.redis.xrange(roles.keys("dead"))
    reasons = [fields[b"reason"].decode() for _, fields in dead]
    assert all("foreign entry" in reason for reason in reasons), reasons
    journal = roles.folder / "journal"
    groups = [group for step in read_ledger(journal).steps for group in read_step(journal, step)[0]]
    assert len(groups) == 12
    assert {group.rollout.prompt.row >= 30 for group in groups} == {False, True}, "both files train"
    assert all(score.components.keys() == {"math", "format"} for group in groups for score in group.scores)
