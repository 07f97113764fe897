"""The learner's whole loop on a chain: everything real but the model and the other roles."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from broker import codec
from broker.group_ids import ordinal_of
from broker.keys import PROMPTS
from learner.assembly import Listeners, assemble
from learner.groups.while_waiting import KeepAlive
from learner.reporting.metrics import Metrics
from learner.trainer import TrainingLoop
from learner.training.checkpoint import Checkpoints, Progress
from learner.weight_sync.filesystem import FilesystemTransport
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
    parts = assemble(
        chain.claimed,
        make_source(chain.run),
        chain.intake,
        policy,
        Listeners(publish_status=lambda _: None, keep_alive=KeepAlive(policy)),
        transport=transport or FilesystemTransport(chain.run),
    )
    parts.publisher.start()
    chain.publisher, chain.selection = parts.publisher, parts.selection
    chain.reconciliation = parts.reconciliation
    return TrainingLoop(
        parts,
        policy,
        chain.filters,
        checkpoints=Checkpoints(chain.run),
        metrics=Metrics(chain.run),
        start=Progress(version=0, first_row=0, fingerprint="f"),
    )
