"""The scripted engine makes completions that the wire accepts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from broker.messages import Completion, FinishReason, Prompt
from config.generators import ScriptedEngineConfig
from generators.answers import answer
from generators.engines.build import build_engine
from generators.engines.scripted import ScriptedChat
from tests.support.byte_model import make_prompt, make_run
from tests.support.in_time import within

pytestmark = pytest.mark.model


def sampled(config: ScriptedEngineConfig, prompt: Prompt) -> tuple[Completion, ...]:
    async def group() -> tuple[Completion, ...]:
        engine = build_engine(make_run(Path("no-such-model"), config))
        with pytest.raises(RuntimeError, match="load_weights"):
            await answer(prompt, engine, ScriptedChat())
        await engine.start()
        await engine.load_weights([Path("no-such-file")], 3)
        completions = await answer(prompt, engine, ScriptedChat())
        await engine.close()
        return completions

    return asyncio.run(group())


def test_a_group_goes_round_the_answers_and_takes_the_time_it_pretends_to() -> None:
    with within(30, least_s=0.2):
        group = sampled(
            ScriptedEngineConfig(answers=("a", "b"), seconds_per_group=0.2), make_prompt("1", n=5)
        )
    assert [completion.text for completion in group] == ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize(
    ("answer", "max_tokens", "token_ids", "text", "reason"),
    [
        ("7", 8, [55, 0], "7", FinishReason.STOP),
        ("é", 8, [195, 169, 0], "é", FinishReason.STOP),
        ("", 8, [0], "", FinishReason.STOP),
        ("77", 2, [55, 55], "77", FinishReason.LENGTH),
        ("é", 1, [195], "\ufffd", FinishReason.LENGTH),  # cut inside a character
    ],
)
def test_ids_are_bytes_and_a_stop_and_of_the_version_held(
    answer: str, max_tokens: int, token_ids: list[int], text: str, reason: FinishReason
) -> None:
    prompt = make_prompt("1", n=1, max_tokens=max_tokens)
    [completion] = sampled(ScriptedEngineConfig(answers=(answer,)), prompt)
    assert completion.segments[0].token_ids.tolist() == token_ids
    assert (completion.text, completion.finish_reason) == (text, reason)
    assert (completion.segments[0].logprobs <= 0).all()
    [span] = completion.segments[0].policy_spans
    assert (span.version, span.first, span.count) == (3, 0, len(token_ids))


def test_the_fake_needs_no_torch() -> None:
    program = "import sys, generators.engines.scripted; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
