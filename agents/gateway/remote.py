"""Let agents on other machines, started by other programs, open episodes and end them, through four routes.

In: requests of programs with the key of `agents.gateway`; and plays that offer an episode. Out: for the program the
row, an address and a key of the policy; for the play the reward, once the program has finished.

    POST /episodes               open one: waits a while for one to be offered; 204: there is none
    GET  /episodes/ID            whether it is still running
    POST /episodes/ID/reward     {"reward": 0.5}
    POST /episodes/ID/finish     {"reward": 0.5, "remark": "..."}, both optional

The last three accept the episode's own key, too. An unopened episode requests nothing from the policy. If its program
is gone, the play's deadline ends the episode. Runs in the worker's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import math
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from agents.environments.seam import EnvironmentFailed, FailureKind, FailureStage, Finish
from config.logs import mask

LOOK_S: Final = 20.0  # longest wait of a program for an episode, below the timeouts of proxies
ENDED: Final = 4096  # remembered ids, so that late requests get the reason of their failure
MOST_REMARK: Final = 2000
PATH: Final = "/episodes"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True, eq=False)
class Offer:
    """An episode that an external program may open."""

    id: str
    task: str
    given: Mapping[str, Any]  # for the program
    key: str = ""  # of the policy; "": the episode is not running yet
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    reward: float | None = None
    remark: str = ""


class RemoteEpisodes:
    """The episodes of one worker that external programs play.

    Args:
        key: required of programs; "": none, on loopback alone.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._offers: dict[str, Offer] = {}
        self._waiting: deque[Offer] = deque()
        self._came = asyncio.Condition()
        self._ended: deque[str] = deque(maxlen=ENDED)

    def add_routes(self, app: web.Application) -> None:
        """Serve the routes."""
        app.router.add_post(PATH, self._checked(self._open))
        app.router.add_get(PATH + "/{id}", self._checked(self._look))
        app.router.add_post(PATH + "/{id}/reward", self._checked(self._rewarded))
        app.router.add_post(PATH + "/{id}/finish", self._checked(self._finish))

    def episode(
        self, task: str, row: Mapping[str, Any], *, seed: int, open_deadline_s: float
    ) -> RemoteEpisode:
        """Return an episode to play, in place of one in a child process."""
        name = secrets.token_urlsafe(12)
        given = {"id": name, "task": task, "row": dict(row), "seed": seed}
        return RemoteEpisode(self, Offer(name, task, given), open_deadline_s)

    async def add(self, offer: Offer) -> None:
        """Offer an episode."""
        self._offers[offer.id] = offer
        self._waiting.append(offer)
        async with self._came:
            self._came.notify()

    def remove(self, offer: Offer) -> None:
        """Withdraw an episode from opening and ending."""
        if self._offers.pop(offer.id, None) is not None:
            self._ended.append(offer.id)
        with contextlib.suppress(ValueError):
            self._waiting.remove(offer)

    def _checked(self, handle: Handler) -> Handler:
        async def checked(request: web.Request) -> web.StreamResponse:
            scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
            shown = shown.strip() if scheme.lower() == "bearer" else ""
            offer = self._offers.get(request.match_info.get("id", ""))
            own = offer.key if offer is not None else ""
            is_known = not self._key or _same(shown, self._key) or bool(own and _same(shown, own))
            try:
                if not is_known:
                    raise _Refused(401, "the key of agents.gateway is not shown: Authorization: Bearer KEY")
                return await handle(request)
            except _Refused as refused:
                return web.json_response({"error": {"message": str(refused)}}, status=refused.status)

        return checked

    async def _open(self, request: web.Request) -> web.StreamResponse:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S), self._came:
                await self._came.wait_for(lambda: self._waiting)
        if not self._waiting:
            return web.Response(status=204)
        offer = self._waiting.popleft()
        offer.opened.set()
        # The address that the program used: proxies in between are unknown here.
        base_url = f"{request.headers.get('X-Forwarded-Proto', request.scheme)}://{request.host}"
        return web.json_response({**offer.given, "base_url": base_url, "api_key": offer.key})

    async def _look(self, request: web.Request) -> web.StreamResponse:
        offer = self._found(request)
        state = "finished" if offer.finished.is_set() else "open" if offer.opened.is_set() else "waiting"
        return web.json_response({"id": offer.id, "task": offer.task, "state": state, "reward": offer.reward})

    async def _rewarded(self, request: web.Request) -> web.StreamResponse:
        offer, body = self._found(request), await _body(request)
        if "reward" not in body:
            raise _Refused(400, 'there is no "reward" in the body')
        offer.reward = _number(body["reward"])
        return web.json_response({"id": offer.id, "reward": offer.reward})

    async def _finish(self, request: web.Request) -> web.StreamResponse:
        offer, body = self._found(request), await _body(request)
        if "reward" in body:
            offer.reward = _number(body["reward"])
        offer.remark = mask(str(body.get("remark", "")))[:MOST_REMARK]
        offer.finished.set()
        return web.json_response({"id": offer.id, "reward": offer.reward})

    def _found(self, request: web.Request) -> Offer:
        """Return the episode of a request. Raises _Refused."""
        name = request.match_info["id"]
        if (offer := self._offers.get(name)) is not None:
            return offer
        if name in self._ended:
            raise _Refused(410, "this episode has ended")
        raise _Refused(404, "there is no such episode at this worker")


class RemoteEpisode:
    """An episode that an external program plays, with the interface of `agents.environments.runner.Episode`."""

    last_words = ""  # of a process that is not ours

    def __init__(self, episodes: RemoteEpisodes, offer: Offer, open_deadline_s: float) -> None:
        self._episodes, self._offer, self._open_deadline_s = episodes, offer, open_deadline_s

    @property
    def is_waiting(self) -> bool:
        """Whether no program plays it yet."""
        return not self._offer.opened.is_set()

    @property
    def reward(self) -> float | None:
        """Return the last posted reward."""
        return self._offer.reward

    async def run(self, base_url: str, key: str, deadline_s: float, *, socket: str = "") -> Finish:
        """Let a program play it to its end. Raises EnvironmentFailed: no program opened it, or finished it."""
        del base_url, socket  # the program uses the address of its own request
        offer = self._offer
        offer.key = key
        await self._episodes.add(offer)
        try:
            await self._within(offer.opened, min(self._open_deadline_s, deadline_s), "opened")
            await self._within(offer.finished, deadline_s, "finished")
        finally:
            self._episodes.remove(offer)
        return Finish(reward=offer.reward, remark=offer.remark)

    async def _within(self, event: asyncio.Event, seconds: float, what: str) -> None:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            raise EnvironmentFailed(
                f"task {self._offer.task}: no agent elsewhere {what} episode {self._offer.id} within {seconds:g} s",
                stage=FailureStage.RUN,
                kind=FailureKind.DEADLINE,
            ) from None

    def stop(self) -> None:
        """End it: its key expires with the play, and its program is informed."""
        self._episodes.remove(self._offer)

    async def close(self) -> None:
        """Withdraw it from opening and ending."""
        self.stop()


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def _same(shown: str, key: str) -> bool:
    return hmac.compare_digest(shown.encode(), key.encode())


async def _body(request: web.Request) -> Mapping[str, Any]:
    """Return a request's object; {} for an empty body. Raises _Refused."""
    try:
        data = await request.read()
        body = json.loads(data) if data else {}
    except (ValueError, RecursionError, web.HTTPException) as error:
        raise _Refused(400, f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise _Refused(400, "the body is no JSON object")
    return body


def _number(value: Any) -> float | None:
    """Return a reward; None for none. Raises _Refused."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _Refused(400, f"a reward is a finite number, got {str(value)[:100]}")
    return float(value)
