"""A small HTTP server for tests, a process of its own: `python -m tests.support.health_server PORT FOLDER DELAY_S`.

It answers `/health` by 200 from DELAY_S seconds on, and by 503 before. With a file `silent` in FOLDER it accepts and
says nothing; each process of it adds its id to FOLDER/pids.
"""

from __future__ import annotations

import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.waiting import wait_until


def serve(port: int, folder: Path, delay_s: float) -> None:
    began = time.monotonic()

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wait_until(lambda: not (folder / "silent").exists(), "the end of the silence", within_s=600.0)
            self.send_response(200 if time.monotonic() - began >= delay_s else 503)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Health).serve_forever()


if __name__ == "__main__":
    where = Path(sys.argv[2])
    with (where / "pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    serve(int(sys.argv[1]), where, float(sys.argv[3]))
