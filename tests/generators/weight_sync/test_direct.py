"""Direct weights from the learner's thread to generators, by couriers that are processes. Real Redis, real gloo."""

from __future__ import annotations

from pathlib import Path

from broker.connection import RedisLink
from broker.keys import Keys
from tests.support.direct_weights import DirectGenerator, SendingLearner, content_of


def test_two_generators_are_sent_each_version_bit_for_bit(
    link: RedisLink, keys: Keys, tmp_path: Path
) -> None:
    learner = SendingLearner(link, keys, tmp_path)
    generators = [DirectGenerator(link, keys, name) for name in ("a", "b")]
    learner.open_epoch("a", "b")
    for version, size in enumerate([3_000_000, 1 << 20, 1]):
        learner.publish(version, size)
        for generator in generators:
            assert generator.take(learner.announced) == (content_of(version, size), True)
    for generator in generators:
        generator.receiver.close()
    learner.sender.stop()
