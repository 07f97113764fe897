"""A scripted engine with a known share of right answers gives exactly that avg@n, and the closed form's pass@k.

The fast form of `tests/e2e/test_evaluate.py`: the engine's own completions, without processes between.
"""

from __future__ import annotations

import asyncio
from math import comb
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.messages import JsonObject, SampledGroup, ScoredGroup
from config.generators import ScriptedEngineConfig
from generators.answers import answer
from generators.engines.scripted import ScriptedChat, ScriptedEngine
from learner.collect.results import CollectedSet, RowResult
from tests.support.chain import make_prompt, make_run
from tests.support.scores import a_score
from tools.evaluate.command import result_of
from tools.evaluate.summary import summaries

ANSWERS = ("1",) * 4 + ("2",) * 2 + ("none",) * 2
RIGHT = {"1": 4, "2": 2, "3": 0}  # of 8 samples, by reference


class Collected:
    """What a collected run has, as `learner.collect.results.Results` says it."""

    def __init__(self, groups: list[ScoredGroup]) -> None:
        self._groups = groups
        sampling = {"n": 8, "temperature": 1.0, "max_tokens": 8, "top_p": 1.0}
        self.sets = [
            CollectedSet(name="digits", first=0, rows=len(groups), fingerprint="f", sampling=sampling)
        ]

    def rows(self) -> list[RowResult]:
        """Return the rows, and one of which nothing came back."""
        found = [
            RowResult(ordinal=at, set="digits", row=at, group=group, died=None)
            for at, group in enumerate(self._groups)
        ]
        lost = RowResult(ordinal=len(found), set="digits", row=None, group=None, died="5 attempts")
        return [*found, lost]


async def sampled(reference: str, at: int) -> ScoredGroup:
    """Sample a row's completions, and score each by its text."""
    engine = ScriptedEngine(make_run(Path("nowhere")), ScriptedEngineConfig(answers=ANSWERS))
    await engine.load_weights([], 0)
    info = JsonObject({"type": "math", "answer": {"value": reference}})
    prompt = replace(make_prompt(str(at), n=8), verification_info=info, row=at, data_source="digits")
    completions = await answer(prompt, engine, ScriptedChat())
    values = [float(completion.text == reference) for completion in completions]
    scores = tuple(map(a_score, values))
    rollout = SampledGroup(prompt=prompt, completions=completions, generator="g", seconds=0.1)
    return ScoredGroup(rollout=rollout, scores=scores, rewards=tuple(values), worker="w", seconds=0.1)


def test_what_went_in_comes_out(tmp_path: Path) -> None:
    groups = [asyncio.run(sampled(reference, at)) for at, reference in enumerate(RIGHT)]
    found: Any = Collected(groups)
    (one,) = summaries(result_of(make_run(tmp_path), found, "checksum"))
    assert one.average is not None
    assert one.average.value == (4 / 8 + 2 / 8 + 0 / 8) / 3
    assert list(one.pass_at) == [1, 2, 4, 8]
    for k, estimate in one.pass_at.items():
        closed = [1 - comb(8 - right, k) / comb(8, k) for right in RIGHT.values()]
        assert estimate.value == pytest.approx(sum(closed) / 3, abs=1e-15)
    assert (one.problems, one.rows, one.unsampled, one.unscorable) == (3, 4, 1, 0)
