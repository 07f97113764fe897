"""What vLLM is asked for a group, by the prompt's own numbers; nothing is sampled."""

from __future__ import annotations

import pytest

from generators.engines.vllm.engine import as_request
from tests.support.byte_model import make_prompt

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]


@pytest.mark.parametrize(
    ("temperature", "top_p", "asked"),
    [
        (1.0, 1.0, {"n": 4, "temperature": 1.0, "top_p": 1.0}),
        (0.6, 0.7, {"n": 4, "temperature": 0.6, "top_p": 0.7}),
        # Greedy completions are alike: vLLM makes one, and refuses to be asked for several.
        (0.0, 0.7, {"n": 1, "temperature": 0.0, "top_p": 1.0}),
    ],
)
def test_a_prompts_temperature_and_nucleus_are_vllms(
    temperature: float, top_p: float, asked: dict[str, float]
) -> None:
    tokens, params = as_request(make_prompt("1+2=", temperature=temperature, top_p=top_p), [7, 3])
    assert {name: getattr(params, name) for name in asked} == asked
    assert (params.top_k, params.min_p, params.stop_token_ids, params.logprobs) == (0, 0.0, [3, 7], 0)
    assert len(tokens["prompt_token_ids"]) == 4
