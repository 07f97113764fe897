"""An old reward server scores: II-Thought's `POST /reward`, or any other that speaks it.

In: the text of a completion and its row, which goes to the server as it is. Out: the server's score. `prefetch` starts
a call and returns, so that a worker of the queue `judge` has `workers` calls under way. A server that is away is waited
for as long as `timeout_s`, and then the completion is tried again as `scorers.retries` says: `Retryable`, and never
a 0. A row that no server takes is unscorable, with what the server said.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from broker.errors import BadMessage, Retryable
from broker.scores import Score
from config.scorer_kinds import RewardApiConfig
from scorers.custom import SimpleScorer
from scorers.reward_api.exchange import REPLY_BYTES, RowRefused, post_reward
from scorers.scorer import make_score
from web.client import BadAddress, BlockingClient, Busy, ServerAway, ServerTrouble
from web.rotation import RotatedServer, Rotation, doubled, rested

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0  # before servers that are away are asked again
MAX_BEGUN: Final = 4096  # calls that nobody has asked for yet
PING_S: Final = 5.0


class RewardApi(SimpleScorer):
    """Scorer by reward servers. Used from one thread; its calls run in threads of their own."""

    name = "reward_api"
    version = "as served"  # what the servers' rules are, they do not say

    def __init__(self, config: RewardApiConfig) -> None:
        """Contact nothing yet."""
        self._config = config
        self._servers = [RotatedServer(url) for url in dict.fromkeys(map(_base, config.urls))]
        self._rotation = Rotation()
        self._choosing = threading.Lock()
        self._client: BlockingClient | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._begun: OrderedDict[bytes, Future[tuple[float, float]]] = OrderedDict()
        self._is_closed = threading.Event()

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Refuse a row without a type, which no server takes. Raises BadMessage."""
        if not isinstance(verification_info.get("type"), str):
            raise BadMessage("verification_info needs a type, by which the reward server knows its rule")

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        """Start the call that `score` will wait for; one that has failed begins anew."""
        key, body = _question(text, verification_info)
        begun = self._begun.get(key)
        if begun is None or (begun.done() and begun.exception() is not None):
            self._begin(key, body)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Return what a server says.

        Raises:
            Retryable: no server has scored; the next try begins anew.
            Permanent: there is no reward server at an address.
            BadMessage: as `check_row`.
        """
        self.check_row(verification_info)
        key, body = _question(text, verification_info)
        call = self._begun.get(key) or self._begin(key, body)
        del self._begun[key]
        try:
            value, seconds = call.result()
        except RowRefused as error:
            return make_score(self, None, f"the reward server gives no score: {error}")
        return make_score(self, value, f"the reward server gave {value:g}", seconds=seconds)

    def self_test(self) -> None:
        """Ask every server whether it is there. Raises Retryable where none is: the worker waits for one."""
        troubles = []
        for server in self._servers:
            try:
                self._opened().exchange("GET", f"{server.url}/ping", timeout_s=PING_S, max_bytes=REPLY_BYTES)
            except (ServerTrouble, BadAddress) as error:
                troubles.append(f"{server.url}: {error}")
        if len(troubles) == len(self._servers):
            raise ServerAway("; ".join(troubles))

    def close(self) -> None:
        """Break off what has not begun, and end the threads with what is under way."""
        self._is_closed.set()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
        self._begun.clear()
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _begin(self, key: bytes, body: bytes) -> Future[tuple[float, float]]:
        if self._threads is None:
            self._is_closed = threading.Event()
            self._threads = ThreadPoolExecutor(self._config.workers, thread_name_prefix="reward server")
            self._opened()
        call = self._begun[key] = self._threads.submit(self._asked, body, self._is_closed)
        while len(self._begun) > MAX_BEGUN:
            self._begun.popitem(last=False)
        return call

    def _opened(self) -> BlockingClient:
        if self._client is None:
            self._client = BlockingClient()
        return self._client

    def _asked(self, body: bytes, is_closed: threading.Event) -> tuple[float, float]:
        """Ask one server after the other; where all are away or busy, wait for them as long as for a reply.

        Returns:
            The score, and the seconds of the call that gave it.
        """
        until = time.monotonic() + self._config.timeout_s
        pause_s = 0.0
        while True:
            troubles: list[ServerTrouble] = []
            for server in self._in_order():
                started = time.monotonic()
                try:
                    value = post_reward(self._opened(), server.url, body, self._config.timeout_s)
                except ServerTrouble as trouble:
                    if isinstance(trouble, Busy):
                        server.rest(1.0 if trouble.seconds is None else max(0.0, trouble.seconds))
                    troubles.append(trouble)
                else:
                    return value, time.monotonic() - started
                finally:
                    with self._choosing:
                        self._rotation.give_back(server)
            may_wait = all(isinstance(one, ServerAway | Busy) for one in troubles)
            if not may_wait or time.monotonic() > until:
                raise _verdict(troubles)
            pause_s = doubled(pause_s, first=FIRST_PAUSE_S, longest=LONGEST_PAUSE_S)
            if is_closed.wait(pause_s):
                raise _verdict(troubles)

    def _in_order(self) -> Any:
        """Yield each server once, the least busy of those that do not rest first; each is lent until given back."""
        left = list(self._servers)
        while left:
            with self._choosing:
                server = self._rotation.take(rested(left, time.monotonic()) or left)
            left.remove(server)
            yield server


def _verdict(troubles: list[ServerTrouble]) -> Retryable:
    return ServerTrouble("; ".join(map(str, troubles)))


def _base(url: str) -> str:
    return url.rstrip("/").removesuffix("/reward").rstrip("/")


def _question(text: str, verification_info: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the body of a call, and a key for it. The row goes as JSON text, as II-Thought's client sends it."""
    question = {"llm_output": text, "verification_info": json.dumps(verification_info, sort_keys=True)}
    body = json.dumps(question).encode("ascii")
    return hashlib.blake2b(body).digest(), body
