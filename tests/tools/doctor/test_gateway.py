"""What the doctor finds of the address and the key of agents that own their loop."""

from __future__ import annotations

import socket

import pytest

from tests.support.told import Patch
from tests.tools.conftest import MakeRun
from tools.doctor.findings import Level
from tools.doctor.gateway import check_gateway

KEY = {"key_variable": "THEIR_API_KEY"}


@pytest.mark.parametrize(
    ("gateway", "said"),
    [
        (KEY, ""),
        (KEY | {"port": "taken"}, ":{taken} can't be listened at: Address already in use"),
        (KEY | {"port": "taken", "host": "192.0.2.1"}, "192.0.2.1:{taken} can't be listened at: "),
        (
            KEY | {"port": "taken", "host": "nowhere.invalid"},
            "nowhere.invalid:{taken} can't be listened at: ",
        ),
        ({"key_variable": "OUR_API_KEY"}, "key_variable=OUR_API_KEY: the variable is not set"),
    ],
)
def test_a_gateway_that_cant_listen_or_has_no_key_is_a_problem_with_its_name(
    make_run: MakeRun, monkeypatch: Patch, gateway: dict[str, object], said: str
) -> None:
    monkeypatch.setenv("THEIR_API_KEY", "key")
    monkeypatch.delenv("OUR_API_KEY", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        section = gateway | ({"port": taken} if "port" in gateway else {})
        remote = {"scorers": {"tasks": {"math": {"environment": {"type": "remote"}}}}}
        found = list(check_gateway(make_run(agents={"gateway": section}, **remote)))
        problems = [one.seen for one in found if one.level is Level.PROBLEM]
        assert found
        assert said.format(taken=taken) in "\n".join(problems)
        assert bool(problems) == bool(said)


def test_nothing_is_said_of_a_gateway_that_nobody_calls_and_a_missing_key_on_loopback_is_a_note(
    make_run: MakeRun,
) -> None:
    assert list(check_gateway(make_run())) == []
    (found,) = check_gateway(make_run(scorers={"tasks": {"math": {"environment": {"type": "remote"}}}}))
    assert found.level is Level.NOTE
    assert "without a key" in found.seen
