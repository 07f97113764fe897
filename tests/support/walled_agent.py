"""An agent as a command behind walls: what the row says, it does, and says what came of it in its reward's remark."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any


def ask(text: str) -> str:
    """Call the policy by its address and key, with the standard library alone."""
    body = json.dumps({"model": "any", "messages": [{"role": "user", "content": text}]}).encode()
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def reached(port: int) -> str:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        return type(error).__name__
    return "reached"


def read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")[:20]
    except OSError as error:
        return type(error).__name__


def written(path: str) -> str:
    try:
        Path(path).write_text("x", encoding="utf-8")
    except OSError as error:
        return type(error).__name__
    return "written"


def main() -> None:
    row: dict[str, Any] = json.loads(Path(os.environ["MILLRACE_ROW"]).read_text(encoding="utf-8"))
    said = {"said": ask("first")}
    if "port" in row:
        said["other port"] = reached(row["port"])
    for path in row.get("files", ()):
        said[path] = read(path)
    for path in row.get("writes", ()):
        said[path] = written(path)
    if "secret" in row:
        said["secret"] = os.environ.get(row["secret"], "not there")
    if row.get("fills"):
        held = [bytearray(1 << 20) for _ in range(row["fills"])]
        said["held"] = str(len(held))
    if row.get("sleeps"):
        subprocess.Popen(["sleep", str(row["sleeps"])])
        time.sleep(row["sleeps"])
    sys.stderr.write("printed\n")
    Path(os.environ["MILLRACE_REWARD"]).write_text(json.dumps({"reward": 1, "remark": json.dumps(said)}))
    sys.exit(row.get("code", 0))


if __name__ == "__main__":
    main()
