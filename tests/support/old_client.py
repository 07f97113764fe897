"""The client that II-Thought's trainer has, as its description says that it behaves; none of its code."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

PING_S = 5.0
SHORTER = 0.1  # than its own waits of 2, 4 and 8 seconds


class VerificationFailed(Exception):
    """Any status from 400 up."""


class OldClient:
    """Pings every server, tries again where a connection breaks or is silent, and reads `score` and nothing else."""

    def __init__(self, *urls: str, timeout_s: float = 30.0, max_retries: int = 3) -> None:
        self._urls = urls
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self.attempts = 0
        for url in urls:
            if httpx.get(f"{url}/ping", timeout=PING_S, verify=False).status_code != 200:
                raise VerificationFailed(url)

    def verify(self, llm_output: str, verification_info: str | Mapping[str, Any]) -> float:
        """Return the score of one response."""
        info = verification_info if isinstance(verification_info, str) else json.dumps(verification_info)
        for attempt in range(self._max_retries + 1):
            try:
                return self._attempt(llm_output, info)
            except httpx.TransportError:
                if attempt == self._max_retries:
                    raise
                time.sleep(SHORTER * 2 ** (attempt + 1))
        raise AssertionError

    def verify_safe(
        self, llm_output: str, verification_info: str | Mapping[str, Any], default_value: float = 0.0
    ) -> float:
        """Return the score, or the default whatever happens: how an outage becomes a 0."""
        try:
            return self.verify(llm_output, verification_info)
        except Exception:  # noqa: BLE001 - as it does
            return default_value

    def verify_batch(
        self, pairs: Sequence[tuple[str, Mapping[str, Any]]], max_workers: int = 5
    ) -> list[float]:
        """Return the scores, in order."""
        with ThreadPoolExecutor(max_workers) as threads:
            return list(threads.map(lambda pair: self.verify_safe(*pair), pairs))

    def _attempt(self, llm_output: str, info: str) -> float:
        self.attempts += 1
        answer = httpx.post(
            f"{random.choice(self._urls)}/reward",
            timeout=self._timeout_s,
            verify=False,
            json={"llm_output": llm_output, "verification_info": info},
        )
        if answer.status_code >= 400:
            raise VerificationFailed(f"{answer.status_code} {answer.text}")
        return float(answer.json()["score"])
