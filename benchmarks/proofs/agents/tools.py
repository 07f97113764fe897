"""Tools, and an environment of one's own: functions, a published MCP server, programs, a class with numpy."""

from __future__ import annotations

from agents.environments.runner import Environments
from benchmarks.proofs.agents.player import TASK, calls
from benchmarks.proofs.agents.stage import KindStage

FUNCTIONS = '''
import sqlite3
from typing import Literal

BOOKS = sqlite3.connect(":memory:")
BOOKS.executescript("create table book (name, year int); insert into book values ('Emma', 1815), ('Dracula', 1897)")

def books(before: int, order: Literal["name", "year"] = "year") -> list[str]:
    """Say which books are older than a year.

    Args:
        before: the year
        order: of the answer
    """
    found = BOOKS.execute(f"select name from book where year < ? order by {order}", (before,))
    return [name for (name,) in found]

def lose(name: str) -> None:
    """Lose a book."""
    raise LookupError(f"no book is called {name}")
'''
OWN = '''
import numpy as np

class Walk:
    """The sum of draws of numpy's global generator is to be said."""

    reward_range = (0.0, 1.0)

    def reset(self, row, seed):
        self.wanted = seed % 7 + row.get("more", 0)
        return f"{np.__version__} {np.random.random():.6f}"

    def step(self, action):
        if action == "exit":
            raise SystemExit(3)
        right = action == str(self.wanted)
        return f"{np.random.random():.6f}", float(right), right, False, {}
'''


def functions(stage: KindStage) -> None:
    """Play with Python functions."""
    stage.file("own_tools.py", FUNCTIONS)
    with stage.plays({"type": "tools", "functions": ["own_tools:books", "own_tools:lose"]}) as player:
        right = player.play(
            calls(("books", {"before": 1850}), ("books", {"before": 1900, "order": "name"})), "Emma"
        )
        wrong = player.play(
            calls(("books", {"before": "soon"}), ("books", {}), ("lose", {"name": "Ulysses"}), ("burn", {}))
        )
    stage.holds(
        "results are read as JSON, and a message without calls ends it",
        right.said == ['["Emma"]', '["Dracula", "Emma"]'],
        right.is_over,
    )
    stage.holds("it gives no reward", right.rewards == [None, None])
    words = ("of type integer", "'before' is missing", "no book is called Ulysses", "there is no tool 'burn'")
    stage.holds(
        "wrong types, a missing argument, an exception and an unknown tool are told",
        all(word in said for word, said in zip(words, wrong.said, strict=True)),
        not wrong.is_over,
    )


def servers(stage: KindStage) -> None:
    """Play with the published server of times, in a Python of its own."""
    server = stage.others["server"].parent / "mcp-server-time"
    clock = {"clock": {"command": [str(server), "--local-timezone", "UTC"]}}
    asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    with stage.plays({"type": "tools", "servers": clock, "memory_mb": 4096}) as player:
        right = player.play(calls(("convert_time", asked)), "21:00")
        wrong = player.play(
            calls(("convert_time", {**asked, "time": "noon"}), ("convert_time", {}), ("stop_time", {}))
        )
        gone = player.play(
            calls(("convert_time", asked)),
            calls(("convert_time", asked)),
            before_last=lambda: _kill_servers(player.environments),
        )
    with stage.plays({"type": "tools", "servers": {"clock": {"command": ["false"]}}}) as player:
        never = player.play("?")
    stage.holds("its tools are offered", right.tools == ["get_current_time", "convert_time"])
    stage.holds("a call is answered", "21:00" in right.said[0], right.is_over)
    stage.holds(
        "what it says against a call is told, and costs no episode",
        len(wrong.said) == 3,
        wrong.failure is None,
    )
    stage.holds(
        "a server that was killed is gone, and not by the policy",
        gone.failed("step", "the server clock", is_policys=False),
    )
    stage.holds(
        "one that does not start is named",
        never.failed("reset", "the server clock can't be reached", is_policys=False),
    )


def _kill_servers(environments: Environments) -> None:
    """Kill what the children of a task have started."""
    import psutil

    (task,) = [one for name, one in environments._tasks.items() if name == TASK]  # noqa: SLF001 - what a fault does
    for child in task._children:  # noqa: SLF001
        for process in psutil.Process(child.pid).children(recursive=True):
            process.kill()


def programs(stage: KindStage) -> None:
    """Play with Python and bash behind the walls."""
    section = {
        "type": "tools",
        "programs": ["python", "bash"],
        "program_deadline_s": 5,
        "step_deadline_s": 60,
    }
    with stage.plays(section) as player:
        right = player.play(
            calls(("python", {"code": "x = 6"})),
            calls(("python", {"code": "x * 7"})),
            calls(("bash", {"command": "echo hi > f; cat f"})),
        )
        hung = player.play(
            calls(("python", {"code": "while True: pass"})), calls(("python", {"code": "1 + 1"}))
        )
        reach = "import socket; socket.create_connection(('127.0.0.1', 1), 2)"
        walled = player.play(calls(("bash", {"command": f'python3 -c "{reach}"'})))
    stage.holds("names stay from call to call", right.said[1].strip() == "42", right.said[2].strip() == "hi")
    stage.holds(
        "a program that hangs ends, and the episode goes on",
        "5 s" in hung.said[0],
        hung.said[1].strip() == "2",
    )
    stage.holds("no network is reached", "Operation not permitted" in walled.said[0])


def custom(stage: KindStage) -> None:
    """Play in an environment of one's own, whose numpy is another than Millrace's."""
    stage.file("own_walk.py", OWN)
    section = {"type": "custom", "import_path": "own_walk:Walk"}
    with stage.plays(section) as player:
        right = player.play("0", "5", row={"more": 2})
        again = player.play("0", "5", row={"more": 2})
        other = player.play("0", "5", row={"more": 2}, seed=18)
        left = player.play("exit")
    stage.holds("right and wrong are paid, and right ends it", right.rewards == [0.0, 1.0], right.is_over)
    stage.holds(
        "the same seed gives the same draws of numpy, another one others",
        right.opening == again.opening,
        right.said == again.said,
        other.said != right.said,
    )
    stage.holds(
        "an exit is told, and may be the policy's doing", left.failed("step", "exit code 3", is_policys=True)
    )
