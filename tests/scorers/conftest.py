"""Completions and groups made of texts, and one sandbox and one math scorer for the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from broker.messages import Completion, FinishReason, JsonObject, Prompt, SampledGroup, Span, Split
from config.endpoint import EndpointConfig
from config.scorer_kinds import JudgeConfig, MathConfig, RubricConfig, SweConfig, TinyvConfig
from config.scorers import ScorersConfig
from sandbox.choice import build_sandbox
from sandbox.program import Sandbox
from scorers import api
from scorers.judge.scorer import JudgeAnswer
from scorers.math.scorer import MathAnswer
from scorers.rows import judged_lines, row_workers
from scorers.rubric.scorer import RubricAnswer
from scorers.served_model.scorer import ServedModelScorer
from scorers.swe.scorer import SwePatch
from scorers.tinyv.scorer import TinyvAnswer
from tests.support.endpoint_server import ScriptedEndpoint, scripted_endpoint
from tests.support.judged_here import JudgedHere
from tests.support.row_worker_here import RowWorkerHere

Complete = Callable[[str], Completion]
Group = Callable[..., SampledGroup]
Asking = Callable[..., Any]
SERVED: dict[str, Any] = {
    "judge": (JudgeAnswer, JudgeConfig),
    "rubric": (RubricAnswer, RubricConfig),
    "tinyv": (TinyvAnswer, TinyvConfig),
}


@pytest.fixture(scope="session")
def complete() -> Complete:
    def make(text: str) -> Completion:
        return Completion.of_one_segment(
            token_ids=np.array([7], np.int32),
            logprobs=np.array([-0.5], np.float32),
            text=text,
            policy_spans=(Span(version=0, first=0, count=1),),
            finish_reason=FinishReason.STOP,
        )

    return make


@pytest.fixture(scope="session")
def group(complete: Complete) -> Group:
    """Return a group with the given texts against one reference."""

    def make(
        *texts: str,
        value: object = "5",
        task: str = "math",
        verification_info: Mapping[str, Any] | None = None,
    ) -> SampledGroup:
        prompt = Prompt(
            group_id="17",
            split=Split.TRAIN,
            task=task,
            n=len(texts),
            floor=0,
            issued_at=0.0,
            epoch=0,
            row=17,
            fingerprint="f",
            seed=1,
            temperature=1.0,
            max_tokens=16,
            messages=({"role": "user", "content": "2 + 3?"},),
            token_ids=np.array([1, 2], np.int32),
            verification_info=JsonObject(verification_info or {"type": "math", "answer": {"value": value}}),
        )
        return SampledGroup(
            prompt=prompt, completions=tuple(map(complete, texts)), generator="g", seconds=0.1
        )

    return make


@pytest.fixture
def server() -> Iterator[ScriptedEndpoint]:
    """Yield a served model that says `True` until it has a script."""
    with scripted_endpoint() as running:
        yield running


@pytest.fixture
def asking(server: ScriptedEndpoint) -> Iterator[Asking]:
    """Yield what builds a scorer that asks the server, and `more`, with options of its endpoint and its section."""
    built: list[ServedModelScorer[Any, Any]] = []

    def make(
        kind: str, endpoint: Mapping[str, Any] | None = None, *more: ScriptedEndpoint, **options: Any
    ) -> Any:
        urls = tuple(one.url for one in (server, *more))
        asked = EndpointConfig(**{"urls": urls, "timeout_s": 5.0, "cache": False} | dict(endpoint or {}))
        answer, section = SERVED[kind]
        built.append(answer(section(endpoint=asked, **options)))
        return built[-1]

    yield make
    for scorer in built:
        scorer.close()


@pytest.fixture
def scores_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have `score`, `score_many` and what examines rows do their work in this process."""
    for module in (api, row_workers, judged_lines):
        monkeypatch.setattr(module, "RowWorkerClient", RowWorkerHere)
    monkeypatch.setattr(api, "_process", None)
    monkeypatch.setattr(api, "_judging", {})
    yield
    for process in api._all():
        process.close()


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    built = build_sandbox(ScorersConfig())
    yield built
    built.close()


@pytest.fixture(scope="session")
def math_scorer() -> MathAnswer:
    """Return the math scorer with its defaults, which judges in this process."""
    return JudgedHere(MathConfig())


@pytest.fixture(scope="session")
def math_worker() -> Iterator[MathAnswer]:
    scorer = MathAnswer(MathConfig())
    yield scorer
    scorer.close()


@pytest.fixture(scope="session")
def swe_scorer() -> Iterator[SwePatch]:
    scorer = SwePatch(SweConfig(), ScorersConfig())
    yield scorer
    scorer.close()


@pytest.fixture(scope="session")
def strict_swe_scorer() -> Iterator[SwePatch]:
    """Yield the same with every option that is off by default."""
    scorer = SwePatch(SweConfig(subtract_floor=True, syntax_gate=True, format_penalty=True), ScorersConfig())
    yield scorer
    scorer.close()
