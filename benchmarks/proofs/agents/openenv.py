"""OpenEnv: a game, actions of several fields, and tools of MCP, on the package's own servers."""

from __future__ import annotations

from benchmarks.proofs.agents.player import calls
from benchmarks.proofs.agents.stage import KindStage

SERVER = '''
import sys

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server import Action, Environment, Observation, State, create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from pydantic import Field

class Word(Action):
    word: str = Field(min_length=1)

class Move(Action):
    """Put a stone on the board."""

    row: int = Field(ge=0, le=2)
    column: int = Field(ge=0, le=2)

class Seen(Observation):
    text: str = ""
    board: list[str] = []

class Digit(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    state = State()

    def reset(self, seed=None, episode_id=None, level="", **options):
        self.number = seed % 10
        return Seen(text=f"Guess a digit{level}.")

    def step(self, action, timeout_s=None, **options):
        if action.word == "crash":
            raise RuntimeError("no such level")
        right = action.word == str(self.number)
        return Seen(text="right" if right else "wrong", reward=float(right), done=right)

class Board(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    state = State()

    def reset(self, seed=None, episode_id=None, **options):
        return Seen(text="Put a stone on the diagonal.", board=["...", "...", "..."])

    def step(self, action, timeout_s=None, **options):
        rows = ["...", "...", "..."]
        rows[action.row] = "".join("x" if place == action.column else "." for place in range(3))
        return Seen(board=rows, reward=float(action.row == action.column), done=True)

class Shop(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    state = State()

    def __init__(self):
        shop = FastMCP("shop")

        @shop.tool
        def price(thing: str) -> int:
            """Say what a thing costs."""
            return {"tea": 3}[thing]

        super().__init__(shop)

    def reset(self, seed=None, episode_id=None, **options):
        return Observation(metadata={"status": "ready"})

    def _step_impl(self, action, timeout_s=None, **options):
        return Observation()

name, port, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
kinds = {"digit": (Digit, Word, Seen), "board": (Board, Move, Seen)}
kinds["shop"] = (Shop, CallToolAction, CallToolObservation)
uvicorn.run(create_app(*kinds[name], env_name=name, max_concurrent_envs=most), host="127.0.0.1", port=port)
'''


def openenv(stage: KindStage) -> None:
    """Play on three servers; one of them is killed, and one has little room."""
    program = stage.file("server.py", SERVER)
    _digit(stage, program.name)
    with stage.serves(program.name, "board", "{port}", "4", python=stage.others["server"]) as (port, _):
        at = {"type": "openenv", "url": f"http://127.0.0.1:{port}"}
        with stage.plays(at) as player:
            placed = player.play(
                "hm", calls(("act", {"row": 3, "column": 1})), calls(("act", {"row": 1, "column": 1}))
            )
        with stage.plays({**at, "action": "json", "observation": ["board"]}) as player:
            written = player.play('So {"row": 0, "column": 2}.')
    stage.holds(
        "an action of several fields is a call",
        placed.tools == ["act"],
        placed.said[0].startswith("That takes no action."),
        "row: Input should be less than or equal to 2" in placed.said[1],
        placed.rewards == [None, None, 1.0],
    )
    stage.holds("or a JSON object", written.said == ['["..x", "...", "..."]'], written.rewards == [0.0])
    with (
        stage.serves(program.name, "shop", "{port}", "4", python=stage.others["server"]) as (port, _),
        stage.plays({"type": "openenv", "url": f"http://127.0.0.1:{port}"}) as player,
    ):
        bought = calls(("price", {"thing": "tea"}), ("price", {"thing": "gold"}), ("pay", {}))
        shop = player.play(bought, "3")
    stage.holds(
        "tools of MCP are offered and called", shop.tools == ["price"], shop.said[0] == "3", shop.is_over
    )
    stage.holds("a tool's errors are told", "gold" in shop.said[1], "there is no tool 'pay'" in shop.said[2])


def _digit(stage: KindStage, program: str) -> None:
    """Play the game of one text, on a server that has room for two."""
    section = {"type": "openenv", "reset": {"level": " of ten"}, "reset_deadline_s": 30}
    with (
        stage.serves(program, "digit", "{port}", "2", python=stage.others["server"]) as (port, kill),
        stage.plays({**section, "url": f"ws://127.0.0.1:{port}"}) as player,
    ):
        right = player.play("8", "7")
        other = player.play("8", seed=18)
        refused = player.play("", "7")
        crashed = player.play("crash")
        many = player.play_together(5, "8", "7")
        gone = player.play("8", "7", before_last=kill)
        away = player.play("7")
    stage.holds(
        "a text is an action; reward and end are the server's",
        right.opening == "Guess a digit of ten.",
        right.said == ["wrong", "right"],
        right.rewards == [0.0, 1.0],
        right.is_over,
    )
    stage.holds("the seed is the server's", other.rewards == [1.0])
    stage.holds(
        "a refused action is told, and the game goes on",
        "word: String should have at least 1 character" in refused.said[0],
        refused.rewards == [None, 1.0],
    )
    stage.holds(
        "an error of its code may be the policy's doing",
        crashed.failed("step", "no such level", is_policys=True),
    )
    stage.holds(
        "five episodes wait for a server with room for two", all(one.rewards == [0.0, 1.0] for one in many)
    )
    stage.holds(
        "a server that is killed is gone, and not by the policy",
        gone.failed("step", "is gone", is_policys=False),
    )
    stage.holds("one that is away is named", away.failed("reset", "can't be asked", is_policys=False))
