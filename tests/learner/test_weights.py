"""New weights on disk."""

from __future__ import annotations

from pathlib import Path

from learner.weights import Publisher
from tests.learner.chain import Chain, FilePolicy


def test_a_version_is_whole_before_it_has_its_name(chain: Chain) -> None:
    publisher = Publisher(chain.run, chain.ownership)
    seen: list[list[str]] = []

    class Looks(FilePolicy):
        def save_weights(self, file: Path) -> None:
            seen.append(sorted(path.name for path in publisher.folder.iterdir()))
            super().save_weights(file)
    leftover = publisher.folder / "v000001.tmp"
    leftover.mkdir(parents=True)
    (leftover / "half").write_text("of a crash")
    publisher.publish(Looks(), 1)
    assert seen == [["v000001.tmp"]]
    assert sorted(path.name for path in (publisher.folder / "v000001").iterdir()) == ["model.safetensors"]


def test_versions_that_nobody_can_need_are_removed_and_nothing_else(chain: Chain) -> None:
    publisher = Publisher(chain.run, chain.ownership)
    for name in ("v000001.tmp", "notes", "vocabulary"):
        (publisher.folder / name).mkdir(parents=True)
    for version in range(5):
        publisher.publish(FilePolicy(), version)
    assert {path.name for path in publisher.folder.iterdir()} == {"v000003", "v000004", "notes", "vocabulary"}
