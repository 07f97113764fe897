"""An agent as a command in a place: it runs the one command that the policy says, in its own working folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path


def main() -> int:
    row = json.loads(Path(os.environ["MILLRACE_ROW"]).read_text(encoding="utf-8"))
    body = json.dumps({"model": "any", "messages": row["messages"]}).encode()
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        said = json.load(answer)["choices"][0]["message"]["content"]
    Path(os.environ["MILLRACE_REWARD"]).write_text("1")  # which nobody reads: the tests decide
    return subprocess.run(["bash", "-c", said], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
