"""The learner's end of the chain."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from learner.groups import feeder, selection
from learner.incarnation import FINISHED
from learner.trainer import TrainingLoop
from tests.support.chain import Chain, make_run
from tests.support.loop import Hands, make_trainer

MakeChain = Callable[..., Chain]
Train = Callable[..., TrainingLoop]


@pytest.fixture
def make_chain(
    link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeChain]:
    """Yield a chain on an empty Redis, which nobody waits for long; keywords are the run's sections."""
    for name, seconds in (("BLOCK_S", 0.05), ("ROUND_BLOCK_S", 0.05), ("CHECK_EVERY_S", 0.1)):
        monkeypatch.setattr(selection, name, seconds)
    monkeypatch.setattr(feeder, "POLL_S", 0.02)
    made: list[Chain] = []

    def make(**sections: Any) -> Chain:
        made.append(Chain(make_run(tmp_path, **sections), link, keys))
        return made[-1]

    yield make
    for chain in made:
        if chain.publisher is not None:
            chain.publisher.close()
        chain.journal.close()


@pytest.fixture
def chain(make_chain: MakeChain) -> Chain:
    """Return a chain of two groups a step with max_lag 1."""
    return make_chain()


@pytest.fixture
def stopped() -> threading.Event:
    """Return what ends a learner before its first step."""
    stop = threading.Event()
    stop.set()
    return stop


@pytest.fixture
def hands() -> Iterator[list[Hands]]:
    working: list[Hands] = []
    yield working
    for thread in working:
        thread.stop.set()
        thread.join(timeout=10)


@pytest.fixture
def train(hands: list[Hands]) -> Train:
    """Train to an end while hands sample and score, and close what is open; keywords are of `make_trainer`."""

    def train(
        chain: Chain, *, end: str = FINISHED, trainer: TrainingLoop | None = None, **parts: Any
    ) -> TrainingLoop:
        if not hands:
            hands.append(Hands(chain))
            hands[0].start()
        trainer = trainer or make_trainer(chain, **parts)
        try:
            assert trainer.train() == end
        finally:
            trainer.feeder.stop()
            trainer.metrics.close()
        return trainer

    return train
