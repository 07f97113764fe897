"""The seam of the weights' way to the generators: a source that gathers them, and a transport that moves them.

In: a training backend that holds the weights. Out: for each version a place that generators are told of. Rank 0 gathers
between two steps, and uses a transport beside the training. The publisher announces; a transport only moves bytes.
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
    """What the files of a version hold; known when they have been written, without reading them again."""

    checksum: str  # XXH3 of the files one behind another, 128 bits, hex
    size_bytes: int  # of all

    @classmethod
    def of(cls, folder: Path) -> SavedWeights:
        """Read the files in a folder for their checksum, where they were not hashed while they were written."""
        files = weight_files(folder)
        return cls(checksum=weights_checksum(files), size_bytes=sum(file.stat().st_size for file in files))


class WeightHandle(Protocol):
    """The weights of one version, gathered on rank 0. A transport asks for the form that it moves."""

    def save_weights(self, folder: Path) -> SavedWeights:
        """Write the weights into a folder that is there, in `model.dtype`, fsynced. Any thread may call it.

        They are one safetensors file, or several and their index (`broker.weight_files`).
        """
        ...


class WeightSource(Protocol):
    """What holds the weights that are trained."""

    def gather_weights(self) -> WeightHandle:
        """Copy the weights as they are now into rank 0's memory. A collective of all ranks.

        The next step changes nothing of the copy. The next gathering may overwrite it: a caller lets the former copy go
        first.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The place of a version's weights, for the generators."""

    path: str  # what the announcement names: a folder with safetensors, or a handle that no folder has
    checksum: str  # of these files, see `broker.checksums`
    size_bytes: int


class WeightTransport(Protocol):
    """A way of the weights to the generators."""

    def start(self) -> None:
        """Begin what runs beside the training, if anything does. Called once, before the first version."""
        ...

    def put(self, weights: WeightHandle, version: int) -> Placed:
        """Put the weights of `version` where generators find them. Returns when they are whole there.

        The publisher's thread calls it while the learner trains, one version at a time. A place that a version has had
        may be replaced: after a crash the same version is put again.
        """
        ...

    def announced(self, announcement: Announcement) -> None:
        """Take note that generators have been told of a version; older versions may go. Must not wait."""
        ...

    def close(self) -> None:
        """End what runs beside the training: no more versions come."""
        ...
