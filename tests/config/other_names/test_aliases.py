"""The variables by which II-Thought and Reasoning360 say where a judge is, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from config.explanations import ConfigError
from config.loading import load_run, to_yaml
from config.other_names.services import judge_endpoint
from config.run import Run
from config.scorer_kinds import JudgeConfig

BASE = """\
name: base
model: {path: tiny}
data: {train: {type: procedural, size: 8}}
scorers:
  tasks:
    math: {}
    free:
      scorer: {type: judge, endpoint: {urls: [http://file], max_tokens: 5}}
      extra_scorers: {second: {scorer: {type: judge}}}
    stem_llm_judge: {scorer: {type: judge}}
    science: {scorer: {type: judge, variant: math}}
    letter: {scorer: {type: custom, import_path: "my:Letter"}}
"""
ALL = {
    "LLM_JUDGE_BASE_URL": "http://one:8002/v1",
    "LLM_JUDGE_MODEL": "qwen",
    "LLM_JUDGE_MAX_TOKENS": "1000",
    "LLM_JUDGE_TEMPERATURE": "0.5",
    "LLM_JUDGE_API_KEY": "planted",
    "STEM_LLM_JUDGE_URL": "http://two:8000",
    "MATH_LLM_JUDGE_URL": "http://three/v1/chat/completions",
}


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def load(*words: str, **environment: str) -> Run:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        (tmp_path / "run.yaml").write_text(BASE)
        return load_run(["--config", str(tmp_path / "run.yaml"), *words])

    return load


def judge_of(run: Run, task: str) -> JudgeConfig:
    scorer = run.scorers.tasks[task].scorer
    assert isinstance(scorer, JudgeConfig)
    return scorer


def test_each_judge_gets_its_own_address_without_a_run_too(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load(**ALL)
    free = judge_of(run, "free").endpoint
    assert (free.urls, free.model) == (("http://one:8002/v1",), "qwen")
    assert (free.max_tokens, free.temperature) == (1000, 0.5)
    assert run.scorers.tasks["free"].extra_scorers["second"].scorer.endpoint == free
    for task, url in (("stem_llm_judge", "http://two:8000"), ("science", "http://three/v1/chat/completions")):
        endpoint = judge_of(run, task).endpoint
        assert (endpoint.urls, endpoint.model, endpoint.temperature) == ((url,), None, 0.0)
    assert "http://one:8002/v1" in to_yaml(run)  # what --print-config shows
    assert "planted" not in to_yaml(run)
    for name, value in ALL.items():
        monkeypatch.setenv(name, value)
    assert judge_endpoint().urls == ("http://one:8002/v1",)
    assert judge_endpoint("stem").urls == ("http://two:8000",)
    given = judge_endpoint("default", "http://four")
    assert (given.urls, given.model) == (("http://four",), "qwen")


ONE = {"LLM_JUDGE_BASE_URL": "http://one"}


@pytest.mark.parametrize(
    ("environment", "words", "urls"),
    [
        ({}, [], ("http://file",)),
        ({"LLM_JUDGE_BASE_URL": ""}, [], ("http://file",)),
        ({"STEM_LLM_JUDGE_URL": "http://two"}, [], ("http://two",)),  # a task for rows of all kinds
        (ONE | {"STEM_LLM_JUDGE_URL": "http://two"}, [], ("http://one",)),
        (ONE, ["scorers.tasks.free.scorer.endpoint.urls=[http://word]"], ("http://word",)),
        (
            ONE | {"MILLRACE_SCORERS__TASKS__FREE__SCORER__ENDPOINT__URLS": "[http://ours]"},
            [],
            ("http://ours",),
        ),
    ],
)
def test_they_are_stronger_than_a_file_and_weaker_than_our_own_names(
    load: Any, environment: Mapping[str, str], words: list[str], urls: tuple[str, ...]
) -> None:
    assert judge_of(load(*words, **environment), "free").endpoint.urls == urls


def test_a_model_alone_is_that_of_the_address_in_the_file_and_two_judges_for_one_task_are_told(
    load: Any, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = judge_of(load(LLM_JUDGE_MODEL="qwen"), "free").endpoint
    assert (endpoint.urls, endpoint.model, endpoint.max_tokens) == (("http://file",), "qwen", 5)
    load(STEM_LLM_JUDGE_URL="http://two", MATH_LLM_JUDGE_URL="http://three")
    assert "used=STEM_LLM_JUDGE_URL ignored=MATH_LLM_JUDGE_URL" in caplog.text


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        # left in a script
        ({"STEM_LLM_JUDGE_URL": "<STEM_LLM_JUDGE_URL>"}, "STEM_LLM_JUDGE_URL.*expected http://HOST"),
        ({"LLM_JUDGE_BASE_URL": "http://user:planted@one"}, "LLM_JUDGE_BASE_URL.*no password"),
        ({"LLM_JUDGE_MAX_TOKENS": "many"}, "LLM_JUDGE_MAX_TOKENS"),
        ({"USE_FORMAT_VERIFIER": "maybe"}, "USE_FORMAT_VERIFIER says whether"),
    ],
)
def test_one_that_can_not_be_used_is_named(load: Any, environment: Mapping[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        load(**environment)
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(("value", "mode"), [("true", "mix"), ("True", "mix"), ("false", None), ("", None)])
def test_the_format_verifier_is_a_tenth_of_the_reward(load: Any, value: str, mode: str | None) -> None:
    tasks = load(USE_FORMAT_VERIFIER=value).scorers.tasks
    modes = {name: task.format.mode if task.format else None for name, task in tasks.items()}
    assert modes == {"math": mode, "free": mode, "stem_llm_judge": mode, "science": mode, "letter": None}
    assert all(task.format is None or task.format.weight == 0.1 for task in tasks.values())
