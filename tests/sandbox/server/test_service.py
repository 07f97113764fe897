"""The sandbox as a service: a process of its own, over real sockets, with whatever walls this machine has."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from config.endpoint import is_loopback
from sandbox.limits import Limits
from sandbox.program import Ending, Language, Program, ProgramOutcome, SandboxUnavailable
from sandbox.remote.fusion import FusionSandbox
from scorers.__main__ import main
from scorers.sandbox_service import serve
from tests.support.forked_program import fork_main
from tests.support.sandbox.service_process import READY_S, Service, descendants
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all tests, which runs one program at a time; the last test ends it."""
    with closing(Service(1, tmp_path_factory.mktemp("service") / "log")) as running:
        yield running


@pytest.fixture(scope="module")
def fusion(service: Service) -> Iterator[FusionSandbox]:
    with closing(FusionSandbox([service.url])) as sandbox:
        yield sandbox


def run(
    sandbox: FusionSandbox,
    source: str,
    stdin: bytes = b"",
    limits: Limits | None = None,
    files: Mapping[str, bytes] = MappingProxyType({}),
) -> ProgramOutcome:
    with sandbox.prepare(Program(language=Language.PYTHON, source=source.encode(), files=files)) as prepared:
        assert prepared.failure is None
        return prepared.run(stdin, limits)


def asked(fields: dict[str, Any]) -> bytes:
    """Return a request with these fields."""
    return json.dumps({"code": "", "language": "python", **fields}).encode()


def test_it_is_healthy_and_says_what_it_serves(service: Service) -> None:
    assert httpx.get(f"{service.url}/v1/ping").json() == "pong"
    health = service.health()
    assert (health["status"], health["workers"], health["running"], health["waiting"]) == ("ready", 1, 0, 0)
    assert health["sandbox"] in ("bubblewrap", "landlock")
    assert "python" in health["languages"]
    assert health["probed_s_ago"] < READY_S


def test_a_reply_is_sandboxfusions(service: Service) -> None:
    reply = service.run_code("import sys; print(input()); sys.exit(3)", stdin="hi").json()
    assert (reply["status"], reply["compile_result"], reply["files"]) == ("Failed", None, {})
    result = reply["run_result"]
    ended = {"status": "Finished", "return_code": 3, "stdout": "hi\n", "stderr": ""}
    assert {key: result[key] for key in ended} == ended
    assert 0 < result["execution_time"] < 10
    late = service.run_code("while True: pass", run_timeout=0.5).json()
    over = late["run_result"]["status"], late["run_result"]["return_code"]
    assert (late["status"], *over) == ("Failed", "TimeLimitExceeded", None)
    assert service.run_code("pass").json()["status"] == "Success"


IN_A_THREAD = "import threading; t = threading.Thread(target=print, args=['t']); t.start(); t.join()"


@pytest.mark.parametrize(
    ("source", "limits", "ended", "stdout"),
    [
        ("print(input())", Limits(), (Ending.EXITED, 0), b"hello\n"),
        ("raise SystemExit(7)", Limits(), (Ending.EXITED, 7), b""),
        ("import os; os.abort()", Limits(), (Ending.SIGNALLED, -signal.SIGABRT), b""),
        ("while True: pass", Limits(wall_s=0.5), (Ending.TIME, None), b""),
        ("import os; os.write(1, b'\\xff\\x00')", Limits(), (Ending.EXITED, 0), b"\xff\x00"),
        ("print('x' * 300000)", Limits(), (Ending.EXITED, 0), b"x" * 300000 + b"\n"),
        ("print('x' * 3000)", Limits(output_bytes=1000), (Ending.OUTPUT, None), b"x" * 1000),
        (
            "x = bytearray(900 << 20); x[::4096] = b'1' * len(x[::4096])",
            Limits(memory_bytes=128 << 20),
            None,
            b"",
        ),
        (IN_A_THREAD, Limits(), (Ending.EXITED, 0), b"t\n"),
    ],
)
def test_our_client_learns_from_our_server_exactly_how_a_program_ended(
    fusion: FusionSandbox, source: str, limits: Limits, ended: tuple[Ending, int | None] | None, stdout: bytes
) -> None:
    outcome = run(fusion, source, b"hello\n", limits)
    assert outcome.stdout == stdout
    if ended is None:  # a refused allocation, or killed over it
        refused = outcome.exit_code == 1 and b"MemoryError" in outcome.stderr
        assert outcome.ending is Ending.MEMORY or refused
    else:
        assert (outcome.ending, outcome.exit_code) == ended


def test_files_stand_beside_the_program(fusion: FusionSandbox) -> None:
    data = "open(os.path.join(os.path.dirname(__file__), 'folder/data.bin'), 'rb').read()"
    files = {"near.py": b"A = 1", "folder/data.bin": b"\xff"}
    outcome = run(fusion, f"import near, os; print(near.A, {data})", files=files)
    assert outcome.stdout == b"1 b'\\xff'\n", outcome.stderr


def test_a_program_has_no_network_and_nothing_of_the_service(service: Service) -> None:
    port = int(service.url.rpartition(":")[2])
    source = f"""
import os, socket
print(sorted(os.environ))
try:
    socket.create_connection(("127.0.0.1", {port}), 1)
except OSError as error:
    print("no network")
"""
    reply = service.run_code(source).json()
    assert reply["run_result"]["stdout"].endswith("no network\n"), reply
    assert "PYTEST" not in reply["run_result"]["stdout"]  # which this test's process has


ODD_FIELDS: list[tuple[str, list[Any]]] = [
    ("code", [1, None]),
    ("language", ["go", ["python"]]),
    ("stdin", [5]),
    ("run_timeout", [-1, 0, 1e9, "soon"]),
    ("compile_timeout", ["inf"]),
    ("memory_limit_MB", ["much", 10**30]),
    ("files", [{"../up": ""}, {"/etc/x": ""}, {"": ""}, {"a\0b": ""}, {"a": "no base64!"}, "a", {".": ""}]),
    (
        "files",
        [
            {"a": "", "a/b": ""},
            {"main.py/a": ""},
            {"a" * 256: ""},
            {"ab/" * 350 + "c": ""},
            {"a": "", "./a": ""},
        ],
    ),
    ("fetch_files", [["out.txt"]]),
]
NO_REQUESTS = [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000]
HALF_A_PAIR = [asked({"code": "\ud800"}), asked({"stdin": "\udfff"})]


@pytest.mark.parametrize(
    ("content", "where"),
    [
        *((content, "") for content in NO_REQUESTS + HALF_A_PAIR),
        *((asked({name: value}), name) for name, values in ODD_FIELDS for value in values),
    ],
)
def test_what_can_not_be_run_is_refused_by_name(service: Service, content: bytes, where: str) -> None:
    answer = service.http.post("/run_code", content=content, headers=JSON)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"]
    assert all(where in detail["loc"] or not where for detail in answer.json()["detail"])


@pytest.mark.parametrize(
    "fields",
    [
        {"stdin": None, "files": {}, "fetch_files": [], "a_newer_field": 1},
        {"memory_limit_MB": -1, "files": {"ignored.txt": None}},
    ],
)
def test_what_sandboxfusions_clients_send_is_taken(service: Service, fields: dict[str, object]) -> None:
    assert service.run_code("print('ok')", **fields).json()["run_result"]["stdout"] == "ok\n"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/run_code", 405), ("GET", "/", 404), ("POST", "/run_jupyter", 501), ("POST", "/submit", 422)],
)
def test_what_is_not_offered_is_said(service: Service, method: str, path: str, status: int) -> None:
    assert service.http.request(method, path, headers=JSON).status_code == status


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
@pytest.mark.parametrize("path", ["/run_code", "/submit"])
def test_what_a_web_page_may_have_a_browser_send_is_refused(
    service: Service, path: str, kind: str | None
) -> None:
    headers = {} if kind is None else {"content-type": kind}
    answer = service.http.post(path, content=asked({}), headers=headers)
    assert answer.status_code == 415
    assert "application/json" in answer.json()["detail"]


@pytest.mark.prove
def test_a_compiler_has_the_time_that_the_client_gives_it(service: Service) -> None:
    if "cpp" not in service.health()["languages"]:
        pytest.skip("no g++ on this machine")
    everything = "#include <bits/stdc++.h>\nint main() {}"
    slow = service.run_code(everything, language="cpp", compile_timeout=0.1).json()
    over = slow["status"], slow["compile_result"]["status"], slow["run_result"]
    assert over == ("Failed", "TimeLimitExceeded", None)
    wrong = service.run_code("int main( {", language="cpp").json()
    assert (wrong["compile_result"]["return_code"], wrong["run_result"]) == (1, None)
    assert "error" in wrong["compile_result"]["stderr"]
    right = service.run_code('#include <cstdio>\nint main() { puts("made"); }', language="cpp").json()
    assert right["run_result"]["stdout"] == "made\n"


def test_a_request_that_is_too_large_is_refused_before_it_is_read(service: Service) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(48):
            yield b" " * (1 << 20)

    try:
        answer = httpx.post(f"{service.url}/run_code", content=endless(), headers=JSON, timeout=30)
        status = answer.status_code
    except httpx.TransportError:  # it closed while we still wrote
        status = 413
    assert status == 413
    assert service.run_code("print(1)").json()["status"] == "Success"


@pytest.mark.prove
def test_a_taken_port_and_bad_words_end_it_with_a_reason(service: Service, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as stream:
        words = ["sandbox", "--port", service.url.rpartition(":")[2]]
        done = fork_main(main, words, env=os.environ, stderr=stream)
    assert done.wait(READY_S) == 1
    assert "address already in use" in (tmp_path / "log").read_text()
    for words in (["--workers", "0"], ["--sandbox", "gvisor"], ["--port", "65536"]):
        with pytest.raises(SystemExit) as caught:
            serve(words)
        assert caught.value.code == 2


def test_only_loopback_is_not_worth_a_warning() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "sandbox")))


def test_a_client_that_goes_away_takes_its_program_with_it(service: Service) -> None:
    body = asked({"code": "import time; time.sleep(60)", "run_timeout": 100})
    with socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2]))) as client:
        client.sendall(
            b"POST /run_code HTTP/1.1\r\nHost: sandbox\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        wait_until(lambda: service.health()["running"] == 1)
    wait_until(lambda: service.health()["running"] == 0)
    wait_until(lambda: descendants(service.process.pid) == [])


@pytest.mark.prove
def test_a_killed_process_is_no_result_and_the_next_call_works(service: Service) -> None:
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(service.run_code, "import time; time.sleep(20)", run_timeout=30)
        wait_until(lambda: service.health()["running"] == 1 and service.runners != [])
        os.kill(service.runners[0], signal.SIGKILL)
        reply = answer.result(timeout=10).json()
    assert (reply["status"], reply["run_result"]) == ("SandboxError", None)
    assert service.run_code("print(1)").json()["status"] == "Success"


def test_sigterm_lets_the_runs_end_and_leaves_nothing(service: Service) -> None:
    """The last test of this service."""
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(service.run_code, "import time; time.sleep(0.5); print('whole')")
        wait_until(lambda: service.health()["running"] == 1)
        (runner,) = service.runners
        service.process.terminate()
        assert answer.result(timeout=10).json()["run_result"]["stdout"] == "whole\n"
        assert service.process.wait(timeout=10) == 0
        assert not Path(f"/proc/{runner}").exists()
        with (
            closing(FusionSandbox([service.url])) as fusion,
            pytest.raises(SandboxUnavailable, match="no connection"),
        ):
            fusion.self_test()
