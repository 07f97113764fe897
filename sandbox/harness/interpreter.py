"""A Python and a bash that go on between calls: what a session of `sandbox.local.session` runs behind the walls.

In, through a named pipe: frames with a piece of Python, or of bash. Out, through another: what it printed, the value of
a last expression, and how it ended. Names, variables, files and the working folder stay from call to call. What is run
here may do anything to this process and to the pipes; who reads them outside believes nothing that they say.
"""

# ruff: noqa: S102, S307 -- executing is what this is for; pathlib is not worth its import

from __future__ import annotations

import ast
import json
import linecache
import os
import select
import shlex
import subprocess
import sys
import traceback

LENGTH_BYTES = 8
NAME = "<python>"  # of what is run, in tracebacks


class Python:
    """The Python, whose names are those of a module."""

    def __init__(self) -> None:
        self._names = {"__name__": "__main__", "__builtins__": __builtins__}

    def run(self, text: str) -> tuple[bool, str]:
        """Run a piece. Returns whether it failed, and a remark."""
        linecache.cache[NAME] = (len(text), None, [f"{line}\n" for line in text.split("\n")], NAME)
        try:
            tree = ast.parse(text, NAME)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, NAME, "exec"), self._names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), NAME, "eval"), self._names)
                if value is not None:
                    print(repr(value))  # noqa: T201 - into the reply
        except SystemExit as error:
            return bool(error.code), f"[exit {error.code}]"
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
            place = error.__traceback__
            while place is not None and place.tb_frame.f_code.co_filename == __file__:
                place = place.tb_next
            traceback.print_exception(type(error), error, place)
            return True, ""
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        return False, ""


class Bash:
    """The bash, started when it is first asked, and again where a command has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, text: str) -> tuple[bool, str]:
        """Run a command. Returns whether the bash is gone, and the exit code as a remark, where it is not 0."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        process = self._process
        assert process is not None  # noqa: S101 - started above
        assert process.stdin is not None  # noqa: S101
        said = f"eval {shlex.quote(text)} </dev/null\nprintf '%s\\n' \"$?\" >&{self._written}\n"
        try:
            process.stdin.write(said.encode("utf-8", "replace"))
            process.stdin.flush()
        except OSError:
            return True, "[bash has ended]"
        status = b""
        while not status.endswith(b"\n"):
            part = os.read(self._read, 64) if select.select([self._read], [], [], 0.02)[0] else None
            if part == b"" or (part is None and process.poll() is not None):
                return True, f"[bash has ended with exit code {process.wait()}]"
            status += part or b""
        code = status.decode("ascii", "replace").strip()
        return False, "" if code == "0" else f"[exit code {code}]"

    def _start(self) -> None:
        self._read, self._written = os.pipe()
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE, pass_fds=[self._written]
        )
        os.close(self._written)


def _exactly(source: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(source, size - len(data))
    return data


def main(requests: str, replies: str) -> None:
    """Answer until killed."""
    source, sink = os.open(requests, os.O_RDWR), os.open(replies, os.O_RDWR)
    output = os.open(".output", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.unlink(".output")  # noqa: PTH108
    nothing = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(here, there)
    tools: dict[str, Python | Bash] = {"python": Python(), "bash": Bash()}
    sys.argv = [""]
    while True:
        request = json.loads(_exactly(source, int.from_bytes(_exactly(source, LENGTH_BYTES), "big")))
        os.ftruncate(output, 0)
        failed, remark = tools[request["tool"]].run(request["text"])
        size, most = os.fstat(output).st_size, request["bytes"]
        printed = os.pread(output, most, 0).decode("utf-8", "replace")
        reply = {
            "number": request["number"],
            "failed": failed,
            "remark": remark,
            "printed": printed,
            "cut": max(0, size - most),
        }
        body = json.dumps(reply).encode("ascii")
        left = memoryview(len(body).to_bytes(LENGTH_BYTES, "big") + body)
        while left:
            left = left[os.write(sink, left) :]


if __name__ == "__main__":
    main(*sys.argv[1:])
