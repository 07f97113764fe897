"""The reward server with a real Redis, a dispatcher and one worker: statuses, clients, and what is left behind."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from broker.keys import Keys
from broker.processes import stop
from config.rewards import PenaltiesConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers.__main__ import main
from scorers.math.equality import warm_up
from scorers.reward_server.questions import question_of, reward_result_of
from scorers.reward_server.redis_messages import rollout_of
from scorers.reward_server.request_scorer import RequestScorer
from tests.conftest import ROOT, RedisServer, free_port
from tests.support.forked_program import fork_main
from tests.support.old_client import OldClient, VerificationFailed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

KEYS = Keys("api")
PAGE = ROOT / "docs" / "reward_server.md"
CONFIG = """
scorers:
  retries: 1
  retry_backoff_s: 0.01
  tasks:
    math: {scorer: {type: math, deadline_s: 2.0}}
    moods: {scorer: {type: custom, queue: light, import_path: "tests.support.moods:Moods"}}
    code: {scorer: {type: code}}
"""
MATH = {"type": "math_verifiable", "answer": {"value": "5"}}
RIGHT, WRONG = "\\boxed{5}", "\\boxed{6}"
QUICK_S = 1.9  # --timeout of the server of old clients
SLOW = {"type": "moods", "answer": {"value": "2.4"}}  # seconds: more than one attempt has, and less than two


@dataclass(frozen=True)
class Served:
    """Two servers, the second one for old clients; the pool behind both serves `math` and `light`, and no `code`."""

    url: str
    old_url: str
    old: subprocess.Popen[bytes]
    client: Any  # of Redis
    log: Path
    http: httpx.Client

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return self.http.post(f"{self.url}{path}", json=body, **{"timeout": 30.0} | options)

    def reward(self, text: str, info: Any, **options: Any) -> httpx.Response:
        return self.post("/reward", {"llm_output": text, "verification_info": info}, **options)

    def scored(self) -> int:
        return self.log.read_text().count("scorers.group: scored group=")

    def left_over(self) -> dict[str, int]:
        sizes = {
            name: self.client.zcard(KEYS(name)) if name == "slots" else self.client.hlen(KEYS(name))
            for name in ("slots", "where", "jobs", "tries")
        }
        sizes |= {name: self.client.xlen(KEYS(name)) for name in ("prompts", "rollouts", "scored", "dead")}
        return {name: size for name, size in sizes.items() if size}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "config.yaml").write_text(CONFIG)
    server = RedisServer(folder)
    ports = free_port(), free_port()
    env = {**os.environ, "REDIS_URL": server.url, "PYTHONPATH": str(ROOT)}
    log = (folder / "log").open("wb")
    serve = ["serve", "--config", str(folder / "config.yaml"), "--port"]
    words = [
        [*serve, str(ports[0]), "--timeout", "3"],
        [*serve, str(ports[1]), "--timeout", str(QUICK_S), "--legacy-client"],
        ["--run", "api", "--queues", "math,light", "--part", "worker"],
        ["--run", "api", "--part", "dispatcher"],
    ]
    for module in IMPORTED:
        import_module(module)
    warm_up()
    started = [fork_main(main, line, env=env, stderr=log) for line in words]
    client = redis.Redis.from_url(server.url)
    url, old_url = (f"http://127.0.0.1:{port}" for port in ports)
    found = Served(url, old_url, started[1], client, folder / "log", httpx.Client(verify=False))
    try:
        wait_until(
            lambda: all(map(answers, (found.url, found.old_url))), within_s=60, log=found.log.read_text
        )
        wait_until(
            lambda: any(
                client.hget(key, "state") == b"waiting for rollouts"
                for key in client.keys(KEYS.alive("scorer", "*"))
            ),
            within_s=60,
            log=found.log.read_text,
        )
        yield found
    finally:
        for process in started:
            process.terminate()
        for process in started:
            stop(process, 20)
        log.close()
        client.close()
        found.http.close()
        server.kill()


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ping", verify=False).status_code == 200
    except httpx.TransportError:
        return False


IMPORTED = (  # once for all four
    *("scorers.pool.dispatcher", "scorers.pool.worker", "scorers.reward_server.service"),
    "uvicorn.loops.auto",
)
STATUSES: list[tuple[str, Any, int]] = [  # a request, its status, and the old server's where that was another
    (RIGHT, json.dumps(MATH), 200),
    (WRONG, MATH, 200),  # 422: an object
    (RIGHT, '{"type": "math_verifiable"}', 422),
    (RIGHT, '{"answer": {"value": "5"}}', 422),
    (RIGHT, "[1]", 422),
    (RIGHT, "not JSON", 422),
    (RIGHT, '{"type": "chess", "answer": {"value": "5"}}', 422),
    (RIGHT, '{"type": 5, "answer": {"value": "5"}}', 422),
    (RIGHT, "5", 422),  # 500
    (RIGHT, "null", 422),  # 500
    (RIGHT, {"type": "math_verifiable", "answer": {}}, 422),  # 500
    (RIGHT, {"type": "math_verifiable", "answer": {"value": "\\frac{"}}, 422),
    (RIGHT, {"type": "code_verifiable", "answer": "1"}, 422),  # 500
    (RIGHT, "[" * 100_000, 422),
    (RIGHT, {"type": "math", "answer": {"value": [[[[["5"]]]]]}}, 200),
    ("1", {"type": "moods", "answer": {"value": "bad row"}}, 422),  # 500
    ("1", {"type": "moods", "answer": {"value": "broken reference"}}, 422),
    ("1", {"type": "moods", "answer": {"value": "gone"}}, 503),  # 400 or 500
    ("1", {"type": "moods", "answer": {"value": "refused"}}, 503),  # 400
    ("1", {"type": "llm_judge", "answer": {"value": "5"}}, 503),  # 400: no judge
]


def test_every_request_has_the_status_of_whose_fault_it_is(served: Served) -> None:
    wrong = []
    for text, info, status in STATUSES:
        answer = served.reward(text, info)
        body = answer.json()
        is_right = answer.status_code == status
        if status == 200:
            is_right &= body["score"] == float(text == RIGHT) and body["status"] == "scored"
        elif status == 422:
            (fault,) = body["detail"][:1]
            is_right &= fault["loc"] == ["body", "verification_info"] and bool(fault["msg"])
        else:
            is_right &= isinstance(body["detail"], str) and int(answer.headers["retry-after"]) > 0
        if not is_right:
            wrong.append((str(info)[:80], answer.status_code, answer.text[:300]))
    assert wrong == []


def test_an_answer_says_more_than_its_score(served: Served) -> None:
    body = served.reward(WRONG, MATH).json()
    assert (body["score"], body["status"]) == (0.0, "scored")
    assert (body["scorer"], body["components"]) == ("math", {"math": 0.0})
    assert body["reason"] == "answer 6, expected 5"
    assert body["version"].startswith("4 math-verify=") or re.match(r"\d+ math-verify=", body["version"])


def test_a_batch_tells_each_item_its_own_status(served: Served) -> None:
    items = [
        {"llm_output": RIGHT, "verification_info": MATH},
        {"llm_output": WRONG, "verification_info": MATH},
        {"llm_output": RIGHT, "verification_info": "5"},
        {"llm_output": "1", "verification_info": {"type": "moods", "answer": {"value": "gone"}}},
    ]
    answer = served.post("/reward/batch", {"items": items})
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [item["score"] for item in results] == [1.0, 0.0, None, None]
    assert [item["status"] for item in results] == ["scored", "scored", "unscorable", "unavailable"]
    assert served.post("/reward/batch", {"items": items[3:]}).status_code == 503
    assert served.post("/reward/batch", {"items": []}).status_code == 422


def test_the_older_form_gives_all_scores_or_none(served: Served) -> None:
    def post(*truths: Any) -> httpx.Response:
        return served.post("/reward", {"solutions": [RIGHT] * len(truths), "ground_truths": truths})

    assert post("5", 5, MATH, json.dumps(MATH), "6").json() == {"scores": [1.0, 1.0, 1.0, 1.0, 0.0]}
    refused = post("5", {"type": "chess", "answer": {"value": 5}})
    assert (refused.status_code, refused.json()["detail"][0]["loc"]) == (422, ["body", "ground_truths", 1])
    assert post("5", {"type": "moods", "answer": {"value": "gone"}}).status_code == 503
    assert served.post("/reward", {"solutions": [RIGHT], "ground_truths": []}).status_code == 422


def test_the_old_client_works_with_two_servers_at_once(served: Served) -> None:
    client = OldClient(served.url, served.old_url)
    pairs = [(f"{number} {RIGHT if number % 3 else WRONG}", MATH) for number in range(24)]
    assert client.verify_batch(pairs) == [float(bool(number % 3)) for number in range(24)]
    with pytest.raises(VerificationFailed, match="422"):
        client.verify(RIGHT, {"type": "chess", "answer": {"value": "5"}})


def test_the_old_client_is_dropped_where_others_get_503_and_its_answer_waits(served: Served) -> None:
    client, before = OldClient(served.old_url), served.scored()
    assert client.verify("1", SLOW) == 1.0
    assert (client.attempts, served.scored() - before) == (2, 1)
    with pytest.raises(httpx.TransportError):  # no zero where it can't be scored
        OldClient(served.old_url, max_retries=0).verify("1", {"type": "moods", "answer": {"value": "gone"}})


def test_only_the_first_mark_of_an_old_trainers_prompt_counts(served: Served) -> None:
    mark = "<\uff5cAssistant\uff5c>"
    client = OldClient(served.old_url)
    assert client.verify(f"{RIGHT}{mark}I don't know", MATH) == 0.0  # the prompt's own box
    assert client.verify(f"{WRONG}{mark}{RIGHT}", MATH) == 1.0
    assert client.verify(f"2 + 3?{mark}<think>{mark}{RIGHT}", MATH) == 0.0, "still thinking"
    others = served.reward(f"{RIGHT}{mark}I don't know", MATH)  # who send responses alone
    assert others.json()["score"] == 1.0


def test_a_queue_that_nobody_serves_is_named_once_the_time_is_up(served: Served) -> None:
    code = {"type": "code_verifiable", "answer": {"test_cases": [{"input": "", "output": "1"}]}}
    answer = served.reward("```python\nprint(1)\n```", code)
    assert answer.status_code == 503
    assert "no worker serves the queue code; start some with python -m" in answer.json()["detail"]


def test_a_client_that_hangs_up_takes_its_request_along(served: Served) -> None:
    slow = {"type": "moods", "answer": {"value": "0.7"}}
    before = served.client.zcard(KEYS("slots"))
    with pytest.raises(httpx.ReadTimeout):
        served.reward("1", slow, timeout=0.3)
    wait_until(lambda: served.client.zcard(KEYS("slots")) <= before, within_s=5)


def curl(words: list[str]) -> str:
    """Return what curl prints; on a machine without it, what the same words get."""
    if shutil.which("curl"):
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", action="store_true")
    parser.add_argument("-H", default="accept: */*")
    parser.add_argument("-d")
    parser.add_argument("url")
    asked = parser.parse_args(words[1:])
    name, _, value = asked.H.partition(": ")
    return httpx.request(
        "POST" if asked.d else "GET", asked.url, headers={name: value}, content=asked.d, timeout=30
    ).text


def test_the_lines_of_the_page_do_what_it_says(served: Served) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^\$ (curl .+)\n((?:(?!\$ |```).+\n)*)", text, flags=re.MULTILINE)
    assert len(found) >= 4
    for command, output in found:
        words = shlex.split(command.replace("http://127.0.0.1:8000", served.url))
        shown, said = (
            re.sub(r'("seconds": )[\d.e-]+|("version": )"[^"]*"|(: )\d+(?= requests)', "_", text).strip()
            for text in (output, curl(words))
        )
        assert shown == said, command


def test_a_server_that_is_told_to_end_answers_what_it_is_at(served: Served) -> None:
    slow = {"llm_output": "1", "verification_info": {"type": "moods", "answer": {"value": "0.5"}}}
    ping = f"{served.old_url}/ping"
    wait_until(lambda: "0 requests" in httpx.get(ping, verify=False).text, within_s=10)  # of tests before
    with ThreadPoolExecutor(1) as threads:
        under_way = threads.submit(httpx.post, f"{served.old_url}/reward", json=slow, timeout=10)
        wait_until(lambda: "0 requests" not in httpx.get(ping, verify=False).text, within_s=5)
        served.old.send_signal(signal.SIGTERM)
        assert under_way.result().json()["score"] == 1.0
    assert served.old.wait(10) == 0


def test_nothing_is_left_of_any_request(served: Served) -> None:
    wait_until(lambda: not served.left_over(), within_s=5, log=served.left_over)
    assert served.client.hget(KEYS("run"), "status") == b"running"


def test_an_environments_score_cannot_be_asked_for_and_the_answer_says_why() -> None:
    lake = {"type": "custom", "import_path": "lake:Lake"}
    task = TaskConfig.model_validate({"scorer": {"type": "environment"}, "environment": lake})
    scorer = RequestScorer(ScorersConfig(tasks={"lake": task}))
    question = question_of("go left", {"type": "lake"}, {"lake": task})
    result = reward_result_of(
        scorer.score(rollout_of("one", question.task, question.text, question.info), "w")
    )
    assert (result.status, result.value) == ("unscorable", None)
    assert "agents play; a text alone has no environment's reward" in result.reason


def test_a_request_pays_for_repetition_and_not_for_tokens_that_nobody_has_counted() -> None:
    penalties = PenaltiesConfig.model_validate(
        {"overlong": {"buffer_tokens": 512}, "length": {"weight": 0.5}, "repetition": {"span_chars": 20}}
    )
    scorer = RequestScorer(ScorersConfig(tasks={"math": TaskConfig(penalties=penalties)}))
    try:
        rewards = [
            scorer.score(rollout_of("one", "math", text, MATH), "worker").rewards
            for text in (RIGHT, "again and again and again and again and " + RIGHT)
        ]
    finally:
        scorer.close()
    assert rewards == [(1.0,), (0.0,)]
