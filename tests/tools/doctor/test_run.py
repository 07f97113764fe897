"""What the doctor finds of what a configuration names: paths, data, served models."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from config.loading import load_run
from tests.conftest import free_port
from tests.support.findings import NOTE, OK, PROBLEM, assert_found, only
from tests.support.paths import RECIPES
from tests.support.tiny import write_own_head, write_tiny_model
from tests.support.told import Patch
from tests.tools.conftest import MakeRun
from tools.doctor import light, probe
from tools.doctor import run as doctor_run
from tools.doctor.findings import CheckFinding, Level, lines_of
from tools.doctor.questions import ProbeAnswer, ProbeQuestion, ask

pytestmark = pytest.mark.process


@pytest.fixture
def served() -> Iterator[Callable[[bytes], str]]:
    """Addresses of servers that give one answer to whoever comes first."""
    with contextlib.ExitStack() as listening:

        def serve(answer: bytes) -> str:
            server = listening.enter_context(socket.create_server(("127.0.0.1", 0)))

            def reply() -> None:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

            threading.Thread(target=reply, daemon=True).start()
            return f"http://127.0.0.1:{server.getsockname()[1]}"

        yield serve


def http(status: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


TWO = {"data": [{"id": "judge"}, {"id": "other"}]}


ANSWERS: list[Any] = [
    (http("200 OK", TWO), "judge", OK, "serves judge (scorers.tasks.j.scorer.endpoint)", ""),
    (http("200 OK", TWO), "gone", PROBLEM, "does not serve 'gone', but judge, other", "endpoint.model=judge"),
    (http("200 OK", TWO), None, PROBLEM, "does not say which", "endpoint.model=judge"),
    (http("401 No", {"error": {"message": "no key"}}), "judge", PROBLEM, "HTTP 401 no key", "LLM_JUDGE_API_KEY"),
    (http("429 Busy", {}), "judge", NOTE, "is busy, and answers", ""),
    (None, "judge", PROBLEM, "no connection", "curl http://127.0.0.1:"),
]  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_a_judge_that_does_not_answer_with_its_model_is_found(
    make_run: MakeRun, served: Callable[[bytes], str], case: Any
) -> None:
    answer, model, level, seen, do = case
    url = f"http://127.0.0.1:{free_port()}" if answer is None else served(answer)
    judge = {"type": "judge", "endpoint": {"urls": [url], "model": model}}
    run = make_run(scorers={"tasks": {"j": {"scorer": judge}}})
    assert_found(only(doctor_run.check_endpoints(run), "endpoint"), level, seen, do)


CODE = {"scorer": {"type": "code"}}
PLAYED = {"environment": {"type": "custom", "import_path": "my_game:Guess"}}


DEADLINES: list[Any] = [
    ({}, OK, "may run for 120 s of the 300 s", ""),
    ({"scorers": {"group_deadline_s": 299}}, OK, "may run for 299 s of the 300 s", ""),
    ({"scorers": {"group_deadline_s": 300}}, PROBLEM,
        "takes up to 300 s with what queues take, and dies at learner.group_deadline_s=300",
        "scorers.group_deadline_s=120, or learner.group_deadline_s=600"),
    ({"scorers": {"group_deadline_s": 160, "tasks": {"math": CODE}}}, PROBLEM,
        "takes up to 300 s with what queues take", "scorers.group_deadline_s=120"),  # 1.5 x 160, and a minute
    ({"scorers": {"group_deadline_s": 160, "patience_s": None, "tasks": {"math": CODE}}}, NOTE,
        "all 8 answers of a group of math may run for 160 s together (scorers.group_deadline_s): where each is slow,",
        "learner.group_deadline_s=1200"),
    ({"learner": {"group_deadline_s": 1200}, "scorers": {"tasks": {"math": CODE}}}, OK, "480 s of", ""),
    ({"sampling": {"group_size": 80}}, PROBLEM, "a group of 80 slow answers takes up to 320 s", "=640"),
    ({"sampling": {"group_size": 64}}, NOTE, "one has 2 s, and not the 6 s", "group_deadline_s=960"),
    ({"scorers": {"tasks": {"math": {"scorer": {"type": "math"},
        "extra_scorers": {"b": {"scorer": {"type": "math", "deadline_s": 9}}}}}}}, NOTE,
        "one has 7.5 s, and not the 9 s", ""),
    ({"scorers": {"tasks": {"letters": {"scorer": {"type": "choice"}}}}}, OK, "120 s", ""),
    ({"scorers": {"tasks": {"letters": {"scorer": {"type": "choice"}, "deadline_s": 900},
        "words": {"scorer": {"type": "choice"}}}}}, OK, "120 s of the 300 s, or 360 s of the 900 s that it has", ""),
    ({"scorers": {"group_deadline_s": 100, "tasks": {"math": CODE | PLAYED}}}, PROBLEM,
        "187.5 s with what queues take, and dies at learner.group_deadline_s=300, of which agents may play for 150 s: ",
        "scorers.group_deadline_s=60, or learner.group_deadline_s=750"),
    ({"scorers": {"tasks": {"math": {"deadline_s": 100}}}}, NOTE,
        "all 8 answers of a group of math may run for 40 s together", "scorers.tasks.math.deadline_s=120"),
    ({"scorers": {"group_deadline_s": 120, "tasks": {"math": {"deadline_s": 100}}}}, PROBLEM,
        "takes up to 120 s with what queues take, and dies at scorers.tasks.math.deadline_s=100",
        "scorers.group_deadline_s=40, or scorers.tasks.math.deadline_s=240"),
]  # fmt: skip


@pytest.mark.parametrize(("sections", "level", "seen", "do"), DEADLINES)
def test_a_groups_deadline_that_scoring_could_outlast_is_found(
    make_run: MakeRun, sections: dict[str, object], level: Level, seen: str, do: str
) -> None:
    assert_found(doctor_run.check_deadlines(make_run(**sections)), level, seen, do)


@pytest.mark.parametrize(("size", "level"), [(1, PROBLEM), (2, OK), (8, OK)])
def test_a_group_of_one_answer_is_found(make_run: MakeRun, size: int, level: Level) -> None:
    found = doctor_run.check_groups(make_run(sampling={"group_size": size}))
    assert found.level is level
    assert ("nothing of it trains" in found.seen) is (level is PROBLEM)


def test_what_a_configuration_names_and_is_not_here_is_found(make_run: MakeRun, tmp_path: Path) -> None:
    away = {"type": "dataset", "path": "rows.jsonl"}
    judge = {"tasks": {"j": {"scorer": {"type": "judge"}}}}
    run = make_run(model={"path": "./none"}, data={"train": away}, scorers=judge)
    found = [(finding.level, finding.seen.split(":")[0]) for finding in doctor_run.check_paths(run)]
    assert found == [(PROBLEM, "model.path=./none"), (PROBLEM, "data.train.path=rows.jsonl")]
    nobody = only(doctor_run.check_endpoints(run), "endpoint")
    assert_found(nobody, PROBLEM, "urls names no server", "endpoint.urls=")
    trouble = ProbeAnswer(trouble="OSError: none")
    assert_found(doctor_run.tokenizer(trouble, run), PROBLEM, "OSError", "save_pretrained")
    assert_found(doctor_run.data(trouble, run), PROBLEM, "OSError", "data.train")
    hub = make_run(model={"path": "me/model"}, data={"train": away | {"path": "me/rows"}})
    assert_found(doctor_run.tokenizer(trouble, hub), NOTE, "not on this machine", "hf download me/model")
    assert_found(doctor_run.data(trouble, hub), NOTE, "fetched", "hf download --repo-type dataset me/rows")
    assert_found(doctor_run.tokenizer(ProbeAnswer({"size": 5}), hub), OK, "5 tokens")
    assert_found(doctor_run.data(ProbeAnswer({"train": 5}), hub), OK, "train 5 rows")
    assert only(doctor_run.check_paths(make_run(model={"path": str(tmp_path)})), "paths").level is OK


@pytest.mark.parametrize(
    ("generation", "level", "seen"),
    [
        ('{"temperature": 0.6, "top_p": 0.9}', NOTE, "reads it, and refuses to save it"),
        ('{"max_new_tokens": 0}', PROBLEM, "neither transformers nor vLLM loads a model with its"),
        ('{"do_sample": true, "temperature": 0.6}', OK, "can be written again"),
    ],
)
def test_what_a_models_files_will_cost_is_said_before_the_start(
    tmp_path: Path, generation: str, level: Level, seen: str
) -> None:
    model = write_tiny_model(tmp_path / "tiny")
    (model / "generation_config.json").write_text(generation)
    assert_found(files_of(model), level, seen, "")


def files_of(model: Path) -> CheckFinding:
    """Return what is found of a model's files, asked in this process."""
    words = _words(model.parent, model)
    facts = probe.answer("model", words)
    answer = ProbeAnswer(facts, facts.pop("trouble", ""))
    return only(doctor_run.model_files(answer, load_run(words)), "model files")


def test_a_head_that_the_config_denies_is_said_before_the_start(tmp_path: Path) -> None:
    found = files_of(write_own_head(tmp_path / "own"))
    assert_found(found, NOTE, "a head with other values", "take lm_head.weight out")


@pytest.mark.prove
@pytest.mark.parametrize(
    ("words", "level", "seen"),
    [
        (["type=hf"], OK, "the engine hf takes the model and the settings"),
        (["type=vllm", "kv_cache_mb=64", "max_model_len=512"], OK, "the engine vllm takes the model"),
        # vLLM 0.32.0's own words.
        (["type=vllm", "kv_cache_mb=64", "max_model_len=513"], PROBLEM, "(513) is greater than the derived"),
        (["type=vllm", "tensor_parallel=3", "max_model_len=512"], PROBLEM, "heads (4) must be divisible"),
    ],
)
def test_settings_that_an_engine_refuses_are_said_before_the_start(
    tmp_path: Path, words: list[str], level: Level, seen: str
) -> None:
    given = _words(tmp_path, write_tiny_model(tmp_path / "tiny"))
    given += [f"generators.engine.{word}" for word in words]
    ((_, answer),) = ask([ProbeQuestion(name="engine", words=given)])
    found = only(doctor_run.settings(answer, load_run(given)), "settings")
    assert_found(found, level, seen)
    assert "[type=" not in found.seen


def test_an_engine_that_is_away_or_a_hubs_model_is_no_finding(make_run: MakeRun, tmp_path: Path) -> None:
    here = make_run(model={"path": str(tmp_path)})
    hub = make_run(model={"path": "me/model"})
    assert list(doctor_run.settings(ProbeAnswer({"is_here": False}), here)) == []
    assert list(doctor_run.settings(ProbeAnswer(trouble="OSError: none"), hub)) == []
    assert (
        only(doctor_run.settings(ProbeAnswer(trouble="no answer in 180 s"), here), "settings").level is NOTE
    )


def _words(folder: Path, model: Path) -> list[str]:
    config = folder / "run.yaml"
    config.write_text(f"name: own\nmodel: {{path: {model}}}\ndata: {{train: {{type: procedural}}}}\n")
    return ["--config", str(config)]


def test_all_bad_rows_are_listed(make_run: MakeRun, tmp_path: Path, monkeypatch: Patch) -> None:
    good: dict[str, Any] = {"messages": [{"role": "user", "content": "2?"}]}
    good["verification_info"] = {"type": "math", "answer": {"value": "2"}}
    rows = [good if index % 3 else good | {"messages": []} for index in range(30)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = tmp_path / "run.yaml"
    config.write_text("name: own\nmodel: {path: tiny}\ndata: {train: {type: dataset, path: rows.jsonl}}\n")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    ((_, answer),) = ask([ProbeQuestion(name="data", words=("--config", str(config)))])
    found = doctor_run.data(answer, load_run(["--config", str(config)]))
    assert found.level is PROBLEM
    shown = " ".join(" ".join(lines_of([found])).split())
    assert "10 rows can't be used" in shown
    assert [at for at in range(0, 30, 3) if f" row {at}, line {at + 1}: " not in shown] == [], shown


@pytest.mark.parametrize(("answer", "level", "said"), [
    ({"tools": {"find": 2, "talk": 0}}, OK, "shows tools: 2 of find"),
    ({"tools": {"talk": 0}}, OK, "no task has tools"),
    ({"tools": {"find": 2}, "objections": {"find": "its template does not show tools"}}, PROBLEM,
        "scorers.tasks.find.environment: its template does not show tools"),
    ({"tools": {"find": 2}, "untold": "no tokenizer"}, NOTE, "can't be told: no tokenizer"),
])  # fmt: skip
def test_a_policy_that_would_not_see_its_tools_is_found(
    make_run: MakeRun, answer: dict[str, Any], level: Level, said: str
) -> None:
    told = {"failed": {}, "refused": {}, "objections": {}, "untold": "", **answer}
    _, found = light.check_environments(ProbeAnswer(told), make_run())
    assert_found(found, level, said)


@pytest.mark.prove  # a tokenizer is loaded
def test_a_model_whose_template_shows_no_tools_is_asked_in_a_process_of_its_own(tmp_path: Path) -> None:
    tools = "{scorer: {type: math}, environment: {type: tools, functions: ['tasks.boxes:look']}}"
    away = f"{{type: nemo_gym, url: 'http://127.0.0.1:{free_port()}', reset_deadline_s: 1}}"
    config = tmp_path / "run.yaml"
    config.write_text(
        f"name: own\nmodel: {{path: {RECIPES / 'demo_model'}}}\ndata: {{train: {{type: procedural}}}}\n"
        f"scorers: {{tasks: {{find: {tools}, away: {{environment: {away}}}}}}}\n"
    )
    ((_, answer),) = ask([ProbeQuestion(name="environments", words=("--config", str(config)))])
    assert answer.trouble == ""
    assert answer.facts["tools"] == {"find": 1}
    assert "does not say its routes" in answer.facts["failed"]["away"], (
        "its server is away: not the row's fault"
    )
    assert "does not show tools" in answer.facts["objections"]["find"]
