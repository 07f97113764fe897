"""The sandbox's service for tests: `scorers sandbox` in a fork of the test's own process, over a real socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from scorers.__main__ import main
from tests.support.descendants import descendants as processes_below
from tests.support.forked_program import fork_main
from tests.support.waiting import wait_until

READY_S = 120.0  # a busy machine is no fault of the service's


class Service:
    """`python -m scorers sandbox`, ready."""

    def __init__(self, workers: int, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, timeout=30)
        with log.open("wb") as sink:
            words = ["sandbox", "--port", str(port), "--workers", str(workers)]
            self.process = fork_main(main, words, env=os.environ, stderr=sink)
        wait_until(
            lambda: self.is_ready() or self.process.poll() is not None, within_s=READY_S, log=log.read_text
        )
        if self.process.poll() == 1:
            pytest.skip(f"no walls on this machine: {log.read_text().splitlines()[-1]}")
        assert self.process.poll() is None, log.read_text()

    def is_ready(self) -> bool:
        try:
            return self.http.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def run_code(self, code: str, **fields: Any) -> httpx.Response:
        body = {"code": code, "language": "python", **fields}
        return self.http.post("/run_code", json=body)

    @property
    def runners(self) -> list[int]:
        """Its processes that have programs run."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def health(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.http.get("/health").json()
        return answer

    def close(self) -> None:
        self.http.close()
        self.process.kill()
        self.process.wait()


def descendants(pid: int) -> list[str]:
    """Command lines of all processes under one."""
    return list(processes_below(pid).values())
