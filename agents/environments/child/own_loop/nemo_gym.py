"""Play a NeMo Gym resources server as NeMo Gym's own agents do: `simple_agent`, or `gymnasium_agent`.

In: a row of NeMo Gym at `reset`, which begins the session; then address and key of the policy. Out: the reward of
`/verify`, or the sum of those of `/step`. The policy is called through OpenAI's responses, so that its items reach the
server unchanged. A tool is called by one POST, and its answer goes to the policy, an error's too. A server that is away
is waited for, and then raises ServerGone; so do errors that only the server can cause, such as a session that does not
begin or an invalid reward. The HTTP client is aiohttp, which is in each of our locks.
"""

from __future__ import annotations

import asyncio
import functools
import json
import time
from typing import Any, Dict, List, NamedTuple, Optional
from urllib.parse import quote

import aiohttp

from agents.environments.child.own_loop.function import AgentFailed, Unmeasured, finish_of
from agents.environments.child.prepared import PreparedKind
from agents.environments.child.schemas import ServerGone, UnfitArguments, arguments_of
from agents.environments.child.tools import cut

Items = List[Dict[str, Any]]

ROW, ASKED = "row", "responses_create_params"  # a row of NeMo Gym in ours, and its request to the policy
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0  # before a server that is away is tried again
WAIT_SHARE = 0.9  # of reset_deadline_s: how long to wait for it
GOODBYE_S = 2.0
REFUSED, BROKEN = 400, 500  # the lowest status of an error, and of a server error
GONE = (502, 503, 504)  # a proxy returns these where no server is behind it
SHOWN = 400  # characters of an error's body


class NemoGymReply(NamedTuple):
    """A server's answer."""

    status: int
    text: str


def prepare(section: Dict[str, Any]) -> PreparedKind:
    """Return the environment; its server is first contacted at an episode's beginning."""
    return PreparedKind(functools.partial(NemoGym, section), is_async=True)


class NemoGymServer:
    """A server within one session, identified by its cookies."""

    def __init__(self, section: Dict[str, Any]) -> None:
        self._url, self._section = section["url"].rstrip("/"), section
        # A server addressed by number has cookies, too, which the jar refuses by default.
        self._client = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def routes(self) -> List[str]:
        """Return the server's paths, once it answers. Raises ServerGone."""
        pause, until = FIRST_PAUSE_S, time.monotonic() + WAIT_SHARE * self._section["reset_deadline_s"]
        while True:
            try:
                async with self._client.get(f"{self._url}/openapi.json") as reply:
                    reply.raise_for_status()
                    return list((await reply.json())["paths"])
            except (aiohttp.ClientError, OSError, ValueError, LookupError, asyncio.TimeoutError) as error:
                if time.monotonic() + pause > until:
                    seconds = self._section["reset_deadline_s"]
                    what = f"does not say its routes at /openapi.json, in reset_deadline_s={seconds:g}"
                    raise ServerGone(f"the NeMo Gym server at {self._url} {what}") from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def post(self, path: str, body: Any, seconds: Optional[float] = None) -> NemoGymReply:
        """Return the answer to a POST. Raises ServerGone."""
        seconds = seconds or self._section["step_deadline_s"]
        try:
            limit = aiohttp.ClientTimeout(total=seconds)
            async with self._client.post(self._url + path, json=body, timeout=limit) as reply:
                said = NemoGymReply(reply.status, await reply.text(errors="replace"))
        except asyncio.TimeoutError as error:
            what = f"gives no answer to {path} within step_deadline_s={seconds:g}"
            raise ServerGone(f"the NeMo Gym server at {self._url} {what}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ServerGone(f"the NeMo Gym server at {self._url} is gone, at {path}") from error
        if said.status in GONE:
            raise ServerGone(f"the NeMo Gym server at {self._url} is gone, at {path}: {said.status}")
        return said

    async def ask(self, path: str, body: Dict[str, Any], *, breaks: bool = False) -> Dict[str, Any]:
        """Return the object in the answer to a POST.

        Args:
            breaks: whether a server error may be caused by the policy's message.
        Raises:
            ServerGone: there is no such object.
            AgentFailed: an error that the policy's message may have caused.
        """
        status, text = await self.post(path, body)
        if status >= REFUSED:
            kind = AgentFailed if breaks and status >= BROKEN else ServerGone
            raise kind(f"the NeMo Gym server at {self._url} answers {path} with {status}: {text[:SHOWN]}")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ServerGone(
                f"the NeMo Gym server at {self._url} answers {path} with no object: {text[:SHOWN]}"
            )
        return found

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


class Policy:
    """The policy, called through OpenAI's responses."""

    def __init__(self, base_url: str, key: str) -> None:
        self._url = base_url + "/v1/responses"
        # The worker has the deadline: it does not count time in queues.
        self._client = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {key}"}, timeout=aiohttp.ClientTimeout(total=None)
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def answer(self, asked: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """Return the response; None where a limit ended the episode. Raises AgentFailed."""
        async with self._client.post(self._url, json=asked) as reply:
            body = await reply.json()
        if reply.status >= REFUSED:
            raise AgentFailed(f"the policy can't be asked as {ASKED} has it: {body['error']['message']}")
        found: Dict[str, Any] = body
        return found if found["usage"]["output_tokens"] else None  # a last message at a limit has no tokens


class NemoGym:
    """An agent while its episode is played."""

    def __init__(self, section: Dict[str, Any]) -> None:
        self._section = section
        self._most = section["result_characters"]
        self._is_open = False  # whether the server must be informed of the end

    async def reset(self, row: Dict[str, Any], seed: int) -> None:  # noqa: ARG002
        """Begin a session. Raises ServerGone, and LookupError for a row or a server that is not NeMo Gym's."""
        self._server = NemoGymServer(self._section)
        kind = self._section["agent"] or _agent_for(await self._server.routes(), self._section["url"])
        found = row.get(ROW) or {}
        if ASKED not in found:
            raise LookupError(f"the row is none of NeMo Gym's: it has no {ASKED}")
        self._row, self._asked = found, {key: one for key, one in found[ASKED].items() if one is not None}
        said = self._asked.get("input", [])
        self._input: Items = [{"role": "user", "content": said}] if isinstance(said, str) else list(said)
        self._plays = {"simple": self._as_simple, "gymnasium": self._as_gymnasium}[kind]
        if kind == "simple":
            await self._server.ask("/seed_session", self._row)
            return
        begun = await self._server.ask("/reset", self._row)
        self._is_open = (begun.get("info") or {}).get("supports_explicit_close") is True
        self._input += self._observed(begun)

    async def run(self, base_url: str, key: str) -> Dict[str, Any]:
        """Play to the end. Raises ServerGone and AgentFailed."""
        policy = Policy(base_url, key)
        try:
            return await self._plays(policy)
        finally:
            await policy.close()

    async def close(self) -> None:
        """End the session, where the server requires it."""
        if self._is_open:
            try:
                await self._server.post("/close", {}, GOODBYE_S)
            except ServerGone:
                pass
        if hasattr(self, "_server"):
            await self._server.close()

    async def _as_simple(self, policy: Policy) -> Dict[str, Any]:
        """Make the policy's calls until it makes none, then verify the whole."""
        last: Optional[Dict[str, Any]] = None
        output: Items = []
        while (response := await self._answer(policy, output)) is not None:
            last = response
            output += response["output"]
            calls = [item for item in response["output"] if item["type"] == "function_call"]
            if not calls or response.get("incomplete_details"):
                break
            output += [await self._called(call) for call in calls]
        if last is None:
            return finish_of(None, "")
        found = await self._server.ask("/verify", {**self._row, "response": {**last, "output": output}})
        why = ": ".join(str(one) for key in ("failure_kind", "failure_reason") if (one := found.get(key)))
        if found.get("mask_sample"):
            raise Unmeasured(
                f"the NeMo Gym server says that its reward measures nothing: {why or 'no reason'}"
            )
        if "reward" not in found:
            raise ServerGone("the NeMo Gym server answers /verify without a reward")
        return finish_of({"reward": found["reward"], "remark": why}, "/verify")

    async def _as_gymnasium(self, policy: Policy) -> Dict[str, Any]:
        """Take a step with each response, until the server ends it, and sum the rewards."""
        total: Optional[float] = None
        said: Items = []
        while (response := await self._answer(policy, said)) is not None:
            step = await self._server.ask("/step", {**self._row, "response": response}, breaks=True)
            total = (total or 0.0) + float(step.get("reward") or 0.0)
            if step.get("terminated") or step.get("truncated"):
                self._is_open = False
                break
            if not (more := self._observed(step)):
                break  # nothing to continue from
            said += [*response["output"], *more]
        return finish_of(total, "/step")

    async def _answer(self, policy: Policy, said: Items) -> Optional[Dict[str, Any]]:
        return await policy.answer({**self._asked, "model": "policy", "input": self._input + said})

    def _observed(self, found: Dict[str, Any]) -> Items:
        """Return the items of an answer to `/reset` or `/step`: results of tools, and user messages."""
        results = (found.get("info") or {}).get("tool_outputs") or ()
        items = [_result(one["call_id"], cut(str(one["output"]), self._most)) for one in results]
        if text := found.get("observation"):
            items.append({"role": "user", "content": cut(str(text), self._most)})
        return items

    async def _called(self, call: Dict[str, Any]) -> Dict[str, Any]:
        """Return the item of a tool's answer. Only routes that the row offers are called."""
        name, names = call["name"], [tool.get("name") for tool in self._asked.get("tools") or ()]
        if name not in names:
            there = ", ".join(map(str, names)) or "none"
            return _result(call["call_id"], f"there is no tool {name!r}; there is {there}")
        try:
            arguments = arguments_of(call["arguments"])
        except UnfitArguments as error:
            return _result(call["call_id"], f"{name}: {error}")
        said = await self._server.post(f"/{quote(name, safe='')}", arguments)
        return _result(call["call_id"], cut(said.text, self._most))


def _agent_for(routes: List[str], url: str) -> str:
    """Return the agent that a server is for. Raises LookupError."""
    if {"/reset", "/step"} <= set(routes):
        return "gymnasium"
    if "/verify" in routes:
        return "simple"
    raise LookupError(
        f"{url} has neither /verify nor /reset and /step: is it a resources server of NeMo Gym?"
    )


def _result(call: str, text: str) -> Dict[str, Any]:
    return {"type": "function_call_output", "call_id": call, "output": text}
