"""The two exchanges do the same, in a real Redis and in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from broker.weight_exchange import folder_exchange
from broker.weight_exchange.bundles import Bundle, Manifest, WeightsRequest
from broker.weight_exchange.exchange import Exchange, ExchangeAway
from broker.weight_exchange.folder_exchange import FolderExchange
from broker.weight_exchange.redis_exchange import RedisExchange

BUNDLE = Bundle(name="full-7-abc", version=7, checksum="c", base="", size_bytes=10, chunk_bytes=4)
MANIFEST = Manifest(version=7, checksum="c", size_bytes=10, anchor=BUNDLE)
CHUNKS = [("full-7-abc", number) for number in range(3)]


@pytest.fixture(params=["redis", "folder"])
def exchange(request: pytest.FixtureRequest, tmp_path: Path, link: RedisLink, keys: Keys) -> Exchange:
    if request.param == "redis":
        return RedisExchange(link.client, keys)
    return FolderExchange(tmp_path / "not" / "yet")


def test_what_was_put_there_is_there_until_it_is_dropped(exchange: Exchange) -> None:
    assert exchange.get(CHUNKS[0]) is None
    assert exchange.present(CHUNKS) == set()
    for chunk in CHUNKS[:2]:
        exchange.put(chunk, b"a")
        exchange.put(chunk, b"b")
    assert exchange.present(CHUNKS) == set(CHUNKS[:2])
    assert exchange.get(CHUNKS[0]) == b"b"
    exchange.prolong(CHUNKS)
    exchange.drop(CHUNKS[1:])
    exchange.drop([])
    assert exchange.present(CHUNKS) == {CHUNKS[0]}
    assert exchange.has_settled() in (True, False)


def test_a_manifest_takes_the_place_of_the_one_before_and_goes_with_its_chunks(exchange: Exchange) -> None:
    exchange.clear()
    assert exchange.read_manifest() is None
    for version in (6, 7):
        manifest = Manifest(version=version, checksum="c", size_bytes=10, anchor=BUNDLE)
        exchange.write_manifest(manifest)
        assert exchange.read_manifest() == manifest
    for chunk in CHUNKS:
        exchange.put(chunk, b"a")
    exchange.clear()
    assert (exchange.read_manifest(), exchange.present(CHUNKS)) == (None, set())


def test_a_generators_request_takes_the_place_of_its_own_alone(exchange: Exchange) -> None:
    assert exchange.requests() == {}
    for count in (1, 2):
        for name in ("host-1.g", "host-2.g"):
            exchange.ask(name, WeightsRequest(count=count, version=0, held="", lacks={"full-7-abc": 0b101}))
    exchange.ask("host-1.g", WeightsRequest(count=3, version=7, held="c"))
    assert exchange.requests() == {
        "host-1.g": WeightsRequest(count=3, version=7, held="c"),
        "host-2.g": WeightsRequest(count=2, version=0, held="", lacks={"full-7-abc": 0b101}),
    }


def test_names_that_mean_something_to_a_folder_stay_in_it(tmp_path: Path) -> None:
    exchange = FolderExchange(tmp_path / "exchange")
    exchange.ask("../../up", WeightsRequest(count=1, version=0, held=""))
    exchange.put(("../chunk", 0), b"a")
    assert {path.name for path in tmp_path.iterdir()} == {"exchange"}
    assert exchange.get(("../chunk", 0)) == b"a"


def test_a_folder_that_cant_be_used_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    exchange = FolderExchange(tmp_path / "file")
    for use in (
        lambda: exchange.ask("g", WeightsRequest(count=1, version=0, held="")),
        exchange.read_manifest,
        lambda: exchange.put(CHUNKS[0], b"a"),
        lambda: exchange.get(CHUNKS[0]),
    ):
        with pytest.raises(ExchangeAway, match=rf"the folder {tmp_path}/file can't be used: Not a directory"):
            use()


def test_what_the_dead_left_in_a_folder_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = FolderExchange(tmp_path)
    exchange.write_manifest(MANIFEST)
    exchange.put(("full-6-of-another-manifest", 0), b"a")
    (tmp_path / "chunks" / ".half.new").touch()
    exchange.clear()
    assert list((tmp_path / "chunks").iterdir()) == []
    exchange.ask("g", WeightsRequest(count=1, version=0, held=""))
    assert exchange.requests()
    monkeypatch.setattr(folder_exchange, "OLD_S", -1.0)
    assert exchange.requests() == {}
    assert list((tmp_path / "wanted").iterdir()) == []
