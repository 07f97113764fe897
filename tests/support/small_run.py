"""A small run on a private Redis, made by hands that do what the roles do: no model, no training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from broker import codec
from broker.connection import RedisLink
from broker.keys import Keys
from broker.private_redis import server as embedded
from config.loading import to_yaml
from learner.journal.ledger import DROPPED, GroupOutcome
from learner.status import Status
from tests.support.chain import Chain, make_run

STEPS, SIZE = 3, 8  # group 17 is trained at the third


@contextlib.contextmanager
def make_small_run(runs_dir: Path, name: str, *, is_finished: bool = True) -> Iterator[None]:
    """Return a run in `runs_dir`, of three steps of eight groups and one dropped, while its Redis runs."""
    run = make_run(
        runs_dir,
        name=name,
        generators={"engine": {"type": "fake"}},
        learner={"groups_per_step": SIZE, "steps": STEPS},
    )
    run.folder.mkdir(parents=True)
    server = embedded.start(run)
    link = RedisLink(server.url, outage_s=10)
    try:
        chain = Chain(run, link, Keys(run.name))
        status = Status(run, link, chain.keys, chain.run_owner)
        status.begin(0)
        (run.folder / "config.yaml").write_text(to_yaml(run), encoding="utf-8")
        (run.folder / "metrics.jsonl").write_text("", encoding="utf-8")
        for step in range(STEPS):
            _train(chain, step)
        (last,) = chain.issue(1)
        chain.journal.end({last: GroupOutcome(DROPPED, "zero_variance: every reward is 0", tokens=4)})
        chain.run_owner.retire([last])
        chain.journal.close()
        if is_finished:
            status.end("finished", "", STEPS)
        yield
    finally:
        link.close()
        server.stop()


def _train(chain: Chain, step: int) -> None:
    ids = chain.issue(SIZE)
    for group_id in ids:
        chain.score(group_id)
    groups = [codec.decode_scored(chain.entry(group_id).raw) for group_id in ids]
    chain.journal.append(step, groups, [[0.5, -0.5]] * SIZE)
    chain.announce(step + 1)
    chain.run_owner.retire(ids)
