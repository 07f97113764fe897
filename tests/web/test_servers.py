import time
from email.utils import formatdate

import pytest

from web.retry_after import retry_after_s
from web.rotation import RotatedServer, Rotation, doubled, rested


def test_the_least_busy_server_is_next_and_equal_ones_take_turns() -> None:
    rotation, servers = Rotation(), [RotatedServer("http://a"), RotatedServer("http://b")]
    assert [rotation.take(servers).url for _ in range(3)] == ["http://a", "http://b", "http://a"]
    rotation.give_back(servers[0])
    rotation.give_back(servers[0])
    assert rotation.take(servers) is servers[0]


def test_a_preference_counts_more_than_how_busy_a_server_is() -> None:
    rotation, servers = Rotation(), [RotatedServer("http://a", outstanding=5), RotatedServer("http://b")]
    assert rotation.take(servers, lambda server: server.url) is servers[0]


def test_a_server_rests_as_long_as_the_longest_of_its_wishes() -> None:
    server, now = RotatedServer("http://a"), time.monotonic()
    server.rest(60.0)
    server.rest(0.01)
    assert rested([server], now + 59.0) == []
    assert rested([server], now + 61.0) == [server]


def test_a_pause_doubles_between_its_bounds() -> None:
    assert [doubled(seconds, first=0.5, longest=30.0) for seconds in (0.0, 0.5, 20.0)] == [0.5, 1.0, 30.0]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("5", 5.0), ("0", 0.0), ("-1", -1.0), ("nan", None), ("inf", None), ("soon", None), (None, None)],
)
def test_a_retry_after_is_a_finite_number_of_seconds(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header) == seconds


def test_a_retry_after_may_be_a_date() -> None:
    seconds = retry_after_s(formatdate(time.time() + 60, usegmt=True))
    assert seconds == pytest.approx(60, abs=3)
