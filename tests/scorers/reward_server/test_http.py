"""The reward server's HTTP and its pending requests without a pool: tokens, limits, descriptions, an absent Redis, two servers."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from redis.exceptions import ResponseError
from starlette.testclient import TestClient

from broker import codec
from broker.connection import RedisLink
from broker.errors import BadMessage
from broker.joining import Joined, state_of
from broker.keys import DEAD, ROLLOUTS, SCORED, Keys
from broker.messages import SampledGroup, Score, ScoredGroup, ScoreStatus
from broker.protocol.streams import dead_letter_entry, entries_of, hand_over
from config.endpoint import is_loopback
from config.explanations import ConfigError
from config.loading import load_run
from config.logs import mask
from config.scorers import TaskConfig
from scorers.retries import FAILED_TRIES
from scorers.reward_server import bodies, pending_requests, service
from scorers.reward_server.api_run import ROLE, OtherServer, api_run, maintain, register
from scorers.reward_server.command import LINGERS_S, LONGEST_WITHIN_S, serve
from scorers.reward_server.pending_requests import PendingRequests
from scorers.reward_server.questions import (
    NotServed,
    RewardQuestion,
    RewardResult,
    question_of,
    reward_result_of,
    unavailable,
)
from scorers.reward_server.redis_messages import LONGEST_S, Arrivals, admit, discard_old, rollout_of
from scorers.reward_server.service import RewardServer
from tests.conftest import ROOT
from tests.support.waiting import wait_until
from tools.main import main

pytestmark = pytest.mark.process

MATH = {"type": "math", "answer": {"value": "5"}}
BODY = {"llm_output": "\\boxed{5}", "verification_info": MATH}
KEYS = Keys("api")


class FakePending:
    """Finds everything right, or says what it was told to say."""

    under_way = 0

    def __init__(self, result: RewardResult | None = None) -> None:
        self.result = result or RewardResult(status="scored", value=1.0, reason="as scripted")
        self.asked: list[RewardQuestion] = []

    async def ask(self, question: RewardQuestion, within_s: float) -> RewardResult:
        self.asked.append(question)
        return self.result

    def open(self) -> None:
        """Nothing to read."""

    async def close(self) -> None:
        """Nothing under way."""


def client_of(pending: Any, **options: Any) -> TestClient:
    return TestClient(RewardServer(pending, api_run([]).scorers.tasks, **{"within_s": 0.3} | options).app)


@pytest.fixture
def joined(link: RedisLink, monkeypatch: pytest.MonkeyPatch) -> Joined:
    monkeypatch.setattr(pending_requests, "BLOCK_S", 0.05)  # how soon they can be closed
    return Joined(api_run([]), link, KEYS)


def test_a_server_with_a_token_wants_it_for_everything_but_ping() -> None:
    client = client_of(FakePending(), token="s3cret")
    statuses = {"": 401, "s3cret": 401, "Bearer wrong": 401, "Bearer s3cret": 200, "bearer  s3cret": 200}
    statuses["Bearer s\xe9"] = 401
    for shown, status in statuses.items():
        answer = client.post("/reward", json=BODY, headers={b"authorization": shown.encode()})
        assert answer.status_code == status, shown
    assert [client.get(path).status_code for path in ("/ping", "/docs", "/openapi.json")] == [200, 401, 401]
    assert client.post("/reward", json=BODY).headers["www-authenticate"] == "Bearer"


def test_a_token_may_end_with_any_letter() -> None:
    client = client_of(FakePending(), token="cl\xe9 \xe0")
    answer = client.post("/reward", json=BODY, headers={b"authorization": "Bearer cl\xe9 \xe0".encode()})
    assert answer.status_code == 200


def test_old_clients_show_no_token_so_none_is_wanted_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text("s3cret")
    assert serve(["--legacy-client", "--token-file", str(tmp_path / "token")]) == 2
    monkeypatch.setenv("MILLRACE_REWARD_TOKEN", "s3cret-token")
    assert serve(["--legacy-client"]) == 2
    assert "would take each 401 for a score of 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        serve(["--timeout", "301"])
    assert LONGEST_WITHIN_S + LINGERS_S < LONGEST_S, "or it is swept away while its client waits"


def test_a_token_comes_from_a_file_or_the_environment_and_never_reaches_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MILLRACE_REWARD_TOKEN", "s3cret-token")
    assert api_run([]).name == "api"  # it is no key of a configuration
    assert "s3cret" not in mask("the token is s3cret-token")
    (tmp_path / "empty").write_text("\n")
    assert serve(["--token-file", str(tmp_path / "empty")]) == 2
    assert serve(["--token-file", str(tmp_path / "nowhere")]) == 2
    assert serve(["scorers.tasks.math.scorer.dedline_s=1"]) == 2
    assert "no token in it" in (said := capsys.readouterr().err)
    assert "deadline_s" in said


def described(info: bytes) -> bytes:
    return b'{"llm_output": "x", "verification_info": ' + info + b"}"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 422), (b"[]", 422), (b"null", 422),
        (b'{"llm_output": null, "verification_info": "{}"}', 422),
        (b'{"llm_output": "x"}', 422),
        (b'{"llm_output": "\\ud800", "verification_info": "{}"}', 422),
        (described(b'"{\\"type\\": \\"\\\\ud800\\"}"'), 422),
        (described(b'{"type": ' + b"1" * 5000 + b"}"), 422),
        (described(b'{"a":' * 5000 + b"1" + b"}" * 5000), 422),
        (b'{"solutions": ["x"], "ground_truths": [true]}', 422),
        (described(b'{"type": "math", "answer": ' + b"1" * 4000 + b"}"), 200),
        (b"{}", 415),
        (b'{"llm_output": "' + b"x" * 2000 + b'"}', 413),
    ],
)  # fmt: skip
def test_no_body_brings_about_a_500(monkeypatch: pytest.MonkeyPatch, content: bytes, status: int) -> None:
    kind = "text/plain" if status == 415 else "application/json"
    monkeypatch.setattr(service, "BODY_BYTES", 2000 if status == 413 else 1 << 20)
    answer = client_of(FakePending()).post("/reward", content=content, headers={"content-type": kind})
    assert answer.status_code == status
    detail = answer.json().get("detail", "")
    assert isinstance(detail, list) == (status == 422)
    if status == 422:
        assert all({"type", "loc", "msg"} <= fault.keys() and fault["loc"][0] == "body" for fault in detail)


def test_a_bug_is_its_own_rows_alone_and_no_500(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str, *given: Any) -> RewardQuestion:
        if text == "odd":
            raise OverflowError("int too large")
        return question_of(text, *given)

    monkeypatch.setattr(bodies, "question_of", broken)
    dropped: list[tuple[str, int]] = []
    client = client_of(FakePending(), drop=dropped.append)
    items = [{**BODY, "llm_output": text} for text in ("even", "odd")]
    results = client.post("/reward/batch", json={"items": items}).json()["results"]
    assert [(item["score"], item["status"]) for item in results] == [(1.0, "scored"), (None, "unavailable")]
    assert dropped == []
    answer = client.post("/reward", json=items[1])
    assert answer.status_code == 503
    assert answer.json()["detail"] == "the server has a bug: OverflowError('int too large')"
    monkeypatch.setattr(service, "_as_reply", broken)
    assert client.post("/reward", json=BODY).status_code == 503, "wherever it is"
    assert len(dropped) == 2


def test_what_is_wrong_with_a_row_comes_before_whether_it_is_served(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"type": "format", "of": {"type": "format"}}, BadMessage, "can't be `of` another one"),
        ({"type": "format", "of": MATH}, NotServed, "no scorer for rows of task 'format'; it has math"),
        ({"type": "moods"}, BadMessage, "no scorer for rows of type 'moods'"),
        ({"type": "math", "answer": {}}, BadMessage, "no answer to check against"),
    ]
    for info, error, said in cases:
        with subtests.test(info=info, error=error), pytest.raises(error, match=said):
            question_of("x", info, {"math": TaskConfig()})


def test_what_is_under_way_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_BYTES", 300)
    client = client_of(FakePending())
    large = {**BODY, "llm_output": "x" * 300}
    assert [client.post("/reward", json=body).status_code for body in (BODY, large, BODY)] == [200, 503, 200]


def test_a_large_body_is_read_beside_other_requests_and_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read, go_on = bodies.Bodies.read, threading.Event()
    monkeypatch.setattr(service, "LARGE_BYTES", 300)
    monkeypatch.setattr(
        bodies.Bodies, "read", lambda *given, **options: go_on.wait(20) and read(*given, **options)
    )
    large = {**BODY, "llm_output": "x" * 300}

    async def talk() -> list[int]:
        server = RewardServer(FakePending(), api_run([]).scorers.tasks, within_s=0.3)  # type: ignore[arg-type]
        transport = httpx.ASGITransport(server.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            stuck = [asyncio.create_task(client.post("/reward", json=large)) for _ in "ab"]
            await asyncio.sleep(0)
            found = [await client.get("/ping"), *[await one for one in stuck]]
            go_on.set()
            return [answer.status_code for answer in [*found, await client.post("/reward", json=large)]]

    assert asyncio.run(talk()) == [200, 503, 503, 200]


def test_other_methods_and_places_are_refused_in_json() -> None:
    client = client_of(FakePending())
    assert [(client.get(path).status_code, client.get(path).json()) for path in ("/reward", "/")] == [
        (405, {"detail": "Method Not Allowed"}),
        (404, {"detail": "Not Found"}),
    ]


def test_a_result_without_a_value_is_never_a_number() -> None:
    for result, status in (
        (unavailable("no worker"), 503),
        (RewardResult(status="unscorable", value=None, reason="a broken row"), 422),
    ):
        answer = client_of(FakePending(result)).post("/reward", json=BODY)
        assert (answer.status_code, "score" in answer.json()) == (status, False)
        assert result.reason in answer.text


def test_what_an_old_client_can_not_have_now_breaks_its_connection() -> None:
    dropped: list[tuple[str, int]] = []
    client = client_of(FakePending(unavailable("no worker")), drop=dropped.append)
    client.post("/reward", json=BODY)
    assert [host for host, _ in dropped] == ["testclient"]
    assert client_of(FakePending(), drop=dropped.append).post("/reward", json=BODY).json()["score"] == 1.0
    assert len(dropped) == 1


def test_it_describes_what_it_serves_and_its_page_needs_nothing_from_elsewhere() -> None:
    client = client_of(FakePending(), token=None)
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {"/ping", "/reward", "/reward/batch"}
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references <= set(document["components"]["schemas"])
    shown = client.post("/reward", json=BODY).json()
    assert shown.keys() == document["components"]["schemas"]["Reward"]["properties"].keys()
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "/reward/batch" in page.text
    assert not re.search(r"https?://|<script", page.text)


def test_while_redis_is_away_a_request_gets_503_in_its_time_and_ping_answers() -> None:
    pending = PendingRequests(Joined(api_run([]), RedisLink("redis://127.0.0.1:1", outage_s=1), KEYS))
    with client_of(pending) as client:
        answer = client.post("/reward", json=BODY)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "Redis is away" in answer.json()["detail"]
        assert client.get("/ping").json() == {"status": "ok", "message": "0 requests are under way"}


def score_all(link: RedisLink, value: float | None, **components: float) -> int:
    """Be a pool: score whatever waits."""
    entries = entries_of(ROLLOUTS, link.client.xrange(KEYS(ROLLOUTS)))
    for entry in entries:
        rollout = codec.decode_rollout(entry.raw)
        assert hand_over(link, KEYS, entry, SCORED, codec.encode_scored(scored(rollout, value, **components)))
    return len(entries)


def scored(rollout: SampledGroup, value: float | None, **components: float) -> ScoredGroup:
    status = ScoreStatus.UNSCORABLE if value is None else ScoreStatus.SCORED
    score = Score(
        status=status, value=value, reason="as scripted", scorer="s", version="1", components=components
    )
    return ScoredGroup(rollout=rollout, scores=(score,), rewards=(value,), worker="w", seconds=0.0)


def question(text: str) -> RewardQuestion:
    return RewardQuestion(text, "math", MATH, text.encode())


def test_each_server_answers_its_own_and_equal_questions_are_one(joined: Joined, link: RedisLink) -> None:
    async def both() -> list[RewardResult]:
        servers = [PendingRequests(joined), PendingRequests(joined)]
        for pending in servers:
            pending.open()
        asked = [
            asyncio.create_task(pending.ask(question(text), 5.0))
            for pending in servers
            for text in ("a", "a", "b")
        ]
        await asyncio.to_thread(wait_until, lambda: int(link.client.xlen(KEYS(ROLLOUTS))) == 4)
        assert await asyncio.to_thread(score_all, link, 0.5) == 4
        found = [await one for one in asked]
        for pending in servers:
            await pending.close()
        return found

    assert [result.value for result in asyncio.run(both())] == [0.5] * 6
    left = [name for name in ("slots", "where", ROLLOUTS, SCORED) if link.client.exists(KEYS(name))]
    assert [name for name in left if link.client.type(KEYS(name)) != b"stream"] == []
    assert link.client.xlen(KEYS(SCORED)) == link.client.xlen(KEYS(ROLLOUTS)) == 0


def test_a_server_has_a_limit_and_lets_go_of_what_is_given_up(joined: Joined, link: RedisLink) -> None:
    async def crowd() -> None:
        pending = PendingRequests(joined, most=2)
        pending.open()
        asked = [asyncio.create_task(pending.ask(question(text), 0.3)) for text in "abc"]
        results = [await one for one in asked]
        assert [result.status for result in results] == ["unavailable"] * 3
        assert sum("2 requests are under way already" in result.reason for result in results) == 1
        assert sum("no worker serves the queue math" in result.reason for result in results) == 2
        await pending.close()

    asyncio.run(crowd())
    assert link.client.zcard(KEYS("slots")) == link.client.xlen(KEYS(ROLLOUTS)) == 0


def test_what_is_ten_minutes_old_is_forgotten_and_nothing_younger(joined: Joined, link: RedisLink) -> None:
    for number in range(3):
        admit(link, KEYS, rollout_of(f"gone-{number}", "math", "x", MATH))
    client: Any = link.client
    (dead_lettered, unread, _) = entries_of(ROLLOUTS, client.xrange(KEYS(ROLLOUTS)))
    dead_letter_entry(link, KEYS, dead_lettered, reason="because")
    hand_over(link, KEYS, unread, SCORED, codec.encode_scored(scored(codec.decode_rollout(unread.raw), 1.0)))
    seconds = client.time()[0]
    assert discard_old(link, KEYS) == 0
    link.client = SimpleNamespaceClient(client, seconds + LONGEST_S + 5)  # type: ignore[assignment]
    assert discard_old(link, KEYS) == 3
    link.client = client
    sizes = [client.xlen(KEYS(stream)) for stream in (ROLLOUTS, SCORED, DEAD)] + [client.zcard(KEYS("slots"))]
    assert sizes == [0, 0, 0, 0]


def test_a_client_that_comes_back_is_told_what_came_or_asked_anew(joined: Joined, link: RedisLink) -> None:
    async def come_back() -> list[RewardResult]:
        pending = PendingRequests(joined, lingers_s=20.0)
        pending.open()
        found = []
        for value in (None, 0.5, 1.0):
            found.append(await pending.ask(question("a"), 0.05))
            (request,) = pending._by_question.values()
            await asyncio.to_thread(wait_until, lambda: int(link.client.xlen(KEYS(ROLLOUTS))) == 1)
            await asyncio.to_thread(score_all, link, value, **({} if value else {FAILED_TRIES: 2.0}))
            await asyncio.wait([request.future], timeout=10)
            found += [await pending.ask(question("a"), 0.05)] if value else []
        await pending.close()
        return found

    late, anew, right, late_too, last = asyncio.run(come_back())
    assert [result.status for result in (late, anew, late_too)] == ["unavailable"] * 3
    assert "not scored within" in anew.reason, "what had failed while nobody waited is no answer"
    assert (right.value, last.value) == (0.5, 1.0)


def test_a_late_answer_says_what_a_worker_failed_at(joined: Joined, link: RedisLink) -> None:
    async def ask() -> RewardResult:
        pending = PendingRequests(joined)
        pending.open()
        link.client.hset(KEYS.alive("scorer", "w"), "queues", "math")
        error = "Traceback ...\nValueError: no such mood\n"
        link.client.hset(KEYS("tries"), f"error:{pending.name}-1", error)
        found = await pending.ask(question("a"), 0.3)
        await pending.close()
        return found

    reason = asyncio.run(ask()).reason
    assert reason == "not scored within 0.3 s: a worker failed at it: ValueError: no such mood"


def test_what_redis_forgets_is_asked_again(
    joined: Joined, link: RedisLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_requests, "CHECK_S", 0.05)

    async def ask() -> list[RewardResult]:
        pending = PendingRequests(joined)
        pending.open()
        asked = [asyncio.create_task(pending.ask(question(text), 20.0)) for text in "ab"]
        for _ in range(2):
            await asyncio.to_thread(wait_until, lambda: int(link.client.xlen(KEYS(ROLLOUTS))) == 2)
            await asyncio.sleep(0.2)
            assert link.client.xlen(KEYS(ROLLOUTS)) == 2, "once, where nothing is forgotten"
            link.client.flushall()
        await asyncio.to_thread(wait_until, lambda: int(link.client.xlen(KEYS(ROLLOUTS))) == 2)
        await asyncio.to_thread(score_all, link, 0.5)
        found = [await one for one in asked]
        await pending.close()
        return found

    assert [result.value for result in asyncio.run(ask())] == [0.5, 0.5]


def test_results_of_a_redis_with_an_earlier_clock_are_read(joined: Joined, link: RedisLink) -> None:
    def put(entry_id: str, request_id: str) -> None:
        fields: Any = codec.encode_scored(scored(rollout_of(request_id, "math", "x", MATH), 1.0))
        link.client.xadd(KEYS(SCORED), fields, id=entry_id)

    arrivals = Arrivals(link, KEYS, "mine-")
    put("2000-0", "mine-1")
    assert [arrival.request_id for arrival in arrivals.read(block_s=0.01)] == ["mine-1"]
    link.client.delete(KEYS(SCORED))
    link.client.set(KEYS(DEAD), "no stream")  # whatever Redis says while it is not itself
    with pytest.raises(ResponseError):
        arrivals.read(block_s=0.01)
    link.client.delete(KEYS(DEAD))
    put("1000-0", "mine-2")
    assert [arrival.request_id for arrival in arrivals.read(block_s=0.01)] == ["mine-2"]


class SimpleNamespaceClient(SimpleNamespace):
    def __init__(self, client: Any, seconds: float) -> None:
        super().__init__(client=client, seconds=seconds)

    def time(self) -> tuple[float, int]:
        return self.seconds, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


def test_whose_fault_it_is_decides(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float | None, dict[str, float], str]] = [
        (1.0, {}, "scored"), (0.0, {"over_limit": 1.0}, "scored"), (None, {}, "unscorable"),
        (None, {"bad_row": 1.0}, "unscorable"),
        (None, {FAILED_TRIES: 4.0}, "unavailable"),
        (None, {f"judge.{FAILED_TRIES}": 4.0}, "unavailable"),
    ]  # fmt: skip
    for value, components, status in cases:
        with subtests.test(value=value, components=components):
            rollout = rollout_of("a-1", "math", "x", MATH)
            assert reward_result_of(scored(rollout, value, **components)).status == status
            raw = {b"group": b"a-1", b"reason": b"3 scorers began this group and none finished it"}
            assert reward_result_of(codec.decode_dead(raw)).status == "unavailable"


def test_servers_share_a_configuration_and_the_run_never_ends(joined: Joined, link: RedisLink) -> None:
    register(joined, "first")
    register(joined, "second")
    assert state_of(link, KEYS).status == "running"
    other = replace(joined, run=api_run(["scorers.retries=7"]))
    link.client.hset(KEYS.alive(ROLE, "first"), "state", "serving")
    with pytest.raises(OtherServer, match="first"):
        register(other, "third")
    link.client.delete(KEYS.alive(ROLE, "first"))
    register(other, "third")
    assert yaml.safe_load(link.client.hget(KEYS("run"), "config") or b"")["scorers"]["retries"] == 7


def test_a_configuration_that_somebody_else_writes_is_said_aloud_and_left(
    joined: Joined, link: RedisLink, caplog: pytest.LogCaptureFixture
) -> None:
    register(joined, "first")
    maintain(joined, "first")
    assert caplog.records == []
    link.client.hset(KEYS("run"), "config", "name: api")
    maintain(joined, "first")
    assert "other_configuration run=api" in caplog.text
    assert link.client.hget(KEYS("run"), "config") == b"name: api"
    link.client.delete(KEYS("run"))
    maintain(joined, "first")
    assert state_of(link, KEYS).status == "running"


def test_the_reserved_name_is_the_servers_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="reserved"):
        load_run(["--config", str(ROOT / "config" / "recipes" / "demo_cpu.yaml"), "name=api"])
    assert api_run(["--config", str(ROOT / "config" / "recipes" / "demo_cpu.yaml")]).name == "api"
    (tmp_path / "api" / "redis").mkdir(parents=True)
    assert main(["runs", "--runs-dir", str(tmp_path)]) == 0
    assert "no runs" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["audit", "api", "--runs-dir", str(tmp_path)])
    assert "no ledger is kept" in capsys.readouterr().err


def test_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "example.org")))


@pytest.mark.parametrize("has_library", [True, False])
def test_what_needs_a_library_is_served_where_that_is_installed(
    has_library: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object() if has_library else None)
    tasks = api_run([]).scorers.tasks
    assert ("gym" in tasks) == has_library
    assert {"math", "code", "instructions"} <= set(tasks)
    assert not {"judge", "rubric", "tinyv"} & set(tasks), "no address in the environment of the tests"
