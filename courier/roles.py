"""A courier's two roles: the learner's sends the files of a version, and a generator's stages them in memory.

In: commands of the parent. Out: events. A round is one pass over all buckets, and ends with a word of each receiver in
the store, so that no round begins before all have seen the end of the one before. A receiver that can't use what
arrives takes part to the end all the same: the others can. A staged file is sealed: nobody changes it any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import time
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import Store

from courier.communicators import Communicator, connect, new_frame
from courier.frames import SEAL_BYTES, Bucket, buckets_of, place_of, seal, void_seal
from courier.rendezvous import Emit, Settings, meet_as_receiver, meet_as_sender

PROGRESS_S = 0.5  # between two `progress` events
OK, VOID = "ok", "void"  # what a receiver says at the end of a round; all else is a reason

Commands = queue.SimpleQueue[Mapping[str, Any]]


class Void(Exception):
    """The round is to end early."""


def send(settings: Settings, commands: Commands, emit: Emit) -> None:
    """Connect, and send a version at each command.

    Raises:
        OSError: a file can't be read.
        RuntimeError: somebody does not answer in time.
    """
    store = meet_as_sender(settings, emit)
    sender = _Sender(settings, store, connect(store, settings), commands)
    emit("open")
    while True:
        command = commands.get()
        if "round" not in command:
            continue  # a round that is over can't be made void
        number = int(command["round"])
        try:
            sent = sender.send(number, command["paths"], command["sizes"])
        except Void:
            emit("void", round=number, said=sender.words_of(number))
        else:
            emit("sent", round=number, bytes=sent, said=sender.words_of(number))


def receive(settings: Settings, commands: Commands, emit: Emit) -> None:
    """Connect, and take part in a round at each command.

    Raises:
        RuntimeError: the sender does not answer in time, or a peer has gone.
    """
    store = meet_as_receiver(settings, emit)
    receiver = _Receiver(settings, connect(store, settings), emit)
    emit("open")
    while True:
        command = commands.get()
        if "taken" in command:
            receiver.let_go()
            continue
        number = int(command["round"])
        word = receiver.take_part(number, command["sizes"])
        store.set(f"word/{number}/{settings.rank}", word)
        if word == OK:
            emit("staged", round=number, descriptors=receiver.staged)
        else:
            receiver.let_go()
            emit("void" if word == VOID else "spoiled", round=number, reason=word)


class _Sender:
    """Sends files in frames."""

    def __init__(
        self, settings: Settings, store: Store, communicator: Communicator, commands: Commands
    ) -> None:
        self._settings = settings
        self._store = store
        self._communicator = communicator
        self._commands = commands
        self._frame = new_frame(settings)
        self._bytes = memoryview(self._frame.numpy().data)

    def send(self, number: int, paths: Sequence[str], sizes: Sequence[int]) -> int:
        """Send every bucket of the files, and return how many bytes they have.

        Raises:
            Void: a command has ended the round; the receivers know.
        """
        with contextlib.ExitStack() as opened:
            files = [opened.enter_context(open(path, "rb", buffering=0)) for path in paths]  # noqa: PTH123
            for bucket in buckets_of(sizes, self._settings.bucket_bytes):
                place = place_of(self._settings.epoch, number, bucket)
                data = self._bytes[SEAL_BYTES : SEAL_BYTES + bucket.size_bytes]
                is_void = self._is_void(number)
                if not is_void:
                    _read_into(data, files[bucket.file].fileno(), bucket)
                self._bytes[:SEAL_BYTES] = void_seal(place) if is_void else seal(place, data)
                self._communicator.broadcast(self._frame[: SEAL_BYTES + bucket.size_bytes])
                if is_void:
                    raise Void
        return sum(sizes)

    def words_of(self, number: int) -> list[str]:
        """Wait for the word of every receiver, and return them in the order of their ranks."""
        keys = [f"word/{number}/{rank}" for rank in range(1, self._settings.world)]
        self._store.wait(keys, self._settings.timeout)
        words = [self._store.get(key).decode() for key in keys]
        for key in keys:
            self._store.delete_key(key)
        return words

    def _is_void(self, number: int) -> bool:
        with contextlib.suppress(queue.Empty):
            return self._commands.get_nowait().get("void") == number
        return False


class _Receiver:
    """Stages files that arrive in frames."""

    def __init__(self, settings: Settings, communicator: Communicator, emit: Emit) -> None:
        self._settings = settings
        self._communicator = communicator
        self._emit = emit
        self._frame: Tensor = new_frame(settings)
        self._bytes = memoryview(self._frame.numpy().data)
        self.staged: list[int] = []  # descriptors of the files in memory

    def take_part(self, number: int, sizes: Sequence[int]) -> str:
        """Receive every bucket of a round into new files, and return OK, VOID, or what was wrong with them."""
        self.let_go()
        self.staged = [
            os.memfd_create(f"millrace-weights-{file}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            for file in range(len(sizes))
        ]
        wrong, said_at, arrived = "", time.monotonic(), 0
        for bucket in buckets_of(sizes, self._settings.bucket_bytes):
            self._communicator.broadcast(self._frame[: SEAL_BYTES + bucket.size_bytes])
            found = self._take(number, bucket)
            if found == VOID:
                return VOID
            wrong = wrong or found
            arrived += bucket.size_bytes
            if time.monotonic() - said_at > PROGRESS_S:
                said_at = time.monotonic()
                self._emit("progress", round=number, bytes=arrived)
        if not wrong:
            for descriptor in self.staged:
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK)
        return wrong or OK

    def let_go(self) -> None:
        """Close the staged files: the parent has them open, or nobody wants them."""
        for descriptor in self.staged:
            os.close(descriptor)
        self.staged = []

    def _take(self, number: int, bucket: Bucket) -> str:
        """Compare a frame's seal and keep its bytes; return what is wrong, "" where nothing is."""
        place = place_of(self._settings.epoch, number, bucket)
        data = self._bytes[SEAL_BYTES : SEAL_BYTES + bucket.size_bytes]
        found = bytes(self._bytes[:SEAL_BYTES])
        if found == void_seal(place):
            return VOID
        if found != seal(place, data):
            return f"bucket {bucket.number} is damaged"
        try:
            _write_from(data, self.staged[bucket.file], bucket)
        except OSError as error:
            return f"there is no room for {bucket.begin + bucket.size_bytes} bytes: {error.strerror}"
        return ""


def _read_into(data: memoryview, descriptor: int, bucket: Bucket) -> None:
    done = 0
    while done < len(data):
        if not (count := os.preadv(descriptor, [data[done:]], bucket.begin + done)):
            raise OSError(f"a file of the version ends before byte {bucket.begin + len(data)}")
        done += count


def _write_from(data: memoryview, descriptor: int, bucket: Bucket) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], bucket.begin + done)
