"""This module reads a version's weights on disk: one safetensors file, or several, in which case an index lies beside.

In: a folder that the learner has written. Out: the files in their order, and their bytes as one stream, file behind
file. Checksums, deltas and what travels through the relay are those of the stream, so that they need not know how many
files there are. Used by both ends of the weights' way.
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

FILE = "model.safetensors"  # where one file has everything
INDEX = (
    "model.safetensors.index.json"  # says which file of several has a tensor; transformers and vLLM read it
)
PART = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")


def part_name(number: int, parts: int) -> str:
    """Return the name of a file, as transformers has it.

    Args:
        number: of the file, from 0.
        parts: all files.
    """
    return FILE if parts == 1 else f"model-{number + 1:05}-of-{parts:05}.safetensors"


def weight_files(folder: Path) -> tuple[Path, ...]:
    """Return the files of the weights in a folder, in order.

    Raises:
        FileNotFoundError: there are none, or not all.
    """
    parts = sorted(file for file in folder.glob("model-*-of-*.safetensors") if PART.fullmatch(file.name))
    wanted = [part_name(number, len(parts)) for number in range(len(parts))] if len(parts) > 1 else [FILE]
    for name in wanted:
        if not (folder / name).is_file():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder / name))
    return tuple(folder / name for name in wanted)


class WeightStream:
    """The bytes of files one behind another, held open: they stay readable when their names are gone.

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
        """Return how many bytes all files have."""
        return self._ends[-1]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the open files', in order."""
        return tuple(stream.fileno() for stream in self._streams)

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """Return how many bytes each file has, in order."""
        return tuple(end - begin for begin, end in zip([0, *self._ends], self._ends, strict=False))

    def read(self, size: int, at: int) -> bytes:
        """Return at most `size` bytes from byte `at` on; fewer only at the end."""
        data = bytearray(max(0, min(size, self.size_bytes - at)))
        view = memoryview(data)
        return bytes(view[: self.read_into(view, at)])

    def read_into(self, target: memoryview, at: int) -> int:
        """Fill `target` from byte `at` on, and return how many bytes there were."""
        done = 0
        while done < len(target):
            number = next((i for i, end in enumerate(self._ends) if at + done < end), None)
            if number is None:
                break
            begin = self._ends[number - 1] if number else 0
            view = target[done : done + self._ends[number] - at - done]
            count = os.preadv(self._streams[number].fileno(), [view], at + done - begin)
            if not count:  # it has become shorter
                break
            done += count
        return done

    def close(self) -> None:
        """Let the files go."""
        self._opened.close()

    def __enter__(self) -> Self:
        """Return the stream, for a `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let the files go."""
        self.close()
