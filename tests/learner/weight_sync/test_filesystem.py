"""New weights on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from learner.weight_sync.filesystem import FilesystemTransport
from learner.weight_sync.publisher import Publisher
from learner.weight_sync.transport import SavedWeights
from tests.support.chain import Chain, FilePolicy, TextWeights, make_run


class Gathers:
    """A source whose weights are these."""

    def __init__(self, weights: TextWeights) -> None:
        self.weights = weights

    def gather_weights(self) -> TextWeights:
        return self.weights


def test_a_version_is_whole_before_it_has_its_name(chain: Chain) -> None:
    transport = FilesystemTransport(chain.run)
    publisher = Publisher(chain.run_owner, transport)
    seen: list[list[str]] = []

    class Looks(TextWeights):
        def save_weights(self, folder: Path) -> SavedWeights:
            seen.append(sorted(path.name for path in transport.folder.iterdir()))
            return super().save_weights(folder)

    leftover = transport.folder / "v000001.tmp"
    leftover.mkdir(parents=True)
    (leftover / "half").write_text("of a crash")
    publisher.publish(Gathers(Looks("weights")), 1)
    assert seen == [["v000001.tmp"]]
    assert sorted(path.name for path in (transport.folder / "v000001").iterdir()) == ["model.safetensors"]


def test_versions_that_nobody_can_need_are_removed_and_nothing_else(chain: Chain) -> None:
    transport = FilesystemTransport(chain.run)
    publisher = Publisher(chain.run_owner, transport)
    for name in ("v000001.tmp", "notes", "vocabulary"):
        (transport.folder / name).mkdir(parents=True)
    for version in range(5):
        publisher.publish(FilePolicy(), version)
    assert {path.name for path in transport.folder.iterdir()} == {"v000003", "v000004", "notes", "vocabulary"}


def test_two_runs_that_share_a_directory_keep_their_versions_apart(tmp_path: Path, link: RedisLink) -> None:
    for name, steps in (("first", 0), ("second", 1)):
        run = make_run(tmp_path, name=name, learner={"weights": {"directory": tmp_path / "fast"}})
        run_owner, policy = RunOwner(link, Keys(name)), FilePolicy()
        run_owner.claim(0)
        policy.steps = steps
        Publisher(run_owner, FilesystemTransport(run)).publish(policy, 0)
    for name, content in (("first", "weights 0"), ("second", "weights 1")):
        assert (tmp_path / "fast" / name / "v000000" / "model.safetensors").read_text() == content


def test_a_full_disk_is_the_reason_with_the_version_and_its_folder(chain: Chain) -> None:
    class Full(TextWeights):
        def save_weights(self, folder: Path) -> SavedWeights:
            Path("/dev/full").write_bytes(b"weights")
            return super().save_weights(folder)

    transport = FilesystemTransport(chain.run)
    said = rf"^the weights of version 3 can't be written to {transport.folder}: No space left on device\. Make room"
    with pytest.raises(RunFailed, match=said):
        Publisher(chain.run_owner, transport).publish(Gathers(Full("weights")), 3)
    assert not (transport.folder / "v000003").exists()
