"""Read a version's weights on disk: one safetensors file, or several with an index.

In: a folder that the learner has written. Out: the files in their order, and their concatenated bytes as one stream.
Checksums, deltas and the relay work on the stream, so that they need not know the number of files. Used by the learner
and the generators.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Self

FILE = "model.safetensors"  # the name of a single file
INDEX = "model.safetensors.index.json"  # the file of each tensor; read by transformers and vLLM
PART = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")


def part_name(number: int, parts: int) -> str:
    """Return the name of a file, in transformers' scheme.

    Args:
        number: of the file, from 0.
        parts: number of files.
    """
    return FILE if parts == 1 else f"model-{number + 1:05}-of-{parts:05}.safetensors"


def weight_files(folder: Path) -> tuple[Path, ...]:
    """Return the files of the weights in a folder, in order.

    Raises:
        FileNotFoundError: files are missing.
    """
    parts = sorted(file for file in folder.glob("model-*-of-*.safetensors") if PART.fullmatch(file.name))
    wanted = [part_name(number, len(parts)) for number in range(len(parts))] if len(parts) > 1 else [FILE]
    for name in wanted:
        if not (folder / name).is_file():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder / name))
    return tuple(folder / name for name in wanted)


class WeightStream:
    """The concatenated bytes of files that are held open: they stay readable after their names are removed.

    Raises:
        OSError: a file can't be opened.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        with ExitStack() as opened:
            self._streams = [opened.enter_context(file.open("rb", buffering=0)) for file in files]
            self._ends = list(accumulate(os.fstat(stream.fileno()).st_size for stream in self._streams))
            self._opened = opened.pop_all()

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all files."""
        return self._ends[-1]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the descriptors of the open files, in order."""
        return tuple(stream.fileno() for stream in self._streams)

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """Return the bytes of each file, in order."""
        return tuple(end - begin for begin, end in zip([0, *self._ends], self._ends, strict=False))

    def read(self, size: int, at: int) -> bytes:
        """Return at most `size` bytes from position `at`; fewer only at the end."""
        data = bytearray(max(0, min(size, self.size_bytes - at)))
        view = memoryview(data)
        return bytes(view[: self.read_into(view, at)])

    def read_into(self, target: memoryview, at: int) -> int:
        """Fill `target` from position `at`, and return the number of bytes read."""
        done = 0
        while done < len(target):
            number = next((i for i, end in enumerate(self._ends) if at + done < end), None)
            if number is None:
                break
            begin = self._ends[number - 1] if number else 0
            view = target[done : done + self._ends[number] - at - done]
            count = os.preadv(self._streams[number].fileno(), [view], at + done - begin)
            if not count:  # the file was truncated
                break
            done += count
        return done

    def close(self) -> None:
        """Close the files."""
        self._opened.close()

    def __enter__(self) -> Self:
        """Return the stream, for a `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        self.close()
