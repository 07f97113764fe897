"""A small run named `demo` in the middle of its work, on a real Redis: what docs/redis-cli.md shows.

Eight groups were trained on, and one died and is wanted again. Sixteen are in flight, which is the whole budget: four are
scored; of three rollouts one is being scored, one lies in a job and one is held back; one is dead and not recorded; of
eight prompts two are being sampled.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from broker import codec
from broker.connection import RedisLink
from broker.keys import DEAD, GROUP, PROMPTS, ROLLOUTS, SCORED, Keys
from broker.messages import Announcement, Prompt, SampledGroup, ScoredGroup
from broker.monitoring.counters import ProcessTally
from broker.monitoring.heartbeat import Heartbeat
from broker.protocol.leases import Consumer
from broker.protocol.streams import dead_letter_entry, hand_over
from learner.status import Status
from scorers.pool.job import CONSUMER
from scorers.pool.rq_queues import RqQueues
from tests.support.chain import Chain, make_prompt, make_run, make_scored
from tests.support.groups import a_score
from tests.support.waiting import wait_until

GENERATOR, WORKER, DISPATCHER, LEARNER = "gpu1-4711-ab12", "cpu1-815-cd34", "cpu1-814-0f3a", "gpu1-4700"
DEADLINE = "deadline: 900 s after its issue it was still in prompts (learner.group_deadline_s=900)"
TOO_FEW = (
    "too few scored: 0 of 2, and scorers.min_scored=0.5 wants 1; the first one without a score: the sandbox did "
    "not answer"
)
LEASE_S = 60.0


class InFlight:
    """That run, with its processes' heartbeats until `close`. Its folder is under `runs_dir`."""

    def __init__(self, link: RedisLink, runs_dir: Path) -> None:
        run = make_run(runs_dir, name="demo", learner={"groups_per_step": 8, "max_lag": 1, "steps": 60})
        self.keys = Keys(run.name)
        self.chain = Chain(run, link, self.keys)
        self.began = time.time() - 80
        self._beats: list[Heartbeat] = []
        self._learn()
        self._score()
        self._sample()
        self._say()

    def close(self) -> None:
        for beat in self._beats:
            beat.stop()
        self.chain.journal.close()

    def _learn(self) -> None:
        """Groups 0 to 7 are trained on, 8 is dead and wanted again, and 9 to 24 are let in after them; 16 is dead."""
        chain = self.chain
        Status(chain.run, chain.link, chain.keys, chain.run_owner).begin(0)
        first = chain.issue(9, issued_at=self.began)
        trained = [self._scored(make_prompt(group_id, issued_at=self.began)) for group_id in first[:8]]
        chain.journal.append(0, trained, [[0.5, -0.5]] * 8)
        line = json.dumps({"step": 1, "reward_mean": 0.5, "at": time.time() + 1.5})
        (chain.run.folder / "metrics.jsonl").write_text(f"{line}\n")
        where = {"path": "/runs/demo/weights/v000001", "checksum": "beef" * 16, "size_bytes": 880_640}
        announcement: Any = {"version": 1, "announced_at": time.time(), **where}
        chain.run_owner.announce(Announcement(**announcement))
        chain.run_owner.retire(first[:8])
        rollout = self._scored(codec.decode_prompt(chain.entry("8").raw)).rollout
        assert hand_over(chain.link, chain.keys, chain.entry("8"), ROLLOUTS, codec.encode_rollout(rollout))
        dead_letter_entry(chain.link, chain.keys, chain.entry("8"), reason=TOO_FEW, attempts=1)
        chain.read()
        dead_letter = chain.client.xrange(chain.keys(DEAD))[0][0]
        chain.link.script("request_retries", chain.keys.scripts(), "8", dead_letter)
        chain.issue(16, issued_at=self.began + 15)
        dead_letter_entry(chain.link, chain.keys, chain.entry("16"), reason=DEADLINE, attempts=1)

    def _score(self) -> None:
        """9 to 12 are scored; 13 is being scored, 14 lies in a job, 15 is held back by the dispatcher."""
        chain = self.chain
        for group_id in map(str, range(9, 16)):
            entry = chain.entry(group_id)
            result = self._scored(codec.decode_prompt(entry.raw))
            assert hand_over(chain.link, chain.keys, entry, ROLLOUTS, codec.encode_rollout(result.rollout))
            if int(group_id) < 13:
                fields = codec.encode_scored(result)
                assert hand_over(chain.link, chain.keys, chain.entry(group_id), SCORED, fields)
        Consumer(chain.link, chain.keys, ROLLOUTS, CONSUMER, lease_s=LEASE_S).lease(8, block_s=0)
        chain.client.xclaim(
            chain.keys(ROLLOUTS), GROUP, CONSUMER, 0, [chain.entry("15").entry_id], idle=75_000, justid=True
        )
        rq_queues = RqQueues(chain.client, chain.keys)
        first = rq_queues.enqueue("math", [chain.entry("13").entry_id], "13")
        rq_queues.enqueue("math", [chain.entry("14").entry_id], "14")
        taken = rq_queues.queues["math"].fetch_job(first)
        assert taken is not None
        rq_queues.queues["math"].remove(first)
        with chain.client.pipeline() as pipe:  # RQ's own part, when a worker takes a job
            taken.prepare_for_execution(WORKER, pipe)
            pipe.execute()
        worker = Consumer(chain.link, chain.keys, ROLLOUTS, CONSUMER, lease_s=LEASE_S, worker=WORKER)
        worker.begin(chain.entry("13"))
        tally = ProcessTally()
        tally.count("math", "math", {"groups": 12, "completions": 24, "unscorable": 1}, seconds=0.36)
        tally.write(chain.client, chain.keys, is_due=True)

    def _sample(self) -> None:
        """17 and 18 are in a generator's hands, 19 to 24 in nobody's."""
        consumer = Consumer(self.chain.link, self.keys, PROMPTS, GENERATOR, lease_s=LEASE_S)
        entries = consumer.lease(2, block_s=0)
        assert [entry.group_id for entry in entries] == ["17", "18"]
        for entry in entries:
            consumer.begin(entry)

    def _say(self) -> None:
        """What every process says of itself."""
        began = f"17@{self.began + 20:.3f} 18@{self.began + 21:.3f}"
        for role, name, state, facts in (
            ("learner", LEARNER, "12 s: 4 of 8 groups; out: 8 in prompts, 3 in rollouts; oldest 61 s", {}),
            ("generator", GENERATOR, "sampling", {"version": "1", "began": began}),
            ("dispatcher", DISPATCHER, "1 groups wait for a worker", {}),
            ("scorer", WORKER, "scoring group 13", {"queues": "light,math"}),
        ):
            beat = Heartbeat(self.chain.link, self.keys, role, name)
            beat.set_state(state, **facts)
            self._beats.append(beat)
        wait_until(
            lambda: not any(state in {None, b"starting"} for state in self._states()),
            "heartbeats that say what they were told",
        )

    def _states(self) -> list[bytes | None]:
        client = self.chain.client
        return [client.hget(key, "state") for key in client.scan_iter(match="rl:{demo}:alive:*")]

    def _scored(self, prompt: Prompt) -> ScoredGroup:
        """Return what comes back of a prompt: one right answer, one wrong."""
        group = make_scored(prompt, [1.0, 0.0])
        rollout: SampledGroup = replace(
            group.rollout, generator=GENERATOR, seconds=6.25, attempts=1, sampled_at=prompt.issued_at + 8
        )
        said = ((1.0, "answer 5 equals 5"), (0.0, "answer 4, expected 5"))
        scores = tuple(a_score(value, reason, components={"math": value}) for value, reason in said)
        scored_at = prompt.issued_at + 9
        group = replace(group, rollout=rollout, scores=scores, worker=WORKER, seconds=0.03, attempts=1)
        return replace(group, scored_at=scored_at)
