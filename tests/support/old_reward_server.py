"""A reward server as II-Thought's is, over a real socket: `POST /reward`, `GET /ping`; it can be away, busy or wrong.

`with old_reward_server() as server:` scores 1.0 where the response is the row's `answer.value`, else 0.0.
`server.script` replaces that at any time: a function of the request's body that returns a status and a body.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, Any]
Script = Callable[[Mapping[str, Any]], Reply]


def equality(body: Mapping[str, Any]) -> Reply:
    """Score a response by its text alone; 422 where the row is no JSON text with a type, as II-Thought's server does."""
    try:
        info = json.loads(body["verification_info"])
        return 200, {"score": float(info["answer"]["value"] == body["llm_output"])}
    except (TypeError, ValueError, LookupError):
        return 422, {"detail": "must contain 'answer' and 'type'"}


class OldRewardServer:
    """One server. `asked` has the bodies of all calls, in their order."""

    def __init__(self, port: int = 0) -> None:
        self.script: Script = equality
        self.headers: dict[str, str] = {}
        self.asked: list[Mapping[str, Any]] = []
        self.at_once = self.most_at_once = 0
        self._counting = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._say(200, {"status": "ok"})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self._say(*owner.answer(body))

            def _say(self, status: int, body: Any) -> None:
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in owner.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def answer(self, body: Mapping[str, Any]) -> Reply:
        """Answer one call by the script."""
        with self._counting:
            self.asked.append(body)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return self.script(body)
        finally:
            with self._counting:
                self.at_once -= 1

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextmanager
def old_reward_server(port: int = 0) -> Iterator[OldRewardServer]:
    """Run a server, at a free port or at one that is given."""
    server = OldRewardServer(port)
    try:
        yield server
    finally:
        server.close()
