"""The seam of weights from learner to generators: a source that gathers them, and a transport that moves them.

In: a training backend that holds the weights. Out: for each version a place to announce. Rank 0 gathers between two
steps, and uses a transport during the training. The publisher announces; a transport only moves bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker.checksums import weights_checksum
from broker.messages import Announcement
from broker.weight_files import weight_files


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWeights:
    """The facts of a version's files, known without reading them again."""

    checksum: str  # XXH3 of the concatenated files, 128 bits, hex
    size_bytes: int  # of all files

    @classmethod
    def of(cls, folder: Path) -> SavedWeights:
        """Compute the checksum of the files in a folder, where it was not computed while writing."""
        files = weight_files(folder)
        return cls(checksum=weights_checksum(files), size_bytes=sum(file.stat().st_size for file in files))


class WeightHandle(Protocol):
    """The weights of one version, gathered on rank 0. A transport asks for the form it needs."""

    def save_weights(self, folder: Path) -> SavedWeights:
        """Write the weights into an existing folder, in `model.dtype`, fsynced. Any thread may call it.

        They are one safetensors file, or several and their index (`broker.weight_files`).
        """
        ...


class WeightSource(Protocol):
    """The holder of the trained weights."""

    def gather_weights(self) -> WeightHandle:
        """Copy the current weights into rank 0's memory. A collective of all ranks.

        The next step does not change the copy. The next gathering may overwrite it: release the former copy first.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The place of a version's weights, for the generators."""

    path: str  # announced path: a folder with safetensors, or a handle that is no folder
    checksum: str  # of these files, see `broker.checksums`
    size_bytes: int


class WeightTransport(Protocol):
    """A way of moving weights to the generators."""

    def start(self) -> None:
        """Start background work, if any. Called once, before the first version."""
        ...

    def put(self, weights: WeightHandle, version: int) -> Placed:
        """Store the weights of `version` where generators find them. Returns when they are complete there.

        The publisher's thread calls it while the learner trains, one version at a time. An earlier version with that
        number may be replaced: after a crash the same version is stored again.
        """
        ...

    def announced(self, announcement: Announcement) -> None:
        """Note that a version was announced; older versions may be removed. Must not wait."""
        ...

    def close(self) -> None:
        """Stop background work: no more versions come."""
        ...
