"""Servers for tests that speak SandboxFusion's API over real sockets: an honest one, and every way to misbehave."""

from __future__ import annotations

import base64
import json
import platform
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Request = dict[str, Any]
Reply = dict[str, Any]


CARRIED_BYTES = 192 << 10  # of one stream: asyncio's buffer and the pipe before it; the rest is lost


def honest(request: Request) -> Reply:
    """Run a Python program as SandboxFusion's `none` isolation does: plainly, in a folder with its files."""

    def limit_memory() -> None:
        most = request["memory_limit_MB"] << 20
        if most > 0:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))

    with tempfile.TemporaryDirectory() as folder:
        for path, content in request["files"].items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(base64.b64decode(content))
        main = Path(folder, "main.py")
        main.write_text(request["code"])
        began = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, "-S", main],
                cwd=folder,
                input=(request["stdin"] or "").encode(),
                capture_output=True,
                timeout=request["run_timeout"],
                check=False,
                preexec_fn=limit_memory,
            )
        except subprocess.TimeoutExpired as error:
            said, limit_s = _carried(error.stdout or b""), request["run_timeout"]
            return run(status="TimeLimitExceeded", return_code=None, stdout=said, seconds=limit_s)
    seconds, said, wrong = time.monotonic() - began, _carried(done.stdout), _carried(done.stderr)
    return run(return_code=done.returncode, stdout=said, stderr=wrong, seconds=seconds)


def quick(request: Request) -> Reply:
    """Return what `honest` says of the probe and of a program that prints its input, without a process for it."""
    if not is_probe(request):
        return run(stdout=request["stdin"])
    first, second = map(int, request["stdin"].split())
    return run(return_code=3, stdout=f"{first * second}\n", stderr=platform.python_version())


def is_probe(request: Request) -> bool:
    return "platform" in request["code"]


def _carried(output: bytes) -> str:
    try:
        return output[:CARRIED_BYTES].decode()
    except UnicodeDecodeError as error:
        return f"[DecodeError] {error}"


def run(
    *,
    status: str = "Finished",
    return_code: int | None = 0,
    stdout: str = "",
    stderr: str = "",
    seconds: float = 0.01,
) -> Reply:
    ended = {"status": status, "execution_time": seconds, "return_code": return_code}
    others: Reply = {
        "message": "",
        "compile_result": None,
        "executor_pod_name": None,
        "files": {},
        "a_newer_field": 1,
    }
    return {
        "status": "Success" if (status, return_code) == ("Finished", 0) else "Failed",
        **others,
        "run_result": {**ended, "stdout": stdout, "stderr": stderr},
    }


class FakeServer:
    """One server. `behave` may be replaced at any time: it gives a reply, bytes for the socket, or a status."""

    def __init__(self) -> None:
        self.behave: Callable[[Request], Reply | bytes | int | None] = quick
        self.requests: list[Request] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # headers and body in one write: two cost 40 ms of waiting for an acknowledgement

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                fake.requests.append(request)
                reply = fake.behave(request)
                self.close_connection = not isinstance(reply, dict)
                if isinstance(reply, dict):
                    self.answer(200, json.dumps(reply).encode())
                elif isinstance(reply, bytes):
                    self.wfile.write(reply)
                elif reply is not None:
                    self.answer(reply, b'{"detail": "told to"}')

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                if status == 503:
                    self.send_header("retry-after", "0.1")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: Any) -> None:
                pass  # a client that gave up

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    @property
    def runs(self) -> list[Request]:
        return [request for request in self.requests if not is_probe(request)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def fake_servers(number: int) -> Iterator[list[FakeServer]]:
    fakes = [FakeServer() for _ in range(number)]
    try:
        yield fakes
    finally:
        for fake in fakes:
            fake.close()


def http(body: bytes, *, length: int | None = None) -> bytes:
    """Return a whole response, or the beginning of one with a larger `length`."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body


def hang(_request: Request) -> None:
    time.sleep(1.0)  # longer than its tests' client waits


def made_up(_request: Request) -> Reply:
    return run(stdout="42\n")


def without_result(_request: Request) -> Reply:
    return {"status": "Success", "message": ""}


def sandbox_error(_request: Request) -> Reply:
    return {"status": "SandboxError", "message": "no space left on device"}


def error_in_run(request: Request) -> Reply:
    reply = quick(request)
    result = {**reply["run_result"], "status": "Error", "stderr": "fork"}
    return {**reply, "status": "Failed", "run_result": result}


def all_succeed(request: Request) -> Reply:
    return {**quick(request), "status": "Success"}


def contradiction(_request: Request) -> Reply:
    return {**run(return_code=0), "status": "Failed"}


def no_code(_request: Request) -> Reply:
    return {**run(return_code=0), "run_result": {"status": "Finished", "return_code": None}}


def wrong_product(request: Request) -> Reply:
    """Right in form, wrong in content: an answer of another call."""
    reply = quick(request)
    reply["run_result"]["stdout"] = re.sub(r"\d", "7", reply["run_result"]["stdout"])
    return reply
