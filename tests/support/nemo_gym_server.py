"""Resources servers of NeMo Gym's shape over real sockets, in a thread: a shop with tools and `/verify`, and a game.

Sessions are cookies, as the package's servers have them. `make prove-agents` plays the package's own servers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from aiohttp import web

from tests.support.served_app import served_app

COOKIE: Final = "session"
ROUTES: Final = {
    "shop": ("seed_session", "verify", "price", "pay", "aggregate_metrics"),
    "game": ("reset", "step", "close"),
    "other": ("predict",),
}
TOOL: Final = {
    "type": "function",
    "name": "price",
    "description": "Say what a thing costs.",
    "parameters": {"type": "object", "properties": {"thing": {"type": "string"}}, "required": ["thing"]},
    "strict": True,
}
SHOP_ROW: Final[dict[str, Any]] = {
    "responses_create_params": {
        "input": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "How much is tea?"},
        ],
        "tools": [TOOL],
        "temperature": 0.3,
    },
    "expected": "3",
    "agent_ref": {"type": "responses_api_agents", "name": "shop_simple_agent"},
}
GAME_ROW: Final[dict[str, Any]] = {
    "responses_create_params": {"input": "Be brief."},
    "verifier_metadata": {"number": 7},
}


class Server:
    """Its places, by the first part of the path.

    Attributes:
        sessions: what each one's requests were, by its cookie: route and body.
        masked: what `/verify` says beside its reward.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self.masked: dict[str, Any] = {}
        self.port = 0
        self._numbers = itertools.count(1)

    def asked(self, route: str) -> list[dict[str, Any]]:
        """Return the bodies that a route was asked with."""
        every = itertools.chain.from_iterable(self.sessions.values())
        return [body for name, body in every if name == route]

    async def routes(self, request: web.Request) -> web.Response:
        names = ROUTES[request.match_info["place"]]
        return web.json_response({"openapi": "3.1.0", "paths": {f"/{name}": {"post": {}} for name in names}})

    async def post(self, request: web.Request) -> web.Response:
        route, body = request.match_info["route"], await request.json()
        name = request.cookies.get(COOKIE) or f"session-{next(self._numbers)}"
        self.sessions.setdefault(name, []).append((route, body))
        asked = [one for one, _ in self.sessions[name]]
        if route not in ROUTES[request.match_info["place"]] or asked[0] not in ("seed_session", "reset"):
            return web.json_response({"detail": "Not Found"}, status=404)
        reply: web.Response = getattr(self, f"do_{route}")(body, self.sessions[name])
        reply.set_cookie(COOKIE, name, httponly=True)
        return reply

    def do_seed_session(self, body: dict[str, Any], _: Any) -> web.Response:
        if body.get("expected") == "broken":
            return web.Response(status=500, text="Internal Server Error")
        return web.json_response({})

    def do_price(self, body: dict[str, Any], _: Any) -> web.Response:
        if "thing" not in body:
            return web.json_response(
                {"detail": [{"loc": ["body", "thing"], "msg": "Field required"}]}, status=422
            )
        return web.json_response({"coins": 3})

    def do_verify(self, body: dict[str, Any], _: Any) -> web.Response:
        if body["expected"] == "crash":
            return web.Response(status=500, text="Internal Server Error")
        said = "".join(
            part["text"]
            for item in body["response"]["output"]
            if item["type"] == "message"
            for part in item["content"]
        )
        return web.json_response({**body, "reward": float(body["expected"] in said), **self.masked})

    def do_reset(self, body: dict[str, Any], _: Any) -> web.Response:
        asked = f"Guess a digit, {body['verifier_metadata'].get('name', 'you')}."
        return web.json_response({"observation": asked, "info": {"supports_explicit_close": True}})

    def do_step(self, body: dict[str, Any], session: list[tuple[str, Any]]) -> web.Response:
        (item,) = body["response"]["output"]
        said = item["content"][0]["text"]
        if said == "crash":
            return web.Response(status=500, text="no such level")
        is_right = said == str(body["verifier_metadata"]["number"])
        tries = sum(name == "step" for name, _ in session)
        step = {"reward": 1.0 if is_right else -0.25, "terminated": is_right, "truncated": tries > 2}
        return web.json_response({"observation": None if is_right else "wrong", "info": {}, **step})

    def do_close(self, *_: Any) -> web.Response:
        return web.json_response({})

    @contextmanager
    def running(self, port: int = 0) -> Iterator[Server]:
        app = web.Application()
        app.add_routes(
            [web.get("/{place}/openapi.json", self.routes), web.post("/{place}/{route}", self.post)]
        )
        with served_app(app, port) as self.port:
            yield self
