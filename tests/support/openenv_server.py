"""A server that speaks OpenEnv's protocol over real sockets, in a thread: a game, one of two fields, and tools of MCP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from aiohttp import WSMsgType, web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tests.support.served_app import served_app


class Action(BaseModel):
    model_config = ConfigDict(extra="forbid")
    metadata: dict[str, Any] = {}


class Word(Action):
    word: str = Field(min_length=1)


class Move(Action):
    """Move a piece."""

    row: int = Field(ge=0, le=2)
    column: int = Field(ge=0, le=2)


class ToolCall(Action):
    type: str = "call_tool"
    tool_name: str = ""
    arguments: dict[str, Any] = {}


class Game:
    """A digit is to be guessed; a word may be a way to go wrong."""

    action: ClassVar[type[Action]] = Word
    observation: ClassVar[set[str]] = {"text", "tries", "board"}

    def reset(self, seed: int = 0, level: str = "", **_: Any) -> dict[str, Any]:
        self.number, self.tries = seed % 10, 0
        return {"observation": {"text": f"Guess a digit{level}.", "tries": None}, "done": False}

    def step(self, action: Any) -> dict[str, Any]:
        if action.word == "crash":
            raise ZeroDivisionError("no such level")
        self.tries += 1
        is_right = action.word.strip() == str(self.number)
        observation = {"text": "right" if is_right else "wrong", "tries": self.tries}
        return {"observation": observation, "reward": float(is_right), "done": is_right}


class Board(Game):
    action = Move

    def step(self, action: Any) -> dict[str, Any]:
        is_right = action.row == action.column
        return {"observation": {"board": [action.row, action.column]}, "reward": is_right, "done": is_right}


class Shop(Game):
    action = ToolCall

    def reset(self, seed: int = 0, level: str = "", **_: Any) -> dict[str, Any]:
        return {"observation": {"metadata": {"status": "ready"}}, "done": False}

    def step(self, action: Any) -> dict[str, Any]:
        if action.type == "list_tools":
            schema = {"type": "object", "properties": {"thing": {"type": "string"}}}
            return {
                "observation": {"tools": [{"name": "price", "description": "Say.", "input_schema": schema}]}
            }
        if "thing" not in action.arguments:
            error = {"error_type": "invalid_args", "message": "thing is missing"}
            return {"observation": {"tool_name": "price", "result": None, "error": error}, "reward": -1.0}
        result = {"content": [{"type": "text", "text": "3"}], "is_error": False}
        return {"observation": {"tool_name": "price", "result": result, "error": None}, "reward": 0.5}


class Server:
    """Its games, by the first part of the path; `small` has room for one session."""

    games: ClassVar[dict[str, type[Game]]] = {"game": Game, "small": Game, "board": Board, "shop": Shop}

    def __init__(self) -> None:
        self.resets: list[dict[str, Any]] = []
        self.headers: list[str | None] = []
        self.sessions: dict[str, int] = dict.fromkeys(self.games, 0)
        self.port = 0

    async def schema(self, request: web.Request) -> web.Response:
        game = self.games[request.match_info["game"]]
        fields: dict[str, Any] = {"properties": {name: {} for name in game.observation}}
        return web.json_response(
            {"action": game.action.model_json_schema(), "observation": fields, "state": {}}
        )

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        name, socket = request.match_info["game"], web.WebSocketResponse()
        await socket.prepare(request)
        self.headers.append(request.headers.get("Authorization"))
        if name == "small" and self.sessions[name]:
            await self._error(socket, "CAPACITY_REACHED", "1/1 sessions active")
            await socket.close()
            return socket
        self.sessions[name] += 1
        try:
            await self._serve(request, socket, self.games[name]())
        finally:
            self.sessions[name] -= 1
        return socket

    async def _serve(self, request: web.Request, socket: web.WebSocketResponse, game: Game) -> None:
        async for message in socket:
            asked: dict[str, Any] = (
                json.loads(message.data) if message.type is WSMsgType.TEXT else {"type": "close"}
            )
            if asked["type"] == "close":
                break
            try:
                if asked["type"] == "reset":
                    self.resets.append(asked["data"])
                    data = game.reset(**asked["data"])
                else:
                    if asked["data"].get("word") == "leave":
                        assert request.transport is not None
                        request.transport.abort()
                        return
                    data = game.step(game.action.model_validate(asked["data"]))
                await socket.send_json({"type": "observation", "data": data})
            except ValidationError as error:
                told = error.errors(include_url=False, include_context=False)
                await self._error(socket, "VALIDATION_ERROR", "Invalid message", errors=told)
            except ZeroDivisionError as error:
                await self._error(socket, "EXECUTION_ERROR", str(error))
        await socket.close()

    @staticmethod
    async def _error(socket: web.WebSocketResponse, code: str, message: str, **more: Any) -> None:
        await socket.send_json({"type": "error", "data": {"message": message, "code": code, **more}})

    @contextmanager
    def running(self) -> Iterator[Server]:
        app = web.Application()
        app.add_routes([web.get("/{game}/schema", self.schema), web.get("/{game}/ws", self.socket)])
        with served_app(app) as self.port:
            yield self
