"""A judge whose verdict stands in the answer that it is asked about, at a real socket."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.endpoint_server import Call, Saying, ScriptedEndpoint, scripted_endpoint

MARK = re.compile(r"\[begin ([0-9a-f]{12})\]")


def says(call: Call) -> Saying:
    """Answer YES with correct, HUH with what is no verdict, and all else with incorrect."""
    nonce = MARK.search(call.prompt)
    assert nonce is not None
    if "HUH" in call.prompt:
        return Saying("I can't tell.", delay_s=0.1)
    verdict = "correct" if "YES" in call.prompt else "incorrect"
    return Saying(f'{{"verdict": "{verdict}", "code": "{nonce[1]}"}}', delay_s=0.1)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedEndpoint]:
    """Yield the judge's server, which the environment names."""
    with scripted_endpoint() as running:
        running.script = says
        monkeypatch.setenv("LLM_JUDGE_BASE_URL", running.url)
        yield running
