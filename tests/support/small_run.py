"""A small run on a private Redis, made by hands that do what the roles do: no model, no training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from broker import codec
from broker.connection import RedisLink
from broker.keys import ROLLOUTS, SCORED, Keys
from broker.messages import Completion, FinishReason, SampledGroup, Score, ScoredGroup, ScoreStatus, Span
from broker.private_redis import server as embedded
from broker.protocol.streams import hand_over
from config.loading import to_yaml
from generators.engines.scripted import STOP_ID
from learner.journal.ledger import DROPPED, Outcome
from learner.status import Status
from tests.support.chain import Chain, make_prompt, make_run

STEPS, SIZE = 3, 8  # group 17 is trained at the third


def _said(text: str, version: int) -> Completion:
    ids = [*text.encode(), STOP_ID]
    return Completion.of_one_segment(
        token_ids=np.array(ids, np.int32),
        logprobs=np.full(len(ids), -0.5, np.float32),
        text=text,
        policy_spans=(Span(version=version, first=0, count=len(ids)),),
        finish_reason=FinishReason.STOP,
    )


def _scored(group_id: str, version: int) -> ScoredGroup:
    scores = tuple(
        Score(
            status=ScoreStatus.SCORED,
            value=value,
            reason=f"answer {answer}",
            scorer="math",
            version="1",
            components={"math": value},
        )
        for value, answer in ((1.0, "5"), (0.0, "6"))
    )
    rollout = SampledGroup(
        prompt=make_prompt(group_id, floor=version),
        generator="g-1",
        seconds=0.1,
        completions=(_said("\\boxed{5}", version), _said("\\boxed{6}", version)),
    )
    return ScoredGroup(rollout=rollout, scores=scores, rewards=(1.0, 0.0), worker="w-1", seconds=0.1)


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
        chain.journal.end({last: Outcome(DROPPED, "zero_variance: every reward is 0", tokens=4)})
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
    groups = [_scored(group_id, step) for group_id in ids]
    for group in groups:
        assert hand_over(
            chain.link, chain.keys, chain.entry(group.group_id), ROLLOUTS, codec.encode_rollout(group.rollout)
        )
        assert hand_over(
            chain.link, chain.keys, chain.entry(group.group_id), SCORED, codec.encode_scored(group)
        )
    chain.journal.append(step, groups, [[0.5, -0.5]] * SIZE)
    chain.announce(step + 1)
    chain.run_owner.retire(ids)
