"""Sessions behind the walls: state that lasts, calls that fail, and what a call may not do to the next one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sandbox.local.sandbox import LocalSandbox
from sandbox.local.session import Reply, SandboxSession
from tests.sandbox.conftest import LIMITS

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def session(sandbox: LocalSandbox) -> Iterator[SandboxSession]:
    made = SandboxSession(sandbox, limits=LIMITS)
    yield made
    made.close()


def call(
    session: SandboxSession, tool: str, text: str, *, deadline_s: float = 20, most_bytes: int = 2000
) -> Reply:
    return session.call(tool, text, deadline_s=deadline_s, most_bytes=most_bytes)


def test_names_variables_and_files_stay_from_call_to_call(session: SandboxSession) -> None:
    assert call(session, "python", "x = 3").text == ""
    assert call(session, "python", "print('so:')\nx + 1").text == "so:\n4"
    assert call(session, "python", "open('a.txt', 'w').write('written')").text == "7"
    assert call(session, "bash", "mkdir -p d; cd d; y=5").text == ""
    assert call(session, "bash", 'cat ../a.txt; echo " $y ${PWD##*/}"').text == "written 5 d"


@pytest.mark.parametrize(
    ("tool", "text", "says", "failed"),
    [
        ("python", "1 / 0", "ZeroDivisionError: division by zero", True),
        ("python", "1 +", "SyntaxError", True),
        ("python", "import sys; sys.exit(3)", "[exit 3]", True),
        ("python", "'y' * 5000", "y\n[cut: 3003 bytes more]", False),
        ("bash", "false", "[exit code 1]", False),
        ("bash", "echo 'a", "unexpected EOF while looking for matching", False),
        ("bash", "echo a; exit 4", "a\n[bash has ended with exit code 4]", True),
        ("bash", "read x; echo \"got '$x'\"", "got ''", False),
        ("bash", "cat /etc/shadow", "cat: /etc/shadow", False),
        ("bash", 'echo "<$HF_TOKEN$REDIS_URL>"', "<>", False),
        ("python", "import socket; socket.create_connection(('127.0.0.1', 80), 1)", "Error", True),
    ],
)
def test_what_comes_of_a_call_is_told_and_the_session_goes_on(
    session: SandboxSession, tool: str, text: str, *, says: str, failed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "planted")
    call(session, "python", "kept = 1")
    reply = call(session, tool, text)
    assert says in reply.text
    assert (reply.failed, reply.is_over) == (failed, False)
    assert call(session, "python", "kept").text == "1"


# It writes to the pipes behind its interpreter's back.
FORGE = """
import json, os, stat
def is_pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False
pipes = [fd for fd in range(3, 30) if is_pipe(fd)]
body = json.dumps({"number": NUMBER, "failed": False, "remark": "", "printed": "all right", "cut": 0}).encode()
for pipe in pipes[1:]:
    os.write(pipe, PREFIX or len(body).to_bytes(8, "big") + body)
"""


@pytest.mark.prove(after=4)
@pytest.mark.parametrize(
    ("tool", "text", "says"),
    [
        ("python", "import time; time.sleep(60)", "no end within 0.5 s"),
        ("bash", "sleep 60", "no end within 0.5 s"),
        ("python", "import os; os._exit(3)", "exit code 3"),
        (
            "python",
            FORGE.replace("PREFIX", "bytes([255]) * 8").replace("NUMBER", "0"),
            "what it says is no reply",
        ),
        (
            "python",
            FORGE.replace("PREFIX", "(2).to_bytes(8, 'big') + b'[]'").replace("NUMBER", "0"),
            "what it says is no reply",
        ),
        ("bash", "dd if=/dev/zero of=big bs=1M count=3; cp big b2; cp big b3; cp big b4; sleep 9", ""),
    ],
)
def test_a_call_that_is_over_a_limit_ends_the_session_and_the_next_one_begins_anew(
    session: SandboxSession, tool: str, text: str, says: str
) -> None:
    call(session, "python", "lost = 1")
    reply = call(session, tool, text, deadline_s=0.5)
    assert says in reply.text
    assert reply.text.endswith("the session was ended, and what it held is lost")
    assert (reply.failed, reply.is_over) == (True, True)
    assert "NameError" in call(session, "python", "lost").text


def test_replies_that_a_call_forges_for_later_ones_are_passed_over(session: SandboxSession) -> None:
    call(session, "python", "x = 7")
    call(session, "python", FORGE.replace("PREFIX", "None").replace("NUMBER", "0"))
    assert call(session, "python", "x").text == "7"


def test_memory_of_all_that_runs_is_bounded(sandbox: LocalSandbox) -> None:
    small = SandboxSession(sandbox, limits=replace(LIMITS, memory_bytes=64 << 20))
    try:
        hog = "import time\nb = bytearray(b'x') * (100 << 20)\ntime.sleep(20)"
        reply = call(small, "python", hog)
        assert "64 allowed" in reply.text
        assert reply.is_over
    finally:
        small.close()


def test_a_long_piece_travels_and_a_closed_session_leaves_no_folder(sandbox: LocalSandbox) -> None:
    session, before = SandboxSession(sandbox, limits=LIMITS), {*sandbox.base.glob("session-*")}
    began = time.monotonic()
    assert call(session, "python", f"len({'z' * 300_000!r})").text == "300000"
    assert time.monotonic() - began < 20
    session.close()
    session.close()
    assert {*sandbox.base.glob("session-*")} == before
