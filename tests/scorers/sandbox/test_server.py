"""The sandbox as a service: a process of its own, over real sockets, with whatever walls this machine has."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from scorers.sandbox.fusion import FusionSandbox
from scorers.sandbox.program import Ending, Language, Limits, Outcome, Program, SandboxUnavailable
from scorers.sandbox.command import _is_loopback

ROOT = Path(__file__).resolve().parents[3]
READY_S = 30.0


class Service:
    """`python -m scorers sandbox`, ready."""

    def __init__(self, workers: int, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "scorers", "sandbox", "--port", str(port), "--workers", str(workers)],
                cwd=ROOT, stderr=sink)
        deadline = time.monotonic() + READY_S
        while not self.is_ready():
            if self.process.poll() == 1:
                pytest.skip(f"no walls on this machine: {log.read_text().splitlines()[-1]}")
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health").status_code == 200
        except httpx.TransportError:
            return False

    def run_code(self, code: str, **fields: Any) -> httpx.Response:
        body = {"code": code, "language": "python", **fields}
        return httpx.post(f"{self.url}/run_code", json=body, timeout=30)

    def health(self) -> dict[str, Any]:
        answer: dict[str, Any] = httpx.get(f"{self.url}/health").json()
        return answer

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def service_of(workers: int, folder: Path) -> Iterator[Service]:
    service = Service(workers, folder / "service.log")
    try:
        yield service
    finally:
        service.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all tests that leave it as it is."""
    with service_of(2, tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One that runs one program at a time, for tests that mistreat it."""
    with service_of(1, tmp_path_factory.mktemp("single")) as running:
        yield running


@pytest.fixture(scope="module")
def fusion(service: Service) -> Iterator[FusionSandbox]:
    sandbox = FusionSandbox([service.url])
    yield sandbox
    sandbox.close()


def run(sandbox: FusionSandbox, source: str, stdin: bytes = b"", limits: Limits | None = None, **files: bytes
        ) -> Outcome:
    with sandbox.prepare(Program(language=Language.PYTHON, source=source.encode(), files=files)) as prepared:
        assert prepared.failure is None
        return prepared.run(stdin, limits)


def descendants(pid: int) -> list[str]:
    """Command lines of all processes under one."""
    tasks = Path(f"/proc/{pid}/task")
    found: list[str] = []
    for children in tasks.glob("*/children"):
        for child in children.read_text().split():
            try:
                line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            found += [line, *descendants(int(child))]
    return found


def wait_until(condition: Any, seconds: float = 8.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_is_healthy_and_says_what_it_serves(service: Service) -> None:
    assert httpx.get(f"{service.url}/v1/ping").json() == "pong"
    health = service.health()
    assert (health["status"], health["workers"], health["running"], health["waiting"]) == ("ready", 2, 0, 0)
    assert health["sandbox"] in ("bubblewrap", "landlock")
    assert "python" in health["languages"]
    assert health["probed_s_ago"] < READY_S


def test_a_reply_is_sandboxfusions(service: Service) -> None:
    reply = service.run_code("import sys; print(input()); sys.exit(3)", stdin="hi").json()
    assert (reply["status"], reply["compile_result"], reply["files"]) == ("Failed", None, {})
    result = reply["run_result"]
    assert {key: result[key] for key in ("status", "return_code", "stdout", "stderr")} == {
        "status": "Finished", "return_code": 3, "stdout": "hi\n", "stderr": ""}
    assert 0 < result["execution_time"] < 10
    late = service.run_code("while True: pass", run_timeout=0.5).json()
    assert (late["status"], late["run_result"]["status"], late["run_result"]["return_code"]) == (
        "Failed", "TimeLimitExceeded", None)
    assert service.run_code("pass").json()["status"] == "Success"


@pytest.mark.parametrize(("source", "limits", "ended", "stdout"), [
    ("print(input())", Limits(), (Ending.EXITED, 0), b"hello\n"),
    ("raise SystemExit(7)", Limits(), (Ending.EXITED, 7), b""),
    ("import os; os.abort()", Limits(), (Ending.SIGNALLED, -signal.SIGABRT), b""),
    ("while True: pass", Limits(wall_s=0.5), (Ending.TIME, None), b""),
    ("import os; os.write(1, b'\\xff\\x00')", Limits(), (Ending.EXITED, 0), b"\xff\x00"),
    ("print('x' * 300000)", Limits(), (Ending.EXITED, 0), b"x" * 300000 + b"\n"),
    ("print('x' * 3000)", Limits(output_bytes=1000), (Ending.OUTPUT, None), b"x" * 1000),
    ("x = bytearray(900 << 20); x[::4096] = b'1' * len(x[::4096])", Limits(memory_bytes=128 << 20), None, b""),
    ("import threading; t = threading.Thread(target=print, args=['t']); t.start(); t.join()",
     Limits(), (Ending.EXITED, 0), b"t\n"),
])
def test_our_client_learns_from_our_server_exactly_how_a_program_ended(
        fusion: FusionSandbox, source: str, limits: Limits, ended: tuple[Ending, int | None] | None, stdout: bytes,
) -> None:
    outcome = run(fusion, source, b"hello\n", limits)
    assert outcome.stdout == stdout
    if ended is None:       # a refused allocation, or killed over it
        assert outcome.ending is Ending.MEMORY or (outcome.exit_code == 1 and b"MemoryError" in outcome.stderr)
    else:
        assert (outcome.ending, outcome.exit_code) == ended


def test_files_stand_beside_the_program(fusion: FusionSandbox) -> None:
    outcome = run(fusion, "import near, os; print(near.A, "
                  "open(os.path.join(os.path.dirname(__file__), 'folder/data.bin'), 'rb').read())",
                  **{"near.py": b"A = 1", "folder/data.bin": b"\xff"})
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
    assert "PYTEST" not in reply["run_result"]["stdout"]        # which this test's process has


@pytest.mark.parametrize(("body", "where"), [
    (b"", ""), (b"{", ""), (b"[]", ""), (b"null", ""), (b"\xff\xfe", ""), (b"[" * 100_000, ""),
    ({"code": 1}, "code"), ({"code": None}, "code"), ({"code": "\ud800"}, ""),
    ({"language": "go"}, "language"), ({"language": ["python"]}, "language"),
    ({"stdin": 5}, "stdin"), ({"stdin": "\udfff"}, ""),
    ({"run_timeout": -1}, "run_timeout"), ({"run_timeout": 0}, "run_timeout"), ({"run_timeout": 1e9}, "run_timeout"),
    ({"run_timeout": "soon"}, "run_timeout"), ({"compile_timeout": "inf"}, "compile_timeout"),
    ({"memory_limit_MB": "much"}, "memory_limit_MB"), ({"memory_limit_MB": 10**30}, "memory_limit_MB"),
    ({"files": {"../up": ""}}, "files"), ({"files": {"/etc/x": ""}}, "files"), ({"files": {"": ""}}, "files"),
    ({"files": {"a\0b": ""}}, "files"), ({"files": {"a": "no base64!"}}, "files"), ({"files": "a"}, "files"),
    ({"fetch_files": ["out.txt"]}, "fetch_files"),
])
def test_what_can_not_be_run_is_refused_by_name(service: Service, body: bytes | dict[str, object], where: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps({"code": "", "language": "python", **body}).encode()
    answer = httpx.post(f"{service.url}/run_code", content=content)
    assert answer.status_code == 422, answer.text
    assert all(where in detail["loc"] or not where for detail in answer.json()["detail"])
    assert answer.json()["detail"]


@pytest.mark.parametrize(("fields", "stdout"), [
    ({"stdin": None, "files": {}, "fetch_files": [], "a_newer_field": 1}, "ok\n"),
    ({"memory_limit_MB": -1, "files": {"ignored.txt": None}}, "ok\n"),
])
def test_what_sandboxfusions_clients_send_is_taken(service: Service, fields: dict[str, object], stdout: str) -> None:
    assert service.run_code("print('ok')", **fields).json()["run_result"]["stdout"] == stdout


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/run_code", 405), ("GET", "/", 404), ("POST", "/run_jupyter", 501), ("POST", "/submit", 422),
])
def test_what_is_not_offered_is_said(service: Service, method: str, path: str, status: int) -> None:
    assert httpx.request(method, service.url + path).status_code == status


def submission(completion: str, cases: list[tuple[str, str]], **config: object) -> dict[str, object]:
    """As II-Thought's verifier makes it."""
    test = [{"input": {"stdin": stdin}, "output": {"stdout": stdout}} for stdin, stdout in cases]
    data = {"id": 7, "content": "", "test": test}
    return {"dataset": "code", "id": 7, "completion": completion, "config": {
        "language": "python", "dataset_type": "CommonOJDataset", "provided_data": data, **config}}


ADD = "Here it is:\n```python\nprint(sum(map(int, open(0).read().split())))\n```\n"
CASES = [("3 5", "8"), ("-10 4", "-6"), ("1 1", "3")]


@pytest.mark.parametrize(("completion", "cases", "passed", "accepted"), [
    (ADD, CASES, [True, True, False], False),
    (ADD, CASES[2:] + CASES[:2], [False], False),               # it stops at the first that fails
    (ADD, CASES[:2], [True, True], True),
    ("print(8)", CASES[:1], [], False),                         # no block
    ("```py\nprint('YES 0.1000001 ')\n```", [("", "yes 0.1\n"), ("", "yes 0.2")], [True, False], False),
    ("```python\nprint(8); raise SystemExit(1)\n```", CASES[:1], [False], False),
    ("```python\nwhile True: pass\n```", CASES[:1], [False], False),
])
def test_a_submission_is_judged_case_by_case(service: Service, completion: str, cases: list[tuple[str, str]],
                                             passed: list[bool], accepted: bool) -> None:
    answer = httpx.post(f"{service.url}/submit", json=submission(completion, cases, run_timeout=1), timeout=30)
    result = answer.json()
    assert (answer.status_code, result["id"], result["accepted"]) == (200, 7, accepted)
    assert [test["passed"] for test in result["tests"]] == passed
    assert result["extracted_type"] == ("fenced" if passed else "empty")


def test_all_cases_of_a_submission_are_run_where_that_is_asked(service: Service) -> None:
    body = submission(ADD, CASES[2:] + CASES[:2], extra={"run_all_cases": True})
    result = httpx.post(f"{service.url}/submit", json=body, timeout=30).json()
    assert [test["passed"] for test in result["tests"]] == [False, True, True]


@pytest.mark.parametrize(("config", "where"), [
    ({"dataset_type": "HumanEvalDataset"}, "dataset_type"), ({"language": "go"}, "language"),
    ({"provided_data": {"test": []}}, "provided_data"), ({"custom_extract_logic": "import os"}, "custom_extract_logic"),
])
def test_a_submission_of_another_kind_is_refused_by_name(
        service: Service, config: dict[str, object], where: str) -> None:
    answer = httpx.post(f"{service.url}/submit", json=submission(ADD, CASES, **config))
    assert answer.status_code == 422
    assert all(where in detail["loc"] for detail in answer.json()["detail"])


def test_a_compiler_has_the_time_that_the_client_gives_it(service: Service) -> None:
    if "cpp" not in service.health()["languages"]:
        pytest.skip("no g++ on this machine")
    slow = service.run_code("#include <bits/stdc++.h>\nint main() {}", language="cpp", compile_timeout=0.1).json()
    assert (slow["status"], slow["compile_result"]["status"], slow["run_result"]) == (
        "Failed", "TimeLimitExceeded", None)
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
        status = httpx.post(f"{service.url}/run_code", content=endless(), timeout=30).status_code
    except httpx.TransportError:        # it closed while we still wrote
        status = 413
    assert status == 413
    assert service.run_code("print(1)").json()["status"] == "Success"


def test_it_takes_no_more_than_it_can_hold_and_our_client_waits_its_turn(single: Service) -> None:
    single.run_code("pass")
    with ThreadPoolExecutor(9) as threads:
        answers = list(threads.map(lambda _: single.run_code("import time; time.sleep(0.4)"), range(9)))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= 2                 # five at once have room; a slow machine lets them come later
    assert all(answer.headers["retry-after"] for answer in answers if answer.status_code == 503)
    fusion = FusionSandbox([single.url])
    fusion.self_test()
    with ThreadPoolExecutor(9) as threads:
        outcomes = list(threads.map(lambda _: run(fusion, "import time; time.sleep(0.1); print(1)"), range(9)))
    assert [outcome.stdout for outcome in outcomes] == [b"1\n"] * 9
    fusion.close()


def test_a_client_that_goes_away_takes_its_program_with_it(single: Service) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{single.url}/run_code", timeout=0.7, json={
            "code": "import time; time.sleep(60)", "language": "python", "run_timeout": 100})
    wait_until(lambda: single.health()["running"] == 0)
    wait_until(lambda: descendants(single.process.pid) == [])
    assert single.run_code("print(1)").json()["run_result"]["stdout"] == "1\n"


def test_a_killed_process_is_no_result_and_the_next_call_works(single: Service) -> None:
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(single.run_code, "import time; time.sleep(20)", run_timeout=30)
        wait_until(lambda: single.health()["running"] == 1)
        (child,) = Path(f"/proc/{single.process.pid}/task/{single.process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        reply = answer.result(timeout=10).json()
    assert (reply["status"], reply["run_result"]) == ("SandboxError", None)
    assert single.run_code("print(1)").json()["status"] == "Success"


def test_sigterm_lets_the_runs_end_and_leaves_nothing(single: Service) -> None:
    """The last test of this service."""
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(single.run_code, "import time; time.sleep(1); print('whole')")
        wait_until(lambda: single.health()["running"] == 1)
        (child,) = Path(f"/proc/{single.process.pid}/task/{single.process.pid}/children").read_text().split()
        single.process.terminate()
        assert answer.result(timeout=10).json()["run_result"]["stdout"] == "whole\n"
        assert single.process.wait(timeout=10) == 0
        assert not Path(f"/proc/{child}").exists()
        fusion = FusionSandbox([single.url], patience_s=0.5)
        with pytest.raises(SandboxUnavailable, match="ConnectError"):
            run(fusion, "pass")


def test_a_taken_port_and_bad_words_end_it_with_a_reason(service: Service) -> None:
    def ended(*words: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "scorers", "sandbox", *words], cwd=ROOT, capture_output=True,
                              text=True, timeout=READY_S, check=False)
        return done.returncode, done.stderr
    code, said = ended("--port", service.url.rpartition(":")[2])
    assert code == 1
    assert "address already in use" in said
    assert ended("--workers", "0")[0] == 2
    assert ended("--sandbox", "gvisor")[0] == 2


@pytest.mark.parametrize(("host", "loopback"), [
    ("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("sandbox", False)])
def test_only_loopback_is_not_worth_a_warning(host: str, loopback: bool) -> None:
    assert _is_loopback(host) is loopback
