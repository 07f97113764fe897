"""The learner's whole loop on a chain: everything real but the model and the other roles."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from broker import codec
from broker.group_ids import ordinal_of
from broker.keys import PROMPTS
from learner.groups.feeder import Feeder
from learner.groups.retirement import Retirement
from learner.groups.selection import Selection
from learner.groups.while_waiting import KeepAlive, Operator, WhileWaiting
from learner.reporting.metrics import Metrics
from learner.resume.recovery import Recovery
from learner.trainer import TrainingLoop
from learner.training.checkpoint import Checkpoints, Progress
from learner.weight_sync.filesystem import FilesystemTransport
from learner.weight_sync.publisher import Publisher
from learner.weight_sync.transport import WeightTransport
from tests.support.chain import Chain, FilePolicy, make_source


class Hands(threading.Thread):
    """Samples and scores whatever is in `prompts`: every third training group without variance."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(daemon=True)
        self.chain = chain
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.wait(0.005):
            for _, fields in self.chain.client.xrange(self.chain.keys(PROMPTS)):
                prompt = codec.decode_prompt(fields)
                is_flat = ordinal_of(prompt.group_id) in range(2, 10**6, 3)
                rewards = [1.0] * prompt.n if is_flat else [1.0] + [0.0] * (prompt.n - 1)
                # A test has flushed Redis.
                with contextlib.suppress(AttributeError, AssertionError, ValueError):
                    self.chain.score(prompt.group_id, rewards)


def make_trainer(
    chain: Chain, *, policy: Any = None, transport: WeightTransport | None = None
) -> TrainingLoop:
    """Return a learner of ten rows at the version of its journal; `chain` is its board.

    Args:
        policy: what it trains; None: a `FilePolicy`.
        transport: of its weights; None: the run's folder.
    """
    chain.version.trained = chain.version.announced = len(chain.journal.ledger.steps)
    policy = policy or FilePolicy()
    feeder = Feeder(
        chain.run,
        chain.run_owner,
        make_source(chain.run),
        chain.evaluation,
        chain.version,
        first_row=0,
        known=chain.journal.has,
        mean_bytes=chain.intake.mean_bytes,
        kept_share=chain.intake.kept_share,
        held=lambda: len(chain.buffer),
        clock=chain.clock,
    )
    operator = Operator(chain.run_owner, chain.journal, feeder)
    keep_alive = KeepAlive(policy)
    publisher = Publisher(
        chain.run_owner,
        transport or FilesystemTransport(chain.run),
        check_fence=chain.journal.check_fence,
        announced=Retirement(chain.run_owner, chain.journal.ledger, chain.version, wake=feeder.wake),
        keep_alive=keep_alive,
    )
    publisher.start()
    chain.publisher = publisher
    chain.selection = Selection(
        chain.run,
        chain.intake,
        chain.stop,
        wanted=lambda: operator.wanted,
        has_issued_all=lambda: feeder.has_issued_all,
        while_waiting=WhileWaiting(feeder, publisher, operator, keep_alive),
        set_state=chain.said.append,
        clock=chain.clock,
    )
    return TrainingLoop(
        chain.run,
        policy,
        journal=chain.journal,
        intake=chain.intake,
        selection=chain.selection,
        feeder=feeder,
        recovery=Recovery(chain.run, chain.intake, feeder, publisher, policy, publish_status=lambda _: None),
        checkpoints=Checkpoints(chain.run),
        metrics=Metrics(chain.run),
        publisher=publisher,
        start=Progress(version=0, first_row=0, fingerprint="f"),
        version=chain.version,
    )
