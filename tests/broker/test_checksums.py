"""A checksum is of the kind of the one that it is compared with: journals outlive a change of the kind."""

from __future__ import annotations

import hashlib
from pathlib import Path

import xxhash

from broker.checksums import BLOCK_BYTES, file_checksum, weights_checksum, weights_digest


def test_a_file_of_several_blocks_has_the_checksum_of_its_bytes(tmp_path: Path) -> None:
    content = bytes(range(251)) * (BLOCK_BYTES // 251 + 2)
    (tmp_path / "file").write_bytes(content)
    digest = weights_digest()
    digest.update(content[:1000])
    digest.update(memoryview(content)[1000:])
    assert weights_checksum([tmp_path / "file"]) == digest.hexdigest() == xxhash.xxh3_128(content).hexdigest()
    assert file_checksum(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_weights_whose_checksum_was_recorded_as_sha256_are_compared_by_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"weights")
    older = hashlib.sha256(b"weights").hexdigest()
    assert weights_checksum([tmp_path / "file"], like=older) == older
    newer = weights_checksum([tmp_path / "file"])
    assert weights_checksum([tmp_path / "file"], like=newer) == newer
