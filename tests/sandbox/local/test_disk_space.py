"""A machine without room: no disk, no descriptors. That is no program's doing, and says nothing of the walls."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import Permanent
from config.scorers import ScorersConfig
from sandbox.choice import build_sandbox
from sandbox.local import disk_space, supervisors
from sandbox.local.sandbox import LocalSandbox
from sandbox.program import Language, NoRoom, Program, SandboxUnavailable
from sandbox.remote.fusion import FusionSandbox
from sandbox.walls.seccomp import Walls
from tests.support.sandbox import fusion_fakes as fake

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

FULL = b"No space left on device"
LINKER = b"/usr/bin/ld: final link failed: %s\ncollect2: error: ld returned 1 exit status\n" % FULL
SAID = [
    LINKER,
    b"{standard input}: Fatal error: can't write 26 bytes to section .text of c.o: '%s'" % FULL,
    b"main.cpp:1:1: fatal error: error writing to /tmp/cc1.s: %s\ncompilation terminated." % FULL,
    b"cc1plus: fatal error: error closing /tmp/cc1.s: %s" % FULL,
    b"Cannot create temporary file in /tmp/: %s" % FULL,
]
MADE_UP = [
    b"main.cpp:1:2: error: #error %s" % FULL,
    b"main.cpp:1:15: error: static assertion failed: ld: final link failed: %s" % FULL,
    b"main.cpp:1:20: error: final link failed: %s" % FULL,
    b"    1 | #error ld: final link failed: %s" % FULL,
    b"main.cpp:1:10: fatal error: error a: %s: No such file or directory" % FULL,
]
IN_CPP = Program(language=Language.CPP, source=b"int main() {}")


@pytest.mark.parametrize(("stderr", "is_full"), [(said, said in SAID) for said in SAID + MADE_UP])
def test_a_compiler_without_disk_is_told_from_a_program_that_names_it(stderr: bytes, is_full: bool) -> None:
    assert disk_space.compiler_without_disk_space(stderr) is is_full


def test_a_server_whose_compiler_has_no_disk_is_in_trouble() -> None:
    said = {"status": "Finished", "return_code": 1, "stderr": LINKER.decode()}
    failed = {**fake.run(), "status": "Failed", "run_result": None, "compile_result": said}
    with fake.fake_servers(1) as (server,), closing(FusionSandbox([server.url], patience_s=0.1)) as sandbox:
        sandbox.self_test()
        server.behave = lambda request: fake.quick(request) if fake.is_probe(request) else failed
        with (
            sandbox.prepare(IN_CPP) as prepared,
            pytest.raises(SandboxUnavailable, match="no room for a compiler"),
        ):
            prepared.run()


@pytest.fixture
def unsafe() -> Iterator[LocalSandbox]:
    """With its scratch on the disk, on every machine."""
    with closing(LocalSandbox(Walls.UNSAFE)) as sandbox:
        assert sandbox.languages
        yield sandbox


@pytest.mark.parametrize("when", ["before the run", "after it"])
def test_a_program_on_a_full_disk_is_not_judged(
    unsafe: LocalSandbox, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    free = [0] if when == "before the run" else [1 << 30, 3 << 20]
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free.pop(0), f_frsize=1))
    with (
        unsafe.prepare(Program(language=Language.PYTHON, source=b"raise OSError(28)")) as prepared,
        pytest.raises(NoRoom, match="KiB are left on the disk"),
    ):
        prepared.run()
    assert free == []


@pytest.mark.skipif(not os.access("/usr/bin/g++", os.X_OK), reason="needs g++")
def test_a_local_compiler_without_disk_is_no_verdict(
    unsafe: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.local.toolchain.find_tool", lambda _: "/bin/sh")
    script = f"printf '%s' '{LINKER.decode()}' >&2; exit 1"
    execute = unsafe.execute
    monkeypatch.setattr(unsafe, "execute", lambda argv, **rest: execute(("/bin/sh", "-c", script), **rest))
    with pytest.raises(NoRoom, match="no room for a compiler"), unsafe.prepare(IN_CPP):
        raise AssertionError("it was prepared")


@pytest.mark.parametrize("walls", ["auto", "unsafe"])
@pytest.mark.parametrize("at", ["the first", "a later one"])
def test_walls_that_could_not_be_tried_for_want_of_room_are_not_missing(
    monkeypatch: pytest.MonkeyPatch, walls: str, at: str
) -> None:
    started: list[Any] = []
    real = supervisors.Supervisor

    def supervisor(base: Any) -> supervisors.Supervisor:
        started.append(base)
        if at == "the first" or len(started) > 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        one = real(base)
        monkeypatch.setattr(one, "run", lambda _order: (_ for _ in ()).throw(NoRoom("no more processes")))
        return one

    monkeypatch.setattr(supervisors, "Supervisor", supervisor)
    with pytest.raises(SandboxUnavailable) as caught:
        build_sandbox(ScorersConfig.model_validate({"sandbox": walls}))
    assert not isinstance(caught.value, Permanent)
