"""A prompt is answered: an engine is asked for tokens, and a chat says what they mean."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from broker.messages import FinishReason, Span, TurnPrompt
from config.generators import ScriptedEngineConfig
from generators.answers import answer, answer_turn
from generators.engine import Sample, SamplingParams
from generators.engines.scripted import ScriptedChat, ScriptedEngine
from tests.support.byte_model import make_prompt
from tests.support.generator_floor import make_run
from tests.support.in_loop import in_loop

pytestmark = pytest.mark.model


class AskedEngine(ScriptedEngine):
    """Samples its own number and a stop, under two versions, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(make_run(), ScriptedEngineConfig())
        self.asked: list[tuple[list[int], SamplingParams, int]] = []

    async def generate(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int
    ) -> tuple[Sample, ...]:
        self.asked.append((token_ids.tolist(), params, n))
        return tuple(
            Sample(
                token_ids=np.array([number, 0], np.int32),
                logprobs=np.array([-0.5, -number], np.float32),
                spans=(Span(version=3, first=0, count=1), Span(version=4, first=1, count=1)),
                finish_reason=FinishReason.STOP if number else FinishReason.LENGTH,
            )
            for number in range(n)
        )


class ToldChat:
    """Says what it is asked, and remembers in which thread."""

    stop_token_ids = frozenset({7, 0})

    def __init__(self) -> None:
        self.threads: set[threading.Thread] = set()

    def text(self, prompt_ids: Sequence[int], token_ids: Sequence[int], finish_reason: FinishReason) -> str:
        self.threads.add(threading.current_thread())
        return f"{len(prompt_ids)} {list(token_ids)} {finish_reason}"


@in_loop
async def test_the_engine_is_asked_in_tokens_and_text_is_made_beside_the_loop_that_drives_it() -> None:
    engine, chat = AskedEngine(), ToldChat()
    prompt = make_prompt("1+2=", seed=5, n=2, max_tokens=9, temperature=0.5)
    first, second = await answer(prompt, engine, chat)
    params = SamplingParams(
        max_tokens=9, stop_token_ids=chat.stop_token_ids, temperature=0.5, top_p=1.0, seed=prompt.seed
    )
    assert engine.asked == [(prompt.token_ids.tolist(), params, 2)]
    assert (first.text, second.text) == ("4 [0, 0] length", "4 [1, 0] stop")
    assert [first.finish_reason, second.finish_reason] == [FinishReason.LENGTH, FinishReason.STOP]
    assert first.is_plain
    assert second.segments[0].logprobs.tolist() == [-0.5, -1]
    assert [(span.version, span.first, span.count) for span in second.spans] == [(3, 0, 1), (4, 1, 1)]
    assert threading.current_thread() not in chat.threads


SAID = "Thought: so.\nObservation: no"


@pytest.mark.parametrize(
    ("said", "stop", "kept"),
    [
        (SAID, ("\nObservation:",), "Thought: so.\nObservation:"),
        (SAID, ("no", "so"), "Thought: so"),
        (SAID, ("nothing",), None),
        (SAID, ("o",), "Tho"),
        ("<think>It is so.</think>\n\nNot so.\nEnd", ("so", "\n"), "<think>It is so.</think>\n\nNot so"),
        ("<think>It is so.", ("so",), None),
        (SAID, ("no\0",), None),
    ],
)
@in_loop
async def test_a_turn_ends_with_the_token_that_completes_a_stop_sequence_of_its_answer(
    said: str, stop: tuple[str, ...], kept: str | None
) -> None:
    engine = ScriptedEngine(make_run(), ScriptedEngineConfig(answers=(said,)))
    await engine.load_weights([], 2)
    asked = TurnPrompt(token_ids=np.array([65], np.int32), max_tokens=99, temperature=1.0, seed=7)
    whole = await answer_turn(asked, engine, ScriptedChat(), "g")
    found = await answer_turn(replace(asked, stop=stop), engine, ScriptedChat(), "g")
    count = len(whole.token_ids) if kept is None else len(kept)
    assert bytes(found.token_ids.tolist()).decode() == f"{said}\0"[:count]
    assert found.logprobs.tolist() == whole.logprobs.tolist()[:count]
    assert found.policy_spans == (Span(version=2, first=0, count=count),)
    assert found.finish_reason is (FinishReason.STOP if kept is None else FinishReason.LENGTH)
