"""A courier's two roles over a communicator that is a queue: seals, damage, an early end, no room."""

from __future__ import annotations

import fcntl
import os
import queue
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor
from torch._C._distributed_c10d import HashStore

from courier import roles
from courier.frames import SEAL_BYTES, buckets_of
from courier.rendezvous import Settings
from courier.roles import OK, VOID, Void

pytestmark = pytest.mark.model

SETTINGS = Settings(
    epoch="e", type="gloo", host="here", port=0, rank=0, world=2, bucket_bytes=10, timeout_s=5.0
)
CONTENT = (b"0123456789abcdef", b"xyz")  # three buckets


class Wire:
    """A communicator from one sender to one receiver: the sender's frames, then the receiver's."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.is_sending = True

    def broadcast(self, frame: Tensor) -> None:
        if self.is_sending:
            self.frames.append(frame.numpy().tobytes())
        else:
            frame.numpy()[:] = list(self.frames.pop(0))


def sent(tmp_path: Path, *commands: Mapping[str, Any]) -> Wire:
    """What a sender puts on the wire of one round."""
    wire, waiting = Wire(), queue.SimpleQueue[Mapping[str, Any]]()
    for command in commands:
        waiting.put(command)
    paths = [tmp_path / str(number) for number in range(len(CONTENT))]
    for path, content in zip(paths, CONTENT, strict=True):
        path.write_bytes(content)
    sender = roles._Sender(SETTINGS, HashStore(), wire, waiting)
    sender.send(1, [str(path) for path in paths], [len(content) for content in CONTENT])
    return wire


def received(wire: Wire, number: int = 1) -> tuple[str, list[bytes]]:
    """Return the word of a receiver, and what it has staged."""
    wire.is_sending = False
    receiver = roles._Receiver(SETTINGS, wire, lambda *_, **__: None)
    word = receiver.take_part(number, [len(content) for content in CONTENT])
    staged = [os.pread(file, 100, 0) for file in receiver.staged]
    if word == OK:
        for file in receiver.staged:
            assert fcntl.fcntl(file, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE
    receiver.let_go()
    return word, staged


def test_buckets_are_bounded_and_belong_to_one_file() -> None:
    found = [(bucket.file, bucket.begin, bucket.size_bytes) for bucket in buckets_of([16, 3], 10)]
    assert found == [(0, 0, 10), (0, 10, 6), (1, 0, 3)]


def test_files_arrive_bit_for_bit_and_nobody_can_change_them_any_more(tmp_path: Path) -> None:
    assert received(sent(tmp_path)) == (OK, list(CONTENT))


@pytest.mark.parametrize("byte", [0, SEAL_BYTES, -1], ids=["seal", "first", "last"])
@pytest.mark.parametrize("frame", range(3))
def test_a_damaged_bucket_is_named_at_the_end(tmp_path: Path, frame: int, byte: int) -> None:
    wire = sent(tmp_path)
    damaged = bytearray(wire.frames[frame])
    damaged[byte] ^= 1
    wire.frames[frame] = bytes(damaged)
    word, _ = received(wire)
    assert word == f"bucket {frame} is damaged"
    assert wire.frames == []


def swap(wire: Wire) -> int:
    wire.frames[0], wire.frames[1] = wire.frames[1].ljust(26), wire.frames[0][:22]
    return 1


@pytest.mark.parametrize("disturb", [swap, lambda _: 2], ids=["another bucket", "another round"])
def test_a_bucket_of_another_place_is_damaged(tmp_path: Path, disturb: Callable[[Wire], int]) -> None:
    wire = sent(tmp_path)
    assert received(wire, disturb(wire))[0] == "bucket 0 is damaged"


def test_a_round_that_is_void_ends_for_all_at_the_next_bucket(tmp_path: Path) -> None:
    wire = Wire()
    waiting = queue.SimpleQueue[Mapping[str, Any]]()
    waiting.put({"void": 1})
    path = tmp_path / "file"
    path.write_bytes(CONTENT[0])
    with pytest.raises(Void):
        roles._Sender(SETTINGS, HashStore(), wire, waiting).send(1, [str(path)], [len(CONTENT[0])])
    assert len(wire.frames) == 1
    assert received(wire)[0] == VOID


def test_what_makes_an_older_round_void_leaves_a_newer_one_alone(tmp_path: Path) -> None:
    assert received(sent(tmp_path, {"void": 0})) == (OK, list(CONTENT))


def test_memory_without_room_spoils_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    wire = sent(tmp_path)
    monkeypatch.setattr(roles, "_write_from", full)
    assert received(wire)[0] == "there is no room for 10 bytes: No space left on device"
    assert wire.frames == []
