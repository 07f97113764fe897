"""`make prove-pipeline` judges each stage by what it left, and a stage that did not end is none that held."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.proofs.pipeline import DOMAINS, LEFT, judged
from tests.support.paths import ROOT

pytestmark = pytest.mark.process

SAID = (
    "\n== prepare: rows (after 0 s)\nwords\n== check: rows (after 3 s)\n== difficulty: rates (after 36 s)\n"
)


@pytest.mark.parametrize(("domains", "held"), [(DOMAINS, True), (DOMAINS - {"table"}, False)])
def test_a_stage_is_judged_by_what_it_left(tmp_path: Path, domains: frozenset[str], held: bool) -> None:
    for name in ("train", "test"):
        rows = [{"data_source": f"{domain}__made"} for domain in sorted(domains)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    stages = judged(SAID, tmp_path)
    assert [(stage.name, stage.seconds, stage.held) for stage in stages[:2]] == [
        ("prepare", 3, held),
        ("check", 33, True),
    ]
    assert [stage.name for stage in stages[2:]] == ["difficulty", "train", "evaluate", "export"]
    assert not any(stage.held for stage in stages[2:])
    assert all(stage.left == "did not end" for stage in stages[2:])


def test_the_script_has_every_stage_that_is_judged() -> None:
    script = (ROOT / "examples" / "pipeline" / "pipeline.sh").read_text(encoding="utf-8")
    begun = [line.split('"')[1].split(":")[0] for line in script.splitlines() if line.startswith("stage ")]
    assert begun == [*LEFT, "done"]
